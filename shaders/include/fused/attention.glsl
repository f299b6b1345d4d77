// Attention of one token, fused: QK norm, RoPE, the write to the cache, split-K with online softmax, and the merge of
// the splits.
//
// One item of work is one key/value head with all query heads that share it (so the cache is read once), and one split:
// every splits-th tile of TILE positions. The item that owns the present position takes its key and value from the step before
// and writes them to the cache; it never reads them back, so items need no order among themselves. Items of one head
// leave their partial results, and the last to finish (a counter says which) merges them in the order of the splits: the
// bits do not depend on who was last.
//
// A short context is all latency, and a long one is all loads. So everything that does not depend on the step before (the
// first tile of the cache, angles, the weights of QK norms) is loaded first, in `early`, the whole tile at once, and each
// tile's loads are issued before the tile before is used. A query is read from shared memory, where a read of four floats
// takes as long as four reads, so an invocation uses it for the keys of several positions. What an invocation loads of the values it also multiplies: an
// octet of dimensions, for all query heads, of every POSITION_GROUPS-th position. The merge of the splits is as wide: each
// invocation has four neighbouring elements of a share of the splits, eight loads at a time.
//
// The cache holds halves, keys as [kv_head][dim / 8][context], so that neighbouring invocations read neighbouring
// positions, values as [kv_head][context][dim / 8]. A partial result is HEAD_DIM / 4 vec4 for each query head, followed by
// one with its weight and its largest score.
//
// The including file defines: T; A_IN(i) (float i of queries, keys and values), or in a chain (chain.glsl) its word A_WORD(i), A_OUT4(i, v) (four neighbours of the
// result), A_PART(i) (lvalue i of the partial results, vec4), A_KEY(i), A_VALUE(i) (lvalues, uvec4), A_QNORM(i),
// A_KNORM(i), A_ANGLE(i) (vec2); A_ARRIVE(h) (counts an arrival, and says how many came before), A_RESET(h), A_RELEASE()
// and A_ACQUIRE() (barriers of the workgroup around the arrival that make partial results available to the device, and
// those of others visible); and, in shared memory, A_GET(i) and A_SET(i, v) (vec4, MERGE_QUADS of them), which A_SHARED
// declares where they have no other use.

#include "head.glsl"
#include "merge.glsl"

layout(constant_id = 38) const uint POSITIONS = 1; // positions of a tile whose keys an invocation has, a divisor of TILE

const uint SLOTS = TILE / POSITIONS;               // invocations with the same octets of keys
const uint DIM_GROUPS = T / SLOTS;                 // invocations that share a position's score
const uint SCORE_GROUPS = T / TILE;                // and those that share making weights of them
const uint KEY_OCTETS = (OCTETS + DIM_GROUPS - 1u) / DIM_GROUPS;
const uint KEY_LOADS = KEY_OCTETS * POSITIONS;
const uint POSITION_GROUPS = T / OCTETS;           // invocations that share an octet of the result
const uint VALUE_LOADS = (TILE + POSITION_GROUPS - 1u) / POSITION_GROUPS;

shared float unturned[(GROUP + 2u) * HEAD_DIM];
shared vec4 qkv[(GROUP + 2u) * HEAD_DIM / 4u];
shared float squares[(GROUP + 1u) * 8u];
shared float scores[GROUP * DIM_GROUPS * TILE];
shared float weights_of[GROUP * TILE];
shared float largest_of[GROUP * 8u];
shared float totals[POSITION_GROUPS * MERGE_HEADS];

uvec4 tile_keys[KEY_LOADS];
uvec4 tile_values[VALUE_LOADS];
vec2 early_angle[4];
vec4 early_norm;
vec4 early_partner;

vec4 dims(uint vector, uint o, uint part) {
    return qkv[(vector * HEAD_DIM + 8u * o) / 4u + part];
}

uvec4 packed_octet(uint vector, uint o) {
    vec4 a = dims(vector, o, 0u);
    vec4 b = dims(vector, o, 1u);
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}

// Splits that have work, and the number of tiles, where so many positions are seen.
uvec2 splits_of(Attention a, uint visible) {
    uint tiles = (visible + TILE - 1u) / TILE;
    return uvec2(min(tiles, a.splits), tiles);
}

