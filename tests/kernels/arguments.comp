#version 450
// Writes the arguments of an indirect dispatch of k workgroups to binding 0.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) writeonly buffer B0 { uint b0[]; };
void main() {
    if (I == 0u) {
        b0[0] = k;
        b0[1] = 1u;
        b0[2] = 1u;
    }
}
