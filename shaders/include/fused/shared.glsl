// What fused steps share: the shared memory of a workgroup, where a step's matrices are, activation functions.

#define PASTE_NOW(a, b) a##_##b
#define PASTE(a, b) PASTE_NOW(a, b)
#define P(name) PASTE(PHASE, name)

// Sizes of the arrays below: the largest that any step of the kernel needs.
layout(constant_id = 7) const uint GROUPS = 4;    // groups of sixteen activations
layout(constant_id = 8) const uint PARTIALS = 64; // partial sums
layout(constant_id = 32) const uint SQUARES = 4;  // sums of squares before a norm
layout(constant_id = 37) const uint OTHERS = 1; // of xq, where something else uses it, too

shared uvec4 xq[GROUPS > OTHERS ? GROUPS : OTHERS]; // activations, sixteen signed bytes
shared vec2 xf[GROUPS];  // their scale, and scale times sum
shared float xn[SQUARES]; // sum of squares before the norm's weight
shared float partial[PARTIALS];
shared float squares_of[32]; // of which each has every 32nd

struct Matrices {
    uint rows_a;  // rows of the first matrix
    uint rows_ab; // of the first and second
    uint rows;    // of all, or results of a gated pair
    uvec3 quants; // where each begins, in units
    uvec3 scales; // in words
    float epsilon;
};

// x * sigmoid(x), or the tanh form of GELU.
float gate(bool gelu, float v) {
    if (gelu) {
        float inner = 0.7978845608028654 * (v + 0.044715 * v * v * v);
        return 0.5 * v * (2.0 - 2.0 / (exp(2.0 * inner) + 1.0));
    }
    return v / (1.0 + exp(-v));
}
