#version 450
// Two variables on binding 0, one read and one written, as llama.cpp declares them for vector loads.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Read { uint from[]; };
layout(set = 0, binding = 0, std430) writeonly buffer Write { uint to[]; };
void main() {
    if (I < from.length()) to[I] = from[I] * 747796405u + k;
}
