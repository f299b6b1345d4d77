// What the kernels share that reach memory by an address: it stands behind the push constant of the others.
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Place { uint v[]; };
layout(push_constant) uniform Push { uint k; Place place; };
#define I gl_GlobalInvocationID.x
