#version 450
// The vertices' colours.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(location = 0) in vec4 seen;
layout(location = 0) out vec4 colour;

void main() {
    colour = seen;
}
