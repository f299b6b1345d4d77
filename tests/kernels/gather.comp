#version 450
// Reads binding 0 where binding 1 says, and writes binding 2: no range tighter than the descriptors is known.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) readonly buffer B0 { uint b0[]; };
layout(set = 0, binding = 1, std430) readonly buffer B1 { uint b1[]; };
layout(set = 0, binding = 2, std430) writeonly buffer B2 { uint b2[]; };
void main() {
    if (I < b1.length() && I < b2.length()) b2[I] = b0[b1[I] % b0.length()] + k;
}
