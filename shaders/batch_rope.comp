#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/batch.glsl"

// Rotary position embedding of a batch's queries or keys, tokens along y; otherwise as in rope.comp and rope_neox.comp.
layout(constant_id = 13) const bool NEOX = false;
layout(std430, binding = 1) readonly buffer Table { vec2 table[]; }; // [context][rope_dim / 2] of (cos, sin)
layout(std430, binding = 2) readonly buffer X { float x[]; };        // [tokens][heads][head_dim]
layout(std430, binding = 3) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint heads; uint head_dim; uint rope_dim; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint token = gl_WorkGroupID.y;
    uint pairs = push.head_dim / 2u;
    if (token >= batch.count || i >= push.heads * pairs) {
        return;
    }
    uint pair = i % pairs;
    uint head = (token * push.heads + i / pairs) * push.head_dim;
    uint turned = push.rope_dim / 2u;
    uint a = head + 2u * pair;
    uint b = a + 1u;
    if (NEOX && pair < turned) {
        a = head + pair;
        b = a + turned;
    }
    vec2 v = vec2(x[a], x[b]);
    if (pair < turned) {
        vec2 t = table[(batch.first_position + token) * turned + pair];
        v = vec2(v.x * t.x - v.y * t.y, v.x * t.y + v.y * t.x);
    }
    result[a] = v.x;
    result[b] = v.y;
}
