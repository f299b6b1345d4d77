#version 450
// Rings and bars, coloured by a.rgb; a.w turns the bars, b.x sets how many rings there are.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(location = 0) in vec2 at;
layout(location = 0) out vec4 colour;

void main() {
    vec2 p = at * 2.0 - 1.0;
    float ring = step(0.5, fract(length(p - vec2(0.2, -0.1)) * push.b.x));
    float bar = step(0.5, fract((p.x * push.a.w + p.y) * 4.0));
    colour = vec4(push.a.rgb * mix(0.35, 1.0, ring) + vec3(0.25, 0.0, 0.3) * bar * at.y, 1.0);
}
