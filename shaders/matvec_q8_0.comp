#version 450
#extension GL_GOOGLE_include_directive : require
// family: matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/quants.glsl"
#include "include/matvec.glsl"

// Q8_0 weights, repacked when the model is loaded: all quants first (sixteen to a uvec4), the halves of the scales,
// two to a word, apart from them.
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
    uint units = push.columns / 16u; // half a block each
    for (uint u = gl_LocalInvocationID.x; u < units; u += gl_WorkGroupSize.x) {
        vec4 x0 = x[4u * u];
        vec4 x1 = x[4u * u + 1u];
        vec4 x2 = x[4u * u + 2u];
        vec4 x3 = x[4u * u + 3u];
        for (uint r = 0u; r < ROWS; r++) {
            uint at = clamped_row(first, r) * units + u;
            uvec4 q = quants[at];
            float sum = dot(signed_bytes(q.x), x0) + dot(signed_bytes(q.y), x1) + dot(signed_bytes(q.z), x2)
                      + dot(signed_bytes(q.w), x3);
            uint block = at / 2u;
            acc[r] += half_of_word(scales[block / 2u], block) * sum;
        }
    }
    reduce_sums();
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        if (first + r < push.rows) {
            result[first + r] = row_sum(r);
        }
    }
}
