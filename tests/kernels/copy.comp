#version 450
// Binding 0 to binding 1.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) readonly buffer B0 { uint b0[]; };
layout(set = 0, binding = 1, std430) writeonly buffer B1 { uint b1[]; };
void main() {
    if (I < b0.length() && I < b1.length()) b1[I] = b0[I];
}
