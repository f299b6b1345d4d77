#version 450
#extension GL_GOOGLE_include_directive : require
// variants: FLOATS- KEYS- VALUES-
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/batch.glsl"

// Stores a batch's keys or values in the cache: floats as the plain kernels keep them, [context][kv_heads][head_dim], or
// halves as fused attention does, eight to a uvec4: keys [kv_head][head_dim / 8][context], values
// [kv_head][context][head_dim / 8]. One invocation for eight elements (floats: four), tokens along y.
layout(std430, binding = 1) readonly buffer X { vec4 x[]; };
#ifdef FLOATS
layout(std430, binding = 2) writeonly buffer Cache { vec4 cache[]; };
#else
layout(std430, binding = 2) writeonly buffer Cache { uvec4 cache[]; };
#endif
layout(push_constant) uniform Push { uint kv_heads; uint head_dim; uint context; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint token = gl_WorkGroupID.y;
    uint position = batch.first_position + token;
#ifdef FLOATS
    uint each = push.kv_heads * push.head_dim / 4u;
    if (token < batch.count && position < push.context && i < each) {
        cache[position * each + i] = x[token * each + i];
    }
#else
    uint octets = push.head_dim / 8u;
    if (token < batch.count && position < push.context && i < push.kv_heads * octets) {
        vec4 a = x[2u * (token * push.kv_heads * octets + i)];
        vec4 b = x[2u * (token * push.kv_heads * octets + i) + 1u];
        uvec4 halves = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
        uint head = i / octets;
        uint o = i % octets;
#ifdef KEYS
        cache[(head * octets + o) * push.context + position] = halves;
#else
        cache[(head * push.context + position) * octets + o] = halves;
#endif
    }
#endif
}
