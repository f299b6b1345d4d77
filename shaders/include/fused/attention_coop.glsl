// Attention of one token as in attention_step.glsl, on cooperative matrices. Keys and values are first factors as they lie in the
// cache: blocks of M positions by K dimensions, [kv_head][context / M][dim / K], and of M dimensions by K positions,
// [kv_head][context / K][dim / M], each with the eight halves of an invocation side by side, so that a block is one load of
// sixteen bytes. Which of a block's elements an invocation has only the device knows: who writes asks it (`mine`), and who reads
// need not know. The context is a multiple of TILE. The other factor has a column for each query head that shares the key, and
// one more for what rounding to halves left of it, which costs nothing where the shape has columns to spare, and makes
// the result as good as float arithmetic. The same with the weights of the values.
#define QKV vec4
#include "attention_buffers.glsl"

layout(constant_id = 45) const uint M = 16; // what one operation multiplies: M x K with K x N
layout(constant_id = 46) const uint N = 8;
layout(constant_id = 47) const uint K = 8;
layout(constant_id = 39) const uint SUBGROUP = 32; // invocations in a subgroup

#define T gl_WorkGroupSize.x
#ifdef CHAINED
#define A_OUT4(i, v) hand_over4(i, v)
#else
#define A_OUT4(i, v) result[i] = (v)
#endif
#define A_PART(i) parts[i]
#define A_QNORM(i) q_norm[i]
#define A_KNORM(i) k_norm[i]
#define A_ANGLE(i) angles[i]
#define A_COUNTER(h) counters[h]
#include "arrive.glsl"
// Beyond 128 registers a processor has one workgroup at a time.
#define A_MERGE_STEP (GROUP >= 4u ? 2u : 4u)
#define A_GET(i) merged[i]
#define A_SET(i, v) merged[i] = (v)
#define A_SHARED shared vec4 merged[MERGE_QUADS];
#include "head.glsl"
#include "merge.glsl"
#include "../places.glsl"

// A workgroup has HEAD_DIM / M subgroups: each works out a block of M dimensions of the result, and the scores of every so many
// blocks of M positions. TILE is a multiple of HEAD_DIM.
const uint SUBGROUPS = HEAD_DIM / M;
const uint POSITION_BLOCKS = TILE / HEAD_DIM;
const uint DIM_STEPS = HEAD_DIM / K;
const uint POSITION_STEPS = TILE / K;
const uint PRESENT_KEYS = DIM_STEPS / SUBGROUPS; // blocks of keys that a subgroup writes
const uint COLUMNS = (2u * GROUP + N - 1u) / N * N; // heads, then their remainders, then nothing
const uint COLUMN_BLOCKS = COLUMNS / N;
const uint TILE_OCTETS = TILE / 8u;
// Rows of shared arrays are longer than they are filled, so that they begin in different banks. What is loaded as a matrix begins
// at multiples of sixteen bytes, as VK_KHR_cooperative_matrix asks for: so these are arrays of uvec4, and not of smaller ones.
const uint QUERY_PITCH = OCTETS + 1u;
const uint SCORE_PITCH = TILE / 4u + 1u;
const uint WEIGHT_PITCH = TILE_OCTETS + 1u;
const uint BLOCK_QUADS = M / 4u;
const uint OWN = (BLOCK_QUADS * GROUP + SUBGROUP - 1u) / SUBGROUP; // quads of the result of an invocation
const uint VECTORS = (GROUP + 2u) * QUADS;
const float NONE = -3.4e38;

shared vec4 unturned[VECTORS];
shared float squares[VECTORS];
shared vec4 qkv[VECTORS];
shared uvec4 queries[COLUMNS * QUERY_PITCH];
shared uvec4 scores[COLUMNS * SCORE_PITCH];
shared uvec4 weights_of[COLUMNS * WEIGHT_PITCH];
shared uvec4 products[SUBGROUPS * COLUMNS * BLOCK_QUADS];
shared float largest_of[GROUP];
shared float total_of[GROUP];
shared float shrink_of[GROUP];

vec4 load_vector(Attention a, uint head, uint i) {
    uint vector = i / QUADS;
    uint at = vector < GROUP ? head * GROUP * QUADS + i
            : ((vector == GROUP ? a.key_at : a.value_at) + head * HEAD_DIM) / 4u + i % QUADS;
#ifdef CHAINED
    uvec4 bits;
    for (uint looks = 0u;; looks++) {
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            bits[e] = READ_VALUE(words_in[4u * at + e]);
        }
        if (!any(equal(bits, uvec4(EMPTY))) || !waits(looks)) {
            return uintBitsToFloat(bits);
        }
    }
