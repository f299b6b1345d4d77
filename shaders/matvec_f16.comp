#version 450
#extension GL_GOOGLE_include_directive : require
// family: matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/half.glsl"
#include "include/floats.glsl"
#include "include/matvec.glsl"

// F16 weights, four columns (two words) at a time.
layout(std430, binding = 0) readonly buffer Quants { uvec2 weights[]; };
layout(std430, binding = 1) readonly buffer X { vec4 x[]; };
layout(std430, binding = 2) writeonly buffer Result { float result[]; };

void main() {
    uint first = first_row();
    if (first >= push.rows) {
        return;
    }
    clear_sums();
    uint units = push.columns / 4u;
    for (uint u = gl_LocalInvocationID.x; u < units; u += gl_WorkGroupSize.x) {
        vec4 x0 = x[u];
        for (uint r = 0u; r < ROWS; r++) {
            acc[r] += dot(four_halves(weights[clamped_row(first, r) * units + u]), x0);
        }
    }
    reduce_sums();
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        if (first + r < push.rows) {
            result[first + r] = row_sum(r);
        }
    }
}
