#version 450
#extension GL_GOOGLE_include_directive : require
// family: matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/codes.glsl"
#include "include/matvec.glsl"

// Q6_K weights, repacked when the model is loaded: 48 words of quants a block of 256 (128 bytes of low nibbles, 64 of
// upper bits); apart from them five words a block, sixteen signed scales and the half that scales them. A unit is four
// columns in each of the four runs of one half of a block.
layout(std430, binding = 0) readonly buffer Quants { uint quants[]; };
layout(std430, binding = 1) readonly buffer Scales { uint scales[]; };
layout(std430, binding = 2) readonly buffer X { vec4 x[]; };
layout(std430, binding = 3) writeonly buffer Result { float result[]; };

void main() {
    uint first = first_row();
    if (first >= push.rows) {
        return;
    }
    clear_sums();
    uint units = push.columns / 16u;
    for (uint u = gl_LocalInvocationID.x; u < units; u += gl_WorkGroupSize.x) {
        uint part = (u % 16u) / 8u;
        uint word = u % 8u;
        uint xb = 64u * (u / 16u) + 32u * part + word;
        vec4 x0 = x[xb];
        vec4 x1 = x[xb + 8u];
        vec4 x2 = x[xb + 16u];
        vec4 x3 = x[xb + 24u];
        for (uint r = 0u; r < ROWS; r++) {
            uint block = clamped_row(first, r) * (units / 16u) + u / 16u;
            uint q = 48u * block;
            uint even = quants[q + 16u * part + word];
            uint odd = quants[q + 16u * part + 8u + word];
            uint upper = quants[q + 32u + 8u * part + word];
            uint s = 5u * block;
            // Scales 0, 2, 4, 6 of this half, or 1, 3, 5, 7: two words.
            uint which = word / 4u;
            uint s01 = scales[s + 2u * part];
            uint s23 = scales[s + 2u * part + 1u];
            float sum = signed_byte(s01, which) * dot(six_bit_codes(even, upper, 0u), x0)
                      + signed_byte(s01, which + 2u) * dot(six_bit_codes(odd, upper, 1u), x1)
                      + signed_byte(s23, which) * dot(six_bit_codes(even, upper, 2u), x2)
                      + signed_byte(s23, which + 2u) * dot(six_bit_codes(odd, upper, 3u), x3);
            acc[r] += exact_half(scales[s + 4u] & 0xffffu) * sum;
        }
    }
    reduce_sums();
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        if (first + r < push.rows) {
            result[first + r] = row_sum(r);
        }
    }
}
