// The extended instructions with a second result.
// expect 0.0 StorageBuffer One read {0}
// expect 0.1 StorageBuffer One write {0}
// expect 0.2 StorageBuffer One write {0}
// expect addresses none
// expect synchronising no
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { int c[]; };
void main() { modf(a[0], b[0]); frexp(a[1], c[0]); }
