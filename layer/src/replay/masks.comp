#version 450
// Takes away what an operation has written, and gives it back: see replay/kernel.rs.
//
// `r` is the application's memory, `s` the layer's own. Masks have a byte of ones for each byte that was written.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer Real { uint r[]; };
layout(set = 0, binding = 1, std430) buffer Scratch { uint s[]; };
layout(push_constant) uniform Push {
    uint mode;
    uint words;
    uint real_at;
    uint before_at;
    uint value_at;
    uint mask_at;
    uint poison;
};

const uint TAKE_WRITTEN = 0u, TAKE_CHANGED = 1u, SHOW = 2u, HIDE = 3u;

// Ones in each byte in which `a` and `b` differ.
uint differing(uint a, uint b) {
    uint d = a ^ b;
    d |= d >> 4;
    d |= d >> 2;
    d |= d >> 1;
    return (d & 0x01010101u) * 0xffu;
}

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < words; i += gl_NumWorkGroups.x * 64u) {
        uint now = r[real_at + i];
        if (mode == TAKE_WRITTEN || mode == TAKE_CHANGED) {
            uint before = s[before_at + i];
            // Written once over the pattern, once over its opposite: what kept both was not written.
            uint mask = mode == TAKE_CHANGED
                ? differing(now, before)
                : differing(s[value_at + i], poison) | differing(now, ~poison);
            s[mask_at + i] = mask;
            if (mode == TAKE_CHANGED) s[value_at + i] = now;
            r[real_at + i] = (before & ~mask) | (poison & mask);
        } else {
            uint mask = s[mask_at + i];
            uint put = mode == SHOW ? s[value_at + i] : poison;
            r[real_at + i] = (now & ~mask) | (put & mask);
        }
    }
}
