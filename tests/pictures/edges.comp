#version 450
// Reads the image at 3, writes how its brightness changes at each of b.x by b.y texels to 0.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 3) uniform sampler2D picture;
layout(std430, binding = 0) writeonly buffer To { vec4 edges[]; };

vec3 texel(ivec2 at) {
    return texelFetch(picture, clamp(at, ivec2(0), ivec2(push.b.xy) - 1), 0).rgb;
}

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = ivec2(push.b.xy);
    if (any(greaterThanEqual(at, size))) return;
    vec3 across = texel(at + ivec2(1, 0)) - texel(at - ivec2(1, 0));
    vec3 down = texel(at + ivec2(0, 1)) - texel(at - ivec2(0, 1));
    edges[at.y * size.x + at.x] = vec4(abs(across) + abs(down), 1.0);
}
