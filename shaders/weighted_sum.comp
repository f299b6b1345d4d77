#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// Attention output: result[head][d] = sum over t of probabilities[head][t] * values[t][group][d], from the first position
// that the window holds up to the present one.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Probabilities { float probabilities[]; }; // [heads][context]
layout(std430, binding = 2) readonly buffer Values { float values[]; };               // [context][kv_heads][head_dim]
layout(std430, binding = 3) writeonly buffer Result { float result[]; };              // [heads][head_dim]
layout(push_constant) uniform Push {
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint context;
    uint window;
} push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= push.heads * push.head_dim) {
        return;
    }
    uint head = i / push.head_dim;
    uint d = i % push.head_dim;
    uint kv_head = head / (push.heads / push.kv_heads);
    uint row = head * push.context;
    uint column = kv_head * push.head_dim + d;
    uint stride = push.kv_heads * push.head_dim;
    float sum = 0.0;
    for (uint t = first_visible(state.position, push.window); t <= state.position; t++) {
        sum += probabilities[row + t] * values[t * stride + column];
    }
    result[i] = sum;
}
