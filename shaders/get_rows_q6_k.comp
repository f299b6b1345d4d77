#version 450
#extension GL_GOOGLE_include_directive : require
// family: get_rows
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/codes.glsl"
#include "include/step.glsl"

// Embedding lookup from a Q6_K table: four columns in each of the four runs of one half of a block, per invocation.
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
    uint units = push.columns / 16u;
    if (i < units) {
        uint block = row * (units / 16u) + i / 16u;
        uint part = (i % 16u) / 8u;
        uint word = i % 8u;
        uint upper = quants[48u * block + 32u + 8u * part + word];
        float scale = exact_half(scales[5u * block + 4u] & 0xffffu);
        for (uint run = 0u; run < 4u; run++) {
            uint low = quants[48u * block + 16u * part + 8u * (run % 2u) + word];
            uint which = 2u * run + word / 4u;
            float step = scale * signed_byte(scales[5u * block + 2u * part + which / 4u], which);
            result[64u * (i / 16u) + 32u * part + 8u * run + word] = step * six_bit_codes(low, upper, run);
        }
    }
}
