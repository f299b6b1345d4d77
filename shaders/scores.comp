#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// Attention scores: result[head][t] = scale * dot(q[head], keys[t][head's group]) for every t up to the position.
// The grid covers the whole context; workgroups past the position, or before the window, have nothing to do.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Q { vec4 q[]; };           // [heads][head_dim / 4]
layout(std430, binding = 2) readonly buffer Keys { vec4 keys[]; };     // [context][kv_heads][head_dim / 4]
layout(std430, binding = 3) writeonly buffer Result { float result[]; }; // [heads][context]
layout(push_constant) uniform Push {
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint context;
    float scale;
    uint window; // positions that a token sees, its own included; the context's length or more for all
} push;

void main() {
    uint t = gl_GlobalInvocationID.x;
    uint head = gl_WorkGroupID.y;
    if (t > state.position || t < first_visible(state.position, push.window)) {
        return;
    }
    uint units = push.head_dim / 4u;
    uint kv_head = head / (push.heads / push.kv_heads);
    uint query = head * units;
    uint key = (t * push.kv_heads + kv_head) * units;
    float sum = 0.0;
    for (uint i = 0u; i < units; i++) {
        sum += dot(q[query + i], keys[key + i]);
    }
    result[head * push.context + t] = push.scale * sum;
}
