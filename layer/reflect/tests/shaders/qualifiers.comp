// readonly and writeonly are promises about one variable: the accesses decide, and both variables of a binding count.
// expect 0.0 StorageBuffer One both {0}
// expect 0.1 StorageBuffer One none {}
// expect 0.2 StorageBuffer One read {0}
// expect addresses none
// expect synchronising no
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 0) writeonly buffer A4 { vec4 a4[]; };
layout(set = 0, binding = 1) writeonly buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
void main() { a4[0] = vec4(a[17] + c[0]); }
