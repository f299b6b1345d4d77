#version 450
// Reads one element an invocation from element k on, by an address that comes with the push constants, and writes what it
// makes of it to binding 0.
#extension GL_GOOGLE_include_directive : require
#include "address.glsl"
layout(set = 0, binding = 0, std430) writeonly buffer B0 { uint b0[]; };
void main() {
    if (I < b0.length()) b0[I] = place.v[k + I] * 1664525u + 1013904223u;
}
