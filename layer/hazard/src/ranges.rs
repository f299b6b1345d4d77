//! A set of bytes, as the union of the ranges put into it.
//!
//! The tracker keeps one such set per class of accesses that are in the same state, asks it "does anything of yours
//! overlap this range?" once per access of an operation, and merges sets when classes meet. Intervals are kept
//! disjoint and sorted per allocation, so a set never holds more entries than there are gaps between what was
//! touched, however many operations touched it.
//!
//! Everything is in sorted vectors. A program has a handful of allocations and a few dozen places in each; at these
//! sizes a vector is searched and shifted faster than any tree or hash table is followed, and merging two sets reuses
//! the larger one's memory.

use crate::access::{MemoryId, Range};

/// Start and end of an interval; end is past the last byte.
type Interval = (u64, u64);

/// The bytes that some accesses touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// Something unknown was touched: overlaps everything.
    anywhere: bool,
    /// By allocation: disjoint, non-adjacent, non-empty intervals, sorted.
    memories: Vec<(MemoryId, Vec<Interval>)>,
}

impl RangeSet {
    /// Everything.
    pub fn anywhere() -> RangeSet {
        RangeSet { anywhere: true, memories: Vec::new() }
    }

    /// Whether no byte is in it.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        !self.anywhere && self.memories.is_empty()
    }

    fn find(&self, memory: MemoryId) -> Result<usize, usize> {
        self.memories.binary_search_by_key(&memory, |m| m.0)
    }

    /// Adds the bytes of `range`.
    pub fn insert(&mut self, range: &Range) {
        match *range {
            Range::Anywhere => self.anywhere = true,
            Range::Bytes { end, start, .. } if end <= start => {}
            Range::Bytes { memory, start, end } => match self.find(memory) {
                Ok(at) => insert_interval(&mut self.memories[at].1, (start, end)),
                Err(at) => self.memories.insert(at, (memory, vec![(start, end)])),
            },
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, mut other: RangeSet) {
        self.anywhere |= other.anywhere;
        if self.memories.len() < other.memories.len() {
            std::mem::swap(&mut self.memories, &mut other.memories);
        }
        for (memory, mut theirs) in other.memories {
            match self.find(memory) {
                Err(at) => self.memories.insert(at, (memory, theirs)),
                Ok(at) => {
                    let ours = &mut self.memories[at].1;
                    if ours.len() < theirs.len() {
                        std::mem::swap(ours, &mut theirs);
                    }
                    theirs.into_iter().for_each(|interval| insert_interval(ours, interval));
                }
            }
        }
    }

    /// Whether some byte of `range` is in the set.
    pub fn overlaps(&self, range: &Range) -> bool {
        if self.anywhere {
            return !range.is_empty();
        }
        match *range {
            Range::Anywhere => !self.memories.is_empty(),
            Range::Bytes { end, start, .. } if end <= start => false,
            Range::Bytes { memory, start, end } => self.find(memory).is_ok_and(|at| {
                let intervals = &self.memories[at].1;
                // The first interval that ends behind `start` begins before any other that does.
                let first = intervals.partition_point(|i| i.1 <= start);
                intervals.get(first).is_some_and(|i| i.0 < end)
            }),
        }
    }
}

/// Adds an interval, swallowing those that it overlaps or touches.
fn insert_interval(intervals: &mut Vec<Interval>, (start, end): Interval) {
    let first = intervals.partition_point(|i| i.1 < start);
    let last = first + intervals[first..].partition_point(|i| i.0 <= end);
    match &mut intervals[first..last] {
        [] => intervals.insert(first, (start, end)),
        [only] => *only = (only.0.min(start), only.1.max(end)),
        [begin, .., finish] => {
            *begin = (begin.0.min(start), finish.1.max(end));
            intervals.drain(first + 1..last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(memory: u64, start: u64, end: u64) -> Range {
        Range::Bytes { memory: MemoryId(memory), start, end }
    }

    proptest! {
        #[test]
        fn it_overlaps_exactly_when_one_of_its_ranges_does(
            ranges in proptest::collection::vec((0u64..2, 0u64..40, 0u64..12), 0..20),
            cut in 0usize..20,
            probe in (0u64..2, 0u64..40, 0u64..12),
        ) {
            let ranges: Vec<Range> = ranges.into_iter().map(|(m, s, n)| bytes(m, s, s + n)).collect();
            let probe = bytes(probe.0, probe.1, probe.1 + probe.2);
            let (mut a, mut b) = (RangeSet::default(), RangeSet::default());
            for (i, r) in ranges.iter().enumerate() {
                if i < cut { a.insert(r) } else { b.insert(r) }
            }
            a.merge(b);
            prop_assert_eq!(a.overlaps(&probe), ranges.iter().any(|r| r.overlaps(&probe)));
            prop_assert_eq!(a.is_empty(), ranges.iter().all(|r| r.is_empty()));
            prop_assert!(a.memories.is_sorted_by_key(|m| m.0));
            for (_, intervals) in &a.memories {
                prop_assert!(intervals.windows(2).all(|w| w[0].1 < w[1].0), "intervals stay disjoint and apart");
            }
        }
    }

    #[test]
    fn anywhere_overlaps_all_but_the_empty_range() {
        assert!(RangeSet::anywhere().overlaps(&bytes(1, 0, 1)));
        assert!(!RangeSet::anywhere().overlaps(&bytes(1, 3, 3)));
        assert!(!RangeSet::default().overlaps(&Range::Anywhere), "nothing overlaps nothing");
    }
}
