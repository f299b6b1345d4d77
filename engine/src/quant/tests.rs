//! Blocks written by hand, and what repacking keeps of any block.

use proptest::prelude::*;

use super::*;

fn f16(value: f32) -> [u8; 2] {
    half::f16::from_f32(value).to_le_bytes()
}

fn dequantized(ty: WeightType, block: &[u8]) -> Vec<f32> {
    let mut out = Vec::new();
    dequantize_row(ty, block, &mut out);
    out
}

#[test]
fn a_q4_0_block_holds_its_first_half_in_the_low_nibbles() {
    let mut block = vec![0; 18];
    block[..2].copy_from_slice(&f16(2.0));
    block[2] = 0xf0 | 0x9; // element 0 is 9 - 8, element 16 is 15 - 8
    let out = dequantized(WeightType::Q4_0, &block);
    assert_eq!((out[0], out[16], out[1]), (2.0, 14.0, -16.0));
}

#[test]
fn a_q8_0_weight_is_its_signed_byte_times_the_scale() {
    let mut block = vec![0; 34];
    block[..2].copy_from_slice(&f16(0.5));
    block[2] = (-128i8) as u8;
    block[33] = 127;
    let out = dequantized(WeightType::Q8_0, &block);
    assert_eq!((out[0], out[31]), (-64.0, 63.5));
}

#[test]
fn a_q4_1_block_adds_its_minimum() {
    let mut block = vec![0; 20];
    block[..2].copy_from_slice(&f16(0.5));
    block[2..4].copy_from_slice(&f16(-3.0));
    block[4] = 0x2f;
    let out = dequantized(WeightType::Q4_1, &block);
    assert_eq!((out[0], out[16], out[1]), (4.5, -2.0, -3.0));
}

#[test]
fn a_q5_0_block_takes_its_fifth_bits_in_order() {
    let mut block = vec![0; 22];
    block[..2].copy_from_slice(&f16(1.0));
    block[2..6].copy_from_slice(&(1u32 | 1 << 17).to_le_bytes());
    block[6] = 0x03; // element 0 is 3 + 16 - 16
    block[7] = 0x50; // element 17 is 5 + 16 - 16
    let out = dequantized(WeightType::Q5_0, &block);
    assert_eq!((out[0], out[17], out[16], out[1]), (3.0, 5.0, -16.0, -16.0));
}

#[test]
fn a_q4_k_block_has_eight_scales_and_minimums_of_six_bits() {
    let mut block = vec![0; 144];
    block[..2].copy_from_slice(&f16(1.0));
    block[2..4].copy_from_slice(&f16(0.5));
    block[4] = 63 | 2 << 6; // scale 0, and the upper bits of scale 4
    block[8] = 4 | 1 << 6; // minimum 0, and the upper bits of minimum 4
    block[12] = 0x95; // lower bits of scale 4 and minimum 4
    block[16] = 0x07; // element 0
    block[16 + 64] = 0x03; // element 128, the first of part 4
    let out = dequantized(WeightType::Q4_K, &block);
    assert_eq!(out.len(), 256);
    assert_eq!(out[0], 63.0 * 7.0 - 0.5 * 4.0);
    assert_eq!(out[128], f32::from(0x25u8) * 3.0 - 0.5 * f32::from(0x19u8));
}

#[test]
fn a_q6_k_block_interleaves_four_runs_of_each_half() {
    let mut block = vec![0; 210];
    block[208..].copy_from_slice(&f16(0.25));
    block[192..208].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, (-16i8) as u8]);
    block[64 + 32 + 17] = 0xa0; // half 1, run 3, element 17: nibble 10
    block[128 + 32 + 17] = 0b11 << 6; // its upper bits
    let out = dequantized(WeightType::Q6_K, &block);
    assert_eq!(out[128 + 96 + 17], 0.25 * -16.0 * (58.0 - 32.0));
    assert_eq!(out[0], 0.25 * -32.0);
    assert_eq!(out[48], 0.25 * 4.0 * -32.0);
}

