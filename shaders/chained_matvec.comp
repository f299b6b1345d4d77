#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : enable
#extension GL_KHR_memory_scope_semantics : require
// variants: Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q6_K
// family: fused_matvec
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// fused_matvec.comp with no barrier before it: it waits by itself for what the step before hands over.
#define CHAINED
#define CHAIN_BINDING 7
#include "include/scopes.glsl"
#include "include/fused/product.glsl"
