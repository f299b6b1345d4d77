// What both kernels of attention read and write. The including file defines QKV, the type as which it reads queries, keys and values
// where they do not come word by word.

layout(std430, binding = 0) readonly buffer Step { StepState state; };
layout(std430, binding = 1) readonly buffer Angles { vec2 angles[]; }; // cosines and sines, of this position or of all
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
layout(std430, binding = 2) readonly buffer Qkv { QKV values_in[]; };
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
