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
    /// `maxComputeWorkGroupInvocations`.
    pub workgroup: u32,
    /// `maxComputeSharedMemorySize`, bytes.
    pub shared_memory: u32,
    /// Weights and caches are split into allocations of about this size, or of `allocation` if that is less.
    pub target: u64,
}

#[cfg(test)]
impl Limits {
    /// Those of a device like most, for tests.
    pub(crate) const TYPICAL: Self = Self {
        alignment: 256,
        range: 1 << 27,
        allocation: 1 << 31,
        grid: [65535, 65535],
        workgroup: 1024,
        shared_memory: 32768,
        target: Self::TARGET,
    };
}

impl Limits {
    /// Alignment at which spans never share a cache line with a neighbour, whatever the device needs less.
    pub const ALIGNMENT: u64 = 256;

    /// Large enough that there are few, small enough that a fragmented memory has room.
    pub const TARGET: u64 = 1 << 30;

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

/// Where one matrix, or a part of its rows, lives on the device, repacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Quants, or floats.
    pub quants: Span,
    /// Scales, for formats that have them.
    pub scales: Option<Span>,
}

/// Some rows of a matrix, repacked as if they were a matrix of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The first of the rows.
    pub first_row: u32,
    /// How many.
    pub rows: u32,
    /// Where they are.
    pub placed: Placed,
}

/// Where all weights live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    by_name: HashMap<String, Vec<Part>>,
    /// Size of each allocation in bytes; the index is that of [`Space::Weights`].
    pub allocations: Vec<u64>,
}

impl Placement {
    /// The parts of a matrix of the placed model, in the order of their rows: one, unless a device binds less than the
    /// matrix takes.
    ///
    /// # Panics
    ///
    /// If the matrix belongs to another model: a mistake of the caller, not of a user.
    pub fn parts(&self, matrix: &Matrix<'_>) -> &[Part] {
        self.by_name.get(matrix.name).expect("every matrix of the model was placed")
    }

    /// Where a matrix of one part lives; `None` if it was split.
    ///
    /// # Panics
    ///
    /// As for [`Placement::parts`].
    pub fn whole(&self, matrix: &Matrix<'_>) -> Option<Placed> {
        match self.parts(matrix) {
            [part] => Some(part.placed),
            _ => None,
        }
    }

    /// Where the only row of a norm weight or bias lives.
    ///
    /// # Panics
    ///
    /// As for [`Placement::parts`], or if the matrix has several parts.
    pub fn of(&self, vector: &Matrix<'_>) -> Placed {
        self.whole(vector).expect("one row has one part")
    }
}

/// Lays out all weights of a model. A matrix beyond what the device binds in one range is split by rows.
pub fn place(model: &Model<'_>, limits: &Limits) -> Result<Placement, Error> {
    let target = limits.target.min(limits.allocation);
    let mut allocations = vec![0u64];
    let mut by_name = HashMap::new();
    for matrix in model.matrices() {
        let elements = matrix.elements();
        if elements > u64::from(u32::MAX) {
            return Err(Error::Index { name: matrix.name.to_owned(), elements });
        }
        let rows_a_part = rows_a_part(&matrix, limits)?;
        let mut parts = Vec::new();
        for first_row in (0..matrix.rows).step_by(rows_a_part as usize) {
            let rows = rows_a_part.min(matrix.rows - first_row);
            let (quants, scales) = part_bytes(&matrix, rows);
            let total = quants.next_multiple_of(limits.alignment) + scales;
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
            parts.push(Part { first_row, rows, placed });
        }
        by_name.insert(matrix.name.to_owned(), parts);
    }
    Ok(Placement { by_name, allocations })
}

/// Bytes of the quants and of the scales of `rows` rows.
fn part_bytes(matrix: &Matrix<'_>, rows: u32) -> (u64, u64) {
    let elements = u64::from(matrix.columns) * u64::from(rows);
    (matrix.ty.quant_bytes(elements), matrix.ty.scale_bytes(elements))
}

/// How many rows fit a range and an allocation; nearly equal parts, so that none is a small remainder.
fn rows_a_part(matrix: &Matrix<'_>, limits: &Limits) -> Result<u32, Error> {
    let check = |rows: u32| {
        let (quants, scales) = part_bytes(matrix, rows);
        let what = format!("tensor {}", matrix.name);
        limits.check_range(&what, quants.max(scales))?;
        limits.check_allocation(&what, quants.next_multiple_of(limits.alignment) + scales)
    };
    if check(matrix.rows).is_ok() {
        return Ok(matrix.rows);
    }
    // The rows of a part are a span of the result, so they begin where a span may begin.
    let step = (limits.alignment / 4) as u32;
    let mut parts = 2;
    loop {
        let rows = matrix.rows.div_ceil(parts).next_multiple_of(step);
        match check(rows) {
            Ok(()) => return Ok(rows),
            Err(error) if rows == step => return Err(error),
            Err(_) => parts += 1,
        }
    }
}

/// Buffers of one kind that are filled one after the other, each as large as the target at most.
#[derive(Debug, Clone)]
pub struct Arenas {
    space: fn(u32) -> Space,
    limits: Limits,
    all: Vec<Arena>,
}

impl Arenas {
    /// No buffers yet; `space` names the one of a number.
    pub fn new(space: fn(u32) -> Space, limits: &Limits) -> Self {
        Self { space, limits: *limits, all: Vec::new() }
    }

    /// A new span of `count` floats, in the last buffer if it fits there.
    pub fn floats(&mut self, count: u64) -> Span {
        let target = self.limits.target.min(self.limits.allocation);
        let fits = |arena: &&mut Arena| arena.used.next_multiple_of(arena.alignment) + count * 4 <= target;
        if let Some(arena) = self.all.last_mut().filter(fits) {
            return arena.floats(count);
        }
        let mut arena = Arena::new((self.space)(self.all.len() as u32), &self.limits);
        let span = arena.floats(count);
        self.all.push(arena);
        span
    }

    /// The buffers with their sizes in bytes.
    pub fn buffers(&self) -> impl Iterator<Item = (Space, u64)> + '_ {
        self.all.iter().map(|arena| (arena.space, arena.used))
    }
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