#else
    return values_in[at];
#endif
}

uvec2 halves_of(vec4 v) {
    return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
}

vec4 floats_of(uvec2 v) {
    return vec4(unpackHalf2x16(v.x), unpackHalf2x16(v.y));
}

// Queries as halves and what that left of them; key and value as they will be in the cache, in floats.
void turn(Attention a, uint i, vec2 angle[4], vec4 norm, vec4 partner_norm) {
    uint vector = i / QUADS;
    uint quad = i % QUADS;
    float factor = 1.0;
    if (QK_NORM && vector <= GROUP) {
        float sum = 0.0;
        [[unroll]] for (uint q = 0u; q < QUADS; q++) {
            sum += squares[vector * QUADS + q];
        }
        factor = 1.0 / sqrt(sum / float(HEAD_DIM) + a.epsilon);
    }
    vec4 v = factor * unturned[i];
    if (vector <= GROUP) {
        v *= norm;
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            uint dim = 4u * quad + e;
            uint partner = partner_of(dim);
            float w = factor * partner_norm[e] * unturned[vector * QUADS + partner / 4u][partner % 4u];
            float turned = partner < dim ? w * angle[e].y + v[e] * angle[e].x : v[e] * angle[e].x - w * angle[e].y;
            v[e] = dim < ROPE_DIM ? turned : v[e];
        }
    }
    v *= vector < GROUP ? a.scale : 1.0;
    uvec2 high = halves_of(v);
    vec4 rounded = floats_of(high);
    qkv[i] = vector < GROUP ? v : rounded;
    if (vector < GROUP) {
        uvec2 rest = halves_of(v - rounded);
        uint at = vector * QUERY_PITCH + quad / 2u;
        uint word = quad % 2u * 2u;
        queries[at][word] = high.x;
        queries[at][word + 1u] = high.y;
        queries[at + GROUP * QUERY_PITCH][word] = rest.x;
        queries[at + GROUP * QUERY_PITCH][word + 1u] = rest.y;
    }
}

void angles_of(Attention a, uint i, out vec2 angle[4], out vec4 norm, out vec4 partner_norm) {
    uint vector = i / QUADS;
    [[unroll]] for (uint e = 0u; e < 4u; e++) {
        uint dim = 4u * (i % QUADS) + e;
        angle[e] = A_ANGLE(pair_of(dim));
        norm[e] = QK_NORM ? norm_weight(vector, dim) : 1.0;
        partner_norm[e] = QK_NORM ? norm_weight(vector, partner_of(dim)) : 1.0;
    }
}

// Eight scores of a head, those of positions that are not seen or not in the cache as NONE.
void eight(uint j, uint octet, uint first, uint end, out vec4 a, out vec4 b) {
    uint at = j * SCORE_PITCH + 2u * octet;
    uint rest = (GROUP + j) * SCORE_PITCH + 2u * octet;
    a = uintBitsToFloat(scores[at]) + uintBitsToFloat(scores[rest]);
    b = uintBitsToFloat(scores[at + 1u]) + uintBitsToFloat(scores[rest + 1u]);
    [[unroll]] for (uint e = 0u; e < 4u; e++) {
        uint p = 8u * octet + e;
        a[e] = p >= first && p < end ? a[e] : NONE;
        b[e] = p + 4u >= first && p + 4u < end ? b[e] : NONE;
    }
}

