//! Tensor types: the numbers, names and block sizes that GGUF defines.
//!
//! Weights are stored in blocks of a fixed number of elements and a fixed number of bytes. That pair is all that a
//! reader needs to check a tensor's size, so the table lists every type, whether or not the engine computes with it.

/// A tensor's element type: an index into the table of types that GGUF defines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorType(u32);

/// (number in the file, name, elements a block, bytes a block); from `enum ggml_type` and `ggml-common.h`.
const TABLE: [(u32, &str, u64, u64); 34] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
];

impl TensorType {
    /// 32-bit floating point.
    pub const F32: Self = Self(0);
    /// 16-bit floating point of IEEE 754.
    pub const F16: Self = Self(1);
    /// The upper 16 bits of 32-bit floating point.
    pub const BF16: Self = Self(30);
    /// Blocks of 32 four-bit weights, one f16 scale: weight = scale * (nibble - 8).
    pub const Q4_0: Self = Self(2);
    /// Blocks of 32 four-bit weights, f16 scale and minimum: weight = scale * nibble + minimum.
    pub const Q4_1: Self = Self(3);
    /// Blocks of 32 five-bit weights, one f16 scale: weight = scale * (bits - 16).
    pub const Q5_0: Self = Self(6);
    /// Blocks of 32 eight-bit weights, one f16 scale: weight = scale * byte.
    pub const Q8_0: Self = Self(8);
    /// Blocks of 256 four-bit weights with eight scales and minimums of six bits.
    pub const Q4_K: Self = Self(12);
    /// Blocks of 256 six-bit weights with sixteen scales of eight bits.
    pub const Q6_K: Self = Self(14);

    /// The type with this number, if GGUF defines it.
    pub fn from_id(id: u32) -> Option<Self> {
        TABLE.iter().any(|entry| entry.0 == id).then_some(Self(id))
    }

    /// The number in the file.
    pub fn id(self) -> u32 {
        self.0
    }

    fn entry(self) -> &'static (u32, &'static str, u64, u64) {
        TABLE.iter().find(|entry| entry.0 == self.0).expect("a TensorType is only made from the table")
    }

    /// The name that ggml prints, such as `Q8_0`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Elements in one block.
    pub fn block_elements(self) -> u64 {
        self.entry().2
    }

    /// Bytes in one block.
    pub fn block_bytes(self) -> u64 {
        self.entry().3
    }

    /// Bytes that `elements` elements take, if they are whole blocks and the size fits 64 bits.
    pub fn bytes_for(self, elements: u64) -> Option<u64> {
        if !elements.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }

    /// Every name, for messages.
    pub fn list() -> String {
        TABLE.iter().map(|entry| entry.1).collect::<Vec<_>>().join(" ")
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Debug for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_q8_0_block_of_32_weights_takes_34_bytes() {
        assert_eq!(TensorType::Q8_0.bytes_for(64), Some(68));
    }

    #[test]
    fn a_partial_block_has_no_size() {
        assert_eq!(TensorType::Q4_0.bytes_for(33), None);
    }

    #[test]
    fn an_absurd_element_count_does_not_wrap() {
        assert_eq!(TensorType::F32.bytes_for(u64::MAX), None);
    }

    #[test]
    fn the_table_has_no_number_twice() {
        for (i, entry) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|other| other.0 != entry.0 && other.1 != entry.1));
        }
    }
}
