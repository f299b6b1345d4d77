#version 450
#extension GL_GOOGLE_include_directive : require
// family: rope
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// Rotary position embedding of the "normal" kind (llama): elements 2i and 2i+1 of each head turn by the angle
// position * base^(-2i / rope_dim). Elements past rope_dim pass through.
//
// Cosines and sines come from a table that the host computes in double precision: Vulkan bounds the error of its own
// cos and sin only between -pi and pi, and loosely there.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Table { vec2 table[]; }; // [context][rope_dim / 2] of (cos, sin)
layout(std430, binding = 2) readonly buffer X { vec2 x[]; };         // [heads][head_dim / 2]
layout(std430, binding = 3) writeonly buffer Result { vec2 result[]; };
layout(push_constant) uniform Push { uint heads; uint head_dim; uint rope_dim; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint pairs = push.head_dim / 2u;
    if (i < push.heads * pairs) {
        uint pair = i % pairs;
        vec2 v = x[i];
        if (pair < push.rope_dim / 2u) {
            vec2 t = table[state.position * (push.rope_dim / 2u) + pair];
            v = vec2(v.x * t.x - v.y * t.y, v.x * t.y + v.y * t.x);
        }
        result[i] = v;
    }
}
