#version 450
// Writes one element an invocation from element k on, by an address that comes with the push constants.
#extension GL_GOOGLE_include_directive : require
#include "address.glsl"
void main() {
    place.v[k + I] = I * 2246822519u + 1u;
}
