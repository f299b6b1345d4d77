#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// The present position's row of the table of cosines and sines, so that what comes later need not know the position to load it:
// one load after the other becomes one beside the other. One invocation a pair.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Table { vec2 table[]; };
layout(std430, binding = 2) writeonly buffer Result { vec2 result[]; };
layout(push_constant) uniform Push { uint pairs; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.pairs) {
        result[i] = table[state.position * push.pairs + i];
    }
}
