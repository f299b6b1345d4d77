// Accesses in called functions count, at any depth; those in a function that nobody calls don't.
// expect 0.0 StorageBuffer One read {0}
// expect 0.1 StorageBuffer One write {0}
// expect 0.2 StorageBuffer One none {}
// expect 0.3 StorageBuffer One both {0}
// expect addresses none
// expect synchronising no
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
layout(set = 0, binding = 3) buffer D { float d[]; };
float fetch(uint i) { return a[i]; }
void put(uint i, float x) { b[i] = x; }
void outer(uint i) { put(i, fetch(i)); }
void nobody(uint i) { c[i] = 1.0; }
void scale(inout float x) { x *= 2.0; }
void main() { outer(gl_GlobalInvocationID.x); scale(d[0]); }