// The first position of a split's first tile. It doesn't depend on the present position where there is no window, so that
// the first loads need not wait for that.
uint first_tile(Attention a, uint split) {
    return (a.window >= a.context ? 0u : first_position(a)) + split * TILE;
}

// Issues the loads of a tile's keys. What is read at the present position or behind it is not used.
void load_keys(Attention a, uint head, uint tile) {
    uint lane = gl_LocalInvocationID.x;
    uint base = a.keys + head * OCTETS * a.context;
    [[unroll]] for (uint i = 0u; i < KEY_OCTETS; i++) {
        uint o = min(lane / SLOTS + i * DIM_GROUPS, OCTETS - 1u);
        [[unroll]] for (uint b = 0u; b < POSITIONS; b++) {
            uint p = min(tile + lane % SLOTS + b * SLOTS, a.context - 1u);
            tile_keys[i * POSITIONS + b] = A_KEY(base + o * a.context + p);
        }
    }
}

// The same of its values.
void load_values(Attention a, uint head, uint tile) {
    uint lane = gl_LocalInvocationID.x;
    uint base = a.values + head * OCTETS * a.context + lane % OCTETS;
    [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
        uint p = min(tile + lane / OCTETS + i * POSITION_GROUPS, a.context - 1u);
        tile_values[i] = A_VALUE(base + p * OCTETS);
    }
}

// Loads what does not depend on the step before. `attend` must follow, with the same arguments.
void early(Attention a, uint head, uint split) {
    uint tile = first_tile(a, split);
    load_keys(a, head, tile);
    load_values(a, head, tile);
    uint at = 4u * gl_LocalInvocationID.x;
    uint vector = at / HEAD_DIM;
    uint dim = at - vector * HEAD_DIM;
    [[unroll]] for (uint e = 0u; e < 4u; e++) {
        early_angle[e] = angle_at(a, dim + e);
        if (QK_NORM) {
            early_norm[e] = norm_weight(vector, dim + e);
            early_partner[e] = norm_weight(vector, partner_of(dim + e));
        }
    }
}

// Factor of a vector's RMS norm.
float norm_factor(Attention a, uint vector) {
    uint s = vector * 8u;
    float sum = ((squares[s] + squares[s + 4u]) + (squares[s + 2u] + squares[s + 6u]))
              + ((squares[s + 1u] + squares[s + 5u]) + (squares[s + 3u] + squares[s + 7u]));
    return 1.0 / sqrt(sum / float(HEAD_DIM) + a.epsilon);
}

// Where element i of a key/value head's queries, key and value is.
uint input_at(Attention a, uint head, uint i) {
    uint vector = i / HEAD_DIM;
    return vector < GROUP ? head * GROUP * HEAD_DIM + i
         : (vector == GROUP ? a.key_at : a.value_at) + head * HEAD_DIM + i % HEAD_DIM;
}

// Queries, key and value of one key/value head into shared memory, normed and turned.
void prepare(Attention a, uint head) {
    uint lane = gl_LocalInvocationID.x;
#ifdef A_WORD
    const uint each = ((GROUP + 2u) * HEAD_DIM + T - 1u) / T;
    uint bits[each];
    for (uint looks = 0u;; looks++) {
        bool there = true;
        [[unroll]] for (uint k = 0u; k < each; k++) {
            bits[k] = READ_VALUE(A_WORD(input_at(a, head, min(lane + k * T, (GROUP + 2u) * HEAD_DIM - 1u))));
        }
        [[unroll]] for (uint k = 0u; k < each; k++) {
            there = there && bits[k] != EMPTY;
        }
        if (there || !waits(looks)) {
            break;
        }
    }
    [[unroll]] for (uint k = 0u; k < each; k++) {
        if (lane + k * T < (GROUP + 2u) * HEAD_DIM) {
            unturned[lane + k * T] = uintBitsToFloat(bits[k]);
        }
    }
#else
    for (uint i = lane; i < (GROUP + 2u) * HEAD_DIM; i += T) {
        unturned[i] = A_IN(input_at(a, head, i));
    }
#endif
    barrier();
    if (QK_NORM) {
        for (uint i = lane; i < (GROUP + 1u) * 8u; i += T) {
            float sum = 0.0;
            [[unroll]] for (uint d = 0u; d < OCTETS; d++) {
                float v = unturned[i / 8u * HEAD_DIM + i % 8u + 8u * d];
                sum += v * v;
            }
            squares[i] = sum;
        }
        barrier();
    }
    // Four elements each, whole vectors: components of one are not written by several invocations.
    for (uint i = lane; i < (GROUP + 2u) * HEAD_DIM / 4u; i += T) {
        uint vector = 4u * i / HEAD_DIM;
        uint dim = 4u * i - vector * HEAD_DIM;
        float factor = QK_NORM && vector <= GROUP ? norm_factor(a, vector) : 1.0;
        vec4 result;
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            uint partner = partner_of(dim + e);
            float v = factor * unturned[4u * i + e];
            float w = factor * unturned[vector * HEAD_DIM + partner];
            if (QK_NORM && vector <= GROUP) {
                v *= i == lane ? early_norm[e] : norm_weight(vector, dim + e);
                w *= i == lane ? early_partner[e] : norm_weight(vector, partner);
            }
            vec2 t = i == lane ? early_angle[e] : angle_at(a, dim + e);
            float turned = partner < dim + e ? w * t.y + v * t.x : v * t.x - w * t.y;
            result[e] = vector <= GROUP && dim + e < ROPE_DIM ? turned : v;
        }
        qkv[i] = vector < GROUP ? a.scale * result : result;
    }
    barrier();
}

