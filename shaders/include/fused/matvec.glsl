// One fused matrix-vector step, as a template: norm, product, and what is done with each result.
//
// A token of a small model is latency, not bandwidth, so the step is built to have its weights in flight before anything
// else. M_LANES invocations share a row: invocation j of them takes its units j, j + M_LANES and so on (units.glsl), M_UNITS
// at most, so that neighbours load neighbouring sixteen bytes, and all of them at fixed distances from one address. A
// workgroup computes M_ROWS neighbouring rows at once, a pass; all loads of a pass are issued before the first is used: the
// first pass's before the activations are read, the next pass's before a pass is reduced.
//
// Each invocation adds up its own units, and leaves one partial sum a row; one invocation a row adds those. So there is one
// barrier a pass, and warps go at their own pace between. The order in which a row is added up depends on its units and
// M_LANES only: how rows are dealt to workgroups changes no bit, and a kernel of one step gives the same bits as the resident
// kernel that walks all of them.
//
// The norm's factor multiplies the results, not the activations: the mean square is summed on the side and needs no pass
// of its own. Quantising (sixteen columns at a time) does not mind, its scales are relative.
//
// The including file defines, for each use: PHASE (a prefix), M_COLUMNS, M_ROWS, M_LANES, M_UNITS, M_GATED (a result is made
// of one row of matrix 0 and the same of matrix 1), M_NORM (whether there is a norm), M_X(i) and M_NORM_WEIGHT(i) (vec4
// number i), M_BEFORE(row) (what a result is added to, or 0) and M_RESULT(row, value, up, before) (the result). It stores
// results with M_STORE(row, value), one a time, or, where it defines M_STORE4(i, vec4), four neighbours at a time: then
// M_ROWS and all numbers of rows are multiples of four. Before: T (the workgroup's size, at least M_ROWS * M_LANES), xq,
// xf, xn, partial and squares_of.

const uint P(units) = M_COLUMNS / UNIT;
const uint P(groups) = M_COLUMNS / 16u;
// Partial sums are [buffer][matrix][lane][row]; an odd distance of lanes keeps neighbours in different banks.
const uint P(stride) = M_ROWS | 1u;
const uint P(plane) = M_LANES * P(stride);
const uint P(buffer) = M_GATED ? 2u * P(plane) : P(plane);
const bool P(even) = M_LANES * M_UNITS == P(units); // no invocation has a unit less than another

Raw P(raw)[M_UNITS];
Raw P(raw_up)[M_GATED ? M_UNITS : 1u];
uint P(base); // number in its matrix of this invocation's first unit
vec4 P(norm)[4]; // the norm's weights of this invocation's first group
vec4 P(x)[4];    // that group itself

// Issues the loads of the pass whose first row is `first`.
void P(load)(Matrices m, uint first) {
    uint lane = gl_LocalInvocationID.x;
    if (lane >= M_ROWS * M_LANES) {
        return;
    }
    uint j = lane % M_LANES;
    uint row = min(first + lane / M_LANES, m.rows - 1u);
    uint which = M_GATED ? 0u : uint(row >= m.rows_a) + uint(row >= m.rows_ab);
    row -= which == 0u ? 0u : which == 1u ? m.rows_a : m.rows_ab;
    uint quants = which == 0u ? m.quants.x : which == 1u ? m.quants.y : m.quants.z;
    uint scales = which == 0u ? m.scales.x : which == 1u ? m.scales.y : m.scales.z;
    uint rows = M_GATED ? m.rows : which == 0u ? m.rows_a : which == 1u ? m.rows_ab - m.rows_a : m.rows - m.rows_ab;
    uint base = row * P(units) + j;
    P(base) = base;
    [[unroll]] for (uint k = 0u; k < M_UNITS; k++) {
        uint step = P(even) || j + k * M_LANES < P(units) ? k * M_LANES : 0u;
        P(raw)[k] = load_unit(quants, scales, base + step, rows * P(units));
        if (M_GATED) {
            P(raw_up)[M_GATED ? k : 0u] = load_unit(m.quants.y, m.scales.y, base + step, rows * P(units));
        }
    }
}

// Issues the loads of the first group's weights of the norm, which do not depend on the step before.
void P(early)() {
#ifndef FLOATS
    if (M_NORM) {
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            P(norm)[i] = M_NORM_WEIGHT(4u * min(gl_LocalInvocationID.x, P(groups) - 1u) + i);
        }
    }
