#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : enable
// variants: Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q6_K F32- F16- BF16-
// family: fused_matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// Matrices times a vector, with what comes before and after in one dispatch; include/fused/product.glsl says what.
#define BETWEEN
#include "include/fused/product.glsl"
