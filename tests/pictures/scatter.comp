#version 450
// Writes to 0: as many particles as b.x says, each with a place and a colour, and their number into the last element.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 64) in;
layout(std430, binding = 0) writeonly buffer To { vec4 particles[]; };

void main() {
    uint i = gl_GlobalInvocationID.x, n = uint(push.b.x);
    if (i > n) return;
    uint r = mix32(i + 1u);
    particles[i] = i == n ? vec4(float(n)) : vec4(vec2(r & 0xffffu, r >> 16) / 32768.0 - 1.0, vec2(mix32(r) & 0xffffu, mix32(r) >> 16) / 65536.0);
}