#endif
}

#ifndef M_WORD
// Issues the loads of the first group. Loads come back in the order in which they were issued, so where nothing was loaded
// ahead of a wait, these and `early` come before the weights.
void P(fetch)() {
#ifndef FLOATS
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        P(x)[i] = M_X(4u * min(gl_LocalInvocationID.x, P(groups) - 1u) + i);
    }
#endif
}
#endif

#ifndef FLOATS
// Sixteen activations as signed bytes, after the norm's weight.
void P(quantise)(uint g, vec4 v[4]) {
    if (M_NORM) {
        xn[g] = (dot(v[0], v[0]) + dot(v[1], v[1])) + (dot(v[2], v[2]) + dot(v[3], v[3]));
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            v[i] *= g == gl_LocalInvocationID.x ? P(norm)[i] : M_NORM_WEIGHT(4u * g + i);
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
    xf[slot] = vec2(scale, scale * float((sum.x + sum.y) + (sum.z + sum.w)));
}
#endif

#ifdef M_WORD
// Activations that an invocation asks for at once: its share of all, or of as many as the staging array holds.
const uint P(share) = (M_COLUMNS + T - 1u) / T;
const uint P(most) = STAGED < T ? 1u : STAGED / T;
const uint P(each) = P(share) < P(most) ? P(share) : P(most);
const uint P(stretch) = P(each) * T;

// Four floats of padding behind sixteen: neighbours read theirs from different banks.
#define STAGED_QUAD(i) ((i) / 4u + (i) / 16u)

void P(ask)(out uint bits[P(each)], uint base) {
    [[unroll]] for (uint k = 0u; k < P(each); k++) {
        bits[k] = READ_VALUE(M_WORD(min(base + k * T + gl_LocalInvocationID.x, M_COLUMNS - 1u)));
    }
}

// Reads the activations as they come in. A barrier must follow before they are used.
//
// Neighbours ask for neighbouring words, all that an invocation asks for are on their way at once, and are asked for again
// together: a loop for each word made a token of four models 5 to 20% longer on an NVIDIA H200, and so did a subgroup that looks
// for the others and has no weights to wait for.
void P(activate)() {
    uint lane = gl_LocalInvocationID.x;
    uint bits[P(each)];
    P(ask)(bits, 0u);
    for (uint base = 0u; base < M_COLUMNS; base += P(stretch)) {
        for (uint looks = 0u;; looks++) {
            bool there = true;
            [[unroll]] for (uint k = 0u; k < P(each); k++) {
                there = there && bits[k] != EMPTY;
            }
            if (there || !waits(looks)) {
                break;
            }
            P(ask)(bits, base);
        }
        [[unroll]] for (uint k = 0u; k < P(each); k++) {
            uint i = k * T + lane;
            staged[STAGED_QUAD(i)][i % 4u] = uintBitsToFloat(bits[k]);
        }
        bool more = base + P(stretch) < M_COLUMNS;
        if (more) {
            P(ask)(bits, base + P(stretch));
        }
        barrier();
        for (uint g = lane; g < min(P(stretch) / 16u, P(groups) - base / 16u); g += T) {
            vec4 v[4];
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                v[i] = staged[STAGED_QUAD(16u * g) + i];
            }
            P(quantise)(base / 16u + g, v);
        }
        if (more) {
            barrier();
        }
    }
}
#else
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
            v[i] = g == lane ? P(x)[i] : M_X(4u * g + i);
        }
        P(quantise)(g, v);
    }
#endif
}
#endif

// Adds the squares up to 32 sums, after that barrier; another one must follow.
void P(square)() {
    if (M_NORM) {
#ifdef FLOATS
        const uint count = T;
#else
        const uint count = P(groups);
#endif
        for (uint i = gl_LocalInvocationID.x; i < 32u; i += T) {
            float sum = 0.0;
            for (uint g = i; g < count; g += 32u) {
                sum += xn[g];
            }
            squares_of[i] = sum;
        }
    }
}

