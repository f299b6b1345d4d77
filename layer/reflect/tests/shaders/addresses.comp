// target vulkan1.2
// Buffer references: the pointer comes from a push constant and from memory; the buffer that holds it is only read.
// expect 0.0 StorageBuffer One read {0}
// expect 0.1 StorageBuffer One write {0}
// expect addresses both
// expect synchronising no
#version 450
#extension GL_EXT_buffer_reference : enable
layout(local_size_x = 64) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) buffer Node { Node next; float x[]; };
layout(push_constant) uniform P { Node root; };
layout(set = 0, binding = 0) buffer A { Node heads[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
float second(Node node) { Node next = node.next; return next.x[1]; }
void main() { heads[0].x[0] = 1.0; b[0] = second(root); }
