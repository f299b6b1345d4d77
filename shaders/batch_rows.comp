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

// Embedding lookup for a batch: sixteen columns of one token each invocation, tokens along y. Tokens whose row is in
// another part of the table are left to that part's dispatch.
#if defined(F32) || defined(F16) || defined(BF16)
layout(std430, binding = 2) writeonly buffer Result { vec4 result[]; };
#else
layout(std430, binding = 3) writeonly buffer Result { vec4 result[]; };
#endif
layout(push_constant) uniform Push { uint columns; uint first_row; uint rows; } push;

void main() {
    uint unit = gl_GlobalInvocationID.x;
    uint token = gl_WorkGroupID.y;
    if (token >= batch.count || 16u * unit >= push.columns) {
        return;
    }
    uint row = batch.tokens[token] - push.first_row; // wraps above `rows` for a token before the first
    if (row >= push.rows) {
        return;
    }
    vec4 w[4];
    uvec4 at;
    weights16(row, unit, push.columns, push.rows, w, at);
    for (uint i = 0u; i < 4u; i++) {
        if (at[i] < push.columns) {
            result[(token * push.columns + at[i]) / 4u] = w[i];
        }
    }
}
