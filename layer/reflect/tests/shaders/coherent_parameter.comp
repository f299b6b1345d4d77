// Coherence that only a parameter has, on its way to a variable that has none.
// expect 0.0 StorageImage One write {0}
// expect addresses none
// expect synchronising yes
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) writeonly uniform uimage2D flag;
void raise(coherent writeonly uimage2D target) { imageStore(target, ivec2(0), uvec4(1)); }
void main() { memoryBarrier(); raise(flag); }
