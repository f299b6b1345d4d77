#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/step.glsl"

// Attention of one token with QK norm, RoPE and the write to the cache, in splits; include/fused/attention.glsl says how.
layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Table { vec2 table[]; };
layout(std430, binding = 2) readonly buffer Qkv { float values_in[]; }; // queries, keys, values of this token
layout(std430, binding = 3) readonly buffer QNorm { float q_norm[]; };
layout(std430, binding = 4) readonly buffer KNorm { float k_norm[]; };
layout(std430, binding = 5) buffer Keys { uvec4 keys[]; };
layout(std430, binding = 6) buffer Values { uvec4 values[]; };
layout(std430, binding = 7) coherent buffer Parts { vec4 parts[]; };
layout(std430, binding = 8) coherent buffer Counters { uint counters[]; };
layout(std430, binding = 9) writeonly buffer Result { vec4 result[]; };

layout(push_constant) uniform Push {
    uint heads;
    uint kv_heads;
    uint context;
    uint window;
    float scale;
    float epsilon;
    uint splits;
    uint key_at;
    uint value_at;
} push;

#define T gl_WorkGroupSize.x
#define A_IN(i) values_in[i]
#define A_OUT4(i, v) result[i] = (v)
#define A_PART(i) parts[i]
#define A_KEY(i) keys[i]
#define A_VALUE(i) values[i]
#define A_QNORM(i) q_norm[i]
#define A_KNORM(i) k_norm[i]
#define A_ANGLE(i) table[i]
#define A_ARRIVE(h) atomicAdd(counters[h], 1u)
#define A_RESET(h) atomicExchange(counters[h], 0u)
#define A_RELEASE() memoryBarrierBuffer(); barrier()
#define A_ACQUIRE() barrier(); memoryBarrierBuffer()
#define A_GET(i) merged[i]
#define A_SET(i, v) merged[i] = (v)
#define A_SHARED shared vec4 merged[MERGE_QUADS];
#include "include/fused/attention.glsl"

void main() {
    Attention a = Attention(push.heads, push.kv_heads, push.context, push.window, push.scale, push.epsilon, push.splits,
                            0u, 0u, push.key_at, push.value_at, state.position);
    early(a, gl_WorkGroupID.x, gl_WorkGroupID.y);
    if (gl_WorkGroupID.y < splits_of(a, a.position + 1u - first_position(a)).x) {
        attend(a, gl_WorkGroupID.x, gl_WorkGroupID.y);
    }
}
