// One fused matrix-vector step, as a template: norm, product, and what is done with each result.
//
// A token of a small model is latency, not bandwidth, so the step is built to have its weights in flight before anything
// else. A workgroup computes a tile of M_ROWS neighbouring rows; its units (units.glsl), M_ROWS rows of them, lie one
// behind the other in memory and are dealt to the invocations in that order, M_UNITS each. All loads of a tile are
// issued before the first is used: the first tile's before the activations are read, the next tile's while a tile is
// reduced. Partial sums go to shared memory, one a unit, and are added there in an order that depends on the number of
// units in a row only. So the bits do not depend on how rows were dealt to workgroups or invocations, and a kernel of
// one step gives the same bits as the resident kernel that walks all of them.
//
// The norm's factor multiplies the results, not the activations: the mean square is summed beside the partial sums and
// needs no pass of its own. Quantising (sixteen columns at a time) does not mind, its scales are relative.
//
// The including file defines, for each use: PHASE (a prefix), M_COLUMNS, M_ROWS, M_UNITS, M_GATED (a result is made of
// one row of matrix 0 and one of matrix 1), M_NORM (whether there is a norm), M_X(i) and M_NORM_WEIGHT(i) (vec4 number
// i), and M_BEFORE(row) (what a result is added to, or 0), M_STORE(row, value, up, before); and before: T (the workgroup's size), xq, xd, xs, xn, partial and sums.

const uint P(units) = M_COLUMNS / UNIT;
const uint P(groups) = M_COLUMNS / 16u;
// A row's partial sums are this far apart: eight more than a multiple of 32, so that four rows' eights share no bank.
const uint P(stride) = P(units) + ((40u - P(units) % 32u) % 32u);
const uint P(matrix_rows) = M_GATED ? 2u * M_ROWS : M_ROWS;
const uint P(tile_units) = P(matrix_rows) * P(units);

Raw P(raw)[M_UNITS];
uint P(parity); // bits 3k to 3k+2: the low bits of unit k's number
vec4 P(norm)[4]; // the norm's weights of this invocation's first group
float P(before); // what the first result is added to

// Issues the loads of the tile whose first row is `first`.
void P(load)(Matrices m, uint first) {
    uint lane = gl_LocalInvocationID.x;
    uint parity = 0u;
    [[unroll]] for (uint k = 0u; k < M_UNITS; k++) {
        uint at = min(k * T + lane, P(tile_units) - 1u);
        uint r = at / P(units);
        uint u = at - r * P(units);
        uint which = 0u;
        uint row;
        if (M_GATED) {
            which = r / M_ROWS;
            row = min(first + (r - which * M_ROWS), m.rows - 1u);
        } else {
            row = min(first + r, m.rows - 1u);
            which = uint(row >= m.rows_a) + uint(row >= m.rows_ab);
            row -= which == 0u ? 0u : which == 1u ? m.rows_a : m.rows_ab;
        }
        uint quants = which == 0u ? m.quants.x : which == 1u ? m.quants.y : m.quants.z;
        uint scales = which == 0u ? m.scales.x : which == 1u ? m.scales.y : m.scales.z;
        uint total = which == 0u ? m.rows_a : which == 1u ? m.rows_ab - m.rows_a : m.rows - m.rows_ab;
        if (M_GATED) {
            total = m.rows;
        }
        uint index = row * P(units) + u;
        parity |= (index & 7u) << (3u * k);
        P(raw)[k] = load_unit(quants, scales, index, total * P(units));
    }
    P(parity) = parity;
}

// Loads what does not depend on the step before beside the weights.
void P(early)() {
#ifndef FLOATS
    if (M_NORM) {
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            P(norm)[i] = M_NORM_WEIGHT(4u * min(gl_LocalInvocationID.x, P(groups) - 1u) + i);
        }
    }
#endif
}

