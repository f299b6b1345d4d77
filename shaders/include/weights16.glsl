// Sixteen weights of a row as floats, whatever the format: the unit in which a batch's kernels take matrices. Formats are
// as in the matrix-vector kernels; the including file is built once for each. `w[i]` are the four columns from `at[i]` on.

#if defined(F32)
layout(std430, binding = 1) readonly buffer Quants { vec4 quants[]; };
#elif defined(F16) || defined(BF16) || defined(Q4_0) || defined(Q4_1) || defined(Q5_0)
layout(std430, binding = 1) readonly buffer Quants { uvec2 quants[]; };
#elif defined(Q6_K)
layout(std430, binding = 1) readonly buffer Quants { uint quants[]; };
#else
layout(std430, binding = 1) readonly buffer Quants { uvec4 quants[]; };
#endif
#if defined(Q4_K)
layout(std430, binding = 2) readonly buffer Scales { uvec4 scales[]; };
#elif !defined(F32) && !defined(F16) && !defined(BF16)
layout(std430, binding = 2) readonly buffer Scales { uint scales[]; };
#endif

void weights16(uint row, uint unit, uint columns, uint rows, out vec4 w[4], out uvec4 at) {
    at = 16u * unit + uvec4(0, 4, 8, 12);
#if defined(F32) || defined(F16) || defined(BF16)
    for (uint i = 0u; i < 4u; i++) {
        uint quad = 4u * unit + i;
        w[i] = vec4(0.0);
        if (quad < columns / 4u) {
#if defined(F32)
            w[i] = quants[row * (columns / 4u) + quad];
#elif defined(F16)
            w[i] = four_halves(quants[row * (columns / 4u) + quad]);
#else
            w[i] = four_bf16(quants[row * (columns / 4u) + quad]);
#endif
        }
    }
#elif defined(Q8_0)
    uint index = row * (columns / 16u) + unit;
    uvec4 q = quants[index];
    float scale = half_of_word(scales[index / 4u], index / 2u);
    for (uint i = 0u; i < 4u; i++) {
        w[i] = scale * signed_bytes(q[i]);
    }
#elif defined(Q4_0) || defined(Q4_1) || defined(Q5_0)
    uint index = row * (columns / 16u) + unit;
    uint block = index / 2u;
    uint part = unit % 2u;
    uvec2 q = quants[index];
    at = 32u * (unit / 2u) + 8u * part + uvec4(0, 4, 16, 20);
    vec4 codes[4] = vec4[4](low_codes(q.x), low_codes(q.y), high_codes(q.x), high_codes(q.y));
#if defined(Q4_0)
    float scale = half_of_word(scales[block / 2u], block);
    float minimum = -8.0 * scale;
#elif defined(Q4_1)
    float scale = exact_half(scales[block] & 0xffffu);
    float minimum = exact_half(scales[block] >> 16);
#else
    float scale = half_of_word(scales[rows * (columns / 32u) + block / 2u], block);
    float minimum = -16.0 * scale;
    uint bits = scales[block];
    codes[0] += fifth_bits(bits, 8u * part);
    codes[1] += fifth_bits(bits, 8u * part + 4u);
    codes[2] += fifth_bits(bits, 8u * part + 16u);
    codes[3] += fifth_bits(bits, 8u * part + 20u);
#endif
    for (uint i = 0u; i < 4u; i++) {
        w[i] = scale * codes[i] + minimum;
    }
#elif defined(Q4_K)
    uint block = row * (columns / 256u) + unit / 16u;
    uint chunk = (unit % 16u) / 2u;
    uvec4 q = quants[8u * block + 2u * (chunk / 2u) + unit % 2u] >> (4u * (chunk % 2u));
    uvec4 s = scales[block];
    vec2 part = scale_and_minimum(s.yzw, chunk);
    float scale = exact_half(s.x & 0xffffu) * part.x;
    float minimum = exact_half(s.x >> 16) * part.y;
    for (uint i = 0u; i < 4u; i++) {
        w[i] = scale * low_codes(q[i]) - minimum;
    }
#elif defined(Q6_K)
    uint block = row * (columns / 256u) + unit / 16u;
    uint side = (unit % 16u) / 8u;
    uint run = (unit / 2u) % 4u;
    uint first = 4u * (unit % 2u);
    uint which = 2u * run + unit % 2u;
    float scale = exact_half(scales[5u * block + 4u] & 0xffffu)
                * signed_byte(scales[5u * block + 2u * side + which / 4u], which);
    for (uint i = 0u; i < 4u; i++) {
        uint low = quants[48u * block + 16u * side + 8u * (run % 2u) + first + i];
        uint upper = quants[48u * block + 32u + 8u * side + first + i];
        w[i] = scale * six_bit_codes(low, upper, run);
    }
#endif
}
