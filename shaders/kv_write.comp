#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// Stores this token's keys (or values) in the row of the cache that belongs to its position.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Cache { float cache[]; }; // [context][count]
layout(push_constant) uniform Push { uint count; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        cache[state.position * push.count + i] = x[i];
    }
}
