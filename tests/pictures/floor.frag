#version 450
// A floor to the horizon with the texture at binding 3: near it reads large mip levels, far away small ones.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(binding = 3) uniform sampler2D picture;
layout(location = 0) in vec2 at;
layout(location = 0) out vec4 colour;

void main() {
    float depth = 1.0 / (at.y + 0.02);
    colour = vec4(texture(picture, vec2((at.x - 0.5) * depth, depth)).rgb, 1.0);
}
