#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// The largest logit of each workgroup's part of the vocabulary, with its token: (bits of the value, token). Of equal
// ones the first counts, and a NaN never does.
layout(std430, binding = 0) readonly buffer Logits { float logits[]; };
layout(std430, binding = 1) writeonly buffer Result { uvec2 result[]; };
layout(push_constant) uniform Push { uint count; } push;

shared float best_value[gl_WorkGroupSize.x];
shared uint best_token[gl_WorkGroupSize.x];

#include "include/first_max.glsl"

void main() {
    uint lane = gl_LocalInvocationID.x;
    float value = uintBitsToFloat(0xff800000u); // minus infinity
    uint token = 0xffffffffu;
    uint each = (push.count + gl_NumWorkGroups.x - 1u) / gl_NumWorkGroups.x;
    uint begin = gl_WorkGroupID.x * each;
    uint end = min(begin + each, push.count);
    for (uint i = begin + lane; i < end; i += gl_WorkGroupSize.x) {
        if (precedes(logits[i], i, value, token)) {
            value = logits[i];
            token = i;
        }
    }
    first_max(value, token);
    if (lane == 0u) {
        result[gl_WorkGroupID.x] = uvec2(floatBitsToUint(best_value[0]), best_token[0]);
    }
}
