// Attention of one token, fused: QK norm, RoPE, the write to the cache, split-K with online softmax, and the merge of
// the splits.
//
// One item of work is one key/value head with all query heads that share it (so the cache is read once), and one split:
// a run of tiles of TILE positions. The item that owns the present position takes its key and value from the step before
// and writes them to the cache; it never reads them back, so items need no order among themselves. Items of one head
// leave their partial results, and the last to finish (a device-scope counter says which) merges them in the order of
// the splits: the bits do not depend on who was last.
//
// The cache holds halves, keys as [kv_head][dim / 8][context], so that neighbouring invocations read neighbouring
// positions, values as [kv_head][context][dim / 8].
//
// The including file defines: T; A_IN(i) (float i of queries, keys and values), A_OUT(i, v), A_PART (lvalue i of the
// partial results), A_KEY(i), A_VALUE(i) (lvalues, uvec4), A_QNORM(i), A_KNORM(i), A_ANGLE(i) (vec2), A_COUNTER(h).

layout(constant_id = 10) const uint HEAD_DIM = 16;
layout(constant_id = 11) const uint GROUP = 1;     // query heads a key/value head
layout(constant_id = 12) const uint ROPE_DIM = 16;
layout(constant_id = 13) const bool NEOX = false;  // pairs are half a rotation apart instead of neighbours
layout(constant_id = 14) const bool QK_NORM = false;
layout(constant_id = 15) const uint TILE = 16;     // positions a tile

const uint OCTETS = HEAD_DIM / 8u;
const uint DIM_GROUPS = T < TILE ? 1u : T / TILE;      // invocations that share a position's score
const uint KEY_LOADS = (OCTETS + DIM_GROUPS - 1u) / DIM_GROUPS;
const uint POSITION_GROUPS = T / OCTETS;             // invocations that share an octet of the result
const uint VALUE_LOADS = (TILE + POSITION_GROUPS - 1u) / POSITION_GROUPS;

shared vec4 qkv[(GROUP + 2u) * HEAD_DIM / 4u];
shared float squares[(GROUP + 1u) * 8u];
shared float scores[GROUP * DIM_GROUPS * TILE];
shared float weights_of[GROUP * TILE];
shared float largest_of[GROUP * 8u];
shared float merged[POSITION_GROUPS * (HEAD_DIM + 1u)];
shared uint arrived;

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
    uint position;
};

float element(uint i) {
    return qkv[i / 4u][i % 4u];
}

vec4 dims(uint vector, uint o, uint part) {
    return qkv[(vector * HEAD_DIM + 8u * o) / 4u + part];
}

uvec4 packed_octet(uint vector, uint o) {
    vec4 a = dims(vector, o, 0u);
    vec4 b = dims(vector, o, 1u);
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}

// Queries, key and value of one key/value head into shared memory, normed and turned.
void prepare(Attention a, uint head) {
    uint lane = gl_LocalInvocationID.x;
    uint q_dim = a.heads * HEAD_DIM;
    uint kv_dim = a.kv_heads * HEAD_DIM;
    for (uint i = lane; i < (GROUP + 2u) * HEAD_DIM; i += T) {
        uint vector = i / HEAD_DIM;
        uint at = vector < GROUP ? head * GROUP * HEAD_DIM + i
                : q_dim + (vector - GROUP) * kv_dim + head * HEAD_DIM + i % HEAD_DIM;
        qkv[i / 4u][i % 4u] = A_IN(at);
    }
    barrier();
    if (QK_NORM) {
        for (uint i = lane; i < (GROUP + 1u) * 8u; i += T) {
            float sum = 0.0;
            for (uint d = i % 8u; d < HEAD_DIM; d += 8u) {
                float v = element(i / 8u * HEAD_DIM + d);
                sum += v * v;
            }
            squares[i] = sum;
        }
        barrier();
    }
    const uint pairs = HEAD_DIM / 2u;
    const uint turned = ROPE_DIM / 2u;
    for (uint i = lane; i < (GROUP + 1u) * pairs; i += T) {
        uint vector = i / pairs;
        uint pair = i % pairs;
        bool split = NEOX && pair < turned;
        uint first = split ? pair : 2u * pair;
        uint second = split ? pair + turned : first + 1u;
        uint base = vector * HEAD_DIM;
        vec2 v = vec2(element(base + first), element(base + second));
        if (QK_NORM) {
            uint s = vector * 8u;
            float sum = ((squares[s] + squares[s + 4u]) + (squares[s + 2u] + squares[s + 6u]))
                      + ((squares[s + 1u] + squares[s + 5u]) + (squares[s + 3u] + squares[s + 7u]));
            v *= 1.0 / sqrt(sum / float(HEAD_DIM) + a.epsilon);
            v *= vector < GROUP ? vec2(A_QNORM(first), A_QNORM(second)) : vec2(A_KNORM(first), A_KNORM(second));
        }
        if (pair < turned) {
            vec2 t = A_ANGLE(a.position * turned + pair);
            v = vec2(v.x * t.x - v.y * t.y, v.x * t.y + v.y * t.x);
        }
        if (vector < GROUP) {
            v *= a.scale;
        }
        first += base;
        second += base;
        qkv[first / 4u][first % 4u] = v.x;
        qkv[second / 4u][second % 4u] = v.y;
    }
    barrier();
}

