// Attention of one token with QK norm, RoPE and the write to the cache, in splits; attention.glsl says how. With CHAINED, what it
// reads comes from a step that no barrier orders before this one, and so do results go to the next (chain.glsl). The including
// file includes scopes.glsl and step.glsl.

layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Table { vec2 table[]; };
layout(std430, binding = 3) readonly buffer QNorm { float q_norm[]; };
layout(std430, binding = 4) readonly buffer KNorm { float k_norm[]; };
layout(std430, binding = 5) buffer Keys { uvec4 keys[]; };
layout(std430, binding = 6) buffer Values { uvec4 values[]; };
layout(std430, binding = 7) BETWEEN buffer Parts { vec4 parts[]; };
layout(std430, binding = 8) BETWEEN buffer Counters { uint counters[]; };
// Queries, keys and values of this token, and what comes of them.
#ifdef CHAINED
layout(std430, binding = 2) BETWEEN readonly buffer Qkv { uint words_in[]; };
layout(std430, binding = 9) BETWEEN writeonly buffer Result { uint result[]; };
#else
layout(std430, binding = 2) readonly buffer Qkv { float values_in[]; };
layout(std430, binding = 9) writeonly buffer Result { vec4 result[]; };
#endif

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

#ifdef CHAINED
#include "chain.glsl"
#endif

#define T gl_WorkGroupSize.x
#ifdef CHAINED
#define A_WORD(i) words_in[i]
#define A_OUT4(i, v) hand_over4(i, v)
#else
#define A_IN(i) values_in[i]
#define A_OUT4(i, v) result[i] = (v)
#endif
#define A_PART(i) parts[i]
#define A_KEY(i) keys[i]
#define A_VALUE(i) values[i]
#define A_QNORM(i) q_norm[i]
#define A_KNORM(i) k_norm[i]
#define A_ANGLE(i) table[i]
#define A_COUNTER(h) counters[h]
#include "arrive.glsl"
#define A_GET(i) merged[i]
#define A_SET(i, v) merged[i] = (v)
#define A_SHARED shared vec4 merged[MERGE_QUADS];
#include "attention.glsl"

void main() {
    Attention a = Attention(push.heads, push.kv_heads, push.context, push.window, push.scale, push.epsilon, push.splits,
                            0u, 0u, push.key_at, push.value_at, state.position);
    early(a, gl_WorkGroupID.x, gl_WorkGroupID.y);
    if (gl_WorkGroupID.y < splits_of(a, a.position + 1u - first_position(a)).x) {
        attend(a, gl_WorkGroupID.x, gl_WorkGroupID.y);
    }
}
