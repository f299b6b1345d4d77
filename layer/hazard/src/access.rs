//! What an operation touches: ranges of memory, and how.
//!
//! A range is a place in a *memory allocation*, never in a buffer: two buffers may alias one allocation, and then
//! they conflict (docs/semantics.md, "The world of the model"). The identity of an allocation is a number that the caller never
//! uses twice, because Vulkan handles are reused after destruction.

use crate::scope::{Flags, Stages};

/// The identity of one memory allocation, unique for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub u64);

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range {
    /// Somewhere; it overlaps every range.
    Anywhere,
    /// The bytes `start..end` of one allocation.
    Bytes {
        /// The allocation.
        memory: MemoryId,
        /// The first byte.
        start: u64,
        /// One past the last byte; a range with `end <= start` is empty and overlaps nothing.
        end: u64,
    },
}

impl Range {
    /// The bytes `offset..offset + size` of an allocation, rounded outwards to multiples of `granule` bytes.
    ///
    /// The memory model makes disjoint bytes independent, but drivers that flush whole cache lines have shipped
    /// (docs/semantics.md). A sum beyond `u64` ends at the last byte.
    #[inline]
    pub fn bytes(memory: MemoryId, offset: u64, size: u64, granule: u64) -> Range {
        let granule = granule.max(1);
        let end = offset.saturating_add(size);
        if end <= offset {
            return Range::Bytes { memory, start: offset, end: offset };
        }
        if granule.is_power_of_two() {
            // As below; divisions take longer than all the rest.
            let mask = granule - 1;
            return Range::Bytes {
                memory,
                start: offset & !mask,
                end: end.checked_add(mask).map_or(u64::MAX, |e| e & !mask),
            };
        }
        Range::Bytes {
            memory,
            start: offset - offset % granule,
            end: end.checked_next_multiple_of(granule).unwrap_or(u64::MAX),
        }
    }

    /// Whether the two share a byte.
    #[inline]
    pub fn overlaps(&self, other: &Range) -> bool {
        match (self, other) {
            (Range::Bytes { memory: a, start: s, end: e }, Range::Bytes { memory: b, start: t, end: f }) => {
                a == b && s.max(t) < e.min(f)
            }
            (Range::Anywhere, r) | (r, Range::Anywhere) => !r.is_empty(),
        }
    }

    /// Whether no byte is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self, Range::Bytes { start, end, .. } if end <= start)
    }
}

/// Whether an access reads or writes. An operation that does both has two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The bytes are read.
    Read,
    /// The bytes are written.
    Write,
}

/// One access of an operation.
///
/// With several bits in `stages` or `flags` it stands for one access at *each* of those stages with *each* of
/// those flags: that is how something unknown is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// The bytes.
    pub range: Range,
    /// Read or write.
    pub kind: Kind,
    /// The pipeline stages, without compound bits.
    pub stages: Stages,
    /// The access types, without compound bits.
    pub flags: Flags,
}

impl Access {
    /// A read of storage memory by a compute shader.
    #[inline]
    pub fn shader_read(range: Range) -> Access {
        Access { range, kind: Kind::Read, stages: Stages::COMPUTE_SHADER, flags: Flags::SHADER_STORAGE_READ }
    }

    /// A write of storage memory by a compute shader.
    #[inline]
    pub fn shader_write(range: Range) -> Access {
        Access {
            range,
            kind: Kind::Write,
            stages: Stages::COMPUTE_SHADER,
            flags: Flags::SHADER_STORAGE_WRITE,
        }
    }

    /// Both accesses of something that may read and write anything at any stage, the host included.
    pub fn unknown() -> [Access; 2] {
        let access = |kind, flags| Access { range: Range::Anywhere, kind, stages: Stages::EVERY, flags };
        [
            access(Kind::Read, Flags::READS | Flags::UNNAMED),
            access(Kind::Write, Flags::WRITES | Flags::UNNAMED),
        ]
    }

    /// Whether the two touch a common byte and at least one of them writes it.
    pub fn conflicts(&self, later: &Access) -> bool {
        (self.kind == Kind::Write || later.kind == Kind::Write) && self.range.overlaps(&later.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: MemoryId = MemoryId(1);

    #[test]
    fn rounding_goes_outwards_and_keeps_empty_ranges_empty() {
        assert_eq!(Range::bytes(M, 70, 10, 64), Range::Bytes { memory: M, start: 64, end: 128 });
        assert_eq!(Range::bytes(M, 64, 64, 64), Range::Bytes { memory: M, start: 64, end: 128 });
        assert!(Range::bytes(M, 70, 0, 64).is_empty());
        for (offset, size) in
            [(0, 1), (1, 63), (1, 64), (63, 2), (64, 64), (u64::MAX - 70, 6), (u64::MAX - 5, 5)]
        {
            let by_mask = Range::bytes(M, offset, size, 64);
            let end = (offset + size).checked_next_multiple_of(64).unwrap_or(u64::MAX);
            assert_eq!(by_mask, Range::Bytes { memory: M, start: offset / 64 * 64, end });
        }
        assert_eq!(Range::bytes(M, 70, 10, 12), Range::Bytes { memory: M, start: 60, end: 84 });
        assert!(
            !Range::bytes(M, u64::MAX - 1, 100, 64).is_empty(),
            "a sum that wraps must not lose the range"
        );
    }

    #[test]
    fn overlap_needs_a_common_byte_of_one_allocation() {
        let r = |m, start, end| Range::Bytes { memory: MemoryId(m), start, end };
        assert!(r(1, 0, 10).overlaps(&r(1, 9, 20)));
        assert!(!r(1, 0, 10).overlaps(&r(1, 10, 20)));
        assert!(!r(1, 0, 10).overlaps(&r(2, 0, 10)));
        assert!(Range::Anywhere.overlaps(&r(1, 0, 1)) && r(1, 0, 1).overlaps(&Range::Anywhere));
        assert!(!Range::Anywhere.overlaps(&r(1, 5, 5)), "an empty range overlaps nothing");
        assert!(!r(1, 5, 5).overlaps(&r(1, 0, 10)));
    }

    #[test]
    fn two_reads_never_conflict() {
        let r = Range::bytes(M, 0, 4, 1);
        assert!(!Access::shader_read(r).conflicts(&Access::shader_read(r)));
        assert!(Access::shader_read(r).conflicts(&Access::shader_write(r)));
        assert!(Access::shader_write(r).conflicts(&Access::shader_read(r)));
    }
}
