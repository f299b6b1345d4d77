#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require
// variants: F32- F16- BF16- Q8_0- Q5_0- Q4_1- Q4_0- Q6_K- Q4_K-
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/floats.glsl"
#include "include/quants.glsl"
#include "include/codes.glsl"
#include "include/batch.glsl"
#include "include/weights16.glsl"

// A matrix times the vectors of a batch, as in matmul.comp, on the device's cooperative matrices: halves times halves, added up
// as floats. A workgroup computes ROWS rows of TOKENS tokens, each of its subgroups SUB_ROWS of SUB_TOKENS. Weights are unpacked
// to halves, and the vectors come as halves with a power of two each (batch_halves.comp). The build step turns the older
// extension, which every glslang knows, into VK_KHR_cooperative_matrix.
layout(constant_id = 1) const uint ROWS = 64;
layout(constant_id = 42) const uint TOKENS = 64;
layout(constant_id = 43) const uint SUB_ROWS = 32;
layout(constant_id = 44) const uint SUB_TOKENS = 32;
layout(constant_id = 45) const uint M = 16; // what one operation multiplies: M x K with K x N
layout(constant_id = 46) const uint N = 16;
layout(constant_id = 47) const uint K = 16;
layout(constant_id = 9) const uint DEPTH = 32; // columns in shared memory at a time
#if defined(F32) || defined(F16) || defined(BF16)
layout(std430, binding = 2) readonly buffer X { uvec4 x[]; }; // [tokens][1 + columns / 8]: scale, then halves
layout(std430, binding = 3) writeonly buffer Result { float result[]; };
#else
layout(std430, binding = 3) readonly buffer X { uvec4 x[]; };
layout(std430, binding = 4) writeonly buffer Result { float result[]; };
#endif
layout(push_constant) uniform Push {
    uint columns;
    uint rows;
    uint stride; // rows of the whole matrix, of which this may be a part
    uint first;  // the first row of the part
} push;

const uint T = gl_WorkGroupSize.x;
const uint UNITS = DEPTH / 16u;
const uint OCTETS = DEPTH / 8u;
const uint PITCH = OCTETS + 1u; // one more than filled, so that rows begin in different banks
const uint ACROSS = ROWS / SUB_ROWS;
const uint SUBGROUPS = ACROSS * (TOKENS / SUB_TOKENS);
const uint FRAGMENT_ROWS = SUB_ROWS / M;
const uint FRAGMENT_TOKENS = SUB_TOKENS / N;
const uint FRAGMENTS = FRAGMENT_ROWS * FRAGMENT_TOKENS; // at most 16

shared uvec4 w_tile[ROWS * PITCH];
shared uvec4 x_tile[TOKENS * PITCH];
shared uvec4 stage[SUBGROUPS * M * N / 4u]; // floats

uvec4 eight_halves(vec4 a, vec4 b) {
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}

// Copies a fragment, which its subgroup has put into shared memory, so that what is stored is known element by element.
void store(uint row, uint token, uint octets) {
    subgroupBarrier();
    uint own = gl_SubgroupID * M * N;
    for (uint i = gl_SubgroupInvocationID; i < M * N; i += gl_SubgroupSize) {
        uint r = row + i % M;
        uint t = token + i / M;
        if (t < batch.count && r < push.rows) {
            float scale = uintBitsToFloat(x[t * (octets + 1u)].x);
            result[t * push.stride + push.first + r] = scale * uintBitsToFloat(stage[(own + i) / 4u][i % 4u]);
        }
    }
    subgroupBarrier();
}

// Fragment number I. Each is named by a constant: where a loop that is not unrolled counts them, a compiler keeps all of them in
// memory.
#define STORE(I) \
    if (I < FRAGMENTS) { \
        coopMatStoreNV(acc[I < FRAGMENTS ? I : 0], stage, gl_SubgroupID * M * N / 4u, M / 4u, true); \
        store(row + I % FRAGMENT_ROWS * M, token + I / FRAGMENT_ROWS * N, octets); \
    }

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = gl_WorkGroupID.x * ROWS;
    uint first_token = gl_WorkGroupID.y * TOKENS;
    if (first_token >= batch.count) {
        return;
    }
    uint octets = (push.columns + 7u) / 8u;
    uint sub_row = gl_SubgroupID % ACROSS * SUB_ROWS;
    uint sub_token = gl_SubgroupID / ACROSS * SUB_TOKENS;

    fcoopmatNV<32, gl_ScopeSubgroup, M, N> acc[FRAGMENTS];
    [[unroll]] for (uint i = 0u; i < FRAGMENTS; i++) {
        acc[i] = fcoopmatNV<32, gl_ScopeSubgroup, M, N>(0.0);
    }
    for (uint k = 0u; k < push.columns; k += DEPTH) {
        barrier(); // the tiles before may still be read
        [[unroll]] for (uint i = lane; i < ROWS * UNITS; i += T) {
            uint r = i / UNITS;
            uint unit = k / 16u + i % UNITS;
            vec4 w[4] = vec4[4](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
            uvec4 at = 16u * unit + uvec4(0, 4, 8, 12);
            if (16u * unit < push.columns) {
                weights16(min(first_row + r, push.rows - 1u), unit, push.columns, push.rows, w, at);
            }
            w_tile[r * PITCH + (at[0] - k) / 8u] = eight_halves(w[0], w[1]);
            w_tile[r * PITCH + (at[2] - k) / 8u] = eight_halves(w[2], w[3]);
        }
        [[unroll]] for (uint i = lane; i < TOKENS * OCTETS; i += T) {
            uint token = first_token + i / OCTETS;
            uint octet = k / 8u + i % OCTETS;
            uvec4 v = uvec4(0u);
            if (octet < octets && token < batch.count) {
                v = x[token * (octets + 1u) + 1u + octet];
            }
            x_tile[i / OCTETS * PITCH + i % OCTETS] = v;
        }
        barrier();
        [[unroll]] for (uint d = 0u; d < DEPTH; d += K) {
            fcoopmatNV<16, gl_ScopeSubgroup, M, K> a[FRAGMENT_ROWS];
            [[unroll]] for (uint r = 0u; r < FRAGMENT_ROWS; r++) {
                coopMatLoadNV(a[r], w_tile, (sub_row + r * M) * PITCH + d / 8u, PITCH, false);
            }
            [[unroll]] for (uint t = 0u; t < FRAGMENT_TOKENS; t++) {
                fcoopmatNV<16, gl_ScopeSubgroup, K, N> b;
                coopMatLoadNV(b, x_tile, (sub_token + t * N) * PITCH + d / 8u, PITCH, true);
                [[unroll]] for (uint r = 0u; r < FRAGMENT_ROWS; r++) {
                    uint i = t * FRAGMENT_ROWS + r;
                    acc[i] = coopMatMulAddNV(a[r], b, acc[i]);
                }
            }
        }
    }
    uint row = first_row + sub_row;
    uint token = first_token + sub_token;
    STORE(0) STORE(1) STORE(2) STORE(3) STORE(4) STORE(5) STORE(6) STORE(7)
    STORE(8) STORE(9) STORE(10) STORE(11) STORE(12) STORE(13) STORE(14) STORE(15)
}
