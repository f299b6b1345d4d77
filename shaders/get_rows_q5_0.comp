#version 450
#extension GL_GOOGLE_include_directive : require
// family: get_rows
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/codes.glsl"
#include "include/step.glsl"

// Embedding lookup from a Q5_0 table: one word, so eight columns in two groups of four, per invocation.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Quants { uint quants[]; };
layout(std430, binding = 2) readonly buffer Scales { uint scales[]; };
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
        uint block = at / 4u;
        uint halves = push.rows * (push.columns / 32u);
        float scale = half_of_word(scales[halves + block / 2u], block);
        uint bits = scales[block];
        uint first = 4u * (i % 4u);
        uint out_block = (i / 4u) * 8u + i % 4u;
        result[out_block] = scale * (low_codes(quants[at]) + fifth_bits(bits, first) - 16.0);
        result[out_block + 4u] = scale * (high_codes(quants[at]) + fifth_bits(bits, 16u + first) - 16.0);
    }
}