// Online softmax of a tile: weights as halves and what that left of them. Positions `first` to `end` of the tile count.
void weigh(uint first, uint end) {
    for (uint j = gl_SubgroupID; j < GROUP; j += SUBGROUPS) {
        float before = largest_of[j];
        float total = total_of[j];
        float most = NONE;
        for (uint i = gl_SubgroupInvocationID; i < TILE_OCTETS; i += SUBGROUP) {
            vec4 a;
            vec4 b;
            eight(j, i, first, end, a, b);
            a = max(a, b);
            most = max(most, max(max(a.x, a.y), max(a.z, a.w)));
        }
        float now = max(before, subgroupMax(most));
        float shrink = exp(before - now);
        float sum = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < TILE_OCTETS; i += SUBGROUP) {
            vec4 a;
            vec4 b;
            eight(j, i, first, end, a, b);
            a = mix(exp(a - now), vec4(0.0), equal(a, vec4(NONE)));
            b = mix(exp(b - now), vec4(0.0), equal(b, vec4(NONE)));
            uvec2 high_a = halves_of(a);
            uvec2 high_b = halves_of(b);
            weights_of[j * WEIGHT_PITCH + i] = uvec4(high_a, high_b);
            weights_of[(GROUP + j) * WEIGHT_PITCH + i] =
                uvec4(halves_of(a - floats_of(high_a)), halves_of(b - floats_of(high_b)));
            a += b;
            sum += (a.x + a.y) + (a.z + a.w);
        }
        sum = subgroupAdd(sum);
        if (subgroupElect()) {
            largest_of[j] = now;
            total_of[j] = shrink * total + sum;
            shrink_of[j] = shrink;
        }
    }
}

// Where a block begins in the cache, in uvec4: those of a tile's positions `step` of K dimensions, and of a tile's dimensions
// `step` of K positions.
uint key_block(Attention a, uint head, uint positions, uint step) {
    return ((head * (a.context / M) + positions) * DIM_STEPS + step) * SUBGROUP;
}

uint value_block(Attention a, uint head, uint positions, uint dims) {
    return ((head * (a.context / K) + positions) * SUBGROUPS + dims) * SUBGROUP;
}

// A block's part of this invocation, as it was loaded.
#define FACTOR(to, raw) \
    [[unroll]] for (uint e = 0u; e < 4u; e++) { \
        f16vec2 pair = unpackFloat2x16(raw[e]); \
        to[2u * e] = pair.x; \
        to[2u * e + 1u] = pair.y; \
    }

uvec4 tile_keys[POSITION_BLOCKS * DIM_STEPS];
uvec4 tile_values[POSITION_STEPS];
uvec4 present_keys[PRESENT_KEYS];
uvec4 present_values;

void load_keys(Attention a, uint head, uint tile) {
    [[unroll]] for (uint b = 0u; b < POSITION_BLOCKS; b++) {
        [[unroll]] for (uint d = 0u; d < DIM_STEPS; d++) {
            uint block = key_block(a, head, tile / M + b * SUBGROUPS + gl_SubgroupID, d);
            tile_keys[b * DIM_STEPS + d] = keys[block + gl_SubgroupInvocationID];
        }
    }
}

void load_values(Attention a, uint head, uint tile) {
    [[unroll]] for (uint p = 0u; p < POSITION_STEPS; p++) {
        tile_values[p] = values[value_block(a, head, tile / K + p, gl_SubgroupID) + gl_SubgroupInvocationID];
    }
}

// A word with its half number `e` replaced.
uint with_half(uint word, uint e, float v) {
    return (e & 1u) == 0u ? (word & 0xffff0000u) | packHalf2x16(vec2(v, 0.0)) : (word & 0xffffu) | packHalf2x16(vec2(0.0, v));
}

// Loads the present position's blocks, which nobody else reads or writes now: one of values and some of keys for each subgroup.
void load_present(Attention a, uint head) {
    [[unroll]] for (uint d = 0u; d < PRESENT_KEYS; d++) {
        uint step = d * SUBGROUPS + gl_SubgroupID;
        present_keys[d] = keys[key_block(a, head, a.position / M, step) + gl_SubgroupInvocationID];
    }
    present_values = values[value_block(a, head, a.position / K, gl_SubgroupID) + gl_SubgroupInvocationID];
}

// Writes them with the present position. The workgroup must have used what it loaded of the tile.
void write_present(Attention a, uint head) {
    fcoopmatNV<16, gl_ScopeSubgroup, M, K> mine;
    coopMatLoadNV(mine, places, 0, K_OCTETS, false);
    [[unroll]] for (uint d = 0u; d < PRESENT_KEYS; d++) {
        uint step = d * SUBGROUPS + gl_SubgroupID;
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            uint place = uint(mine[e]);
            uint dim = step * K + place % K;
            float v = qkv[GROUP * QUADS + dim / 4u][dim % 4u];
            uint word = present_keys[d][e / 2u];
            present_keys[d][e / 2u] = place / K == a.position % M ? with_half(word, e, v) : word;
        }
        keys[key_block(a, head, a.position / M, step) + gl_SubgroupInvocationID] = present_keys[d];
    }
    [[unroll]] for (uint e = 0u; e < 8u; e++) {
        uint place = uint(mine[e]);
        uint dim = gl_SubgroupID * M + place / K;
        float v = qkv[(GROUP + 1u) * QUADS + dim / 4u][dim % 4u];
        uint word = present_values[e / 2u];
        present_values[e / 2u] = place % K == a.position % K ? with_half(word, e, v) : word;
    }
    values[value_block(a, head, a.position / K, gl_SubgroupID) + gl_SubgroupInvocationID] = present_values;
}

