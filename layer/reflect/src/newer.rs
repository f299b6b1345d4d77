//! Instructions and capabilities that the grammar of rspirv 0.13 (SDK 1.4.341) doesn't know yet.
//!
//! Real applications are ahead of any grammar: llama.cpp's Vulkan backend (ggml 0.27) has modules with
//! the capabilities 4229, 4232, 5447 and 6912 below. They are listed by number, with names and numbers from the `spirv.h` and
//! `spirv.core.grammar.json` of Khronos' SPIRV-Headers (`Reserved` and `Conversion` sections). When rspirv catches
//! up, an entry here becomes redundant and not wrong.

/// An opcode, its name, and that it takes only values and returns a value (`IdResultType`, `IdResult`, ids).
pub(crate) const VALUE_OPS: &[(u16, &str)] = &[
    // SPV_EXT_ocp_microscaling_types: reinterprets some bits of its first operand.
    (4195, "BitcastExtractEXT"),
    // SPV_VALVE_mixed_float_dot_product: two vectors and an accumulator.
    (6916, "FDot2MixAcc32VALVE"),
    (6917, "FDot2MixAcc16VALVE"),
    (6918, "FDot4MixAcc32VALVE"),
];

/// A capability, its name, and that it brings no way to reach memory other than the instructions that are listed.
pub(crate) const CAPABILITIES: &[(u32, &str)] = &[
    // SPV_EXT_ocp_microscaling_types: scalar formats, and the instruction above.
    (4228, "Float6EXT"),
    (4229, "Float4EXT"),
    (4230, "Float8UnsignedE8M0EXT"),
    (4231, "MXInt8EXT"),
    (4232, "BitcastExtractEXT"),
    // SPV_NV_cooperative_matrix_decode_vector: a second decode function as a tensor addressing operand of
    // OpCooperativeMatrixLoadTensorNV, found like the first: by being a function's id.
    (5447, "CooperativeMatrixDecodeVectorNV"),
    (6912, "DotProductFloat16AccFloat32VALVE"),
    (6913, "DotProductFloat16AccFloat16VALVE"),
    (6914, "DotProductBFloat16AccVALVE"),
    (6915, "DotProductFloat8AccFloat32VALVE"),
];

/// The name of an opcode of [`VALUE_OPS`].
pub(crate) fn value_op(opcode: u16) -> Option<&'static str> {
    VALUE_OPS.iter().find(|(number, _)| *number == opcode).map(|(_, name)| *name)
}

/// The name of a capability of [`CAPABILITIES`].
pub(crate) fn capability(number: u32) -> Option<&'static str> {
    CAPABILITIES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}
