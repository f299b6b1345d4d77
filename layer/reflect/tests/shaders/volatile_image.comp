// A volatile image and a device-wide barrier.
// expect 0.0 StorageImage One read {0}
// expect 0.1 StorageBuffer One write {0}
// expect addresses none
// expect synchronising yes
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, r32ui) volatile uniform uimage2D flag;
layout(set = 0, binding = 1) buffer B { uint b[]; };
void main() { while (imageLoad(flag, ivec2(0)).x == 0) { } memoryBarrierImage(); b[0] = 1; }
