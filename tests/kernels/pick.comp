#version 450
// Reads the element of an array of buffers that the push constant names, and writes binding 0.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) writeonly buffer B0 { uint b0[]; };
layout(set = 0, binding = 1, std430) readonly buffer B1 { uint v[]; } many[4];
void main() {
    if (I < b0.length()) b0[I] = many[k].v[I] * 747796405u + k;
}
