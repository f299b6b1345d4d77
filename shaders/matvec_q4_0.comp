#version 450
#extension GL_GOOGLE_include_directive : require
// family: matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/quants.glsl"
#include "include/matvec.glsl"

// Q4_0 weights, repacked when the model is loaded: the sixteen bytes of each block as one uvec4, the halves of the
// scales, two to a word, apart from them.
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
        for (uint r = 0u; r < ROWS; r++) {
            uint block = clamped_row(first, r) * blocks + b;
            uvec4 q = quants[block];
            float low = dot(low_nibbles(q.x), x[xb]) + dot(low_nibbles(q.y), x[xb + 1u])
                      + dot(low_nibbles(q.z), x[xb + 2u]) + dot(low_nibbles(q.w), x[xb + 3u]);
            float high = dot(high_nibbles(q.x), x[xb + 4u]) + dot(high_nibbles(q.y), x[xb + 5u])
                       + dot(high_nibbles(q.z), x[xb + 6u]) + dot(high_nibbles(q.w), x[xb + 7u]);
            acc[r] += half_of_word(scales[block / 2u], block) * (low + high);
        }
    }
    reduce_sums();
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        if (first + r < push.rows) {
            result[first + r] = row_sum(r);
        }
    }
}
