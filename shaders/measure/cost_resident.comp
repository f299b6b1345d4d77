#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// The work of cost_stream many times over in one dispatch, with a barrier of one atomic counter between the steps. All
// workgroups must be resident at once; where they are not, the bounded wait ends and `failed` says so.
layout(constant_id = 29) const bool BARRIERS = true;
layout(constant_id = 31) const uint SPINS = 4000000;

layout(set = 0, binding = 0, std430) readonly buffer Source { uvec4 source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Sink { uvec4 sink[]; };
layout(set = 0, binding = 2, std430) buffer Control {
    uint passed; // arrivals at barriers
    uint failed; // set by whoever gave up
} control;

layout(push_constant) uniform Push {
    uint window; // units of 16 bytes that the steps walk through, a multiple of `reads`
    uint reads;
    uint write_step; // units between the places that two steps in turn write
    uint writes;
    uint steps;
} push;

// In this memory model release and acquire do nothing about availability and visibility unless they say so.
const int RELEASE = gl_SemanticsRelease | gl_SemanticsMakeAvailable;
const int ACQUIRE = gl_SemanticsAcquire | gl_SemanticsMakeVisible;
const int BOTH = gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible;
const int STORAGE = gl_StorageSemanticsBuffer | gl_StorageSemanticsShared;

shared bool gone;

// Waits until all workgroups have arrived `awaited` times together; false if that took too long, here or elsewhere.
bool all_arrived(uint awaited) {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, STORAGE, BOTH);
    if (gl_LocalInvocationID.x == 0u) {
        atomicAdd(control.passed, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, RELEASE);
        bool lost = true;
        for (uint i = 0u; i < SPINS; i++) {
            if (atomicLoad(control.passed, gl_ScopeDevice, 0, 0) >= awaited) {
                lost = false;
                break;
            }
            if ((i & 1023u) == 1023u && atomicLoad(control.failed, gl_ScopeDevice, 0, 0) != 0u) {
                break;
            }
        }
        if (lost) {
            atomicStore(control.failed, 1u, gl_ScopeDevice, 0, 0);
        }
        gone = lost;
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, ACQUIRE);
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, STORAGE, BOTH);
    return !gone;
}

void main() {
    uint me = gl_GlobalInvocationID.x;
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    uint read_at = 0u;
    for (uint s = 0u; s < push.steps; s++) {
        uvec4 sum = uvec4(me);
        for (uint i = me; i < push.reads; i += stride) {
            sum ^= source[read_at + i];
        }
        uint write_at = (s & 1u) * push.write_step;
        for (uint i = me; i < push.writes; i += stride) {
            sink[write_at + i] = sum;
        }
        if (sum == uvec4(0xffffffffu)) {
            sink[write_at] = sum;
        }
        read_at += push.reads;
        if (read_at >= push.window) {
            read_at = 0u;
        }
        if (BARRIERS && !all_arrived((s + 1u) * gl_NumWorkGroups.x)) {
            return;
        }
    }
}
