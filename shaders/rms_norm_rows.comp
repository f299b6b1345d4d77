#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/reduce.glsl"

// RMS norm of each row by a workgroup of its own: queries or keys, head by head. The learned weight is a multiplication
// of its own.
layout(std430, binding = 0) readonly buffer X { float x[]; };            // [rows][width]
layout(std430, binding = 1) writeonly buffer Result { float result[]; }; // [rows][width]
layout(push_constant) uniform Push { uint width; float epsilon; } push;

void main() {
    uint row = gl_WorkGroupID.x * push.width;
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < push.width; i += gl_WorkGroupSize.x) {
        float v = x[row + i];
        sum += v * v;
    }
    float scale = 1.0 / sqrt(workgroup_sum(sum) / float(push.width) + push.epsilon);
    for (uint i = gl_LocalInvocationID.x; i < push.width; i += gl_WorkGroupSize.x) {
        result[row + i] = x[row + i] * scale;
    }
}