#[test]
fn repacking_refuses_an_infinite_scale_and_names_its_block() {
    for ty in WeightType::ALL {
        let elements = 4 * ty.block_elements();
        let mut data = vec![0; 4 * ty.block_bytes()];
        let scale = if ty == WeightType::Q6_K { 208 } else { 0 };
        data[2 * ty.block_bytes() + scale..][..2].copy_from_slice(&half::f16::INFINITY.to_le_bytes());
        let mut quants = vec![0; ty.quant_bytes(elements) as usize];
        let mut scales = vec![0; ty.scale_bytes(elements) as usize];
        let result = repack(ty, &data, &mut quants, &mut scales);
        let has_scale = !matches!(ty, WeightType::F32 | WeightType::BF16);
        assert_eq!(result, if has_scale { Err(2) } else { Ok(()) }, "{ty}");
    }
}

#[test]
fn the_regions_are_as_large_as_the_blocks_but_for_padding() {
    for ty in WeightType::ALL {
        let elements = 8 * ty.block_elements();
        let repacked = ty.quant_bytes(elements) + ty.scale_bytes(elements);
        let file = 8 * ty.block_bytes() as u64;
        let padding = if ty == WeightType::Q6_K { 8 * 2 } else { 0 };
        assert_eq!(repacked, file + padding, "{ty}");
    }
}

proptest! {
    #[test]
    fn repacking_in_pieces_equals_repacking_at_once_and_keeps_every_bit(seed: u64, cut in 1usize..7) {
        let mut rng = fastrand::Rng::with_seed(seed);
        for ty in WeightType::ALL {
            let (blocks, size) = (8usize, ty.block_bytes());
            // Exponents of halves below 31, wherever they are.
            let data: Vec<u8> = (0..blocks * size).map(|_| rng.u8(..) & 0xbb).collect();
            let elements = blocks as u64 * ty.block_elements();
            let sizes = (ty.quant_bytes(elements) as usize, ty.scale_bytes(elements) as usize);
            let (mut quants, mut scales) = (vec![0; sizes.0], vec![0; sizes.1]);
            repack(ty, &data, &mut quants, &mut scales).unwrap();
            let (mut pieces, mut pieces_scales) = (vec![0; sizes.0], vec![0; sizes.1]);
            let at = sizes.0 / blocks * cut;
            let (head, tail) = pieces.split_at_mut(at);
            repack_rows(ty, &data[..cut * size], 0, 8, head, &mut pieces_scales).unwrap();
            repack_rows(ty, &data[cut * size..], cut as u64, 8, tail, &mut pieces_scales).unwrap();
            prop_assert_eq!((&pieces, &pieces_scales), (&quants, &scales));
            let bits = |bytes: &[u8]| bytes.iter().map(|b| b.count_ones()).sum::<u32>();
            prop_assert_eq!(bits(&quants) + bits(&scales), bits(&data));
        }
    }
}

/// Blocks of random bytes whose halves are finite.
fn random_blocks(ty: WeightType, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut blocks: Vec<u8> = (0..8 * ty.block_bytes()).map(|_| rng.u8(..)).collect();
    for block in blocks.chunks_exact_mut(ty.block_bytes()) {
        let halves: &[usize] = match ty {
            WeightType::Q4_1 | WeightType::Q4_K => &[0, 2],
            WeightType::Q6_K => &[208],
            _ => &[0],
        };
        for at in halves {
            let value = (rng.f32() - 0.5) * 100.0;
            if ty == WeightType::F32 {
                block.copy_from_slice(&value.to_le_bytes());
            } else if ty == WeightType::BF16 {
                block.copy_from_slice(&half::bf16::from_f32(value).to_le_bytes());
            } else {
                block[*at..at + 2].copy_from_slice(&f16(value));
            }
        }
    }
    blocks
}

#[test]
fn no_weight_is_above_what_its_scales_allow_and_the_bound_is_near() {
    for ty in WeightType::ALL {
        for seed in 0..20 {
            let blocks = random_blocks(ty, seed);
            let weights = dequantized(ty, &blocks);
            let most = weights.iter().fold(0f32, |most, w| most.max(w.abs()));
            let bound = largest(ty, &blocks);
            assert!(most <= bound, "{ty}: {most} above {bound}");
            let near = if ty.is_quantized() { 6.0 * most } else { most };
            assert!(bound <= near, "{ty}: {bound} is far above {most}");
        }
    }
}