// Reads the activations. A barrier must follow before they are used.
void P(activate)() {
    uint lane = gl_LocalInvocationID.x;
#ifdef FLOATS
    if (M_NORM) {
        float square = 0.0;
        for (uint i = lane; i < M_COLUMNS / 4u; i += T) {
            vec4 v = M_X(i);
            square += dot(v, v);
        }
        xn[lane] = square;
    }
#else
    for (uint g = lane; g < P(groups); g += T) {
        vec4 v[4];
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            v[i] = M_X(4u * g + i);
        }
        if (M_NORM) {
            xn[g] = (dot(v[0], v[0]) + dot(v[1], v[1])) + (dot(v[2], v[2]) + dot(v[3], v[3]));
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                v[i] *= g == lane ? P(norm)[i] : M_NORM_WEIGHT(4u * g + i);
            }
        }
        vec4 m = max(max(abs(v[0]), abs(v[1])), max(abs(v[2]), abs(v[3])));
        float largest = max(max(m.x, m.y), max(m.z, m.w));
        float factor = largest > 0.0 ? 127.0 / largest : 0.0;
        uvec4 packed;
        ivec4 sum = ivec4(0);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            ivec4 q = ivec4(roundEven(v[i] * factor));
            sum += q;
            uvec4 b = uvec4(q) & 255u;
            packed[i] = (b.x | (b.y << 8)) | ((b.z << 16) | (b.w << 24));
        }
        uint slot = SLOT(g, P(groups));
        float scale = largest / 127.0;
        xq[slot] = packed;
        xd[slot] = scale;
        xs[slot] = scale * float((sum.x + sum.y) + (sum.z + sum.w));
    }
#endif
}

// Uses what `load` loaded.
void P(products)() {
    uint lane = gl_LocalInvocationID.x;
    [[unroll]] for (uint k = 0u; k < M_UNITS; k++) {
        uint at = k * T + lane;
        uint r = at / P(units);
        uint u = at - r * P(units);
        if (at < P(tile_units)) {
#ifdef FLOATS
            uint i = u * (UNIT / 4u);
            vec4 a = M_X(i);
            vec4 b = UNIT > 4u ? M_X(i + 1u) : vec4(0.0);
            if (M_NORM) {
                a *= M_NORM_WEIGHT(i);
                b *= UNIT > 4u ? M_NORM_WEIGHT(i + 1u) : vec4(0.0);
            }
            partial[r * P(stride) + u] = unit_sum(P(raw)[k], a, b);
#else
            partial[r * P(stride) + u] = unit_sum(P(raw)[k], P(parity) >> (3u * k), u, P(groups));
#endif
        }
    }
}

// Eight sums for each row, and eight of squares behind the last row.
void P(reduce)() {
    for (uint i = gl_LocalInvocationID.x; i < P(matrix_rows) * 8u + 8u; i += T) {
        uint r = i / 8u;
        uint j = i % 8u;
        float sum = 0.0;
        if (r < P(matrix_rows)) {
            [[unroll]] for (uint k = 0u; k < (P(units) + 7u) / 8u; k++) {
                uint u = j + 8u * k;
                sum += u < P(units) ? partial[r * P(stride) + u] : 0.0;
            }
        } else if (M_NORM) {
#ifdef FLOATS
            for (uint g = j; g < T; g += 8u) {
#else
            for (uint g = j; g < P(groups); g += 8u) {
#endif
                sum += xn[g];
            }
        }
        sums[i] = sum;
    }
}

float P(sum)(uint r) {
    uint i = r * 8u;
    return ((sums[i] + sums[i + 4u]) + (sums[i + 2u] + sums[i + 6u]))
         + ((sums[i + 1u] + sums[i + 5u]) + (sums[i + 3u] + sums[i + 7u]));
}

void P(finish)(Matrices m, uint first) {
    for (uint r = gl_LocalInvocationID.x; r < M_ROWS; r += T) {
        if (first + r < m.rows) {
            float factor = 1.0;
            if (M_NORM) {
                factor = 1.0 / sqrt(P(sum)(P(matrix_rows)) / float(M_COLUMNS) + m.epsilon);
            }
            float value = factor * P(sum)(r);
            float up = M_GATED ? factor * P(sum)(M_ROWS + r) : 0.0;
            M_STORE(first + r, value, up, r == gl_LocalInvocationID.x ? P(before) : M_BEFORE(first + r));
        }
    }
}

// The whole step of a workgroup, after `load` of its first tile and `early`: `first` is that tile's first row, `step` the rows that
// all workgroups together compute before the next one.
void P(run)(Matrices m, uint first, uint step) {
    if (first >= m.rows) {
        return;
    }
    P(activate)();
    barrier();
    while (first < m.rows) {
        P(before) = M_BEFORE(min(first + gl_LocalInvocationID.x, m.rows - 1u));
        P(products)();
        if (first + step < m.rows) {
            P(load)(m, first + step);
        }
        barrier();
        P(reduce)();
        barrier();
        P(finish)(m, first);
        first += step;
    }
}
