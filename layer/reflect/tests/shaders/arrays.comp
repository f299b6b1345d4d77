// target vulkan1.2
// Descriptor arrays: a constant index is one element, anything else may be all; a specialization constant is no constant.
// expect 0.0 StorageBuffer Array(4) read {1}
// expect 0.1 StorageBuffer Array(4) write {0,3}
// expect 0.2 StorageBuffer Array(4) read all
// expect 0.3 StorageBuffer Array(4) write all
// expect 0.4 StorageBuffer Runtime read all
// expect 0.5 CombinedImageSampler Array(2) read {1}
// expect 0.6 StorageImage Array(2) write all
// expect 0.7 StorageBuffer One write {0}
// expect addresses none
// expect synchronising no
#version 450
#extension GL_EXT_nonuniform_qualifier : enable
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint chosen = 2;
layout(set = 0, binding = 0) buffer A { float x[]; } a[4];
layout(set = 0, binding = 1) buffer B { float x[]; } b[4];
layout(set = 0, binding = 2) buffer C { float x[]; } c[4];
layout(set = 0, binding = 3) buffer D { float x[]; } d[4];
layout(set = 0, binding = 4) buffer E { float x[]; } e[];
layout(set = 0, binding = 5) uniform sampler2D f[2];
layout(set = 0, binding = 6, rgba32f) uniform image2D g[2];
layout(set = 0, binding = 7) buffer H { float x[8]; } h;
void main() {
    uint i = gl_WorkGroupID.x;
    float x = a[1].x[i] + c[i].x[2] + e[nonuniformEXT(gl_LocalInvocationIndex)].x[0];
    b[0].x[3] = x;
    b[3].x[i] = x;
    d[chosen].x[0] = x;
    imageStore(g[i], ivec2(0), textureLod(f[1], vec2(0), 0));
    h.x[5] = x;
}
