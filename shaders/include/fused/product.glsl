// Up to three matrices of equal width, one behind the other, times RMS-normed activations, with bias, then as they are,
// added to a residual, or as an activation of the first matrix times the second. matvec.glsl says how. With CHAINED, activations
// come from a step that no barrier orders before this one, and so do results go to the next (chain.glsl).

layout(std430, binding = 0) readonly buffer Weights { uvec4 weights[]; };
layout(std430, binding = 1) readonly buffer Scales { uint scale_words[]; };
layout(std430, binding = 3) readonly buffer Norm { vec4 norm[]; };
layout(std430, binding = 5) readonly buffer Bias { float bias[]; };
#ifdef CHAINED
layout(std430, binding = 2) BETWEEN readonly buffer X { uint x[]; };
layout(std430, binding = 4) BETWEEN readonly buffer Residual { uint residual[]; };
layout(std430, binding = 6) BETWEEN writeonly buffer Result { uint result[]; };
#else
layout(std430, binding = 2) readonly buffer X { vec4 x[]; };
layout(std430, binding = 4) readonly buffer Residual { float residual[]; };
layout(std430, binding = 6) writeonly buffer Result { float result[]; };
#endif

#define T gl_WorkGroupSize.x
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint COLUMNS = 64;
layout(constant_id = 3) const uint UNITS = 4;
layout(constant_id = 4) const bool NORM = false;
layout(constant_id = 5) const uint EPILOGUE = 0; // 0 as it is, 1 residual, 2 SiLU gate, 3 GELU gate
layout(constant_id = 6) const bool BIAS = false;
layout(constant_id = 40) const uint LANES = 8;

layout(push_constant) uniform Push {
    uint rows_a;
    uint rows_ab;
    uint rows;
    uint quants_a;
    uint quants_b;
    uint quants_c;
    uint scales_a;
    uint scales_b;
    uint scales_c;
    uint bias_a;
    uint bias_b;
    uint bias_c;
    uint gap_b; // rows of the second and third matrix land so far behind those before them
    uint gap_c;
    float epsilon;
} push;

#ifdef CHAINED
#include "chain.glsl"
#endif

#include "dot.glsl"
#include "shared.glsl"
#include "units.glsl"

#ifdef CHAINED
const uint STAGED = 3072u; // activations in the array, if there are no more invocations
shared vec4 staged[5u * ((STAGED > T ? STAGED : T) / 16u)];
#endif

float biased(uint row, float value) {
    if (BIAS) {
        uint at = row < push.rows_a ? push.bias_a + row
                : row < push.rows_ab ? push.bias_b + row - push.rows_a
                : push.bias_c + row - push.rows_ab;
        return value + bias[at];
    }
    return value;
}

#ifdef CHAINED
// What a result is added to: asked for early, and waited for late.
float residual_of(uint row) {
    return EPILOGUE == 1u && gl_LocalInvocationID.x < ROWS ? uintBitsToFloat(READ_VALUE(residual[row])) : 0.0;
}

float settled(uint row, float before) {
    uint bits = floatBitsToUint(before);
    for (uint looks = 0u; bits == EMPTY && waits(looks); looks++) {
        bits = READ_VALUE(residual[row]);
    }
    return uintBitsToFloat(bits);
}
#else
#define residual_of(row) (EPILOGUE == 1u ? residual[row] : 0.0)
#define settled(row, before) (before)
#endif

float result_of(uint row, float value, float up, float before) {
    if (EPILOGUE == 1u) {
        return settled(row, before) + biased(row, value);
    }
    if (EPILOGUE >= 2u) {
        return gate(EPILOGUE == 3u, value) * up;
    }
    return biased(row, value);
}

void store(uint row, float value) {
    uint at = row + (row < push.rows_a ? 0u : row < push.rows_ab ? push.gap_b : push.gap_c);
#ifdef CHAINED
    HAND_OVER(result[at], value);
#else
    result[at] = value;
#endif
}

#define PHASE step
#define M_COLUMNS COLUMNS
#define M_ROWS ROWS
#define M_LANES LANES
#define M_UNITS UNITS
#define M_GATED (EPILOGUE >= 2u)
#define M_NORM NORM
#ifdef CHAINED
#define M_WORD(i) x[i]
#else
#define M_X(i) x[i]
#endif
#define M_NORM_WEIGHT(i) norm[i]
#define M_BEFORE(row) residual_of(row)
#define M_RESULT(row, value, up, before) result_of(row, value, up, before)
#define M_STORE(row, value) store(row, value)
#include "matvec.glsl"

void main() {
    Matrices m = Matrices(push.rows_a, push.rows_ab, push.rows, uvec3(push.quants_a, push.quants_b, push.quants_c),
                          uvec3(push.scales_a, push.scales_b, push.scales_c), push.epsilon);
    uint first = gl_WorkGroupID.x * ROWS;
    step_early();
#ifndef CHAINED
    step_fetch();
#endif
    step_load(m, first);
    step_run(m, first, gl_NumWorkGroups.x * ROWS);
}
