// target vulkan1.0
// SPIR-V 1.0 spells a storage buffer as a uniform with BufferBlock.
// expect 0.0 StorageBuffer One read {0}
// expect 0.1 StorageBuffer One write {0}
// expect 0.2 UniformBuffer One read {0}
// expect addresses none
// expect synchronising no
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(set = 0, binding = 2) uniform U { float u; };
void main() { b[0] = a[0] * u; }
