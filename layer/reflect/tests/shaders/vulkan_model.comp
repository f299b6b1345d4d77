// target vulkan1.2
// The Vulkan memory model spells coherence as operands of each access: a release that hands data on.
// expect 0.0 StorageBuffer One write {0}
// expect 0.1 StorageBuffer One both {0}
// expect addresses none
// expect synchronising yes
#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : enable
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { uint a[]; };
layout(set = 0, binding = 1) buffer B { uint b[]; };
void main() {
    a[0] = 1;
    atomicAdd(b[0], 1u, gl_ScopeQueueFamily, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
}
