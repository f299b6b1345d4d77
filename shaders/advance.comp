#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// Takes the likeliest token out of what `best` left, notes it under the present position, and makes it the next step:
// with this, one token follows another without the host.
layout(std430, binding = 0) readonly buffer Parts { uvec2 parts[]; };
layout(std430, binding = 1) buffer Step { StepState state; };
layout(std430, binding = 2) buffer Tokens { uint tokens[]; }; // [context]
layout(push_constant) uniform Push { uint count; } push;

shared float best_value[gl_WorkGroupSize.x];
shared uint best_token[gl_WorkGroupSize.x];

#include "include/first_max.glsl"

void main() {
    float value = uintBitsToFloat(0xff800000u);
    uint token = 0xffffffffu;
    for (uint i = gl_LocalInvocationID.x; i < push.count; i += gl_WorkGroupSize.x) {
        uvec2 part = parts[i];
        if (precedes(uintBitsToFloat(part.x), part.y, value, token)) {
            value = uintBitsToFloat(part.x);
            token = part.y;
        }
    }
    first_max(value, token);
    if (gl_LocalInvocationID.x == 0u) {
        // All NaN: token 0, as on the host.
        uint next = best_token[0] == 0xffffffffu ? 0u : best_token[0];
        tokens[state.position] = next;
        state.token = next;
        state.position += 1u;
    }
}
