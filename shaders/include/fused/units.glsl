// Weights in units: what one invocation loads and multiplies at a time.
//
// A unit is sixteen bytes of quants (or floats) with the scales that belong to them, so neighbouring invocations load
// neighbouring sixteen bytes. A row is a whole number of units, and rows follow each other without gaps. Each format
// says how many columns a unit has (UNIT), what has to be in registers until it is used (Raw), how that is loaded, and
// what it contributes to its row's sum.
//
// Quantised weights are multiplied with quantised activations: sixteen neighbouring columns (a group) are signed bytes
// xq with one scale, xf.x, and xf.y is that scale times the sum of the bytes, for formats with an offset or a minimum. SLOT
// says where a group is in those arrays: the order in which neighbouring invocations read without bank conflicts.
//
// `quants` counts units from the beginning of binding `weights`, `scales` words of binding `scale_words`; both say where
// the matrix begins. `index` is the unit's number in the matrix, `total` the number of all its units.

vec2 halves(uint word) {
    return unpackHalf2x16(word);
}

float half_at(uint word, uint index) {
    vec2 pair = halves(word);
    return (index & 1u) == 0u ? pair.x : pair.y;
}

#define LOW(q) ((q) & 0x0f0f0f0fu)
#define HIGH(q) (((q) >> 4) & 0x0f0f0f0fu)

#if defined(Q4_0) || defined(Q4_1) || defined(Q5_0)
#define UNIT 32u
#define SLOT(group, groups) (((group) & 1u) * ((groups) / 2u) + (group) / 2u)
#elif defined(Q8_0)
#define UNIT 16u
#define SLOT(group, groups) (group)
#elif defined(Q4_K) || defined(Q6_K)
#define UNIT 32u
#define SLOT(group, groups) (group)
#elif defined(F32)
#define UNIT 4u
#define FLOATS
#elif defined(F16) || defined(BF16)
#define UNIT 8u
#define FLOATS
#endif

#if defined(Q4_0)

struct Raw { uvec4 q; uint s; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    return Raw(weights[quants + index], scale_words[scales + index / 2u]);
}

float unit_sum(Raw raw, uint index, uint u, uint groups) {
    uint lo = SLOT(2u * u, groups);
    uint hi = SLOT(2u * u + 1u, groups);
    float sum = xf[lo].x * exact_float(dot16(LOW(raw.q), xq[lo])) + xf[hi].x * exact_float(dot16(HIGH(raw.q), xq[hi]));
    return half_at(raw.s, index) * (sum - 8.0 * (xf[lo].y + xf[hi].y));
}

#elif defined(Q4_1)

struct Raw { uvec4 q; uint s; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    return Raw(weights[quants + index], scale_words[scales + index]);
}

float unit_sum(Raw raw, uint index, uint u, uint groups) {
    uint lo = SLOT(2u * u, groups);
    uint hi = SLOT(2u * u + 1u, groups);
    vec2 s = halves(raw.s);
    float sum = xf[lo].x * exact_float(dot16(LOW(raw.q), xq[lo])) + xf[hi].x * exact_float(dot16(HIGH(raw.q), xq[hi]));
    return s.x * sum + s.y * (xf[lo].y + xf[hi].y);
}

#elif defined(Q5_0)

struct Raw { uvec4 q; uint s; uint h; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    return Raw(weights[quants + index], scale_words[scales + total + index / 2u], scale_words[scales + index]);
}

// Bits 0 to 3 of each component, one to a byte, each worth sixteen.
uvec4 spread(uvec4 bits) {
    return (((bits & 15u) * 0x00204081u) & 0x01010101u) << 4;
}

float unit_sum(Raw raw, uint index, uint u, uint groups) {
    uint lo = SLOT(2u * u, groups);
    uint hi = SLOT(2u * u + 1u, groups);
    uvec4 low = LOW(raw.q) | spread(uvec4(raw.h) >> uvec4(0, 4, 8, 12));
    uvec4 high = HIGH(raw.q) | spread(uvec4(raw.h) >> uvec4(16, 20, 24, 28));
    float sum = xf[lo].x * exact_float(dot16(low, xq[lo])) + xf[hi].x * exact_float(dot16(high, xq[hi]));
    return half_at(raw.s, index) * (sum - 16.0 * (xf[lo].y + xf[hi].y));
}

#elif defined(Q8_0)

struct Raw { uvec4 q; uint s; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    return Raw(weights[quants + index], scale_words[scales + index / 4u]);
}

float unit_sum(Raw raw, uint index, uint u, uint groups) {
    return half_at(raw.s, index / 2u) * (xf[u].x * exact_float(dot16(raw.q, xq[u])));
}

