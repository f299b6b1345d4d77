#version 450
// Reads 0, writes 1: turns each of b.x particles around the middle, the more the farther, towards the next one.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer From { vec4 before[]; };
layout(std430, binding = 1) writeonly buffer To { vec4 after[]; };

void main() {
    uint i = gl_GlobalInvocationID.x, n = uint(push.b.x);
    if (i > n) return;
    if (i == n) {
        after[i] = before[i];
        return;
    }
    vec2 p = mix(before[i].xy, before[(i + 1u) % n].xy, 0.25);
    float r = length(p), turn = 3.0 * r;
    after[i] = vec4(cos(turn) * p.x - sin(turn) * p.y, sin(turn) * p.x + cos(turn) * p.y, before[i].zw);
}
