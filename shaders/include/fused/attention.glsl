// Attention of one token, fused: QK norm, RoPE, the write to the cache, split-K with online softmax, and the merge of
// the splits.
//
// One item of work is one key/value head with all query heads that share it (so the cache is read once), and one split:
// a run of tiles of TILE positions. The item that owns the present position takes its key and value from the step before
// and writes them to the cache; it never reads them back, so items need no order among themselves. Items of one head
// leave their partial results, and the last to finish (a counter says which) merges them in the order of the splits: the
// bits do not depend on who was last.
//
// A short context is all latency. So everything that does not depend on the step before (the first tile of the cache,
// angles, the weights of QK norms) is loaded first, in `early`, and each tile's loads are issued before the tile before
// is used. Contexts of up to SHARE tiles are not split at all: a merge costs more than it saves there.
//
// The cache holds halves, keys as [kv_head][dim / 8][context], so that neighbouring invocations read neighbouring
// positions, values as [kv_head][context][dim / 8].
//
// The including file defines: T; A_IN(i) (float i of queries, keys and values), A_OUT(i, v), A_PART(i) (lvalue i of the
// partial results), A_KEY(i), A_VALUE(i) (lvalues, uvec4), A_QNORM(i), A_KNORM(i), A_ANGLE(i) (vec2); A_ARRIVE(h) (counts
// an arrival, and says how many came before), A_RESET(h), A_RELEASE() and A_ACQUIRE() (barriers of the workgroup around
// the arrival that make partial results available to the device, and those of others visible); and, in shared memory,
// A_TILE(i) (uvec4, TILE * OCTETS) and A_MERGE(i) (float, 8 * T), which A_SHARED declares where they have no
// other use.

layout(constant_id = 10) const uint HEAD_DIM = 16;
layout(constant_id = 11) const uint GROUP = 1;     // query heads a key/value head
layout(constant_id = 12) const uint ROPE_DIM = 16;
layout(constant_id = 13) const bool NEOX = false;  // pairs are half a rotation apart instead of neighbours
layout(constant_id = 14) const bool QK_NORM = false;
layout(constant_id = 15) const uint TILE = 8;      // positions a tile, at most T

const uint SHARE = 4u;                             // tiles that are not worth another split
const uint OCTETS = HEAD_DIM / 8u;
const uint DIM_GROUPS = T / TILE;                  // invocations that share a position's score
const uint KEY_LOADS = (OCTETS + DIM_GROUPS - 1u) / DIM_GROUPS;
const uint VALUE_LOADS = (TILE * OCTETS + T - 1u) / T;
const uint LANES = GROUP * OCTETS;                 // invocations that hold the result once
const uint POSITION_GROUPS = T / LANES;            // of which each takes a part of a tile's positions

shared float unturned[(GROUP + 2u) * HEAD_DIM];
shared vec4 qkv[(GROUP + 2u) * HEAD_DIM / 4u];
shared float squares[(GROUP + 1u) * 8u];
shared float scores[GROUP * T];
shared float weights_of[GROUP * TILE];
shared float largest_of[GROUP * 8u];
shared float totals[POSITION_GROUPS * GROUP];
shared uint arrived;
#ifdef A_SHARED
A_SHARED
#endif

struct Attention {
    uint heads;
    uint kv_heads;
    uint context; // positions that the cache holds
    uint window;
    float scale;
    float epsilon;
    uint splits;  // most splits a head
    uint keys;    // where the layer's part of the cache begins, in uvec4
    uint values;
    uint key_at;  // where this token's keys begin behind its queries, in floats
    uint value_at;
    uint position;
};

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

uint partner_of(uint dim) {
    const uint pairs = ROPE_DIM / 2u;
    return dim >= ROPE_DIM ? dim : NEOX ? (dim >= pairs ? dim - pairs : dim + pairs) : (dim ^ 1u);
}

uint pair_of(uint dim) {
    const uint pairs = ROPE_DIM / 2u;
    return dim >= ROPE_DIM ? 0u : NEOX ? (dim >= pairs ? dim - pairs : dim) : dim / 2u;
}

vec2 angle_at(Attention a, uint dim) {
    return A_ANGLE(a.position * (ROPE_DIM / 2u) + pair_of(dim));
}

float norm_weight(uint vector, uint dim) {
    return vector < GROUP ? A_QNORM(dim) : A_KNORM(dim);
}

