#version 450
// Reads binding 0 of set 0 and writes binding 0 of set 1: sets that come with layouts of their own.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) readonly buffer B0 { uint b0[]; };
layout(set = 1, binding = 0, std430) writeonly buffer B1 { uint b1[]; };
void main() {
    if (I < b0.length() && I < b1.length()) b1[I] = b0[I] * 1664525u + 1013904223u + k;
}
