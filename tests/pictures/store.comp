#version 450
// Writes what 0 holds for a picture of b.x by b.y into the image at 5.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) readonly buffer From { vec4 before[]; };
layout(binding = 5, rgba8) uniform writeonly image2D picture;

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = ivec2(push.b.xy);
    if (any(greaterThanEqual(at, size))) return;
    imageStore(picture, at, vec4(min(before[at.y * size.x + at.x].rgb * 2.0, 1.0), 1.0));
}
