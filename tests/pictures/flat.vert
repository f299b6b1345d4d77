#version 450
// Vertices as they lie in the buffer: position, then colour.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(location = 0) in vec4 position;
layout(location = 1) in vec4 colour;
layout(location = 0) out vec4 seen;

void main() {
    gl_Position = position;
    seen = colour;
}