#elif defined(Q4_K)

// Eight units a block of 256: unit 2j + h has in its low nibbles columns 64j + 16h and following, in its high nibbles
// those 32 columns on.
struct Raw { uvec4 q; uvec4 s; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    uint at = scales + index / 8u * 4u;
    return Raw(weights[quants + index], uvec4(scale_words[at], scale_words[at + 1u], scale_words[at + 2u], scale_words[at + 3u]));
}

// Scale and minimum of part `part` of eight: six bits each, the upper two bits of parts 4 to 7 in the upper bits of
// parts 0 to 3.
vec2 part_scale(uvec4 s, uint part) {
    uint shift = 8u * (part & 3u);
    uint a = (s.y >> shift) & 255u;
    uint b = (s.z >> shift) & 255u;
    uint c = (s.w >> shift) & 255u;
    return part < 4u ? vec2(a & 63u, b & 63u) : vec2((c & 15u) | ((a >> 6) << 4), (c >> 4) | ((b >> 6) << 4));
}

float unit_sum(Raw raw, uint index, uint u, uint groups) {
    uint part = 2u * ((u & 7u) / 2u);
    uint lo = u / 8u * 16u + 2u * part + (u & 1u);
    uint hi = lo + 2u;
    vec2 d = halves(raw.s.x);
    vec2 a = part_scale(raw.s, part);
    vec2 b = part_scale(raw.s, part + 1u);
    float sum = a.x * (xf[lo].x * exact_float(dot16(LOW(raw.q), xq[lo]))) + b.x * (xf[hi].x * exact_float(dot16(HIGH(raw.q), xq[hi])));
    return d.x * sum - d.y * (a.y * xf[lo].y + b.y * xf[hi].y);
}

#elif defined(Q6_K)

// Eight units a block of 256, as the file has them: 128 bytes of low nibbles, then 64 of upper bits. Unit 4n + c has in
// its low nibbles columns 128n + 16c and following, in its high nibbles those 64 columns on.
struct Raw { uvec4 q; uvec4 h; uint a; uint b; uint d; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    uint block = index / 8u;
    uint n = (index & 7u) / 4u;
    uint c = index & 3u;
    uint at = quants + block * 12u;
    uint s = scales + block * 5u;
    return Raw(weights[at + 4u * n + c], weights[at + 8u + 2u * n + (c & 1u)], scale_words[s + 2u * n],
               scale_words[s + 2u * n + 1u], scale_words[s + 4u]);
}

// Six-bit codes 0 to 63 less 32 in each byte, as signed bytes: no borrow leaves a byte.
uvec4 less_32(uvec4 codes) {
    return ((codes | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
}

float unit_sum(Raw raw, uint index, uint u, uint groups) {
    uint c = u & 3u;
    uint lo = u / 4u * 8u + c;
    uint hi = lo + 4u;
    uint shift = 2u * (c / 2u);
    uvec4 low = less_32(LOW(raw.q) | (((raw.h >> shift) & 0x03030303u) << 4));
    uvec4 high = less_32(HIGH(raw.q) | (((raw.h >> (shift + 4u)) & 0x03030303u) << 4));
    float sl = float((int(raw.a) << (24u - 8u * c)) >> 24);
    float sh = float((int(raw.b) << (24u - 8u * c)) >> 24);
    float sum = sl * (xf[lo].x * exact_float(dot16(low, xq[lo]))) + sh * (xf[hi].x * exact_float(dot16(high, xq[hi])));
    return halves(raw.d).x * sum;
}

#elif defined(F32)

struct Raw { uvec4 q; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    return Raw(weights[quants + index]);
}

float unit_sum(Raw raw, vec4 a, vec4 b) {
    return dot(uintBitsToFloat(raw.q), a);
}

#elif defined(F16)

struct Raw { uvec4 q; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    return Raw(weights[quants + index]);
}

float unit_sum(Raw raw, vec4 a, vec4 b) {
    return dot(vec4(halves(raw.q.x), halves(raw.q.y)), a) + dot(vec4(halves(raw.q.z), halves(raw.q.w)), b);
}

#elif defined(BF16)

struct Raw { uvec4 q; };

Raw load_unit(uint quants, uint scales, uint index, uint total) {
    return Raw(weights[quants + index]);
}

float unit_sum(Raw raw, vec4 a, vec4 b) {
    uvec4 odd = raw.q & 0xffff0000u;
    uvec4 even = raw.q << 16;
    return dot(uintBitsToFloat(uvec4(even.x, odd.x, even.y, odd.y)), a)
         + dot(uintBitsToFloat(uvec4(even.z, odd.z, even.w, odd.w)), b);
}

#endif
