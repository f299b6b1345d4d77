//! A set of bytes, as the union of the ranges put into it.
//!
//! The tracker keeps one such set per class of accesses that are in the same state. Most sets are only ever added to:
//! a class whose emitted barriers cover its asked ones is not asked about its ranges at all. So adding is an append,
//! and order is made only for sets that are asked (`tidy`): what came last lies in a short unsorted `tail`, what came
//! before in two sorted vectors, a small `middle` that the tail goes into and a large `main` that the middle goes into
//! when it has grown to a multiple of the main's square root. A sorted vector alone would shift half of itself at each
//! insertion, a tree would allocate its nodes; this costs some square root of the size, and no allocation once the
//! vectors have grown.

use crate::access::{MemoryId, Range};

/// Bytes of one allocation; `end` is past the last, and after `start`. Ordered by allocation, then start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    memory: MemoryId,
    start: u64,
    end: u64,
}

impl Interval {
    fn overlaps(&self, other: &Interval) -> bool {
        self.start < other.end && other.start < self.end && self.memory == other.memory
    }

    /// Grows over `next`, which is not before it, if the two overlap or touch.
    fn swallow(&mut self, next: &Interval) -> bool {
        let near = self.memory == next.memory && next.start <= self.end;
        if near {
            self.end = self.end.max(next.end);
        }
        near
    }
}

/// How many ranges a set that is asked keeps unsorted: so many are compared faster than searched.
const SHORT: usize = 12;

/// How many ranges a set that is not asked collects before it drops what it has twice.
const LONG: usize = 4096;

/// The bytes that some accesses touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// Something unknown was touched: overlaps everything, and nothing else is kept.
    anywhere: bool,
    /// Sorted, disjoint, not touching each other.
    main: Vec<Interval>,
    /// Likewise.
    middle: Vec<Interval>,
    /// As they came.
    tail: Vec<Interval>,
    /// Where the next merge goes; kept for its memory.
    spare: Vec<Interval>,
}

impl RangeSet {
    /// Whether no byte is in it.
    pub fn is_empty(&self) -> bool {
        !self.anywhere && self.tail.is_empty() && self.middle.is_empty() && self.main.is_empty()
    }

    /// Forgets all ranges and keeps the memory.
    pub fn clear(&mut self) {
        self.anywhere = false;
        self.main.clear();
        self.middle.clear();
        self.tail.clear();
    }

    /// Adds the bytes of `range`.
    pub fn insert(&mut self, range: &Range) {
        if self.anywhere {
            return;
        }
        match *range {
            Range::Anywhere => {
                self.clear();
                self.anywhere = true;
            }
            Range::Bytes { memory, start, end } if start < end => {
                // Neighbours in a stream are often neighbours in memory, or the same bytes again.
                if !self.tail.last_mut().is_some_and(|last| {
                    last.memory == memory && start >= last.start && {
                        let interval = Interval { memory, start, end };
                        last.swallow(&interval)
                    }
                }) {
                    self.tail.push(Interval { memory, start, end });
                }
            }
            Range::Bytes { .. } => {}
        }
    }

    /// Adds all of `other`, which is left empty.
    pub fn absorb(&mut self, other: &mut RangeSet) {
        if self.anywhere || other.anywhere {
            self.clear();
            other.clear();
            self.anywhere = true;
            return;
        }
        if self.main.len() < other.main.len() {
            std::mem::swap(&mut self.main, &mut other.main);
        }
        for part in [&mut other.tail, &mut other.middle, &mut other.main] {
            if !part.is_empty() {
                self.tail.append(part);
            }
        }
        if self.tail.len() > LONG.max(2 * self.main.len()) {
            self.tidy();
        }
    }

    /// Makes the set fast to ask. Once is enough until more is added.
    pub fn tidy(&mut self) {
        if self.tail.len() <= SHORT {
            return;
        }
        self.tail.sort_unstable();
        merge(&self.middle, &self.tail, &mut self.spare);
        std::mem::swap(&mut self.middle, &mut self.spare);
        self.tail.clear();
        if self.middle.len() > 64.max(8 * self.main.len().isqrt()) {
            merge(&self.main, &self.middle, &mut self.spare);
            std::mem::swap(&mut self.main, &mut self.spare);
            self.middle.clear();
        }
    }

