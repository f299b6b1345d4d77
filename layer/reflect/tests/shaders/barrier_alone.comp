// A device-wide memory barrier orders nothing between dispatches when no access is atomic, volatile or coherent;
// an atomic on shared memory is none of storage memory.
// expect 0.0 StorageBuffer One both {0}
// expect addresses none
// expect synchronising no
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { uint a[]; };
shared uint counter;
void main() { atomicAdd(counter, 1); memoryBarrier(); a[0] += counter; }
