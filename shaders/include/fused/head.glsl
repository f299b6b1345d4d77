// What both attention kernels have in common: the shape of a head, and how an element finds its rotation.

layout(constant_id = 10) const uint HEAD_DIM = 16;
layout(constant_id = 11) const uint GROUP = 1;     // query heads a key/value head
layout(constant_id = 12) const uint ROPE_DIM = 16;
layout(constant_id = 13) const bool NEOX = false;  // pairs are half a rotation apart instead of neighbours
layout(constant_id = 14) const bool QK_NORM = false;
layout(constant_id = 15) const uint TILE = 8;      // positions a tile

const uint OCTETS = HEAD_DIM / 8u;
const uint QUADS = HEAD_DIM / 4u;

struct Attention {
    uint heads;
    uint kv_heads;
    uint context; // positions that the cache holds
    uint window;
    float scale;
    float epsilon;
    uint splits;  // most splits a head
    uint keys;    // where the layer's part of the cache begins, in uvec4
    uint values;
    uint key_at;  // where this token's keys begin behind its queries, in floats
    uint value_at;
    uint position;
};

uint partner_of(uint dim) {
    const uint pairs = ROPE_DIM / 2u;
    return dim >= ROPE_DIM ? dim : NEOX ? (dim >= pairs ? dim - pairs : dim + pairs) : (dim ^ 1u);
}

uint pair_of(uint dim) {
    const uint pairs = ROPE_DIM / 2u;
    return dim >= ROPE_DIM ? 0u : NEOX ? (dim >= pairs ? dim - pairs : dim) : dim / 2u;
}

vec2 angle_at(Attention a, uint dim) {
    return A_ANGLE(a.position * (ROPE_DIM / 2u) + pair_of(dim));
}

float norm_weight(uint vector, uint dim) {
    return vector < GROUP ? A_QNORM(dim) : A_KNORM(dim);
}

uint first_position(Attention a) {
    return a.position < a.window ? 0u : a.position - a.window + 1u;
}
