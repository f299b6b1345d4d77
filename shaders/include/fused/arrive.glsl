// Counting arrivals in the Vulkan memory model. The including file defines A_COUNTER(h), an lvalue in a buffer.

// Release and acquire do nothing about availability and visibility unless they say so.
const int RELEASE = gl_SemanticsRelease | gl_SemanticsMakeAvailable;
const int ACQUIRE = gl_SemanticsAcquire | gl_SemanticsMakeVisible;
const int BOTH = gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible;
const int STORAGE = gl_StorageSemanticsBuffer | gl_StorageSemanticsShared;

#define A_ARRIVE(h) atomicAdd(A_COUNTER(h), 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, BOTH)
#define A_RESET(h) atomicStore(A_COUNTER(h), 0u, gl_ScopeDevice, gl_StorageSemanticsBuffer, RELEASE)
// The one invocation that arrives makes what all wrote available to the device, and what others wrote visible to all: both carry
// over. A barrier of the device by every invocation took an NVIDIA H200 a microsecond more.
#define A_RELEASE() controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, STORAGE, BOTH)
#define A_ACQUIRE() controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, STORAGE, BOTH)
