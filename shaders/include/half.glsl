// Exact conversion of a 16-bit float to 32 bits with integer arithmetic.
//
// unpackHalf2x16 would be shorter, but an implementation may flush subnormal halves to zero, and the scale of a block
// of small weights is often subnormal. Infinities and NaNs are refused when a model is loaded, so they need no case.

// `bits` holds the half in its low 16 bits.
float exact_half(uint bits) {
    uint magnitude = bits & 0x7fffu;
    // Normal: move exponent and mantissa into place and rebias by 127 - 15. Subnormal: mantissa times 2^-24.
    float value = magnitude >= 0x0400u ? uintBitsToFloat((magnitude << 13) + (112u << 23))
                                       : float(magnitude) * 5.9604644775390625e-8;
    return (bits & 0x8000u) != 0u ? -value : value;
}

// Half number `index` of an array packed two to a word, given the word that holds it.
float half_of_word(uint word, uint index) {
    return exact_half((index & 1u) == 0u ? word & 0xffffu : word >> 16);
}
