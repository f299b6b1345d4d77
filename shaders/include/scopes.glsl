// Barriers and atomics with their scope said, for the Vulkan memory model, which the including file asks for and says so with
// VULKAN_MODEL, and for the older one, where what others read or write is `coherent` instead of `nonprivate`.
//
// One invocation releases what all of its workgroup wrote and acquires for all: a barrier of the workgroup before the one and after
// the other carries both over. A barrier of the device by every invocation took an NVIDIA H200 a microsecond more.

#ifdef VULKAN_MODEL
#define BETWEEN nonprivate
// Release and acquire do nothing about availability and visibility there unless they say so.
const int RELEASE = gl_SemanticsRelease | gl_SemanticsMakeAvailable;
const int ACQUIRE = gl_SemanticsAcquire | gl_SemanticsMakeVisible;
const int BOTH = gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible;
#else
#define BETWEEN coherent
const int RELEASE = gl_SemanticsRelease;
const int ACQUIRE = gl_SemanticsAcquire;
const int BOTH = gl_SemanticsAcquireRelease;
#endif
const int STORAGE = gl_StorageSemanticsBuffer | gl_StorageSemanticsShared;

// All of the workgroup.
void workgroup_barrier() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, STORAGE, BOTH);
}
