// A batch of a prompt: the host writes it before each submission, so one recording serves every batch. The first token's
// position, the number of tokens, and their ids.
layout(std430, binding = 0) readonly buffer Batch { uint first_position; uint count; uint tokens[]; } batch;
