#version 450
// One generation of Conway's life on a torus of b.x by b.y cells: reads 0, writes 1.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer From { uint before[]; };
layout(std430, binding = 1) writeonly buffer To { uint after[]; };

void main() {
    uint w = uint(push.b.x), h = uint(push.b.y), i = gl_GlobalInvocationID.x;
    if (i >= w * h) return;
    uint x = i % w, y = i / w, n = 0u;
    for (uint dy = 0u; dy < 3u; dy++)
        for (uint dx = 0u; dx < 3u; dx++)
            n += before[((y + dy + h - 1u) % h) * w + (x + dx + w - 1u) % w];
    n -= before[i];
    after[i] = (n == 3u || (n == 2u && before[i] == 1u)) ? 1u : 0u;
}