// Splits that have work, and tiles in each, at a position.
uvec2 splits_of(Attention a, uint visible) {
    uint tiles = (visible + TILE - 1u) / TILE;
    uint each = (tiles + a.splits - 1u) / a.splits;
    return uvec2((tiles + each - 1u) / each, each);
}

uint first_position(Attention a) {
    return a.position < a.window ? 0u : a.position - a.window + 1u;
}

void attend(Attention a, uint head, uint split) {
    uint lane = gl_LocalInvocationID.x;
    uint start = first_position(a);
    uvec2 deal = splits_of(a, a.position + 1u - start);
    if (split >= deal.x) {
        return;
    }
    uint begin = start + split * deal.y * TILE;
    uint end = min(begin + deal.y * TILE, a.position + 1u);
    prepare(a, head);
    uint key_base = a.keys + head * OCTETS * a.context;
    uint value_base = a.values + head * OCTETS * a.context;
    if (end == a.position + 1u) {
        for (uint o = lane; o < OCTETS; o += T) {
            A_KEY(key_base + o * a.context + a.position) = packed_octet(GROUP, o);
            A_VALUE(value_base + a.position * OCTETS + o) = packed_octet(GROUP + 1u, o);
        }
    }

    uint my_position = lane % TILE;
    uint my_dims = lane / TILE;
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
    for (uint tile = begin; tile < end; tile += TILE) {
        uint count = min(TILE, end - tile);
        uvec4 value[VALUE_LOADS];
        [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
            uint p = tile + min(my_group + i * POSITION_GROUPS, count - 1u);
            value[i] = p == a.position ? packed_octet(GROUP + 1u, my_octet)
                                       : A_VALUE(value_base + p * OCTETS + my_octet);
        }
        // A workgroup of fewer invocations than a tile has positions takes them in turns.
        for (uint q = my_position; q < TILE; q += T) {
            uint p = tile + min(q, count - 1u);
            uvec4 key[KEY_LOADS];
            [[unroll]] for (uint i = 0u; i < KEY_LOADS; i++) {
                uint o = min(my_dims + i * DIM_GROUPS, OCTETS - 1u);
                key[i] = p == a.position ? packed_octet(GROUP, o) : A_KEY(key_base + o * a.context + p);
            }
            float score[GROUP];
            [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                score[j] = 0.0;
            }
            [[unroll]] for (uint i = 0u; i < KEY_LOADS; i++) {
                uint o = my_dims + i * DIM_GROUPS;
                if (o < OCTETS) {
                    vec4 k0 = vec4(unpackHalf2x16(key[i].x), unpackHalf2x16(key[i].y));
                    vec4 k1 = vec4(unpackHalf2x16(key[i].z), unpackHalf2x16(key[i].w));
                    [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                        score[j] += dot(dims(j, o, 0u), k0) + dot(dims(j, o, 1u), k1);
                    }
                }
            }
            if (my_dims < DIM_GROUPS) {
                [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                    scores[(j * DIM_GROUPS + my_dims) * TILE + q] = score[j];
                }
            }
        }
        barrier();
        for (uint i = lane; i < GROUP * TILE; i += T) {
            uint j = i / TILE;
            uint p = i % TILE;
            float sum = 0.0;
            for (uint g = 0u; g < DIM_GROUPS; g++) {
                sum += scores[(j * DIM_GROUPS + g) * TILE + p];
            }
            weights_of[i] = p < count ? sum : -3.4e38;
        }
        barrier();
        for (uint i = lane; i < GROUP * 8u; i += T) {
            float m = -3.4e38;
            for (uint p = i % 8u; p < TILE; p += 8u) {
                m = max(m, weights_of[i / 8u * TILE + p]);
            }
            largest_of[i] = m;
        }
        barrier();
        float now[GROUP];
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            float m = largest[j];
            for (uint i = 0u; i < 8u; i++) {
                m = max(m, largest_of[j * 8u + i]);
            }
            now[j] = m;
        }
        if (my_group < POSITION_GROUPS) {
            [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                float shrink = exp(largest[j] - now[j]);
                sum_a[j] *= shrink;
                sum_b[j] *= shrink;
                total[j] *= shrink;
            }
            [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
                uint p = my_group + i * POSITION_GROUPS;
                if (p < count) {
                    vec4 v0 = vec4(unpackHalf2x16(value[i].x), unpackHalf2x16(value[i].y));
                    vec4 v1 = vec4(unpackHalf2x16(value[i].z), unpackHalf2x16(value[i].w));
                    [[unroll]] for (uint j = 0u; j < GROUP; j++) {
                        float w = exp(weights_of[j * TILE + p] - now[j]);
                        sum_a[j] += w * v0;
                        sum_b[j] += w * v1;
                        total[j] += w;
                    }
                }
            }
        }
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            largest[j] = now[j];
        }
        barrier();
    }

    uint item = head * a.splits + split;
    [[unroll]] for (uint j = 0u; j < GROUP; j++) {
        if (my_group < POSITION_GROUPS) {
            uint at = my_group * HEAD_DIM + 8u * my_octet;
            [[unroll]] for (uint e = 0u; e < 4u; e++) {
                merged[at + e] = sum_a[j][e];
                merged[at + 4u + e] = sum_b[j][e];
            }
            if (my_octet == 0u) {
                merged[POSITION_GROUPS * HEAD_DIM + my_group] = total[j];
            }
        }
        barrier();
        for (uint d = lane; d < HEAD_DIM; d += T) {
            float sum = 0.0;
            float weight = 0.0;
            for (uint g = 0u; g < POSITION_GROUPS; g++) {
                sum += merged[g * HEAD_DIM + d];
                weight += merged[POSITION_GROUPS * HEAD_DIM + g];
            }
            if (deal.x == 1u) {
                A_OUT((head * GROUP + j) * HEAD_DIM + d, sum / weight);
            } else {
                uint row = (item * GROUP + j) * (HEAD_DIM + 2u);
                A_PART(row + d) = sum;
                if (d == 0u) {
                    A_PART(row + HEAD_DIM) = weight;
                    A_PART(row + HEAD_DIM + 1u) = largest[j];
                }
            }
        }
        barrier();
    }
    if (deal.x == 1u) {
        return;
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    if (lane == 0u) {
        arrived = atomicAdd(A_COUNTER(head), 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                            gl_SemanticsAcquireRelease);
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeDevice, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
    if (arrived + 1u < deal.x) {
        return;
    }
    // The last one: everybody's partial results are here. The counter is zero again for the next layer.
    if (lane == 0u) {
        atomicStore(A_COUNTER(head), 0u, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
    }
    for (uint i = lane; i < GROUP * HEAD_DIM; i += T) {
        uint j = i / HEAD_DIM;
        uint d = i % HEAD_DIM;
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
        A_OUT((head * GROUP + j) * HEAD_DIM + d, sum / weight);
    }
}
