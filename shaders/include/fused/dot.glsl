// Dot products of four signed bytes, the heart of the quantised kernels.
//
// Two builds of each kernel differ in this only: one uses OpSDot (SPV_KHR_integer_dot_product, core in Vulkan 1.3), one
// spells the same sum out for devices without it. Both are exact, so they give the same bits.

#ifdef NATIVE_DOT
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int signed_dot(int a, int b, spirv_literal int packing);

int dot4(uint a, uint b) {
    return signed_dot(int(a), int(b), 0);
}
#else
int dot4(uint a, uint b) {
    ivec4 p = ((ivec4(int(a)) << ivec4(24, 16, 8, 0)) >> 24) * ((ivec4(int(b)) << ivec4(24, 16, 8, 0)) >> 24);
    return (p.x + p.y) + (p.z + p.w);
}
#endif

// An integer of less than 2^22 as a float, exactly: in the mantissa of 1.5 * 2^23. Conversions are slow on some devices.
float exact_float(int v) {
    return uintBitsToFloat(uint(v) + 0x4b400000u) - 12582912.0;
}

int dot16(uvec4 a, uvec4 b) {
    return (dot4(a.x, b.x) + dot4(a.y, b.y)) + (dot4(a.z, b.z) + dot4(a.w, b.w));
}
