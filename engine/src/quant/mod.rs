//! Weight formats on the host: what a block means, and how it is laid out for the kernels.
//!
//! GGUF packs a scale and its weights together, 34 or 18 bytes a block, so blocks sit at addresses that no vector load
//! likes. [`repack()`] takes them apart once, when a model is loaded: all quants in one region, all scales in another.
//! Not a bit of either changes. [`dequantize_row`] is the definition of the formats in plain code; the CPU reference
//! and the F32 export use it, the kernels do not.
//!
//! The layouts of the formats are those of ggml (`ggml-common.h` and `dequantize_row_*` in `ggml-quants.c`).

mod dequantize;
mod largest;
mod repack;

#[cfg(test)]
mod tests;

pub use dequantize::dequantize_row;
pub use largest::largest;
pub use repack::{repack, repack_rows};

use crate::gguf::TensorType;

/// Formats that the engine computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // ggml's names
pub enum WeightType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats of IEEE 754.
    F16,
    /// The upper halves of 32-bit floats.
    BF16,
    /// Blocks of 32 signed bytes with one f16 scale.
    Q8_0,
    /// Blocks of 32 five-bit weights, offset by sixteen, with one f16 scale.
    Q5_0,
    /// Blocks of 32 nibbles with one f16 scale and one f16 minimum.
    Q4_1,
    /// Blocks of 32 nibbles, offset by eight, with one f16 scale.
    Q4_0,
    /// Blocks of 256 six-bit weights, offset by 32: sixteen signed byte scales under one f16 scale.
    Q6_K,
    /// Blocks of 256 nibbles: eight six-bit scales and minimums under one f16 scale and one f16 minimum.
    Q4_K,
}

/// Weights in one block of the formats with one scale a block.
pub const BLOCK: usize = 32;
/// Weights in one block of the formats with scales of two levels.
pub const SUPER_BLOCK: usize = 256;

impl WeightType {
    /// Every supported format.
    pub const ALL: [Self; 9] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q8_0,
        Self::Q5_0,
        Self::Q4_1,
        Self::Q4_0,
        Self::Q6_K,
        Self::Q4_K,
    ];

    /// The format of a GGUF tensor type, if the engine computes with it.
    pub fn from_tensor(ty: TensorType) -> Option<Self> {
        Self::ALL.into_iter().find(|weight| weight.tensor_type() == ty)
    }

    /// The GGUF tensor type of this format.
    pub fn tensor_type(self) -> TensorType {
        match self {
            Self::F32 => TensorType::F32,
            Self::F16 => TensorType::F16,
            Self::BF16 => TensorType::BF16,
            Self::Q8_0 => TensorType::Q8_0,
            Self::Q5_0 => TensorType::Q5_0,
            Self::Q4_1 => TensorType::Q4_1,
            Self::Q4_0 => TensorType::Q4_0,
            Self::Q6_K => TensorType::Q6_K,
            Self::Q4_K => TensorType::Q4_K,
        }
    }

    /// Whether weights come in blocks with scales.
    pub fn is_quantized(self) -> bool {
        self.block_elements() > 1
    }

    /// Columns come in multiples of this.
    pub fn column_multiple(self) -> u64 {
        self.block_elements().max(4)
    }

    /// Weights in one block; 1 for floats.
    pub fn block_elements(self) -> u64 {
        self.tensor_type().block_elements()
    }

    /// Bytes of the repacked quants (or floats) of `elements` weights, whole blocks.
    pub fn quant_bytes(self, elements: u64) -> u64 {
        match self {
            Self::F32 => elements * 4,
            Self::F16 | Self::BF16 => elements * 2,
            Self::Q8_0 => elements,
            Self::Q5_0 | Self::Q4_1 | Self::Q4_0 | Self::Q4_K => elements / 2,
            Self::Q6_K => elements / 4 * 3,
        }
    }

    /// Bytes of the repacked scales, in whole 32-bit words; none for floats.
    ///
    /// Q8_0, Q4_0: one half a block. Q4_1: scale and minimum, one word a block. Q5_0: the fifth bits, one word a block,
    /// and behind all of them the halves of the scales. Q4_K: sixteen bytes a block. Q6_K: five words a block.
    pub fn scale_bytes(self, elements: u64) -> u64 {
        let blocks = elements / self.block_elements();
        let halves = (blocks * 2).next_multiple_of(4);
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 0,
            Self::Q8_0 | Self::Q4_0 => halves,
            Self::Q4_1 => blocks * 4,
            Self::Q5_0 => blocks * 4 + halves,
            Self::Q4_K => blocks * 16,
            Self::Q6_K => blocks * 20,
        }
    }

    /// Bytes of one block in a file.
    pub fn block_bytes(self) -> usize {
        self.tensor_type().block_bytes() as usize
    }
}

impl std::fmt::Display for WeightType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tensor_type().fmt(f)
    }
}

/// The 16-bit float at the beginning of `bytes`.
fn half(bytes: &[u8]) -> f32 {
    half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Scale and minimum of one of the eight parts of a Q4_K block, out of its twelve packed bytes: six bits each, the
/// upper two bits of parts 4 to 7 in the upper bits of parts 0 to 3.
fn packed_scale_and_minimum(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        return (packed[part] & 63, packed[part + 4] & 63);
    }
    let scale = (packed[part + 4] & 15) | (packed[part - 4] >> 6 << 4);
    let minimum = (packed[part + 4] >> 4) | (packed[part] >> 6 << 4);
    (scale, minimum)
}
