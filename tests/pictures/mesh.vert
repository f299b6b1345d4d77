#version 450
// A mesh turned by a.x and a.y and seen in perspective; b.x is the picture's width over its height.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(location = 0) in vec4 position;
layout(location = 1) in vec4 colour;
layout(location = 0) out vec4 seen;

void main() {
    float c = cos(push.a.x), s = sin(push.a.x), d = cos(push.a.y), t = sin(push.a.y);
    vec3 p = position.xyz;
    p = vec3(c * p.x + s * p.z, p.y, c * p.z - s * p.x);
    p = vec3(p.x, d * p.y - t * p.z, d * p.z + t * p.y) + vec3(push.a.z, 0.0, 4.0);
    gl_Position = vec4(p.x * 1.6 / push.b.x, p.y * 1.6, (p.z - 1.0) * 1.1, p.z);
    seen = colour;
}