// Splits that have work, and the number of tiles, where so many positions are seen.
uvec2 splits_of(Attention a, uint visible) {
    uint tiles = (visible + TILE - 1u) / TILE;
    return uvec2(min((tiles + SHARE - 1u) / SHARE, a.splits), tiles);
}

uint first_position(Attention a) {
    return a.position < a.window ? 0u : a.position - a.window + 1u;
}

// The positions of a split: first and end.
uvec2 run_of(Attention a, uint split) {
    uint start = first_position(a);
    uvec2 deal = splits_of(a, a.position + 1u - start);
    return uvec2(start + split * deal.y / deal.x * TILE,
                 min(start + (split + 1u) * deal.y / deal.x * TILE, a.position + 1u));
}

// Issues the loads of a tile of the cache. What is read at the present position is not used.
void load_tile(Attention a, uint head, uint tile, uint end) {
    uint lane = gl_LocalInvocationID.x;
    uint key_base = a.keys + head * OCTETS * a.context;
    uint value_base = a.values + head * OCTETS * a.context;
    uint p = min(tile + lane % TILE, end - 1u);
    [[unroll]] for (uint i = 0u; i < KEY_LOADS; i++) {
        uint o = min(lane / TILE + i * DIM_GROUPS, OCTETS - 1u);
        tile_keys[i] = A_KEY(key_base + o * a.context + p);
    }
    [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
        uint at = lane + i * T;
        uint row = min(tile + at / OCTETS, end - 1u);
        tile_values[i] = A_VALUE(value_base + row * OCTETS + at % OCTETS);
    }
}

