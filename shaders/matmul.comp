#version 450
#extension GL_GOOGLE_include_directive : require
// variants: F32- F16- BF16- Q8_0- Q5_0- Q4_1- Q4_0- Q6_K- Q4_K-
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/floats.glsl"
#include "include/quants.glsl"
#include "include/codes.glsl"
#include "include/batch.glsl"
#include "include/weights16.glsl"

// A matrix times the vectors of a batch: result[token][row] = sum over columns of weight[row][column] * x[token][column].
// A workgroup computes 64 rows of a quarter as many tokens as it has invocations, each of those four rows of four tokens.
// Weights are unpacked once for all of the tokens, 32 columns at a time.
#if defined(F32) || defined(F16) || defined(BF16)
layout(std430, binding = 2) readonly buffer X { vec4 x[]; };
layout(std430, binding = 3) writeonly buffer Result { float result[]; };
#else
layout(std430, binding = 3) readonly buffer X { vec4 x[]; };
layout(std430, binding = 4) writeonly buffer Result { float result[]; };
#endif
layout(push_constant) uniform Push {
    uint columns;
    uint rows;
    uint stride; // rows of the whole matrix, of which this may be a part
    uint first;  // the first row of the part
} push;

const uint T = gl_WorkGroupSize.x;
const uint TOKENS = T / 4u;
const uint ROWS = 64u;
const uint DEPTH = 32u;

shared float w_tile[DEPTH * (ROWS + 1u)];
shared float x_tile[DEPTH * (TOKENS + 1u)];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = gl_WorkGroupID.x * ROWS;
    uint first_token = gl_WorkGroupID.y * TOKENS;
    if (first_token >= batch.count) {
        return;
    }
    uint row = lane % 16u;
    uint token = 4u * (lane / 16u);
    float acc[4][4];
    for (uint t = 0u; t < 4u; t++) {
        for (uint r = 0u; r < 4u; r++) {
            acc[t][r] = 0.0;
        }
    }
    uint quads = push.columns / 4u;
    for (uint k = 0u; k < push.columns; k += DEPTH) {
        barrier(); // the tiles before may still be read
        for (uint i = lane; i < 2u * ROWS; i += T) {
            uint r = i / 2u;
            vec4 w[4];
            uvec4 at;
            weights16(min(first_row + r, push.rows - 1u), k / 16u + i % 2u, push.columns, push.rows, w, at);
            for (uint j = 0u; j < 4u; j++) {
                for (uint e = 0u; e < 4u; e++) {
                    w_tile[(at[j] - k + e) * (ROWS + 1u) + r] = w[j][e];
                }
            }
        }
        for (uint i = lane; i < TOKENS * (DEPTH / 4u); i += T) {
            uint t = i / (DEPTH / 4u);
            uint quad = k / 4u + i % (DEPTH / 4u);
            vec4 v = vec4(0.0);
            if (quad < quads && first_token + t < batch.count) {
                v = x[(first_token + t) * quads + quad];
            }
            for (uint e = 0u; e < 4u; e++) {
                x_tile[(4u * (i % (DEPTH / 4u)) + e) * (TOKENS + 1u) + t] = v[e];
            }
        }
        barrier();
        for (uint d = 0u; d < DEPTH; d++) {
            float w[4];
            for (uint r = 0u; r < 4u; r++) {
                w[r] = w_tile[d * (ROWS + 1u) + row + 16u * r];
            }
            for (uint t = 0u; t < 4u; t++) {
                float v = x_tile[d * (TOKENS + 1u) + token + t];
                for (uint r = 0u; r < 4u; r++) {
                    acc[t][r] += w[r] * v;
                }
            }
        }
    }
    for (uint t = 0u; t < 4u; t++) {
        uint at = first_token + token + t;
        for (uint r = 0u; r < 4u; r++) {
            uint to = first_row + row + 16u * r;
            if (at < batch.count && to < push.rows) {
                result[at * push.stride + push.first + to] = acc[t][r];
            }
        }
    }
}
