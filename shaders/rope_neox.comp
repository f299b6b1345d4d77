#version 450
#extension GL_GOOGLE_include_directive : require
// family: rope
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// Rotary position embedding of the "neox" kind (qwen, gemma): elements i and i + rope_dim / 2 of each head turn by the
// angle position * base^(-2i / rope_dim). Elements past rope_dim pass through. As in rope.comp, the host computes the
// cosines and sines. An invocation serves two elements.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Table { vec2 table[]; }; // [context][rope_dim / 2] of (cos, sin)
layout(std430, binding = 2) readonly buffer X { float x[]; };        // [heads][head_dim]
layout(std430, binding = 3) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint heads; uint head_dim; uint rope_dim; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint pairs = push.head_dim / 2u;
    if (i < push.heads * pairs) {
        uint pair = i % pairs;
        uint head = (i / pairs) * push.head_dim;
        uint half_dim = push.rope_dim / 2u;
        if (pair < half_dim) {
            vec2 t = table[state.position * half_dim + pair];
            float a = x[head + pair];
            float b = x[head + pair + half_dim];
            result[head + pair] = a * t.x - b * t.y;
            result[head + pair + half_dim] = a * t.y + b * t.x;
        } else {
            result[head + 2u * pair] = x[head + 2u * pair];
            result[head + 2u * pair + 1u] = x[head + 2u * pair + 1u];
        }
    }
}
