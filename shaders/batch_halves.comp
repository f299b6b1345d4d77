#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/batch.glsl"

// The vectors of a batch as halves, for cooperative matrices. Each is multiplied with the power of two that brings its largest
// element between 2^14 and 2^15, so that nothing overflows and only what is 2^-28 of the largest and less is a subnormal half;
// what undoes that stands before it. One workgroup for each token.
layout(std430, binding = 1) readonly buffer X { vec4 x[]; };            // [tokens][columns / 4]
layout(std430, binding = 2) writeonly buffer Result { uvec4 result[]; }; // [tokens][1 + columns / 8]
layout(push_constant) uniform Push { uint columns; } push;

const uint T = gl_WorkGroupSize.x;

shared float largest[T];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint token = gl_WorkGroupID.x;
    if (token >= batch.count) {
        return;
    }
    uint quads = push.columns / 4u;
    uint from = token * quads;
    float most = 0.0;
    for (uint i = lane; i < quads; i += T) {
        vec4 v = abs(x[from + i]);
        most = max(most, max(max(v.x, v.y), max(v.z, v.w)));
    }
    largest[lane] = most;
    for (uint half_size = T / 2u; half_size > 0u; half_size /= 2u) {
        barrier();
        if (lane < half_size) {
            largest[lane] = max(largest[lane], largest[lane + half_size]);
        }
    }
    barrier();
    // 2^e is the largest power of two in it; both factors are normal for every e that is taken.
    uint e = clamp(floatBitsToUint(largest[0]) >> 23, 15u, 254u);
    float scale = uintBitsToFloat((268u - e) << 23);
    uint octets = (push.columns + 7u) / 8u;
    uint to = token * (octets + 1u);
    if (lane == 0u) {
        result[to] = uvec4(floatBitsToUint(uintBitsToFloat((e - 14u) << 23)), 0u, 0u, 0u);
    }
    for (uint i = lane; i < octets; i += T) {
        vec4 a = scale * x[from + 2u * i];
        vec4 b = vec4(0.0);
        if (2u * i + 1u < quads) {
            b = scale * x[from + 2u * i + 1u];
        }
        result[to + 1u + i] = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
    }
}