// One item, after `early`.
void attend(Attention a, uint head, uint split) {
    uint lane = gl_LocalInvocationID.x;
    uvec2 deal = splits_of(a, a.position + 1u - first_position(a));
    uint start = first_position(a);
    prepare(a, head);
    if ((deal.y - 1u) % deal.x == split) {
        uint key_base = a.keys + head * OCTETS * a.context;
        uint value_base = a.values + head * OCTETS * a.context;
        for (uint o = lane; o < OCTETS; o += T) {
            A_KEY(key_base + o * a.context + a.position) = packed_octet(GROUP, o);
            A_VALUE(value_base + a.position * OCTETS + o) = packed_octet(GROUP + 1u, o);
        }
    }

    uint my_octet = lane % OCTETS;
    uint my_group = lane / OCTETS;
    vec4 sum_a[GROUP];
    vec4 sum_b[GROUP];
    float total[GROUP];
    float largest[GROUP];
    [[unroll]] for (uint j = 0u; j < GROUP; j++) {
        sum_a[j] = vec4(0.0);
        sum_b[j] = vec4(0.0);
        total[j] = 0.0;
        largest[j] = -3.4e38;
    }
    uint stride = deal.x * TILE;
    for (uint tile = start + split * TILE; tile <= a.position; tile += stride) {
        uint count = min(TILE, a.position + 1u - tile);
        uint q = lane % SLOTS;
        uint my_dims = lane / SLOTS;
        float score[GROUP * POSITIONS];
        [[unroll]] for (uint j = 0u; j < GROUP * POSITIONS; j++) {
            score[j] = 0.0;
        }
        [[unroll]] for (uint i = 0u; i < KEY_OCTETS; i++) {
            uint o = my_dims + i * DIM_GROUPS;
            if (o < OCTETS) {
                vec4 k0[POSITIONS];
                vec4 k1[POSITIONS];
                [[unroll]] for (uint b = 0u; b < POSITIONS; b++) {
                    uvec4 key = tile_keys[i * POSITIONS + b];
                    if (tile + q + b * SLOTS == a.position) {
                        key = packed_octet(GROUP, o);
                    }
                    k0[b] = vec4(unpackHalf2x16(key.x), unpackHalf2x16(key.y));
                    k1[b] = vec4(unpackHalf2x16(key.z), unpackHalf2x16(key.w));
                }
                [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                    vec4 q0 = dims(j, o, 0u);
                    vec4 q1 = dims(j, o, 1u);
                    [[unroll]] for (uint b = 0u; b < POSITIONS; b++) {
                        score[j * POSITIONS + b] += dot(q0, k0[b]) + dot(q1, k1[b]);
                    }
                }
            }
        }
        if (my_dims < DIM_GROUPS) {
            [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                [[unroll]] for (uint b = 0u; b < POSITIONS; b++) {
                    uint p = q + b * SLOTS;
                    scores[(j * DIM_GROUPS + my_dims) * TILE + p] =
                        p < count ? score[j * POSITIONS + b] : -3.4e38 / float(DIM_GROUPS);
                }
            }
        }
        if (tile + stride <= a.position) {
            load_keys(a, head, tile + stride);
        }
        barrier();
        // Eight maxima a head, each of every eighth position.
        for (uint i = lane; i < GROUP * 8u; i += T) {
            uint at = i / 8u * DIM_GROUPS * TILE + i % 8u;
            float m = -3.4e38;
            [[unroll]] for (uint p = 0u; p < TILE; p += 8u) {
                float sum = scores[at + p];
                [[unroll]] for (uint g = 1u; g < DIM_GROUPS; g++) {
                    sum += scores[at + g * TILE + p];
                }
                m = max(m, sum);
            }
            largest_of[i] = m;
        }
        barrier();
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            float now = largest[j];
            [[unroll]] for (uint i = 0u; i < 8u; i++) {
                now = max(now, largest_of[j * 8u + i]);
            }
            float shrink = exp(largest[j] - now);
            largest[j] = now;
            sum_a[j] *= shrink;
            sum_b[j] *= shrink;
            total[j] *= shrink;
            if (lane / TILE == j % SCORE_GROUPS) {
                uint p = lane % TILE;
                float sum = scores[j * DIM_GROUPS * TILE + p];
                [[unroll]] for (uint g = 1u; g < DIM_GROUPS; g++) {
                    sum += scores[(j * DIM_GROUPS + g) * TILE + p];
                }
                weights_of[j * TILE + p] = p < count ? exp(sum - now) : 0.0;
            }
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
            uint p = my_group + i * POSITION_GROUPS;
            if (p < count && my_group < POSITION_GROUPS) {
                uvec4 value = tile_values[i];
                if (tile + p == a.position) {
                    value = packed_octet(GROUP + 1u, my_octet);
                }
                vec4 v0 = vec4(unpackHalf2x16(value.x), unpackHalf2x16(value.y));
                vec4 v1 = vec4(unpackHalf2x16(value.z), unpackHalf2x16(value.w));
                [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                    float w = weights_of[j * TILE + p];
                    sum_a[j] += w * v0;
                    sum_b[j] += w * v1;
                    total[j] += w;
                }
            }
        }
        if (tile + stride <= a.position) {
            load_values(a, head, tile + stride);
        }
    }

    // The sums of all POSITION_GROUPS, some heads at a time.
    uint item = (head * a.splits + split) * GROUP;
    for (uint first = 0u; first < GROUP; first += MERGE_HEADS) {
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            if (j / MERGE_HEADS * MERGE_HEADS == first && my_group < POSITION_GROUPS) {
                // Halves of octets apart: neighbours write neighbouring quads.
                uint at = (my_group * MERGE_HEADS + j % MERGE_HEADS) * QUADS + my_octet;
                A_SET(at, sum_a[j]);
                A_SET(at + OCTETS, sum_b[j]);
                if (my_octet == 0u) {
                    totals[my_group * MERGE_HEADS + j % MERGE_HEADS] = total[j];
                }
            }
        }
        barrier();
        for (uint i = lane; i < MERGE_HEADS * QUADS; i += T) {
            uint j = i / QUADS;
            uint quad = i - j * QUADS;
            vec4 sum = vec4(0.0);
            float weight = 0.0;
            [[unroll]] for (uint g = 0u; g < POSITION_GROUPS; g++) {
                sum += A_GET((g * MERGE_HEADS + j) * QUADS + quad);
                weight += totals[g * MERGE_HEADS + j];
            }
            quad = quad < OCTETS ? 2u * quad : 2u * (quad - OCTETS) + 1u;
            if (first + j < GROUP) {
                if (deal.x == 1u) {
                    A_OUT4((head * GROUP + first + j) * QUADS + quad, sum / weight);
                } else {
                    uint row = (item + first + j) * (QUADS + 1u);
                    A_PART(row + quad) = sum;
                    if (quad == 0u) {
                        float top = largest[0];
                        [[unroll]] for (uint e = 1u; e < GROUP; e++) {
                            top = e == first + j ? largest[e] : top;
                        }
                        A_PART(row + QUADS) = vec4(weight, top, 0.0, 0.0);
                    }
                }
            }
        }
        barrier();
    }
    arrive(a, head, deal.x);
}
