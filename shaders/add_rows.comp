#version 450
#extension GL_GOOGLE_include_directive : require
// family: rowwise
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// Biases that all tokens of a batch share: result[row][i] = a[row][i] + b[i].
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint count; uint width; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        result[i] = a[i] + b[i % push.width];
    }
}
