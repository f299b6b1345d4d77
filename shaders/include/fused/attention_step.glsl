// Attention of one token with QK norm, RoPE and the write to the cache, in splits; attention.glsl says how. With CHAINED, what it
// reads comes from a step that no barrier orders before this one, and so do results go to the next (chain.glsl). The including
// file includes scopes.glsl and step.glsl.

#define QKV float
#include "attention_buffers.glsl"

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
#define A_ANGLE(i) angles[i]
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
