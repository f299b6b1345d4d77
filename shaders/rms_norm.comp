#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/reduce.glsl"

// result = x / sqrt(mean(x^2) + epsilon), by one workgroup. The learned weight is a multiplication of its own.
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint count; float epsilon; } push;

void main() {
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < push.count; i += gl_WorkGroupSize.x) {
        float v = x[i];
        sum += v * v;
    }
    float scale = 1.0 / sqrt(workgroup_sum(sum) / float(push.count) + push.epsilon);
    for (uint i = gl_LocalInvocationID.x; i < push.count; i += gl_WorkGroupSize.x) {
        result[i] = x[i] * scale;
    }
}
