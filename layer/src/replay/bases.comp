#version 450
// Leaves in memory which invocations there were, with which numbers, and how often: see replay/bases.rs.
layout(local_size_x = 32) in;
layout(set = 0, binding = 0, std430) buffer Words { uint words[]; };
layout(push_constant) uniform Push {
    uvec3 groups;
    uint first;
};

void main() {
    const uvec3 at = gl_GlobalInvocationID;
    const uint width = groups.x * gl_WorkGroupSize.x;
    if (at.x >= width || at.y >= groups.y || at.z >= groups.z) return;
    const uvec3 group = gl_WorkGroupID;
    const uint number = group.x + groups.x * (group.y + groups.y * group.z);
    atomicAdd(words[first + at.x + width * (at.y + groups.y * at.z)],
              1u + gl_LocalInvocationIndex + gl_WorkGroupSize.x * number);
}
