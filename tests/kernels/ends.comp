#version 450
// Where the two ends of binding 0 differ, to binding 1: of memory that is all alike there is nothing to see.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) readonly buffer B0 { uint b0[]; };
layout(set = 0, binding = 1, std430) writeonly buffer B1 { uint b1[]; };
void main() {
    uint n = b0.length();
    if (I < n && I < b1.length()) b1[I] = b0[I] ^ b0[n - 1u - I];
}
