// Unpacking of unsigned codes: nibbles as they are, and the six-bit scales of Q4_K.

// The low nibble of each byte, the lowest byte first.
vec4 low_codes(uint word) {
    return vec4((uvec4(word) >> uvec4(0, 8, 16, 24)) & 15u);
}

// The high nibble of each byte.
vec4 high_codes(uint word) {
    return vec4((uvec4(word) >> uvec4(4, 12, 20, 28)) & 15u);
}

// Four neighbouring bits of `word` from bit `first` on, each worth sixteen: the fifth bits of Q5_0.
vec4 fifth_bits(uint word, uint first) {
    return vec4(((uvec4(word) >> (uvec4(0, 1, 2, 3) + first)) & 1u) << 4);
}

// Byte number `index` of twelve packed in three words.
uint packed_byte(uvec3 words, uint index) {
    return (words[index / 4u] >> (8u * (index % 4u))) & 0xffu;
}

// Scale and minimum of part `part` of eight of a Q4_K block: six bits each, the upper two bits of parts 4 to 7 in the
// upper bits of parts 0 to 3.
vec2 scale_and_minimum(uvec3 words, uint part) {
    uint a = packed_byte(words, part % 4u);
    uint b = packed_byte(words, part % 4u + 4u);
    if (part < 4u) {
        return vec2(a & 63u, b & 63u);
    }
    uint c = packed_byte(words, part + 4u);
    return vec2((c & 15u) | ((a >> 6) << 4), (c >> 4) | ((b >> 6) << 4));
}

// Four six-bit codes less 32: nibble `high` (0 or 1) of each byte of `low`, upper bits at 2 * run of each byte of
// `upper` (Q6_K).
vec4 six_bit_codes(uint low, uint upper, uint run) {
    uvec4 shifts = uvec4(0, 8, 16, 24);
    uvec4 nibbles = (uvec4(low) >> (shifts + 4u * (run / 2u))) & 15u;
    uvec4 bits = (uvec4(upper) >> (shifts + 2u * run)) & 3u;
    return vec4(nibbles | (bits << 4)) - 32.0;
}

// Byte `index` of sixteen signed ones in four words from `words[0]` on, given its word.
float signed_byte(uint word, uint index) {
    return float((int(word) << (24 - 8 * int(index % 4u))) >> 24);
}
