// Handing over from one dispatch to the next value by value, with no barrier between them.
//
// A barrier between two dispatches waits until the device is empty, and only then does the next one begin to fetch its weights.
// In a chain the next dispatch is already there, with its weights on the way, and waits for each value by itself: what steps hand
// over lies in words that are EMPTY before a token, each is written once in it, and whoever reads one reads until it is not EMPTY.
// A value says by itself that it is there, so no other write has to be ordered with it: loads and stores are atomic and relaxed, and
// there is neither a barrier of the device nor a counter on the way from one step to the next.
//
// A workgroup that waits keeps its place on a processor, so this needs the device to start the workgroups of an earlier dispatch
// first. Vulkan does not promise that. So every wait is bounded: who waits too long says so in `gave_up` and goes on with what is
// there, all others give up soon, and the host sees it.
//
// The including file includes scopes.glsl, defines CHAIN_BINDING, and has declared `result`, the words in which it hands over.

layout(std430, binding = CHAIN_BINDING) BETWEEN buffer Chain { uint gave_up; };

layout(constant_id = 41) const bool WAITS = true; // without: the control, which must give wrong numbers
layout(constant_id = 31) const uint SPINS = 4000000;

// A NaN that no operation returns; what is handed over is another one in its place.
const uint EMPTY = 0xffffffffu;

#define READ_VALUE(word) atomicLoad(word, gl_ScopeDevice, 0, 0)
#define HAND_OVER(word, value) atomicStore(word, filled(value), gl_ScopeDevice, 0, 0)

uint filled(float value) {
    uint bits = floatBitsToUint(value);
    return bits == EMPTY ? 0x7fc00000u : bits;
}

// Whether to look once more, after so many looks.
bool waits(uint looks) {
    if (!WAITS || (looks & 1023u) == 1023u && atomicLoad(gave_up, gl_ScopeDevice, 0, 0) != 0u) {
        return false;
    }
    if (looks >= SPINS) {
        atomicStore(gave_up, 1u, gl_ScopeDevice, 0, 0);
        return false;
    }
    return true;
}

// Words 4 i and following.
void hand_over4(uint i, vec4 v) {
    [[unroll]] for (uint e = 0u; e < 4u; e++) {
        HAND_OVER(result[4u * i + e], v[e]);
    }
}
