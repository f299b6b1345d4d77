// target vulkan1.2
// The partner of addresses.comp: nothing is written through an address.
// expect 0.1 StorageBuffer One write {0}
// expect addresses read
// expect synchronising no
#version 450
#extension GL_EXT_buffer_reference : enable
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Data { float x[]; };
layout(push_constant) uniform P { Data data; };
layout(set = 0, binding = 1) buffer B { float b[]; };
void main() { Data local = data; b[0] = local.x[gl_LocalInvocationIndex]; }
