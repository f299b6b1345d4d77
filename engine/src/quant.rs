//! Weight formats on the host: what a block means, and how it is laid out for the kernels.
//!
//! GGUF packs a scale and its weights together, 34 or 18 bytes a block, so blocks sit at addresses that no vector load
//! likes. [`repack`] takes them apart once, when a model is loaded: all quants in one region, all scales in another.
//! Not a bit of either changes. [`dequantize_row`] is the definition of the formats in plain code; the CPU reference
//! and the F32 export use it, the kernels do not.

use crate::gguf::TensorType;

/// Formats that the engine computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightType {
    /// 32-bit floats.
    F32,
    /// Blocks of 32 signed bytes with one f16 scale.
    Q8_0,
    /// Blocks of 32 nibbles, offset by eight, with one f16 scale.
    Q4_0,
}

/// Weights in one block of a quantised format.
pub const BLOCK: usize = 32;

impl WeightType {
    /// Every supported format.
    pub const ALL: [Self; 3] = [Self::F32, Self::Q8_0, Self::Q4_0];

    /// The format of a GGUF tensor type, if the engine computes with it.
    pub fn from_tensor(ty: TensorType) -> Option<Self> {
        Self::ALL.into_iter().find(|weight| weight.tensor_type() == ty)
    }

    /// The GGUF tensor type of this format.
    pub fn tensor_type(self) -> TensorType {
        match self {
            Self::F32 => TensorType::F32,
            Self::Q8_0 => TensorType::Q8_0,
            Self::Q4_0 => TensorType::Q4_0,
        }
    }

    /// Columns come in multiples of this.
    pub fn column_multiple(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Q8_0 | Self::Q4_0 => BLOCK as u64,
        }
    }

    /// Bytes of the repacked quants (or floats) of `elements` weights, whole blocks.
    pub fn quant_bytes(self, elements: u64) -> u64 {
        match self {
            Self::F32 => elements * 4,
            Self::Q8_0 => elements,
            Self::Q4_0 => elements / 2,
        }
    }

    /// Bytes of the repacked scales, none for F32: one half a block, padded to whole 32-bit words.
    pub fn scale_bytes(self, elements: u64) -> u64 {
        match self {
            Self::F32 => 0,
            Self::Q8_0 | Self::Q4_0 => (elements / BLOCK as u64 * 2).next_multiple_of(4),
        }
    }

    fn block_bytes(self) -> usize {
        self.tensor_type().block_bytes() as usize
    }
}

impl std::fmt::Display for WeightType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tensor_type().fmt(f)
    }
}

/// Appends the weights of `data` (whole blocks of `ty`) to `out` as f32.
///
/// The scale is exact in f32; scale times quant is rounded once, as in ggml.
pub fn dequantize_row(ty: WeightType, data: &[u8], out: &mut Vec<f32>) {
    match ty {
        WeightType::F32 => {
            out.extend(data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        }
        WeightType::Q8_0 => {
            for block in data.chunks_exact(ty.block_bytes()) {
                let scale = scale_of(block);
                out.extend(block[2..].iter().map(|&q| scale * f32::from(q as i8)));
            }
        }
        WeightType::Q4_0 => {
            for block in data.chunks_exact(ty.block_bytes()) {
                let scale = scale_of(block);
                let value = |nibble: u8| scale * (f32::from(nibble) - 8.0);
                out.extend(block[2..].iter().map(|&q| value(q & 15)));
                out.extend(block[2..].iter().map(|&q| value(q >> 4)));
            }
        }
    }
}

fn scale_of(block: &[u8]) -> f32 {
    half::f16::from_le_bytes([block[0], block[1]]).to_f32()
}

/// Splits whole blocks into `quants` and `scales`, exactly as large as [`WeightType::quant_bytes`] and
/// [`WeightType::scale_bytes`] say. Returns the number of the first block whose scale is infinite or NaN, if any: the
/// kernels' conversion has no case for those, and no sound model has them.
pub fn repack(ty: WeightType, data: &[u8], quants: &mut [u8], scales: &mut [u8]) -> Result<(), u64> {
    if ty == WeightType::F32 {
        quants.copy_from_slice(data);
        return Ok(());
    }
    let quant_bytes = ty.block_bytes() - 2;
    scales.fill(0);
    for (index, block) in data.chunks_exact(ty.block_bytes()).enumerate() {
        if !scale_of(block).is_finite() {
            return Err(index as u64);
        }
        scales[index * 2..index * 2 + 2].copy_from_slice(&block[..2]);
        quants[index * quant_bytes..(index + 1) * quant_bytes].copy_from_slice(&block[2..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_q4_0_block_holds_its_first_half_in_the_low_nibbles() {
        let mut block = vec![0; 18];
        block[..2].copy_from_slice(&half::f16::from_f32(2.0).to_le_bytes());
        block[2] = 0xf0 | 0x9; // element 0 is 9 - 8, element 16 is 15 - 8
        let mut out = Vec::new();
        dequantize_row(WeightType::Q4_0, &block, &mut out);
        assert_eq!((out[0], out[16], out[1]), (2.0, 14.0, -16.0));
    }

    #[test]
    fn a_q8_0_weight_is_its_signed_byte_times_the_scale() {
        let mut block = vec![0; 34];
        block[..2].copy_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
        block[2] = (-128i8) as u8;
        block[33] = 127;
        let mut out = Vec::new();
        dequantize_row(WeightType::Q8_0, &block, &mut out);
        assert_eq!((out[0], out[31]), (-64.0, 63.5));
    }

    #[test]
    fn repacking_moves_every_bit_and_refuses_an_infinite_scale() {
        let data: Vec<u8> = (0..3 * 34).map(|i| i as u8).collect();
        let (mut quants, mut scales) = (vec![0; 96], vec![9; 8]);
        repack(WeightType::Q8_0, &data, &mut quants, &mut scales).unwrap();
        assert_eq!(&quants[32..64], &data[36..68]);
        assert_eq!(scales, [data[0], data[1], data[34], data[35], data[68], data[69], 0, 0]);
        let mut bad = data;
        bad[34..36].copy_from_slice(&half::f16::INFINITY.to_le_bytes());
        assert_eq!(repack(WeightType::Q8_0, &bad, &mut quants, &mut scales), Err(1));
    }
}
