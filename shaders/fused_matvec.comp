#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : enable
// variants: Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q6_K F32- F16- BF16-
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// Up to three matrices of equal width, one behind the other, times RMS-normed activations, with bias, then as they are,
// added to a residual, or as an activation of the first matrix times the second. include/fused/matvec.glsl says how.
layout(std430, binding = 0) readonly buffer Weights { uvec4 weights[]; };
layout(std430, binding = 1) readonly buffer Scales { uint scale_words[]; };
layout(std430, binding = 2) readonly buffer X { vec4 x[]; };
layout(std430, binding = 3) readonly buffer Norm { vec4 norm[]; };
layout(std430, binding = 4) readonly buffer Residual { float residual[]; };
layout(std430, binding = 5) readonly buffer Bias { float bias[]; };
layout(std430, binding = 6) writeonly buffer Result { float result[]; };

#define T gl_WorkGroupSize.x
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint COLUMNS = 64;
layout(constant_id = 3) const uint UNITS = 4;
layout(constant_id = 4) const bool NORM = false;
layout(constant_id = 5) const uint EPILOGUE = 0; // 0 as it is, 1 residual, 2 SiLU gate, 3 GELU gate
layout(constant_id = 6) const bool BIAS = false;
layout(constant_id = 33) const uint LANES = 8;

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

#include "include/fused/dot.glsl"
#include "include/fused/shared.glsl"
#include "include/fused/units.glsl"

float biased(uint row, float value) {
    if (BIAS) {
        uint at = row < push.rows_a ? push.bias_a + row
                : row < push.rows_ab ? push.bias_b + row - push.rows_a
                : push.bias_c + row - push.rows_ab;
        return value + bias[at];
    }
    return value;
}

float result_of(uint row, float value, float up, float before) {
    if (EPILOGUE == 1u) {
        return before + biased(row, value);
    }
    if (EPILOGUE >= 2u) {
        return gate(EPILOGUE == 3u, value) * up;
    }
    return biased(row, value);
}

void store(uint row, float value) {
    result[row + (row < push.rows_a ? 0u : row < push.rows_ab ? push.gap_b : push.gap_c)] = value;
}

#define PHASE step
#define M_COLUMNS COLUMNS
#define M_ROWS ROWS
#define M_LANES LANES
#define M_UNITS UNITS
#define M_GATED (EPILOGUE >= 2u)
#define M_NORM NORM
#define M_X(i) x[i]
#define M_NORM_WEIGHT(i) norm[i]
#define M_BEFORE(row) (EPILOGUE == 1u ? residual[row] : 0.0)
#define M_RESULT(row, value, up, before) result_of(row, value, up, before)
#define M_STORE(row, value) store(row, value)
#include "include/fused/matvec.glsl"

void main() {
    Matrices m = Matrices(push.rows_a, push.rows_ab, push.rows, uvec3(push.quants_a, push.quants_b, push.quants_c),
                          uvec3(push.scales_a, push.scales_b, push.scales_c), push.epsilon);
    uint first = gl_WorkGroupID.x * ROWS;
    step_early();
    step_fetch();
    step_load(m, first);
    step_run(m, first, gl_NumWorkGroups.x * ROWS);
}
