// An atomic and a device-wide memory barrier: the last-workgroup pattern of reductions.
// expect 0.0 StorageBuffer One both {0}
// expect 0.1 StorageBuffer One write {0}
// expect addresses none
// expect synchronising yes
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { uint a[]; };
layout(set = 0, binding = 1) buffer B { uint b[]; };
void main() { b[0] = 1; memoryBarrierBuffer(); atomicAdd(a[0], 1); }
