#version 450
// One triangle that covers the picture; `at` goes from 0 to 1 over it.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(location = 0) out vec2 at;

void main() {
    at = vec2((gl_VertexIndex << 1) & 2, gl_VertexIndex & 2);
    gl_Position = vec4(at * 2.0 - 1.0, 0.0, 1.0);
}
