#version 450
#extension GL_GOOGLE_include_directive : require
// family: matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/codes.glsl"
#include "include/matvec.glsl"

// Q4_K weights, repacked when the model is loaded: the 128 bytes of each block of 256 as eight uvec4; apart from them
// one uvec4 a block with scale, minimum and the twelve bytes of packed scales. One uvec4 of quants is sixteen columns of
// one part in its low and sixteen of the next part in its high nibbles.
layout(std430, binding = 0) readonly buffer Quants { uvec4 quants[]; };
layout(std430, binding = 1) readonly buffer Scales { uvec4 scales[]; };
layout(std430, binding = 2) readonly buffer X { vec4 x[]; };
layout(std430, binding = 3) writeonly buffer Result { float result[]; };

void main() {
    uint first = first_row();
    if (first >= push.rows) {
        return;
    }
    clear_sums();
    uint units = push.columns / 32u;
    for (uint u = gl_LocalInvocationID.x; u < units; u += gl_WorkGroupSize.x) {
        uint pair = (u % 8u) / 2u;
        uint xl = 64u * (u / 8u) + 16u * pair + 4u * (u % 2u);
        uint xh = xl + 8u;
        vec4 part = (x[xl] + x[xl + 1u]) + (x[xl + 2u] + x[xl + 3u]);
        float low_sum = (part.x + part.y) + (part.z + part.w);
        part = (x[xh] + x[xh + 1u]) + (x[xh + 2u] + x[xh + 3u]);
        float high_sum = (part.x + part.y) + (part.z + part.w);
        for (uint r = 0u; r < ROWS; r++) {
            uint at = clamped_row(first, r) * units + u;
            uvec4 q = quants[at];
            uvec4 s = scales[at / 8u];
            float scale = exact_half(s.x & 0xffffu);
            float minimum = exact_half(s.x >> 16);
            vec2 low_part = scale_and_minimum(s.yzw, 2u * pair);
            vec2 high_part = scale_and_minimum(s.yzw, 2u * pair + 1u);
            float low = dot(low_codes(q.x), x[xl]) + dot(low_codes(q.y), x[xl + 1u])
                      + dot(low_codes(q.z), x[xl + 2u]) + dot(low_codes(q.w), x[xl + 3u]);
            float high = dot(high_codes(q.x), x[xh]) + dot(high_codes(q.y), x[xh + 1u])
                       + dot(high_codes(q.z), x[xh + 2u]) + dot(high_codes(q.w), x[xh + 3u]);
            acc[r] += scale * (low_part.x * low + high_part.x * high)
                    - minimum * (low_part.y * low_sum + high_part.y * high_sum);
        }
    }
    reduce_sums();
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        if (first + r < push.rows) {
            result[first + r] = row_sum(r);
        }
    }
}
