#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_NV_cooperative_matrix : require
#pragma use_vulkan_memory_model
#define VULKAN_MODEL
// family: fused_attention
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// fused_attention_coop.comp with no barrier before it: it waits by itself for what the step before hands over.
#define CHAINED
#define CHAIN_BINDING 10
#include "include/scopes.glsl"
#include "include/step.glsl"
#include "include/fused/attention_coop.glsl"
