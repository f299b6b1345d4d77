//! The definition of each format in plain code: blocks in, f32 out.

use super::{WeightType, half, packed_scale_and_minimum};

/// Appends the weights of `data` (whole blocks of `ty`) to `out` as f32.
///
/// Scales are exact in f32; each product and sum is rounded once, as in ggml.
pub fn dequantize_row(ty: WeightType, data: &[u8], out: &mut Vec<f32>) {
    let blocks = data.chunks_exact(ty.block_bytes());
    match ty {
        WeightType::F32 => out.extend(blocks.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        WeightType::F16 => out.extend(blocks.map(half)),
        WeightType::BF16 => out.extend(blocks.map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32())),
        WeightType::Q8_0 => blocks.for_each(|block| {
            let scale = half(block);
            out.extend(block[2..].iter().map(|&q| scale * f32::from(q as i8)));
        }),
        WeightType::Q5_0 => blocks.for_each(|block| q5_0(block, out)),
        WeightType::Q4_1 => blocks.for_each(|block| {
            let (scale, minimum) = (half(block), half(&block[2..]));
            let value = |nibble: u8| scale * f32::from(nibble) + minimum;
            out.extend(block[4..].iter().map(|&q| value(q & 15)));
            out.extend(block[4..].iter().map(|&q| value(q >> 4)));
        }),
        WeightType::Q4_0 => blocks.for_each(|block| {
            let scale = half(block);
            let value = |nibble: u8| scale * (f32::from(nibble) - 8.0);
            out.extend(block[2..].iter().map(|&q| value(q & 15)));
            out.extend(block[2..].iter().map(|&q| value(q >> 4)));
        }),
        WeightType::Q6_K => blocks.for_each(|block| q6_k(block, out)),
        WeightType::Q4_K => blocks.for_each(|block| q4_k(block, out)),
    }
}

/// Scale, 32 fifth bits, 32 nibbles: the first half of the weights in the low nibbles.
fn q5_0(block: &[u8], out: &mut Vec<f32>) {
    let scale = half(block);
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    let value = |i: usize, nibble: u8| {
        let q = nibble | ((fifth >> i & 1) << 4) as u8;
        scale * (f32::from(q) - 16.0)
    };
    let nibbles = &block[6..];
    out.extend(nibbles.iter().enumerate().map(|(i, &q)| value(i, q & 15)));
    out.extend(nibbles.iter().enumerate().map(|(i, &q)| value(i + 16, q >> 4)));
}

/// Scale and minimum of the scales, twelve bytes of packed scales, 256 nibbles: each run of 32 bytes holds part 2j in
/// its low nibbles and part 2j + 1 in its high ones.
fn q4_k(block: &[u8], out: &mut Vec<f32>) {
    let (scale, minimum) = (half(block), half(&block[2..]));
    let packed = &block[4..16];
    for (pair, bytes) in block[16..].chunks_exact(32).enumerate() {
        for high in [0, 1] {
            let (s, m) = packed_scale_and_minimum(packed, 2 * pair + high);
            let (s, m) = (scale * f32::from(s), minimum * f32::from(m));
            out.extend(bytes.iter().map(|&q| s * f32::from(q >> (4 * high) & 15) - m));
        }
    }
}

/// 256 low nibbles, 256 upper pairs of bits, sixteen signed scales, and the scale of them. Each half of 128 weights is
/// four runs of 32: two in the low and two in the high nibbles of its 64 bytes, and run r has its upper bits at 2r of
/// its 32 bytes.
fn q6_k(block: &[u8], out: &mut Vec<f32>) {
    let (low, rest) = block.split_at(128);
    let (upper, rest) = rest.split_at(64);
    let scale = half(&rest[16..]);
    for part in 0..2 {
        let (low, upper, scales) = (&low[64 * part..], &upper[32 * part..], &rest[8 * part..]);
        for run in 0..4 {
            for i in 0..32 {
                let nibble = low[32 * (run % 2) + i] >> (4 * (run / 2)) & 15;
                let q = nibble | (upper[i] >> (2 * run) & 3) << 4;
                let scale = scale * f32::from(scales[2 * run + i / 16] as i8);
                out.push(scale * (f32::from(q) - 32.0));
            }
        }
    }
}
