#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : enable
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model
#define VULKAN_MODEL
// variants: Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q6_K
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#include "include/scopes.glsl"
#include "include/step.glsl"

// All layers of one token in one resident dispatch: the steps of the fused plan with barriers inside the kernel, and the
// weights of the next step loaded before each wait.
//
// It needs all its workgroups to be resident at once, which Vulkan does not promise. So every wait is bounded: who waits
// too long says so in `control` and leaves, everybody else follows, and the host sees it.
layout(std430, binding = 0) readonly buffer Weights { uvec4 weights[]; };
layout(std430, binding = 1) readonly buffer Scales { uint scale_words[]; };
layout(std430, binding = 2) readonly buffer Norms { vec4 norms[]; };
layout(std430, binding = 3) readonly buffer Layers { uint layer_words[]; };
layout(std430, binding = 4) readonly buffer Step { StepState state; };
layout(std430, binding = 5) readonly buffer Table { vec2 table[]; };
layout(std430, binding = 6) nonprivate buffer Stream { vec4 stream[]; };
layout(std430, binding = 7) nonprivate buffer Middle { vec4 middle[]; };
layout(std430, binding = 8) nonprivate buffer Qkv { vec4 projected[]; };
layout(std430, binding = 9) nonprivate buffer Attended { vec4 attended[]; };
layout(std430, binding = 10) nonprivate buffer Hidden { vec4 hidden[]; };
layout(std430, binding = 11) nonprivate buffer Parts { vec4 parts[]; };
layout(std430, binding = 12) nonprivate buffer Cache { uvec4 cache[]; };
layout(std430, binding = 13) nonprivate buffer Control {
    uint passed;     // arrivals at barriers
    uint left;       // workgroups that are through
    uint failed;     // whether one gave up
    uint counters[]; // of the merge of splits, one a key/value head
} control;
#define T gl_WorkGroupSize.x
layout(constant_id = 16) const uint EMBEDDING = 64;
layout(constant_id = 17) const uint Q_DIM = 64;
layout(constant_id = 18) const uint KV_DIM = 64;
layout(constant_id = 19) const uint FEED_FORWARD = 64;
layout(constant_id = 20) const uint QKV_ROWS = 4;
layout(constant_id = 21) const uint QKV_UNITS = 4;
layout(constant_id = 22) const uint OUT_ROWS = 4;
layout(constant_id = 23) const uint OUT_UNITS = 4;
layout(constant_id = 24) const uint GATE_ROWS = 4;
layout(constant_id = 25) const uint GATE_UNITS = 4;
layout(constant_id = 26) const uint DOWN_ROWS = 4;
layout(constant_id = 27) const uint DOWN_UNITS = 4;
layout(constant_id = 28) const bool GELU = false;
layout(constant_id = 29) const bool BARRIERS = true; // without them: the control, which must give wrong numbers
layout(constant_id = 30) const bool PREFETCH = true;
layout(constant_id = 31) const uint SPINS = 4000000;
layout(constant_id = 33) const uint QKV_LANES = 8;
layout(constant_id = 34) const uint OUT_LANES = 8;
layout(constant_id = 35) const uint GATE_LANES = 8;
layout(constant_id = 36) const uint DOWN_LANES = 8;


layout(push_constant) uniform Push {
    uint layers;
    uint heads;
    uint kv_heads;
    uint context;
    float scale;
    float epsilon;
    uint splits;
} push;

#include "include/fused/dot.glsl"
#include "include/fused/shared.glsl"
#include "include/fused/units.glsl"

// Words of a layer in `layer_words`: where its matrices, norms and caches begin.
const uint LAYER_WORDS = 21u;
uint layer_at;

uint word(uint i) {
    return layer_words[layer_at + i];
}

// Matrices number `i` and following of q, k, v, o, gate, up, down.
Matrices matrices(uint i, uint rows_a, uint rows_ab, uint rows) {
    return Matrices(rows_a, rows_ab, rows, uvec3(word(i), word(i + 1u), word(i + 2u)),
                    uvec3(word(7u + i), word(8u + i), word(9u + i)), push.epsilon);
}

// What steps hand on are arrays of vec4, and every store is of a whole one: four loads become one, and no invocation writes
// a part of what another one writes.
#define FLOAT(from, i) component(from[(i) / 4u], (i) % 4u)

