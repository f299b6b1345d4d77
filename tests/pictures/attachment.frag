#version 450
// What the subpass before drew here, in other colours.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(input_attachment_index = 0, binding = 6) uniform subpassInput before;
layout(location = 0) in vec2 at;
layout(location = 0) out vec4 colour;

void main() {
    vec3 was = subpassLoad(before).rgb;
    colour = vec4(was.gbr * (1.0 - length(at - 0.5)), 1.0);
}
