#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
// family: fused_attention
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// fused_attention.comp with no barrier before it: it waits by itself for what the step before hands over.
#define CHAINED
#define CHAIN_BINDING 10
#include "include/scopes.glsl"
#include "include/step.glsl"
#include "include/fused/attention_step.glsl"
