#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// result = factor * x: embeddings of models that scale them.
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint count; float factor; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        result[i] = push.factor * x[i];
    }
}
