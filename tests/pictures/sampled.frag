#version 450
// The texture at binding 3, `a.x` times over, bent by `a.y`.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(binding = 3) uniform sampler2D picture;
layout(location = 0) in vec2 at;
layout(location = 0) out vec4 colour;

void main() {
    vec2 bent = at + push.a.y * vec2(sin(at.y * 9.0), cos(at.x * 7.0));
    colour = vec4(texture(picture, bent * push.a.x).rgb, 1.0);
}
