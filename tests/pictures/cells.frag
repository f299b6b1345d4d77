#version 450
// The field at binding 0, b.x cells wide and b.y high, in the colour of a.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(std430, binding = 0) readonly buffer Field { uint cells[]; };
layout(location = 0) in vec2 at;
layout(location = 0) out vec4 colour;

void main() {
    uvec2 size = uvec2(push.b.xy);
    uvec2 cell = min(uvec2(at * push.b.xy), size - 1u);
    colour = vec4(push.a.rgb * float(cells[cell.y * size.x + cell.x]), push.a.w);
}
