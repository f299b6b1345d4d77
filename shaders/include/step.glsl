// What moves from token to token. The host writes it before each submission; everything recorded in a command buffer
// stays the same, so one recording serves every token.
struct StepState {
    uint position; // of the token in its sequence, from 0
    uint token;    // its id
};

// The first position that the token at `position` sees through a window of `window` positions, its own included.
uint first_visible(uint position, uint window) {
    return position < window ? 0u : position - window + 1u;
}
