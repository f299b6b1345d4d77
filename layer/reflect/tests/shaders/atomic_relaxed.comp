// Plain atomics and a workgroup barrier are ordinary accesses.
// expect 0.0 StorageBuffer One both {0}
// expect addresses none
// expect synchronising no
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { uint a[]; };
shared uint counter;
void main() { counter = 0; barrier(); atomicAdd(counter, 1); barrier(); atomicAdd(a[0], counter); }
