//! From the blocks of a file to the two regions that the kernels read.

use super::{WeightType, half};

/// Splits whole blocks into `quants` and `scales`, exactly as large as [`WeightType::quant_bytes`] and
/// [`WeightType::scale_bytes`] say. Returns the number of the first block whose scale (or, for F16, weight) is infinite
/// or NaN, if any: the kernels' conversion has no case for those, and no sound model has them.
pub fn repack(ty: WeightType, data: &[u8], quants: &mut [u8], scales: &mut [u8]) -> Result<(), u64> {
    let blocks = (data.len() / ty.block_bytes()) as u64;
    repack_rows(ty, data, 0, blocks, quants, scales)
}

/// The same for a piece of a matrix of `blocks` blocks in all that begins at block `first`: `quants` has only the
/// piece's bytes, `scales` all of the matrix's. So a large matrix is repacked with little memory.
pub fn repack_rows(
    ty: WeightType,
    data: &[u8],
    first: u64,
    blocks: u64,
    quants: &mut [u8],
    scales: &mut [u8],
) -> Result<(), u64> {
    let bad = |index: usize| Err(first + index as u64);
    let finite = |index: usize, halves: &[&[u8]]| {
        if halves.iter().all(|h| half(h).is_finite()) { Ok(()) } else { bad(index) }
    };
    let each = data.chunks_exact(ty.block_bytes()).enumerate();
    let at = |index: usize, size: usize| (first as usize + index) * size;
    match ty {
        WeightType::F32 | WeightType::BF16 => quants.copy_from_slice(data),
        WeightType::F16 => {
            for (index, block) in each {
                finite(index, &[block])?;
            }
            quants.copy_from_slice(data);
        }
        WeightType::Q8_0 | WeightType::Q4_0 => {
            let size = ty.block_bytes() - 2;
            for (index, block) in each {
                finite(index, &[block])?;
                scales[at(index, 2)..][..2].copy_from_slice(&block[..2]);
                quants[index * size..][..size].copy_from_slice(&block[2..]);
            }
        }
        WeightType::Q4_1 => {
            for (index, block) in each {
                finite(index, &[block, &block[2..]])?;
                scales[at(index, 4)..][..4].copy_from_slice(&block[..4]);
                quants[index * 16..][..16].copy_from_slice(&block[4..]);
            }
        }
        WeightType::Q5_0 => {
            let halves = 4 * blocks as usize;
            for (index, block) in each {
                finite(index, &[block])?;
                scales[at(index, 4)..][..4].copy_from_slice(&block[2..6]);
                scales[halves + at(index, 2)..][..2].copy_from_slice(&block[..2]);
                quants[index * 16..][..16].copy_from_slice(&block[6..]);
            }
        }
        WeightType::Q4_K => {
            for (index, block) in each {
                finite(index, &[block, &block[2..]])?;
                scales[at(index, 16)..][..16].copy_from_slice(&block[..16]);
                quants[index * 128..][..128].copy_from_slice(&block[16..]);
            }
        }
        WeightType::Q6_K => {
            for (index, block) in each {
                finite(index, &[&block[208..]])?;
                let scales = &mut scales[at(index, 20)..][..20];
                scales[..18].copy_from_slice(&block[192..]);
                scales[18..].fill(0);
                quants[index * 192..][..192].copy_from_slice(&block[..192]);
            }
        }
    }
    Ok(())
}
