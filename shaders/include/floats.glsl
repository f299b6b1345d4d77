// Unpacking of 16-bit floats. Needs half.glsl.

// Four halves, the lowest first.
vec4 four_halves(uvec2 words) {
    return vec4(exact_half(words.x & 0xffffu), exact_half(words.x >> 16), exact_half(words.y & 0xffffu),
                exact_half(words.y >> 16));
}

// Four BF16 numbers: the upper halves of floats.
vec4 four_bf16(uvec2 words) {
    return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}