void main() {
    Attention a = Attention(push.heads, push.kv_heads, push.context, push.window, push.scale, push.epsilon, push.splits,
                            0u, 0u, push.key_at, push.value_at, state.position);
    uint lane = gl_LocalInvocationID.x;
    uint head = gl_WorkGroupID.x;
    uint split = gl_WorkGroupID.y;
    // Tiles begin at multiples of TILE. Without a window the first does not depend on the position, whose load is on its way.
    bool windowed = a.window < a.context;
    uint start = windowed ? first_position(a) / TILE * TILE : 0u;
    if (windowed && split > (a.position - start) / TILE) {
        return;
    }
    // What comes back first should be asked for first.
#ifndef CHAINED
    vec4 vector = load_vector(a, head, min(lane, VECTORS - 1u));
#endif
    uint tile = start + split * TILE;
    vec2 angle[4];
    vec4 norm;
    vec4 partner_norm;
    angles_of(a, min(lane, VECTORS - 1u), angle, norm, partner_norm);
    load_keys(a, head, tile);

    uint tiles = (a.position - start) / TILE + 1u;
    uint splits = min(tiles, a.splits);
    if (split >= splits) {
        return;
    }
#ifdef CHAINED
    load_values(a, head, tile);
    vec4 vector = load_vector(a, head, min(lane, VECTORS - 1u));
#endif
    bool owner = (tiles - 1u) % splits == split; // of the present position
    for (uint i = lane; i < VECTORS; i += T) {
        vec4 v = i == lane ? vector : load_vector(a, head, i);
        unturned[i] = v;
        squares[i] = dot(v, v);
    }
    for (uint i = 2u * GROUP * QUERY_PITCH + lane; i < COLUMNS * QUERY_PITCH; i += T) {
        queries[i] = uvec4(0u);
    }
    for (uint i = 2u * GROUP * WEIGHT_PITCH + lane; i < COLUMNS * WEIGHT_PITCH; i += T) {
        weights_of[i] = uvec4(0u);
    }
    if (owner) {
        number_places();
    }
    barrier();
    for (uint i = lane; i < VECTORS; i += T) {
        if (i != lane) {
            angles_of(a, i, angle, norm, partner_norm);
        }
        turn(a, i, angle, norm, partner_norm);
    }
#ifndef CHAINED
    // Later than the keys, which are needed first, and after what the turn had in registers.
    load_values(a, head, tile);
#endif
    if (owner) {
        load_present(a, head);
    }
    barrier();

    // The present position, which is not in the cache, is where its owner's sums begin.
    for (uint j = gl_SubgroupID; j < GROUP; j += SUBGROUPS) {
        float score = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < QUADS; i += SUBGROUP) {
            score += dot(qkv[j * QUADS + i], qkv[GROUP * QUADS + i]);
        }
        score = subgroupAdd(score);
        if (subgroupElect()) {
            largest_of[j] = owner ? score : NONE;
            total_of[j] = owner ? 1.0 : 0.0;
        }
    }
    subgroupBarrier();
    vec4 own[OWN];
    [[unroll]] for (uint o = 0u; o < OWN; o++) {
        uint q = (gl_SubgroupInvocationID + o * SUBGROUP) % BLOCK_QUADS;
        own[o] = owner ? qkv[(GROUP + 1u) * QUADS + gl_SubgroupID * BLOCK_QUADS + q] : vec4(0.0);
    }

    uint seen = first_position(a);
    uint stride = splits * TILE;
    for (; tile <= a.position; tile += stride) {
        {
            fcoopmatNV<32, gl_ScopeSubgroup, M, N> sums[POSITION_BLOCKS * COLUMN_BLOCKS];
            [[unroll]] for (uint i = 0u; i < POSITION_BLOCKS * COLUMN_BLOCKS; i++) {
                sums[i] = fcoopmatNV<32, gl_ScopeSubgroup, M, N>(0.0);
            }
            [[unroll]] for (uint d = 0u; d < DIM_STEPS; d++) {
                [[unroll]] for (uint c = 0u; c < COLUMN_BLOCKS; c++) {
                    fcoopmatNV<16, gl_ScopeSubgroup, K, N> query;
                    coopMatLoadNV(query, queries, c * N * QUERY_PITCH + d * K_OCTETS, QUERY_PITCH, true);
                    [[unroll]] for (uint b = 0u; b < POSITION_BLOCKS; b++) {
                        uint i = b * COLUMN_BLOCKS + c;
                        fcoopmatNV<16, gl_ScopeSubgroup, M, K> key;
                        FACTOR(key, tile_keys[b * DIM_STEPS + d])
                        sums[i] = coopMatMulAddNV(key, query, sums[i]);
                    }
                }
            }
            [[unroll]] for (uint b = 0u; b < POSITION_BLOCKS; b++) {
                [[unroll]] for (uint c = 0u; c < COLUMN_BLOCKS; c++) {
                    uint at = c * N * SCORE_PITCH + (b * SUBGROUPS + gl_SubgroupID) * BLOCK_QUADS;
                    coopMatStoreNV(sums[b * COLUMN_BLOCKS + c], scores, at, SCORE_PITCH, true);
                }
            }
        }
        if (tile + stride <= a.position) {
            load_keys(a, head, tile + stride);
        }
        barrier();
        weigh(seen - min(seen, tile), a.position - tile);
        barrier();
        {
            fcoopmatNV<32, gl_ScopeSubgroup, M, N> sums[COLUMN_BLOCKS];
            [[unroll]] for (uint c = 0u; c < COLUMN_BLOCKS; c++) {
                sums[c] = fcoopmatNV<32, gl_ScopeSubgroup, M, N>(0.0);
            }
            [[unroll]] for (uint p = 0u; p < POSITION_STEPS; p++) {
                fcoopmatNV<16, gl_ScopeSubgroup, M, K> value;
                FACTOR(value, tile_values[p])
                [[unroll]] for (uint c = 0u; c < COLUMN_BLOCKS; c++) {
                    fcoopmatNV<16, gl_ScopeSubgroup, K, N> weight;
                    coopMatLoadNV(weight, weights_of, c * N * WEIGHT_PITCH + p * K_OCTETS, WEIGHT_PITCH, true);
                    sums[c] = coopMatMulAddNV(value, weight, sums[c]);
                }
            }
            [[unroll]] for (uint c = 0u; c < COLUMN_BLOCKS; c++) {
                coopMatStoreNV(sums[c], products, (gl_SubgroupID * COLUMNS + c * N) * BLOCK_QUADS, BLOCK_QUADS, true);
            }
        }
        if (tile + stride <= a.position) {
            load_values(a, head, tile + stride);
        }
        subgroupBarrier();
        [[unroll]] for (uint o = 0u; o < OWN; o++) {
            uint i = gl_SubgroupInvocationID + o * SUBGROUP;
            uint j = min(i / BLOCK_QUADS, GROUP - 1u);
            uint at = (gl_SubgroupID * COLUMNS + j) * BLOCK_QUADS + i % BLOCK_QUADS;
            own[o] = shrink_of[j] * own[o] + (uintBitsToFloat(products[at]) + uintBitsToFloat(products[at + GROUP * BLOCK_QUADS]));
        }
        subgroupBarrier();
    }

    [[unroll]] for (uint o = 0u; o < OWN; o++) {
        uint i = gl_SubgroupInvocationID + o * SUBGROUP;
        uint j = i / BLOCK_QUADS;
        uint quad = gl_SubgroupID * BLOCK_QUADS + i % BLOCK_QUADS;
        if (j < GROUP && splits == 1u) {
            A_OUT4((head * GROUP + j) * QUADS + quad, own[o] / total_of[j]);
        } else if (j < GROUP) {
            uint row = ((head * a.splits + split) * GROUP + j) * (QUADS + 1u);
            A_PART(row + quad) = own[o];
            if (quad == 0u) {
                A_PART(row + QUADS) = vec4(total_of[j], largest_of[j], 0.0, 0.0);
            }
        }
    }
    if (owner) {
        write_present(a, head);
    }
    arrive(a, head, splits);
}