float component(vec4 v, uint c) {
    return c < 2u ? (c == 0u ? v.x : v.y) : (c == 2u ? v.z : v.w);
}

shared float results[T];

#define PHASE qkv
#define M_COLUMNS EMBEDDING
#define M_ROWS QKV_ROWS
#define M_LANES QKV_LANES
#define M_UNITS QKV_UNITS
#define M_GATED false
#define M_NORM true
#define M_X(i) stream[i]
#define M_NORM_WEIGHT(i) norms[norm_at + (i)]
#define M_BEFORE(row) 0.0
#define M_RESULT(row, value, up, before) (value)
#define M_STORE4(i, v) projected[i] = (v)
uint norm_at;
#include "include/fused/matvec.glsl"
#undef PHASE
#undef M_COLUMNS
#undef M_ROWS
#undef M_LANES
#undef M_UNITS
#undef M_GATED
#undef M_NORM
#undef M_X
#undef M_BEFORE
#undef M_RESULT
#undef M_STORE4

#define PHASE out
#define M_COLUMNS Q_DIM
#define M_ROWS OUT_ROWS
#define M_LANES OUT_LANES
#define M_UNITS OUT_UNITS
#define M_GATED false
#define M_NORM false
#define M_X(i) attended[i]
#define M_BEFORE(row) FLOAT(stream, row)
#define M_RESULT(row, value, up, before) ((before) + (value))
#define M_STORE4(i, v) middle[i] = (v)
#include "include/fused/matvec.glsl"
#undef PHASE
#undef M_COLUMNS
#undef M_ROWS
#undef M_LANES
#undef M_UNITS
#undef M_GATED
#undef M_NORM
#undef M_X
#undef M_BEFORE
#undef M_RESULT
#undef M_STORE4

#define PHASE gates
#define M_COLUMNS EMBEDDING
#define M_ROWS GATE_ROWS
#define M_LANES GATE_LANES
#define M_UNITS GATE_UNITS
#define M_GATED true
#define M_NORM true
#define M_X(i) middle[i]
#define M_BEFORE(row) 0.0
#define M_RESULT(row, value, up, before) (gate(GELU, value) * (up))
#define M_STORE4(i, v) hidden[i] = (v)
#include "include/fused/matvec.glsl"
#undef PHASE
#undef M_COLUMNS
#undef M_ROWS
#undef M_LANES
#undef M_UNITS
#undef M_GATED
#undef M_NORM
#undef M_X
#undef M_BEFORE
#undef M_RESULT
#undef M_STORE4

#define PHASE down
#define M_COLUMNS FEED_FORWARD
#define M_ROWS DOWN_ROWS
#define M_LANES DOWN_LANES
#define M_UNITS DOWN_UNITS
#define M_GATED false
#define M_NORM false
#define M_X(i) hidden[i]
#define M_BEFORE(row) FLOAT(middle, row)
#define M_RESULT(row, value, up, before) ((before) + (value))
#define M_STORE4(i, v) stream[i] = (v)
#include "include/fused/matvec.glsl"

uint q_norm_at;
uint k_norm_at;
#define A_IN(i) FLOAT(projected, i)
#define A_OUT4(i, v) attended[i] = (v)
#define A_PART(i) parts[i]
#define A_KEY(i) cache[i]
#define A_VALUE(i) cache[i]
#define A_QNORM(i) norms[q_norm_at + (i) / 4u][(i) % 4u]
#define A_KNORM(i) norms[k_norm_at + (i) / 4u][(i) % 4u]
#define A_ANGLE(i) table[i]
#define A_COUNTER(h) control.counters[h]
#include "include/fused/arrive.glsl"
#define A_GET(i) uintBitsToFloat(xq[i])
#define A_SET(i, v) xq[i] = floatBitsToUint(v)
#include "include/fused/attention.glsl"

shared bool gone;
uint awaited = 0u;

// What this workgroup wrote becomes available, and it counts as arrived: first to its first invocation, then, by that
// one, to the device.
void arrive() {
    awaited += gl_NumWorkGroups.x;
    if (BARRIERS) {
        workgroup_barrier();
        if (gl_LocalInvocationID.x == 0u) {
            atomicAdd(control.passed, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, RELEASE);
        }
    } else {
        barrier();
    }
}

