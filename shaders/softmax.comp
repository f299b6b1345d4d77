#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"
#include "include/reduce.glsl"

// Softmax over the scores of one head, from the first position that the window holds to the present one; one workgroup
// for each head.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Scores { float scores[]; };    // [heads][context]
layout(std430, binding = 2) writeonly buffer Result { float result[]; };   // [heads][context]
layout(push_constant) uniform Push { uint context; uint window; } push;

void main() {
    uint row = gl_WorkGroupID.x * push.context;
    uint count = state.position + 1u;
    uint first = first_visible(state.position, push.window);
    float largest = scores[row + first];
    for (uint t = first + gl_LocalInvocationID.x; t < count; t += gl_WorkGroupSize.x) {
        largest = max(largest, scores[row + t]);
    }
    largest = workgroup_max(largest);
    float sum = 0.0;
    for (uint t = first + gl_LocalInvocationID.x; t < count; t += gl_WorkGroupSize.x) {
        sum += exp(scores[row + t] - largest);
    }
    float scale = 1.0 / workgroup_sum(sum);
    for (uint t = first + gl_LocalInvocationID.x; t < count; t += gl_WorkGroupSize.x) {
        result[row + t] = exp(scores[row + t] - largest) * scale;
    }
}
