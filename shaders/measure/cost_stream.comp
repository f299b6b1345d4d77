#version 450
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// Work of a chosen size, to stand before and behind a barrier that is timed: reads `reads` and writes `writes` units of
// 16 bytes. Its results mean nothing.
layout(set = 0, binding = 0, std430) readonly buffer Source { uvec4 source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Sink { uvec4 sink[]; };

layout(push_constant) uniform Push {
    uint read_at;
    uint reads;
    uint write_at;
    uint writes;
} push;

void main() {
    uint me = gl_GlobalInvocationID.x;
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    uvec4 sum = uvec4(me);
    for (uint i = me; i < push.reads; i += stride) {
        sum ^= source[push.read_at + i];
    }
    for (uint i = me; i < push.writes; i += stride) {
        sink[push.write_at + i] = sum;
    }
    // The source holds zeros, so this never happens; but no compiler knows, and so none leaves the reads out.
    if (sum == uvec4(0xffffffffu)) {
        sink[push.write_at] = sum;
    }
}
