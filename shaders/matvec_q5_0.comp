#version 450
#extension GL_GOOGLE_include_directive : require
// family: matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/codes.glsl"
#include "include/matvec.glsl"

// Q5_0 weights, repacked when the model is loaded: the nibbles of each block as one uvec4; apart from them the fifth
// bits, one word a block, and behind all of those the halves of the scales, two to a word.
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
    uint halves = push.rows * blocks;
    for (uint b = gl_LocalInvocationID.x; b < blocks; b += gl_WorkGroupSize.x) {
        uint xb = 8u * b;
        for (uint r = 0u; r < ROWS; r++) {
            uint block = clamped_row(first, r) * blocks + b;
            uvec4 q = quants[block];
            uint bits = scales[block];
            float sum = 0.0;
            for (uint w = 0u; w < 4u; w++) {
                sum += dot(low_codes(q[w]) + fifth_bits(bits, 4u * w) - 16.0, x[xb + w]);
                sum += dot(high_codes(q[w]) + fifth_bits(bits, 16u + 4u * w) - 16.0, x[xb + 4u + w]);
            }
            acc[r] += half_of_word(scales[halves + block / 2u], block) * sum;
        }
    }
    reduce_sums();
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        if (first + r < push.rows) {
            result[first + r] = row_sum(r);
        }
    }
}