// Loads what does not depend on the step before. `attend` must follow, with the same arguments.
void early(Attention a, uint head, uint split) {
    uvec2 run = run_of(a, split);
    load_tile(a, head, run.x, run.y);
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

// Queries, key and value of one key/value head into shared memory, normed and turned.
void prepare(Attention a, uint head) {
    uint lane = gl_LocalInvocationID.x;
    for (uint i = lane; i < (GROUP + 2u) * HEAD_DIM; i += T) {
        uint vector = i / HEAD_DIM;
        uint at = vector < GROUP ? head * GROUP * HEAD_DIM + i
                : (vector == GROUP ? a.key_at : a.value_at) + head * HEAD_DIM + i % HEAD_DIM;
        unturned[i] = A_IN(at);
    }
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
    uvec2 run = run_of(a, split);
    prepare(a, head);
    if (run.y == a.position + 1u) {
        uint key_base = a.keys + head * OCTETS * a.context;
        uint value_base = a.values + head * OCTETS * a.context;
        for (uint o = lane; o < OCTETS; o += T) {
            A_KEY(key_base + o * a.context + a.position) = packed_octet(GROUP, o);
            A_VALUE(value_base + a.position * OCTETS + o) = packed_octet(GROUP + 1u, o);
        }
    }

    uint my_octet = lane % OCTETS;
    uint my_head = lane % LANES / OCTETS;
    uint my_group = lane / LANES;
    vec4 sum_a = vec4(0.0);
    vec4 sum_b = vec4(0.0);
    float total = 0.0;
    float largest = -3.4e38;
    for (uint tile = run.x; tile < run.y; tile += TILE) {
        uint count = min(TILE, run.y - tile);
        [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
            uint at = lane + i * T;
            if (at < TILE * OCTETS) {
                bool present = tile + at / OCTETS == a.position;
                A_TILE(at) = present ? packed_octet(GROUP + 1u, at % OCTETS) : tile_values[i];
            }
        }
        uint q = lane % TILE;
        uint my_dims = lane / TILE;
        float score[GROUP];
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            score[j] = 0.0;
        }
        [[unroll]] for (uint i = 0u; i < KEY_LOADS; i++) {
            uint o = my_dims + i * DIM_GROUPS;
            if (o < OCTETS) {
                uvec4 key = tile + q == a.position ? packed_octet(GROUP, o) : tile_keys[i];
                vec4 k0 = vec4(unpackHalf2x16(key.x), unpackHalf2x16(key.y));
                vec4 k1 = vec4(unpackHalf2x16(key.z), unpackHalf2x16(key.w));
                [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                    score[j] += dot(dims(j, o, 0u), k0) + dot(dims(j, o, 1u), k1);
                }
            }
        }
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            scores[j * T + lane] = score[j];
        }
        if (tile + TILE < run.y) {
            load_tile(a, head, tile + TILE, run.y);
        }
        barrier();
        for (uint i = lane; i < GROUP * 8u; i += T) {
            uint j = i / 8u;
            float m = -3.4e38;
            for (uint p = i % 8u; p < TILE; p += 8u) {
                float sum = 0.0;
                [[unroll]] for (uint g = 0u; g < DIM_GROUPS; g++) {
                    sum += scores[j * T + g * TILE + p];
                }
                sum = p < count ? sum : -3.4e38;
                weights_of[j * TILE + p] = sum;
                m = max(m, sum);
            }
            largest_of[i] = m;
        }
        barrier();
        if (my_group < POSITION_GROUPS) {
            float now = largest;
            [[unroll]] for (uint i = 0u; i < 8u; i++) {
                now = max(now, largest_of[my_head * 8u + i]);
            }
            float shrink = exp(largest - now);
            largest = now;
            sum_a *= shrink;
            sum_b *= shrink;
            total *= shrink;
            for (uint p = my_group; p < count; p += POSITION_GROUPS) {
                uvec4 value = A_TILE(p * OCTETS + my_octet);
                float w = exp(weights_of[my_head * TILE + p] - now);
                sum_a += w * vec4(unpackHalf2x16(value.x), unpackHalf2x16(value.y));
                sum_b += w * vec4(unpackHalf2x16(value.z), unpackHalf2x16(value.w));
                total += w;
            }
        }
        barrier();
    }

    if (my_group < POSITION_GROUPS) {
        uint at = (my_group * GROUP + my_head) * HEAD_DIM + 8u * my_octet;
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            A_MERGE(at + e) = sum_a[e];
            A_MERGE(at + 4u + e) = sum_b[e];
        }
        if (my_octet == 0u) {
            totals[my_group * GROUP + my_head] = total;
            largest_of[my_head * 8u] = largest; // the same from every group
        }
    }
    barrier();
    uint item = head * a.splits + split;
    for (uint i = lane; i < GROUP * HEAD_DIM; i += T) {
        uint j = i / HEAD_DIM;
        uint d = i - j * HEAD_DIM;
        float sum = 0.0;
        float weight = 0.0;
        [[unroll]] for (uint g = 0u; g < POSITION_GROUPS; g++) {
            sum += A_MERGE((g * GROUP + j) * HEAD_DIM + d);
            weight += totals[g * GROUP + j];
        }
        if (deal.x == 1u) {
            A_OUT(head * GROUP * HEAD_DIM + i, sum / weight);
        } else {
            uint row = (item * GROUP + j) * (HEAD_DIM + 2u);
            A_PART(row + d) = sum;
            if (d == 0u) {
                A_PART(row + HEAD_DIM) = weight;
                A_PART(row + HEAD_DIM + 1u) = largest_of[j * 8u];
            }
        }
    }
    if (deal.x == 1u) {
        return;
    }
    A_RELEASE();
    if (lane == 0u) {
        arrived = A_ARRIVE(head);
    }
    A_ACQUIRE();
    if (arrived + 1u < deal.x) {
        return;
    }
    // The last one: everybody's partial results are here. The counter is zero again for the next layer.
    if (lane == 0u) {
        A_RESET(head);
    }
    for (uint i = lane; i < GROUP * HEAD_DIM; i += T) {
        uint j = i / HEAD_DIM;
        uint d = i - j * HEAD_DIM;
        uint stride = GROUP * (HEAD_DIM + 2u);
        uint row = (head * a.splits * GROUP + j) * (HEAD_DIM + 2u);
        float top = -3.4e38;
        for (uint s = 0u; s < deal.x; s++) {
            top = max(top, A_PART(row + s * stride + HEAD_DIM + 1u));
        }
        float sum = 0.0;
        float weight = 0.0;
        for (uint s = 0u; s < deal.x; s++) {
            uint at = row + s * stride;
            float shrink = exp(A_PART(at + HEAD_DIM + 1u) - top);
            sum += shrink * A_PART(at + d);
            weight += shrink * A_PART(at + HEAD_DIM);
        }
        A_OUT(head * GROUP * HEAD_DIM + i, sum / weight);
    }
}
