#version 450
// A relaxed atomic on binding 0: an ordinary read and write, though its order does not show in the result.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) buffer B0 { uint b0[]; };
void main() {
    if (I < b0.length()) atomicAdd(b0[I], k + 1u);
}
