#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/batch.glsl"

// Stores a batch's keys or values in the cache as attention on cooperative matrices keeps it (include/fused/attention_coop.glsl): blocks
// of M positions by K dimensions of keys, of M dimensions by K positions of values, in the device's own order of a block's elements.
// One invocation for each word of the blocks that hold the batch's positions, along x, and a row of blocks along y: an element's
// neighbour in a word may be another position's.
layout(constant_id = 48) const bool VALUES = false;
layout(constant_id = 45) const uint M = 16;
layout(constant_id = 47) const uint K = 16;
layout(std430, binding = 1) readonly buffer X { float x[]; };      // [tokens][kv_heads][head_dim]
layout(std430, binding = 2) readonly buffer Order { uint order[]; }; // the place, row * K + column, of each slot; then slots of places
layout(std430, binding = 3) buffer Cache { uint cache[]; };
layout(push_constant) uniform Push { uint kv_heads; uint head_dim; uint context; } push;

const uint WORDS = M * K / 2u;
const uint POSITIONS = VALUES ? K : M;
const uint DIMS = VALUES ? M : K;

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint word = i % WORDS;
    uint dim_block = i / WORDS % (push.head_dim / DIMS);
    uint head = i / WORDS / (push.head_dim / DIMS);
    uint position_block = batch.first_position / POSITIONS + gl_WorkGroupID.y;
    uint first = position_block * POSITIONS;
    if (head >= push.kv_heads || first >= min(batch.first_position + batch.count, push.context)) {
        return;
    }
    uint at = ((head * (push.context / POSITIONS) + position_block) * (push.head_dim / DIMS) + dim_block) * WORDS + word;
    uint halves = cache[at];
    for (uint e = 0u; e < 2u; e++) {
        uint place = order[2u * word + e];
        uint position = first + (VALUES ? place % K : place / K);
        uint dim = dim_block * DIMS + (VALUES ? place / K : place % K);
        if (position >= batch.first_position && position < batch.first_position + batch.count) {
            float v = x[((position - batch.first_position) * push.kv_heads + head) * push.head_dim + dim];
            uint own = packHalf2x16(vec2(v, 0.0));
            halves = e == 0u ? (halves & 0xffff0000u) | own : (halves & 0xffffu) | (own << 16);
        }
    }
    cache[at] = halves;
}
