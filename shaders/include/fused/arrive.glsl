// Counting the arrivals of splits, whichever memory model. The including file defines A_COUNTER(h), an lvalue in a buffer.

#define A_ARRIVE(h) atomicAdd(A_COUNTER(h), 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, BOTH)
#define A_RESET(h) atomicStore(A_COUNTER(h), 0u, gl_ScopeDevice, gl_StorageSemanticsBuffer, RELEASE)
#define A_RELEASE() workgroup_barrier()
#define A_ACQUIRE() workgroup_barrier()
