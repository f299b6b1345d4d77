//! Where bytes live: weights in few large allocations, activations in one arena.
//!
//! A device limits how many allocations there may be (often 4096), how large one may be, and how a bound range is
//! aligned. So tensors become aligned sub-ranges of allocations that are filled one after the other, in the order in
//! which a token meets them: neighbours in time are neighbours in memory.

use std::collections::HashMap;

use super::{Error, Space, Span};
use crate::model::{Matrix, Model};

/// What a device allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Alignment of every span: a power of two, at least `minStorageBufferOffsetAlignment`.
    pub alignment: u64,
    /// `maxStorageBufferRange`.
    pub range: u64,
    /// `maxMemoryAllocationSize`.
    pub allocation: u64,
    /// `maxComputeWorkGroupCount` along x and y.
    pub grid: [u32; 2],
}

impl Limits {
    /// Alignment at which spans never share a cache line with a neighbour, whatever the device needs less.
    pub const ALIGNMENT: u64 = 256;

    /// Refuses a span that cannot be bound.
    pub fn check_range(&self, what: &str, bytes: u64) -> Result<(), Error> {
        if bytes > self.range {
            return Err(Error::Range { what: what.to_owned(), bytes, largest: self.range });
        }
        Ok(())
    }

    /// Refuses a buffer that cannot be allocated.
    pub fn check_allocation(&self, what: &str, bytes: u64) -> Result<(), Error> {
        if bytes > self.allocation {
            return Err(Error::Allocation { what: what.to_owned(), bytes, largest: self.allocation });
        }
        Ok(())
    }
}

/// Weights are split into allocations of about this size, or the device's limit if that is less.
const TARGET_ALLOCATION: u64 = 1 << 30;

/// Where one matrix lives on the device, repacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Quants, or floats.
    pub quants: Span,
    /// Scales, for formats that have them.
    pub scales: Option<Span>,
}

/// Where all weights live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    by_name: HashMap<String, Placed>,
    /// Size of each allocation in bytes; the index is that of [`Space::Weights`].
    pub allocations: Vec<u64>,
}

impl Placement {
    /// Where a matrix of the placed model lives.
    ///
    /// # Panics
    ///
    /// If the matrix belongs to another model: a mistake of the caller, not of a user.
    pub fn of(&self, matrix: &Matrix<'_>) -> Placed {
        *self.by_name.get(matrix.name).expect("every matrix of the model was placed")
    }
}

/// Lays out all weights of a model.
pub fn place(model: &Model<'_>, limits: &Limits) -> Result<Placement, Error> {
    let target = TARGET_ALLOCATION.min(limits.allocation);
    let mut allocations = vec![0u64];
    let mut by_name = HashMap::new();
    for matrix in model.matrices() {
        let elements = matrix.elements();
        if elements > u64::from(u32::MAX) {
            return Err(Error::Index { name: matrix.name.to_owned(), elements });
        }
        let (quants, scales) = (matrix.ty.quant_bytes(elements), matrix.ty.scale_bytes(elements));
        for bytes in [quants, scales] {
            limits.check_range(&format!("tensor {}", matrix.name), bytes)?;
        }
        let total = quants.next_multiple_of(limits.alignment) + scales;
        limits.check_allocation(&format!("tensor {}", matrix.name), total)?;
        let mut offset = allocations.last().expect("never empty").next_multiple_of(limits.alignment);
        if offset > 0 && offset + total > target {
            allocations.push(0);
            offset = 0;
        }
        let space = Space::Weights(allocations.len() as u32 - 1);
        let scales_offset = offset + quants.next_multiple_of(limits.alignment);
        let placed = Placed {
            quants: Span { space, offset, bytes: quants },
            scales: (scales > 0).then_some(Span { space, offset: scales_offset, bytes: scales }),
        };
        *allocations.last_mut().expect("never empty") = offset + total;
        by_name.insert(matrix.name.to_owned(), placed);
    }
    Ok(Placement { by_name, allocations })
}

/// Hands out spans of one buffer, one after the other.
#[derive(Debug, Clone)]
pub struct Arena {
    space: Space,
    alignment: u64,
    used: u64,
}

impl Arena {
    /// An empty buffer.
    pub fn new(space: Space, limits: &Limits) -> Self {
        Self { space, alignment: limits.alignment, used: 0 }
    }

    /// A new span of `bytes` bytes.
    pub fn take(&mut self, bytes: u64) -> Span {
        let offset = self.used.next_multiple_of(self.alignment);
        self.used = offset + bytes;
        Span { space: self.space, offset, bytes }
    }

    /// A new span of `count` floats.
    pub fn floats(&mut self, count: u64) -> Span {
        self.take(count * 4)
    }

    /// Bytes handed out so far, with gaps.
    pub fn bytes(&self) -> u64 {
        self.used
    }
}
