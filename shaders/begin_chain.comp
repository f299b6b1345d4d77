#version 450
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// Empties the words that a chain of steps hands over in (include/fused/chain.glsl), before a token.
layout(std430, binding = 0) writeonly buffer Words { uvec4 words[]; };

layout(push_constant) uniform Push {
    uint count; // words, four at a time
} push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        words[i] = uvec4(0xffffffffu);
    }
}
