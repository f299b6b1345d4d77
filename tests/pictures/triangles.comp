#version 450
// Reads the particles of 0; writes a triangle of three vertices (position, colour) for each to 1, and to 2 the arguments
// of the draw that shows them.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer From { vec4 particles[]; };
layout(std430, binding = 1) writeonly buffer Vertices { vec4 vertices[]; };
layout(std430, binding = 2) writeonly buffer Arguments { uint arguments[4]; };

void main() {
    uint i = gl_GlobalInvocationID.x, n = uint(push.b.x);
    if (i >= n) return;
    vec4 p = particles[i];
    for (uint k = 0u; k < 3u; k++) {
        float turn = 2.0944 * float(k) + 6.2832 * p.z;
        vertices[6u * i + 2u * k] = vec4(p.xy + 0.03 * (1.0 + p.w) * vec2(cos(turn), sin(turn)), 0.0, 1.0);
        vertices[6u * i + 2u * k + 1u] = vec4(0.3 + 0.7 * p.z, 0.9 - 0.6 * p.w, 0.4 + 0.2 * float(k), 1.0);
    }
    if (i == 0u) {
        arguments[0] = 3u * uint(particles[n].x);
        arguments[1] = 1u;
        arguments[2] = 0u;
        arguments[3] = 0u;
    }
}
