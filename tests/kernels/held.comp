#version 450
// As point, but by an address of which a part is read from memory: it may be any.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "address.glsl"
layout(set = 0, binding = 0, std430) readonly buffer B0 { uint b0[]; };
void main() {
    const uvec2 given = uvec2(place);
    Place(uvec2(given.x + 4u * b0[0], given.y)).v[k + I] = I * 2246822519u + 1u;
}
