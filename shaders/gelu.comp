#version 450
#extension GL_GOOGLE_include_directive : require
// family: activation
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// result = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), written with one exponential: 1 + tanh(y) is
// 2 / (1 + exp(-2y)). For very negative x the exponential is infinite and the quotient a correct zero.
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint count; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        float v = x[i];
        float y = 0.7978845608028654 * v * (1.0 + 0.044715 * v * v);
        result[i] = v / (1.0 + exp(-2.0 * y));
    }
}
