#version 450
// Bindings 0 and 1 are read, their sum goes to binding 2.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) readonly buffer B0 { uint b0[]; };
layout(set = 0, binding = 1, std430) readonly buffer B1 { uint b1[]; };
layout(set = 0, binding = 2, std430) writeonly buffer B2 { uint b2[]; };
void main() {
    if (I < b0.length() && I < b1.length() && I < b2.length()) b2[I] = b0[I] + b1[I];
}
