// What all kernels of the stream player share: one invocation an element, a guard, and one push constant.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint k; };
#define I gl_GlobalInvocationID.x
