#version 450
#extension GL_GOOGLE_include_directive : require
// family: get_rows
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/floats.glsl"
#include "include/step.glsl"

// Embedding lookup from a BF16 table: four columns per invocation.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Quants { uvec2 quants[]; };
layout(std430, binding = 2) writeonly buffer Result { vec4 result[]; };
layout(push_constant) uniform Push { uint columns; uint first_row; uint rows; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint row = state.token - push.first_row; // wraps above `rows` for a token before the first
    if (row >= push.rows) {
        return;
    }
    uint units = push.columns / 4u;
    if (i < units) {
        result[i] = four_bf16(quants[row * units + i]);
    }
}
