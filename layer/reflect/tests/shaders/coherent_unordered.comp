// A coherent access without ordering, and a coherent image that nobody touches beside a barrier of the workgroup.
// expect 0.0 StorageBuffer One write {0}
// expect 0.1 StorageImage One none {}
// expect addresses none
// expect synchronising no
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) coherent buffer A { uint a[]; };
layout(set = 0, binding = 1, r32f) coherent uniform image2D b;
void main() { a[0] = 1; barrier(); }
