// Unpacking of quantised weights from 32-bit words.

// Four signed bytes, the lowest first (Q8_0).
vec4 signed_bytes(uint word) {
    return vec4((ivec4(int(word)) << ivec4(24, 16, 8, 0)) >> 24);
}

// The low nibble of each byte, less eight: elements 4w .. 4w+3 of a Q4_0 block whose word w this is.
vec4 low_nibbles(uint word) {
    return vec4((uvec4(word) >> uvec4(0, 8, 16, 24)) & 15u) - 8.0;
}

// The high nibble of each byte, less eight: elements 16+4w .. 16+4w+3 of a Q4_0 block whose word w this is.
vec4 high_nibbles(uint word) {
    return vec4((uvec4(word) >> uvec4(4, 12, 20, 28)) & 15u) - 8.0;
}
