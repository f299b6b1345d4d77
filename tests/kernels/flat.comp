#version 450
// The push constant, everywhere in binding 0.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) writeonly buffer B0 { uint b0[]; };
void main() {
    if (I < b0.length()) b0[I] = k;
}
