// What moves from token to token. The host writes it before each submission; everything recorded in a command buffer
// stays the same, so one recording serves every token.
struct StepState {
    uint position; // of the token in its sequence, from 0
    uint token;    // its id
};
