#version 450
// Writes a coherent buffer and then orders memory: such a dispatch may be talking to someone else.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) coherent buffer B0 { uint b0[]; };
void main() {
    if (I < b0.length()) {
        b0[I] = I + k;
        memoryBarrierBuffer();
        atomicAdd(b0[I], 1u);
    }
}
