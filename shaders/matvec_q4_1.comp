#version 450
#extension GL_GOOGLE_include_directive : require
// family: matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/codes.glsl"
#include "include/matvec.glsl"

// Q4_1 weights, repacked when the model is loaded: the sixteen bytes of each block as one uvec4; scale and minimum, the
// halves of one word a block, apart from them. The minimum is multiplied by the sum of x.
layout(std430, binding = 0) readonly buffer Quants { uvec4 quants[]; };
layout(std430, binding = 1) readonly buffer Scales { uint scales[]; };
layout(std430, binding = 2) readonly buffer X { vec4 x[]; };
layout(std430, binding = 3) writeonly buffer Result { float result[]; };

void main() {
    uint first = first_row();
    if (first >= push.rows) {
        return;
    }
    clear_sums();
    uint blocks = push.columns / 32u;
    for (uint b = gl_LocalInvocationID.x; b < blocks; b += gl_WorkGroupSize.x) {
        uint xb = 8u * b;
        vec4 part = ((x[xb] + x[xb + 1u]) + (x[xb + 2u] + x[xb + 3u]))
                  + ((x[xb + 4u] + x[xb + 5u]) + (x[xb + 6u] + x[xb + 7u]));
        float sum = (part.x + part.y) + (part.z + part.w);
        for (uint r = 0u; r < ROWS; r++) {
            uint block = clamped_row(first, r) * blocks + b;
            uvec4 q = quants[block];
            float low = dot(low_codes(q.x), x[xb]) + dot(low_codes(q.y), x[xb + 1u])
                      + dot(low_codes(q.z), x[xb + 2u]) + dot(low_codes(q.w), x[xb + 3u]);
            float high = dot(high_codes(q.x), x[xb + 4u]) + dot(high_codes(q.y), x[xb + 5u])
                       + dot(high_codes(q.z), x[xb + 6u]) + dot(high_codes(q.w), x[xb + 7u]);
            uint word = scales[block];
            acc[r] += exact_half(word & 0xffffu) * (low + high) + exact_half(word >> 16) * sum;
        }
    }
    reduce_sums();
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        if (first + r < push.rows) {
            result[first + r] = row_sum(r);
        }
    }
}
