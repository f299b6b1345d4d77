//! Random blocks, at about the speed of memory.
//!
//! A generator fills whole buffers; then only what must not be arbitrary is overwritten: scales, or the exponents of
//! floats. Scales come from a small table, picked by the byte that stood there.

use std::io;

use super::{Contents, Tensor};
use crate::quant::WeightType;

/// Bytes generated at once; whole blocks of every format.
const PIECE: usize = 1 << 20;

/// Hands out the data of one tensor in pieces.
pub(super) fn fill(
    contents: Contents,
    tensor: &Tensor,
    seed: u64,
    index: u64,
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    // Tensors have generators of their own, so that one more tensor does not change the others.
    let mut rng = fastrand::Rng::with_seed(seed ^ (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let elements: u64 = tensor.dims.iter().product();
    let mut floats = |next: &mut dyn FnMut(&mut fastrand::Rng, u64) -> f32| {
        let bytes: Vec<u8> = (0..elements).flat_map(|i| next(&mut rng, i).to_le_bytes()).collect();
        out(&bytes)
    };
    match contents {
        Contents::Norm => return floats(&mut |rng, _| 0.5 + rng.f32()),
        Contents::Bias => return floats(&mut |rng, _| (rng.f32() - 0.5) * 0.2),
        Contents::RopeFactors => return floats(&mut |_, pair| llama3_factor(pair, elements)),
        Contents::Weights => {}
    }
    let ty = WeightType::from_tensor(tensor.ty).expect("matrices have types that the engine computes with");
    let spread = 1.0 / (tensor.dims[0] as f32).sqrt();
    let block = ty.block_bytes();
    let mut left = tensor.bytes() as usize;
    let mut buffer = vec![0; (PIECE / block * block).min(left)];
    let shape = BlockShape::new(ty, spread);
    while left > 0 {
        let piece = buffer.len().min(left);
        let bytes = &mut buffer[..piece];
        rng.fill(bytes);
        shape.apply(bytes);
        out(bytes)?;
        left -= piece;
    }
    Ok(())
}

/// What Llama 3.1 and later divide the frequency of a pair by: 1 for short waves, 32 for long ones, smoothly between
/// (published in the model's configuration: factor 32, low 1, high 4, original context 8192, base 500000).
fn llama3_factor(pair: u64, pairs: u64) -> f32 {
    let (factor, low, high, original, base) = (32.0, 1.0, 4.0, 8192.0, 500_000f64);
    let wavelength = 2.0 * std::f64::consts::PI * base.powf(pair as f64 / pairs as f64);
    let smooth = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0);
    (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
}

/// How random bytes become blocks of a format.
enum BlockShape {
    /// Floats: bits to keep, and bits to set, of each word of the size.
    Words { size: usize, keep: u32, set: u32 },
    /// Quantised: where halves lie in a block of `block` bytes, each with a table of 16 to choose from.
    Scales { block: usize, tables: Vec<(usize, [[u8; 2]; 16])> },
}

impl BlockShape {
    fn new(ty: WeightType, spread: f32) -> Self {
        let exponent = spread.log2().floor() as i32;
        let biased = |bias: i32, mantissa: u32| ((exponent + bias).max(1) as u32) << mantissa;
        let table = |size: f32| {
            std::array::from_fn(|i| half::f16::from_f32(size * (0.5 + i as f32 / 16.0)).to_le_bytes())
        };
        // The standard deviation of the codes of each format, under a scale of one.
        let scales = |tables| Self::Scales { block: ty.block_bytes(), tables };
        match ty {
            WeightType::F32 => Self::Words { size: 4, keep: 0x807f_ffff, set: biased(127, 23) },
            WeightType::BF16 => Self::Words { size: 2, keep: 0x807f, set: biased(127, 7) },
            WeightType::F16 => Self::Words { size: 2, keep: 0x83ff, set: biased(15, 10) },
            WeightType::Q8_0 => scales(vec![(0, table(spread / 74.0))]),
            WeightType::Q5_0 => scales(vec![(0, table(spread / 9.2))]),
            WeightType::Q4_0 => scales(vec![(0, table(spread / 4.6))]),
            WeightType::Q4_1 => scales(vec![(0, table(spread / 4.6)), (2, table(-7.5 * spread / 4.6))]),
            WeightType::Q6_K => scales(vec![(208, table(spread / 1370.0))]),
            WeightType::Q4_K => scales(vec![(0, table(spread / 252.0)), (2, table(7.5 * spread / 252.0))]),
        }
    }

    fn apply(&self, bytes: &mut [u8]) {
        match self {
            Self::Words { size: 4, keep, set } => {
                for word in bytes.chunks_exact_mut(4) {
                    let bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) & keep | set;
                    word.copy_from_slice(&bits.to_le_bytes());
                }
            }
            Self::Words { keep, set, .. } => {
                for word in bytes.chunks_exact_mut(2) {
                    let bits = u16::from_le_bytes([word[0], word[1]]) & *keep as u16 | *set as u16;
                    word.copy_from_slice(&bits.to_le_bytes());
                }
            }
            Self::Scales { block, tables } => {
                for block in bytes.chunks_exact_mut(*block) {
                    // One choice for all halves of a block: a minimum belongs to its scale.
                    let choice = usize::from(block[tables[0].0] & 15);
                    for (at, table) in tables {
                        block[*at..at + 2].copy_from_slice(&table[choice]);
                    }
                }
            }
        }
    }
}
