#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// Which elements of a first factor of M x K an invocation of the one subgroup has: eight places, row * K + column, each. What
// fused_attention_coop.comp keeps in its cache is in this order.
layout(constant_id = 45) const uint M = 16;
layout(constant_id = 46) const uint N = 8;
layout(constant_id = 47) const uint K = 16;
layout(std430, binding = 0) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { uint count; } push; // places in all

#include "include/places.glsl"

shared uvec4 nothing[N * K_OCTETS];

void main() {
    uint lane = gl_LocalInvocationID.x;
    number_places();
    for (uint i = lane; i < N * K_OCTETS; i += gl_WorkGroupSize.x) {
        nothing[i] = uvec4(0u);
    }
    barrier();
    fcoopmatNV<16, gl_ScopeSubgroup, M, K> mine;
    coopMatLoadNV(mine, places, 0, K_OCTETS, false);
    // A product, so that it is a first factor; it adds nothing.
    fcoopmatNV<16, gl_ScopeSubgroup, K, N> other;
    coopMatLoadNV(other, nothing, 0, K_OCTETS, true);
    fcoopmatNV<32, gl_ScopeSubgroup, M, N> sum = fcoopmatNV<32, gl_ScopeSubgroup, M, N>(0.0);
    sum = coopMatMulAddNV(mine, other, sum);
    [[unroll]] for (uint e = 0u; e < 8u; e++) {
        if (8u * lane + e < push.count) {
            result[8u * lane + e] = float(mine[e]) + sum[0];
        }
    }
}
