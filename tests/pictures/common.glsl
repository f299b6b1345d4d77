// What every shader of the pictures shares: one push-constant block, one table of bindings.
layout(push_constant) uniform Push {
    vec4 a;
    vec4 b;
} push;

// A well-mixed number out of another, the same on every device.
uint mix32(uint x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}