// The norm's factor.
float P(factor)(float epsilon) {
    if (!M_NORM) {
        return 1.0;
    }
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        sum += vec4(squares_of[4u * i], squares_of[4u * i + 1u], squares_of[4u * i + 2u], squares_of[4u * i + 3u]);
    }
    return 1.0 / sqrt(((sum.x + sum.z) + (sum.y + sum.w)) / float(M_COLUMNS) + epsilon);
}

#ifdef FLOATS
float P(dot)(Raw raw, uint index, uint u) {
    uint i = u * (UNIT / 4u);
    vec4 a = M_X(i);
    vec4 b = UNIT > 4u ? M_X(i + 1u) : vec4(0.0);
    if (M_NORM) {
        a *= M_NORM_WEIGHT(i);
        b *= UNIT > 4u ? M_NORM_WEIGHT(i + 1u) : vec4(0.0);
    }
    return unit_sum(raw, a, b);
}
#endif

// Uses what `load` loaded, into partial sums from `at` on.
void P(products)(uint at) {
    uint lane = gl_LocalInvocationID.x;
    if (lane >= M_ROWS * M_LANES) {
        return;
    }
    uint j = lane % M_LANES;
    float sum = 0.0;
    float sum_up = 0.0;
    [[unroll]] for (uint k = 0u; k < M_UNITS; k++) {
        uint u = j + k * M_LANES;
        if (P(even) || u < P(units)) {
#ifdef FLOATS
            sum += P(dot)(P(raw)[k], P(base) + k * M_LANES, u);
            sum_up += M_GATED ? P(dot)(P(raw_up)[M_GATED ? k : 0u], P(base) + k * M_LANES, u) : 0.0;
#else
            sum += unit_sum(P(raw)[k], P(base) + k * M_LANES, u, P(groups));
            sum_up += M_GATED ? unit_sum(P(raw_up)[M_GATED ? k : 0u], P(base) + k * M_LANES, u, P(groups)) : 0.0;
#endif
        }
    }
    at += j * P(stride) + lane / M_LANES;
    partial[at] = sum;
    if (M_GATED) {
        partial[at + P(plane)] = sum_up;
    }
}

// One row's sum, of which the first partial one is at `at`.
float P(sum)(uint at) {
    vec4 sum = vec4(0.0);
    for (uint j = 0u; j < M_LANES; j += 4u) {
        sum += vec4(partial[at + j * P(stride)], M_LANES > 1u ? partial[at + (j + 1u) * P(stride)] : 0.0,
                    M_LANES > 2u ? partial[at + (j + 2u) * P(stride)] : 0.0,
                    M_LANES > 2u ? partial[at + (j + 3u) * P(stride)] : 0.0);
    }
    return (sum.x + sum.z) + (sum.y + sum.w);
}

void P(finish)(Matrices m, uint first, uint at, float factor, float before) {
    uint r = gl_LocalInvocationID.x;
    float value = 0.0;
    if (r < M_ROWS && first + r < m.rows) {
        value = factor * P(sum)(at + r);
        float up = M_GATED ? factor * P(sum)(at + P(plane) + r) : 0.0;
        value = M_RESULT(first + r, value, up, before);
#ifndef M_STORE4
        M_STORE(first + r, value);
#endif
    }
#ifdef M_STORE4
    if (r < M_ROWS) {
        results[r] = value;
    }
    barrier();
    if (4u * r < M_ROWS && first + 4u * r < m.rows) {
        M_STORE4(first / 4u + r, vec4(results[4u * r], results[4u * r + 1u], results[4u * r + 2u], results[4u * r + 3u]));
    }
#endif
}

// The whole step of a workgroup, after `early`, `fetch` and `load` of its first pass: `first` is that pass's first row, `step` the
// rows that all workgroups together compute before the next one.
void P(run)(Matrices m, uint first, uint step) {
    if (first >= m.rows) {
        return;
    }
    P(activate)();
    barrier();
    P(square)();
    uint at = 0u;
    float factor = 0.0;
    bool begun = false;
    while (first < m.rows) {
        float before = M_BEFORE(min(first + gl_LocalInvocationID.x, m.rows - 1u));
        P(products)(at);
        if (first + step < m.rows) {
            P(load)(m, first + step);
        }
        barrier();
        if (!begun) {
            factor = P(factor)(m.epsilon);
            begun = true;
        }
        P(finish)(m, first, at, factor, before);
        at = P(buffer) - at; // the other half, while this one may still be read
        first += step;
    }
}
