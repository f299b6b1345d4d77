#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// result[i] = sum of the elements of x number i, i + n, i + 2n and so on up to sixteen, for n invocations: memory read as fast
// as it comes, which other kernels are compared with.
layout(std430, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, binding = 1) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint count; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint n = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    vec4 v[16];
    [[unroll]] for (uint k = 0u; k < 16u; k++) {
        v[k] = i + k * n < push.count ? x[i + k * n] : vec4(0.0);
    }
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint k = 0u; k < 16u; k++) {
        sum += v[k];
    }
    result[i] = (sum.x + sum.y) + (sum.z + sum.w);
}