// Waits until all have arrived, and makes what they wrote visible. False if that took too long, here or elsewhere.
bool await() {
    if (!BARRIERS) {
        barrier();
        return true;
    }
    if (gl_LocalInvocationID.x == 0u) {
        bool lost = true;
        for (uint i = 0u; i < SPINS; i++) {
            if (atomicLoad(control.passed, gl_ScopeDevice, 0, 0) >= awaited) {
                lost = false;
                break;
            }
            if ((i & 1023u) == 1023u && atomicLoad(control.failed, gl_ScopeDevice, 0, 0) != 0u) {
                break;
            }
        }
        if (lost) {
            atomicStore(control.failed, 1u, gl_ScopeDevice, 0, 0);
        }
        gone = lost;
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, ACQUIRE);
    }
    workgroup_barrier();
    return !gone;
}

void main() {
    uint group = gl_WorkGroupID.x;
    uint groups = gl_NumWorkGroups.x;
    uint position = state.position;
    layer_at = 0u;
    Matrices qkv = matrices(0u, Q_DIM, Q_DIM + KV_DIM, Q_DIM + 2u * KV_DIM);
    norm_at = word(14u);
    qkv_load(qkv, group * QKV_ROWS);
    qkv_early();
    for (uint layer = 0u; layer < push.layers; layer++) {
        qkv_fetch();
        qkv_run(qkv, group * QKV_ROWS, groups * QKV_ROWS);
        arrive();
        q_norm_at = word(16u);
        k_norm_at = word(17u);
        Attention a = Attention(push.heads, push.kv_heads, push.context, word(18u), push.scale, push.epsilon, push.splits,
                                word(19u), word(20u), Q_DIM, Q_DIM + KV_DIM, position);
        uint items = push.kv_heads * splits_of(a, position + 1u - first_position(a)).x;
        if (PREFETCH && group < items) {
            early(a, group % push.kv_heads, group / push.kv_heads);
        }
        if (!await()) {
            return;
        }
        for (uint item = group; item < items; item += groups) {
            if (!PREFETCH || item > group) {
                early(a, item % push.kv_heads, item / push.kv_heads);
            }
            attend(a, item % push.kv_heads, item / push.kv_heads);
            barrier();
        }
        arrive();
        Matrices o = matrices(3u, EMBEDDING, EMBEDDING, EMBEDDING);
        if (PREFETCH) {
            out_load(o, group * OUT_ROWS);
        }
        if (!await()) {
            return;
        }
        if (!PREFETCH) {
            out_load(o, group * OUT_ROWS);
        }
        out_fetch();
        out_run(o, group * OUT_ROWS, groups * OUT_ROWS);
        arrive();
        Matrices g = matrices(4u, FEED_FORWARD, FEED_FORWARD, FEED_FORWARD);
        norm_at = word(15u);
        if (PREFETCH) {
            gates_load(g, group * GATE_ROWS);
            gates_early();
        }
        if (!await()) {
            return;
        }
        if (!PREFETCH) {
            gates_load(g, group * GATE_ROWS);
            gates_early();
        }
        gates_fetch();
        gates_run(g, group * GATE_ROWS, groups * GATE_ROWS);
        arrive();
        Matrices d = matrices(6u, EMBEDDING, EMBEDDING, EMBEDDING);
        if (PREFETCH) {
            down_load(d, group * DOWN_ROWS);
        }
        if (!await()) {
            return;
        }
        if (!PREFETCH) {
            down_load(d, group * DOWN_ROWS);
        }
        down_fetch();
        down_run(d, group * DOWN_ROWS, groups * DOWN_ROWS);
        if (layer + 1u < push.layers) {
            arrive();
            layer_at += LAYER_WORDS;
            qkv = matrices(0u, Q_DIM, Q_DIM + KV_DIM, Q_DIM + 2u * KV_DIM);
            norm_at = word(14u);
            if (PREFETCH) {
                qkv_load(qkv, group * QKV_ROWS);
                qkv_early();
            }
            if (!await()) {
                return;
            }
            if (!PREFETCH) {
                qkv_load(qkv, group * QKV_ROWS);
                qkv_early();
            }
        }
    }
    // The last one out leaves the counters as they were.
    if (gl_LocalInvocationID.x == 0u
        && atomicAdd(control.left, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, BOTH) + 1u == groups) {
        atomicStore(control.left, 0u, gl_ScopeDevice, 0, 0);
        atomicStore(control.passed, 0u, gl_ScopeDevice, 0, 0);
    }
}
