// What the matrix-vector kernels share: result[row] = sum over columns of weight[row][column] * x[column].
//
// A workgroup computes ROWS neighbouring rows at once, so that each piece of x is loaded once for all of them. The
// invocations split the columns; each keeps ROWS partial sums, and at the end the partial sums are added in a fixed
// tree. Rows past the last are computed as copies of the last and not stored: no branch in the inner loop.

layout(constant_id = 1) const uint ROWS = 4;

layout(push_constant) uniform Push {
    uint columns;
    uint rows;
    uint grid_x; // workgroups along x: more rows than one dimension holds continue along y
} push;

float acc[ROWS];
shared float partial[ROWS * gl_WorkGroupSize.x];

uint first_row() {
    return (gl_WorkGroupID.y * push.grid_x + gl_WorkGroupID.x) * ROWS;
}

uint clamped_row(uint first, uint r) {
    return min(first + r, push.rows - 1u);
}

void clear_sums() {
    for (uint r = 0u; r < ROWS; r++) {
        acc[r] = 0.0;
    }
}

// Leaves four partial sums for each row in `partial`.
void reduce_sums() {
    uint lane = gl_LocalInvocationID.x;
    for (uint r = 0u; r < ROWS; r++) {
        partial[r * gl_WorkGroupSize.x + lane] = acc[r];
    }
    barrier();
    for (uint width = gl_WorkGroupSize.x / 2u; width >= 4u; width >>= 1) {
        if (lane < width) {
            for (uint r = 0u; r < ROWS; r++) {
                uint at = r * gl_WorkGroupSize.x + lane;
                partial[at] += partial[at + width];
            }
        }
        barrier();
    }
}

float row_sum(uint r) {
    uint at = r * gl_WorkGroupSize.x;
    return (partial[at] + partial[at + 2u]) + (partial[at + 1u] + partial[at + 3u]);
}
