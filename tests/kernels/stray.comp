#version 450
// As point, but where it begins within the buffer is read from memory: nobody knows when it is recorded.
#extension GL_GOOGLE_include_directive : require
#include "address.glsl"
layout(set = 0, binding = 0, std430) readonly buffer B0 { uint b0[]; };
void main() {
    place.v[b0[0] + k + I] = I * 2246822519u + 1u;
}
