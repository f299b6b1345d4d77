#version 450
// Counts at each place how often its invocation was there, by the one number that most kernels look at: see replay/bases.rs.
layout(local_size_x = 32) in;
layout(set = 0, binding = 0, std430) buffer Words { uint words[]; };
layout(push_constant) uniform Push {
    uvec3 groups;
    uint first;
};

void main() {
    const uint at = gl_GlobalInvocationID.x;
    if (at < groups.x * 32u) words[first + at] += 1u + at;
}
