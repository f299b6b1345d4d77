#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// result = cap * tanh(x / cap): logits of models that bound them. The sign is taken out, so that the exponential is at
// most one and large x gives the cap, not an undefined quotient.
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint count; float cap; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        float v = x[i];
        float e = exp(-2.0 * abs(v) / push.cap);
        float bounded = push.cap * ((1.0 - e) / (1.0 + e));
        result[i] = v < 0.0 ? -bounded : bounded;
    }
}
