//! A set of bytes, as the union of the ranges put into it.
//!
//! The tracker keeps one such set per class of accesses that are in the same state, asks it "does anything of yours
//! overlap this range?" once per access of an operation, and merges sets when classes meet. Intervals are kept
//! disjoint and sorted per allocation, so a set never holds more entries than there are gaps between what was
//! touched, however many operations touched it.

use crate::access::{MemoryId, Range};
use std::collections::{BTreeMap, HashMap};

/// The bytes that some accesses touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// Something unknown was touched: overlaps everything.
    anywhere: bool,
    /// Per allocation, start to end of disjoint, non-adjacent, non-empty intervals.
    memories: HashMap<MemoryId, BTreeMap<u64, u64>>,
}

impl RangeSet {
    /// Everything.
    pub fn anywhere() -> RangeSet {
        RangeSet { anywhere: true, memories: HashMap::new() }
    }

    /// Whether no byte is in it.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        !self.anywhere && self.memories.is_empty()
    }

    /// Adds the bytes of `range`.
    pub fn insert(&mut self, range: &Range) {
        match *range {
            Range::Anywhere => self.anywhere = true,
            Range::Bytes { end, start, .. } if end <= start => {}
            Range::Bytes { memory, start, end } => {
                insert_interval(self.memories.entry(memory).or_default(), start, end)
            }
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, mut other: RangeSet) {
        self.anywhere |= other.anywhere;
        if self.memories.is_empty() {
            std::mem::swap(&mut self.memories, &mut other.memories);
            return;
        }
        for (memory, mut theirs) in other.memories {
            let ours = self.memories.entry(memory).or_default();
            if ours.len() < theirs.len() {
                std::mem::swap(ours, &mut theirs);
            }
            for (start, end) in theirs {
                insert_interval(ours, start, end);
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
            Range::Bytes { memory, start, end } => self.memories.get(&memory).is_some_and(|intervals| {
                // The last interval that begins before `end` reaches furthest of those that do.
                intervals.range(..end).next_back().is_some_and(|(_, last)| *last > start)
            }),
        }
    }
}

/// Adds `start..end`, swallowing what it touches.
fn insert_interval(intervals: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    if let Some((&s, &e)) = intervals.range(..=start).next_back() {
        if e >= end {
            return;
        }
        if e >= start {
            start = s;
        }
    }
    while let Some((&s, &e)) = intervals.range(start..=end).next() {
        end = end.max(e);
        intervals.remove(&s);
    }
    intervals.insert(start, end);
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
            for intervals in a.memories.values() {
                let flat: Vec<_> = intervals.iter().collect();
                prop_assert!(flat.windows(2).all(|w| w[0].1 < w[1].0), "intervals stay disjoint and apart");
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
