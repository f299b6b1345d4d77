#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/batch.glsl"

// The last token's row of a batch: only it goes on to the output head.
layout(std430, binding = 1) readonly buffer X { float x[]; }; // [tokens][width]
layout(std430, binding = 2) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint width; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.width) {
        result[i] = x[(batch.count - 1u) * push.width + i];
    }
}