    /// Whether some byte of `range` is in the set.
    pub fn overlaps(&self, range: &Range) -> bool {
        if self.anywhere {
            return !range.is_empty();
        }
        match *range {
            Range::Anywhere => !self.is_empty(),
            Range::Bytes { memory, start, end } if start < end => {
                let interval = Interval { memory, start, end };
                self.tail.iter().any(|i| i.overlaps(&interval))
                    || meets(&self.middle, &interval)
                    || meets(&self.main, &interval)
            }
            Range::Bytes { .. } => false,
        }
    }
}

/// Whether one of the sorted, disjoint intervals overlaps `interval`.
fn meets(sorted: &[Interval], interval: &Interval) -> bool {
    // The first interval that ends behind the start begins before any other that does.
    let first = sorted.partition_point(|i| (i.memory, i.end) <= (interval.memory, interval.start));
    sorted.get(first).is_some_and(|i| i.overlaps(interval))
}

/// The union of two sorted lists, sorted and with nothing in it overlapping or touching.
fn merge(a: &[Interval], b: &[Interval], out: &mut Vec<Interval>) {
    out.clear();
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x <= y => a.next(),
            (Some(_), None) => a.next(),
            (_, Some(_)) => b.next(),
            (None, None) => return,
        };
        let Some(next) = next else { return };
        if !out.last_mut().is_some_and(|last| last.swallow(next)) {
            out.push(*next);
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
            ranges in proptest::collection::vec((0u64..3, 0u64..400, 0u64..12), 0..200),
            cut in 0usize..200,
            tidy_every in 1usize..40,
            probes in proptest::collection::vec((0u64..3, 0u64..400, 0u64..12), 1..20),
        ) {
            let ranges: Vec<Range> = ranges.into_iter().map(|(m, s, n)| bytes(m, s, s + n)).collect();
            let (mut a, mut b) = (RangeSet::default(), RangeSet::default());
            for (i, r) in ranges.iter().enumerate() {
                if i < cut { a.insert(r) } else { b.insert(r) }
                if i % tidy_every == 0 {
                    a.tidy();
                    b.tidy();
                }
            }
            a.absorb(&mut b);
            prop_assert!(b.is_empty());
            for tidied in [false, true] {
                if tidied { a.tidy() }
                for (m, s, n) in &probes {
                    let probe = bytes(*m, *s, s + n);
                    prop_assert_eq!(a.overlaps(&probe), ranges.iter().any(|r| r.overlaps(&probe)));
                }
                prop_assert_eq!(a.is_empty(), ranges.iter().all(|r| r.is_empty()));
            }
            for sorted in [&a.main, &a.middle] {
                prop_assert!(sorted.windows(2).all(|w| {
                    w[0].memory < w[1].memory || (w[0].memory == w[1].memory && w[0].end < w[1].start)
                }), "intervals stay sorted, disjoint and apart");
            }
        }
    }

    #[test]
    fn anywhere_overlaps_all_but_the_empty_range() {
        let mut anywhere = RangeSet::default();
        anywhere.insert(&bytes(1, 0, 9));
        anywhere.insert(&Range::Anywhere);
        assert!(anywhere.overlaps(&bytes(2, 0, 1)));
        assert!(!anywhere.overlaps(&bytes(1, 3, 3)));
        assert!(!RangeSet::default().overlaps(&Range::Anywhere), "nothing overlaps nothing");
    }

    #[test]
    fn a_large_set_reaches_its_main_part_and_repeats_take_no_room() {
        let mut set = RangeSet::default();
        for round in 0..3 {
            for i in 0..10_000u64 {
                set.insert(&bytes(1, i * 128, i * 128 + 64));
                set.tidy();
            }
            assert!(set.tail.len() <= SHORT && set.middle.len() < 1000, "round {round}");
        }
        assert!(set.main.len() > 9_000 && set.main.len() <= 10_000, "{}", set.main.len());
        assert!(!set.overlaps(&bytes(1, 64, 128)) && set.overlaps(&bytes(1, 64, 129)));

        let mut unasked = RangeSet::default();
        for _ in 0..100 {
            let mut once = RangeSet::default();
            (0..500u64).for_each(|i| once.insert(&bytes(1, i * 128, i * 128 + 64)));
            unasked.absorb(&mut once);
        }
        assert!(unasked.tail.len() <= LONG + 500, "{} ranges of 500 different ones", unasked.tail.len());
    }
}
