// Which elements of a first factor of M x K an invocation has, eight of them: a matrix of numbers, row * K + column, tells who
// loads it as such. The including file defines M and K.

const uint K_OCTETS = K / 8u;

shared uvec4 places[M * K_OCTETS]; // halves

// Fills it. A barrier must follow.
void number_places() {
    for (uint i = gl_LocalInvocationID.x; i < M * K_OCTETS; i += gl_WorkGroupSize.x) {
        uvec4 v;
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            v[e] = packHalf2x16(vec2(8u * i + 2u * e, 8u * i + 2u * e + 1u));
        }
        places[i] = v;
    }
}
