// Each direction beside its opposite, and the two ways of naming a buffer without touching its memory.
// expect 0.0 StorageBuffer One read {0}
// expect 0.1 StorageBuffer One write {0}
// expect 0.2 StorageBuffer One both {0}
// expect 0.3 StorageBuffer One none {}
// expect 0.4 StorageBuffer Array(1) none {}
// expect 0.5 UniformBuffer One read {0}
// expect 1.0 StorageBuffer One write {0}
// expect addresses none
// expect synchronising no
#version 450
#extension GL_EXT_nonuniform_qualifier : enable
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
layout(set = 0, binding = 3) buffer D { float d[]; };
layout(set = 0, binding = 4) buffer E { float e[]; } unused[];
layout(set = 0, binding = 5) uniform U { uint n; };
layout(set = 1, binding = 0) buffer F { float f[]; };
layout(push_constant) uniform P { uint offset; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= n || i >= d.length()) { return; }
    b[i] = a[i + offset];
    c[i] += 1.0;
    f[i] = 0.0;
}
