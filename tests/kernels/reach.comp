#version 450
// Binding 1 from what an address leads to that comes with the push constants.
#extension GL_GOOGLE_include_directive : require
#include "address.glsl"
layout(set = 0, binding = 1, std430) writeonly buffer B1 { uint b1[]; };
void main() {
    if (I < b1.length()) b1[I] = place.v[I] * 1664525u + 1013904223u;
}
