#version 450
// Writes one element an invocation from element k on, whatever is bound: only the shader says where.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(set = 0, binding = 0, std430) writeonly buffer B0 { uint b0[]; };
void main() {
    b0[k + I] = I * 2246822519u + 1u;
}
