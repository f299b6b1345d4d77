#version 450
#extension GL_GOOGLE_include_directive : require
// variants: FLOATS- HALVES- BLOCKS-
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/batch.glsl"

// Attention of a batch over the cache, which already holds the batch's own keys and values. A workgroup takes one head
// and a quarter as many queries as it has invocations, and walks the positions that they see sixteen at a time with
// online softmax: what is read of the cache is used for all of its queries. Sixteen invocations share four queries; each
// has one position's scores of them, and every sixteenth four elements of their results. Every invocation works out
// largest scores and sums for itself, in one order.
layout(constant_id = 10) const uint HEAD_DIM = 16;
layout(std430, binding = 1) readonly buffer Q { vec4 q[]; }; // [tokens][heads][head_dim / 4]
#ifdef FLOATS
layout(std430, binding = 2) readonly buffer Keys { vec4 keys[]; };
layout(std430, binding = 3) readonly buffer Values { vec4 values[]; };
#elif defined(HALVES)
layout(std430, binding = 2) readonly buffer Keys { uvec2 keys[]; };
layout(std430, binding = 3) readonly buffer Values { uvec2 values[]; };
#else
// As batch_kv_write_blocks.comp leaves them.
layout(constant_id = 45) const uint M = 16;
layout(constant_id = 47) const uint K = 16;
layout(std430, binding = 2) readonly buffer Keys { uint keys[]; };
layout(std430, binding = 3) readonly buffer Values { uint values[]; };
layout(std430, binding = 4) readonly buffer Order { uint order[]; };
#define RESULT_BINDING 5
#endif
#ifndef RESULT_BINDING
#define RESULT_BINDING 4
#endif
layout(std430, binding = RESULT_BINDING) writeonly buffer Result { vec4 result[]; }; // [tokens][heads][head_dim / 4]
layout(push_constant) uniform Push { uint heads; uint kv_heads; uint context; float scale; uint window; } push;

const uint T = gl_WorkGroupSize.x;
const uint QUERIES = T / 4u;
const uint KEYS = 16u;
const uint QUADS = HEAD_DIM / 4u;
const uint OWN = (QUADS + 15u) / 16u;
const float NONE = -1e30; // far below any score, and no infinity: the difference of two is defined

shared vec4 q_tile[QUERIES * QUADS];
shared vec4 kv_tile[KEYS * (QUADS + 1u)];
shared float scores[QUERIES * KEYS];
shared float weights[QUERIES * KEYS];

#ifdef HALVES
vec4 four(uvec2 halves) {
    return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
}
#endif

vec4 key(uint head, uint position, uint quad) {
#ifdef FLOATS
    return keys[(position * push.kv_heads + head) * QUADS + quad];
#elif defined(HALVES)
    return four(keys[((head * (QUADS / 2u) + quad / 2u) * push.context + position) * 2u + quad % 2u]);
#else
    uint block = (head * (push.context / M) + position / M) * (HEAD_DIM / K) + 4u * quad / K;
    vec4 v;
    for (uint e = 0u; e < 4u; e++) {
        uint at = block * M * K + order[M * K + position % M * K + (4u * quad + e) % K];
        v[e] = unpackHalf2x16(keys[at / 2u])[at % 2u];
    }
    return v;
#endif
}

