//! Weights on their way from a mapped file to the device.
//!
//! A model may be larger than the host's memory, so it is never held there: a few megabytes at a time are repacked and
//! go through the staging buffer. What stays on the host while a matrix is uploaded are its scales, a ninth of its
//! bytes at most, because their layout on the device interleaves the whole matrix.

use std::rc::Rc;

use crate::decode::Error;
use crate::model::{Matrix, Model};
use crate::plan::{Part, Placement, Space};
use crate::progress;
use crate::quant::repack_rows;
use crate::vk::{Buffer, Device, Uploader, Use};

/// Bytes of a file that are repacked at once.
const PIECE: usize = 16 << 20;

/// Allocates what the placement says and fills it.
pub(crate) fn upload(
    device: &Rc<Device>,
    model: &Model<'_>,
    placement: &Placement,
    uploader: &mut Uploader,
) -> Result<Vec<Buffer>, Error> {
    let allocate = |bytes: &u64| Buffer::new(device, *bytes, Use::Device);
    let buffers: Vec<Buffer> = placement.allocations.iter().map(allocate).collect::<Result<_, _>>()?;
    let matrices = model.matrices();
    let bar = progress::bytes(matrices.iter().map(|m| m.data.len() as u64).sum(), "uploading");
    for matrix in matrices {
        for part in placement.parts(&matrix) {
            let row_bytes = matrix.data.len() / matrix.rows as usize;
            let data = &matrix.data[part.first_row as usize * row_bytes..][..part.rows as usize * row_bytes];
            upload_part(&buffers, &matrix, part, data, uploader, |bytes| bar.inc(bytes))?;
        }
    }
    bar.finish_and_clear();
    Ok(buffers)
}

fn upload_part(
    buffers: &[Buffer],
    matrix: &Matrix<'_>,
    part: &Part,
    data: &[u8],
    uploader: &mut Uploader,
    mut done: impl FnMut(u64),
) -> Result<(), Error> {
    let buffer = |space: Space| match space {
        Space::Weights(index) => &buffers[index as usize],
        other => unreachable!("weights are placed in their own buffers, not in {other:?}"),
    };
    let (ty, block) = (matrix.ty, matrix.ty.block_bytes());
    let quants = part.placed.quants;
    let blocks = (data.len() / block) as u64;
    // Pieces of an even number of blocks: their quants are whole words, as copies need.
    let piece = PIECE / (2 * block) * (2 * block);
    let mut scales = vec![0; part.placed.scales.map_or(0, |span| span.bytes) as usize];
    let mut repacked = Vec::new();
    let mut first = 0;
    for data in data.chunks(piece) {
        let count = (data.len() / block) as u64;
        repacked.resize(ty.quant_bytes(count * ty.block_elements()) as usize, 0);
        repack_rows(ty, data, first, blocks, &mut repacked, &mut scales).map_err(|block| {
            let before = u64::from(part.first_row) * blocks / u64::from(part.rows);
            Error::Scale { tensor: matrix.name.to_owned(), block: before + block }
        })?;
        let offset = quants.offset + ty.quant_bytes(first * ty.block_elements());
        uploader.upload(buffer(quants.space), offset, &repacked)?;
        first += count;
        done(data.len() as u64);
    }
    if let Some(span) = part.placed.scales {
        uploader.upload(buffer(span.space), span.offset, &scales)?;
    }
    Ok(())
}
