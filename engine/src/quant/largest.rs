//! How large a matrix's weights can be, from its scales: whether halves hold them.

use half::{bf16, f16};

use super::{WeightType, half as half_at};

/// A bound on the magnitude of every weight in these blocks: the largest weight of floats, and of the quantised formats
/// the largest that a block's scales allow.
pub fn largest(ty: WeightType, blocks: &[u8]) -> f32 {
    let most = |values: &mut dyn Iterator<Item = f32>| values.fold(0f32, |most, v| most.max(v.abs()));
    let scaled = |factor: f32, minimum: Option<f32>| {
        let size = ty.block_bytes();
        let bound = |block: &[u8]| {
            factor * half_at(block).abs() + minimum.map_or(0.0, |factor| factor * half_at(&block[2..]).abs())
        };
        most(&mut blocks.chunks_exact(size).map(bound))
    };
    match ty {
        WeightType::F32 => {
            most(&mut blocks.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
        }
        WeightType::F16 => {
            most(&mut blocks.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()))
        }
        WeightType::BF16 => {
            most(&mut blocks.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()))
        }
        WeightType::Q8_0 => scaled(128.0, None),
        WeightType::Q5_0 => scaled(16.0, None),
        WeightType::Q4_0 => scaled(8.0, None),
        WeightType::Q4_1 => scaled(15.0, Some(1.0)),
        WeightType::Q4_K => scaled(63.0 * 15.0, Some(63.0)),
        WeightType::Q6_K => {
            let scale = |block: &[u8]| {
                let part = block[192..208].iter().map(|s| f32::from(*s as i8).abs()).fold(0.0, f32::max);
                32.0 * part * half_at(&block[208..]).abs()
            };
            most(&mut blocks.chunks_exact(ty.block_bytes()).map(scale))
        }
    }
}
