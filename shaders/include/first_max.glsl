// The maximum of a workgroup with its place; of equal ones the first place. The including file declares best_value and
// best_token, shared, one for each invocation.

// Whether `a` at `i` comes before `b` at `j`. Never for a NaN.
bool precedes(float a, uint i, float b, uint j) {
    return a > b || (a == b && i < j);
}

// Leaves the workgroup's result in element 0 of both arrays.
void first_max(float value, uint token) {
    uint lane = gl_LocalInvocationID.x;
    best_value[lane] = value;
    best_token[lane] = token;
    barrier();
    for (uint width = gl_WorkGroupSize.x / 2u; width > 0u; width >>= 1) {
        if (lane < width && precedes(best_value[lane + width], best_token[lane + width], best_value[lane], best_token[lane])) {
            best_value[lane] = best_value[lane + width];
            best_token[lane] = best_token[lane + width];
        }
        barrier();
    }
}
