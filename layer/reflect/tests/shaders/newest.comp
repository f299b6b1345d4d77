// target vulkan1.3
// SPIR-V 1.6: descriptors stand in the entry point's interface.
// expect 0.0 StorageBuffer One read {0}
// expect 0.1 StorageBuffer One write {0}
// expect 0.2 StorageBuffer One none {}
// expect addresses none
// expect synchronising no
#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
void main() { b[0] = a[0]; }