vec4 value(uint head, uint position, uint quad) {
#ifdef FLOATS
    return values[(position * push.kv_heads + head) * QUADS + quad];
#elif defined(HALVES)
    return four(values[(head * push.context + position) * QUADS + quad]);
#else
    uint block = (head * (push.context / K) + position / K) * (HEAD_DIM / M) + 4u * quad / M;
    vec4 v;
    for (uint e = 0u; e < 4u; e++) {
        uint at = block * M * K + order[M * K + (4u * quad + e) % M * K + position % K];
        v[e] = unpackHalf2x16(values[at / 2u])[at % 2u];
    }
    return v;
#endif
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint head = gl_WorkGroupID.x;
    uint first = gl_WorkGroupID.y * QUERIES;
    if (first >= batch.count) {
        return;
    }
    uint kv_head = head / (push.heads / push.kv_heads);
    for (uint i = lane; i < QUERIES * QUADS; i += T) {
        uint token = min(first + i / QUADS, batch.count - 1u);
        q_tile[i] = push.scale * q[(token * push.heads + head) * QUADS + i % QUADS];
    }
    uint mine = 4u * (lane / 16u);
    uint l = lane % 16u;
    vec4 acc[4][OWN];
    vec4 largest = vec4(NONE);
    vec4 sum = vec4(0.0);
    for (uint n = 0u; n < 4u; n++) {
        for (uint j = 0u; j < OWN; j++) {
            acc[n][j] = vec4(0.0);
        }
    }
    uint start = batch.first_position + first;
    uint last = batch.first_position + min(first + QUERIES, batch.count) - 1u;
    uint seen = start < push.window ? 0u : start - push.window + 1u;
    for (uint tile = seen / KEYS * KEYS; tile <= last; tile += KEYS) {
        barrier(); // the values before may still be read
        for (uint i = lane; i < KEYS * QUADS; i += T) {
            // Halves' keys lie side by side by position, everything else by element.
#ifndef HALVES
            uint p = i / QUADS;
            uint quad = i % QUADS;
#else
            uint p = (i / 2u) % KEYS;
            uint quad = 2u * (i / 2u / KEYS) + i % 2u;
#endif
            kv_tile[p * (QUADS + 1u) + quad] = key(kv_head, min(tile + p, last), quad);
        }
        barrier();
        vec4 s = vec4(0.0);
        for (uint quad = 0u; quad < QUADS; quad++) {
            vec4 k = kv_tile[l * (QUADS + 1u) + quad];
            for (uint n = 0u; n < 4u; n++) {
                s[n] += dot(q_tile[(mine + n) * QUADS + quad], k);
            }
        }
        for (uint n = 0u; n < 4u; n++) {
            uint position = start + mine + n;
            uint p = tile + l;
            bool visible = p <= position && p + push.window > position && p <= last;
            s[n] = visible ? s[n] : NONE;
            scores[(mine + n) * KEYS + l] = s[n];
        }
        barrier();
        for (uint n = 0u; n < 4u; n++) {
            float most = largest[n];
            for (uint p = 0u; p < KEYS; p++) {
                most = max(most, scores[(mine + n) * KEYS + p]);
            }
            float fade = exp(largest[n] - most);
            largest[n] = most;
            sum[n] *= fade;
            for (uint j = 0u; j < OWN; j++) {
                acc[n][j] *= fade;
            }
            weights[(mine + n) * KEYS + l] = exp(s[n] - most);
        }
        for (uint i = lane; i < KEYS * QUADS; i += T) {
            kv_tile[i / QUADS * (QUADS + 1u) + i % QUADS] = value(kv_head, min(tile + i / QUADS, last), i % QUADS);
        }
        barrier();
        for (uint p = 0u; p < KEYS; p++) {
            vec4 w;
            for (uint n = 0u; n < 4u; n++) {
                w[n] = weights[(mine + n) * KEYS + p];
            }
            sum += w;
            for (uint j = 0u; j < OWN; j++) {
                vec4 v = kv_tile[p * (QUADS + 1u) + min(l + 16u * j, QUADS - 1u)];
                for (uint n = 0u; n < 4u; n++) {
                    acc[n][j] += w[n] * v;
                }
            }
        }
    }
    for (uint n = 0u; n < 4u; n++) {
        uint token = first + mine + n;
        for (uint j = 0u; j < OWN; j++) {
            uint quad = l + 16u * j;
            if (token < batch.count && quad < QUADS) {
                result[(token * push.heads + head) * QUADS + quad] = acc[n][j] / sum[n];
            }
        }
    }
}
