#version 450
#extension GL_GOOGLE_include_directive : require
// family: get_rows
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/codes.glsl"
#include "include/step.glsl"

// Embedding lookup from a Q4_K table: one word, so eight columns in two groups of four, per invocation.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Quants { uint quants[]; };
layout(std430, binding = 2) readonly buffer Scales { uvec4 scales[]; };
layout(std430, binding = 3) writeonly buffer Result { vec4 result[]; };
layout(push_constant) uniform Push { uint columns; uint first_row; uint rows; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint row = state.token - push.first_row; // wraps above `rows` for a token before the first
    if (row >= push.rows) {
        return;
    }
    uint words = push.columns / 8u;
    if (i < words) {
        uint at = row * words + i;
        uvec4 s = scales[at / 32u];
        float scale = exact_half(s.x & 0xffffu);
        float minimum = exact_half(s.x >> 16);
        uint pair = (i % 32u) / 8u;
        vec2 low = scale_and_minimum(s.yzw, 2u * pair);
        vec2 high = scale_and_minimum(s.yzw, 2u * pair + 1u);
        uint out_block = (i / 8u) * 16u + i % 8u;
        result[out_block] = (scale * low.x) * low_codes(quants[at]) - minimum * low.y;
        result[out_block + 8u] = (scale * high.x) * high_codes(quants[at]) - minimum * high.y;
    }
}
