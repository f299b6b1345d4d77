// Reductions over a workgroup of 2^k >= 4 invocations, in one fixed order: the same bits on every run.
//
// A tree halves the partial results until four are left, and every invocation then adds those four itself, which
// saves the last two barriers.

shared float reduction[gl_WorkGroupSize.x];

float workgroup_sum(float value) {
    uint lane = gl_LocalInvocationID.x;
    barrier(); // an earlier reduction may still be read
    reduction[lane] = value;
    barrier();
    for (uint width = gl_WorkGroupSize.x / 2u; width >= 4u; width >>= 1) {
        if (lane < width) {
            reduction[lane] += reduction[lane + width];
        }
        barrier();
    }
    return (reduction[0] + reduction[2]) + (reduction[1] + reduction[3]);
}

float workgroup_max(float value) {
    uint lane = gl_LocalInvocationID.x;
    barrier();
    reduction[lane] = value;
    barrier();
    for (uint width = gl_WorkGroupSize.x / 2u; width >= 4u; width >>= 1) {
        if (lane < width) {
            reduction[lane] = max(reduction[lane], reduction[lane + width]);
        }
        barrier();
    }
    return max(max(reduction[0], reduction[1]), max(reduction[2], reduction[3]));
}
