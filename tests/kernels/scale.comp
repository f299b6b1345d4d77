#version 450
// Binding 0 is read and written; two of these with different k do not commute.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) buffer B0 { uint b0[]; };
void main() {
    if (I < b0.length()) b0[I] = b0[I] * (2u * k + 3u) + I + 1u;
}
