#version 450
// Reads 0, writes to 1 the mean of nine texels in the direction of a.xy, in a picture of b.x by b.y.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) readonly buffer From { vec4 before[]; };
layout(std430, binding = 1) writeonly buffer To { vec4 after[]; };

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = ivec2(push.b.xy);
    if (any(greaterThanEqual(at, size))) return;
    vec4 sum = vec4(0.0);
    for (int k = -4; k <= 4; k++) {
        ivec2 there = clamp(at + k * ivec2(push.a.xy), ivec2(0), size - 1);
        sum += before[there.y * size.x + there.x];
    }
    after[at.y * size.x + at.x] = sum / 9.0;
}
