//! `ZINC_BARRIER_DELAY`: which writes a reader may see.
//!
//! On most devices a write can be seen by whoever comes later, barrier or not, and a missing one does no harm until the
//! day when it does. Here a write is taken away as soon as it is done and given back only when an issued barrier has made
//! it available (its first scope names the write's stage and access) and a chain from there has made it visible (a second
//! scope names the reader's). Until then its bytes hold a pattern that no result survives.
//!
//! This module keeps the books: it knows no bytes, only which write is in which state. It is told of barriers and accesses
//! in the order in which they are issued. A write can be seen
//!
//! - by a read that a chain made it visible to;
//! - by a later write to the same bytes that is ordered behind it, which needs no visibility, for good: otherwise the older
//!   of the two would win in the end;
//! - by everybody once everything is flushed: at a fence, a semaphore, a wait for the queue, and before whatever the layer
//!   has no model of.
//!
//! A write that is visible to some kinds of reads and not to others is shown to the former and hidden again.

use smallvec::SmallVec;
use zinc_hazard::{Access, Barrier, Flags, Kind, MemoryId, Range, Scope, Side, Stages};

/// Bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes {
    /// The allocation.
    pub memory: MemoryId,
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Bytes {
    /// The bytes as a range.
    pub fn range(&self) -> Range {
        Range::Bytes { memory: self.memory, start: self.start, end: self.end }
    }
}

/// For how long a write is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// From now on.
    ForGood,
    /// To the next operation.
    ForNow,
}

/// A write that not everybody can see.
#[derive(Clone, Debug)]
struct Write<S> {
    slot: S,
    bytes: Bytes,
    writer: Scope,
    available: bool,
    /// Stages that chains from the write lead to.
    reach: Stages,
    /// What it is visible to, with compound bits taken apart.
    seen: SmallVec<[Scope; 2]>,
}

/// The readers that the layer tells apart. What all of them can see is shown for good.
const READERS: [(Stages, Flags); 4] = [
    (Stages::COMPUTE_SHADER, Flags::SHADER_STORAGE_READ),
    (Stages::COMPUTE_SHADER, Flags::UNIFORM_READ),
    (Stages::COPY, Flags::TRANSFER_READ),
    (Stages::DRAW_INDIRECT, Flags::INDIRECT_COMMAND_READ),
];

impl<S> Write<S> {
    fn barrier(&mut self, barrier: &Barrier) {
        let first = Scope { stages: barrier.src.stages.expand(), flags: barrier.src.flags.expand() };
        let covered = first.stages.contains(self.writer.stages) && first.flags.contains(self.writer.flags);
        let chained = self.reach.intersects(barrier.src.stages.execution(Side::First));
        if covered || self.available && chained {
            self.available = true;
            self.reach |= barrier.dst.stages.execution(Side::Second);
            let second = Scope { stages: barrier.dst.stages.expand(), flags: barrier.dst.flags.expand() };
            if !self.seen.contains(&second) {
                self.seen.push(second);
            }
        }
    }

    fn is_visible_to(&self, stages: Stages, flags: Flags) -> bool {
        self.seen.iter().any(|scope| scope.stages.contains(stages) && scope.flags.contains(flags))
    }

    /// Whether the next operation sees it.
    fn shown(&self, accesses: &[Access]) -> Option<Shown> {
        let range = self.bytes.range();
        let (mut seen, mut unseen, mut overwritten) = (false, false, false);
        for access in accesses.iter().filter(|access| access.range.overlaps(&range)) {
            match access.kind {
                Kind::Read if self.is_visible_to(access.stages, access.flags) => seen = true,
                Kind::Read => unseen = true,
                Kind::Write => overwritten |= self.available && self.reach.intersects(access.stages),
            }
        }
        if unseen || !seen && !overwritten {
            return None;
        }
        let all = READERS.iter().all(|(stages, flags)| self.is_visible_to(*stages, *flags));
        Some(if overwritten || all { Shown::ForGood } else { Shown::ForNow })
    }
}

/// The writes of a queue that not everybody can see, oldest first. `S` is where their bytes are kept.
#[derive(Clone, Debug)]
pub struct Delay<S> {
    writes: Vec<Write<S>>,
}

impl<S> Default for Delay<S> {
    fn default() -> Self {
        Delay { writes: Vec::new() }
    }
}

impl<S: Clone> Delay<S> {
    /// A barrier is issued.
    pub fn barrier(&mut self, barrier: &Barrier) {
        self.writes.iter_mut().for_each(|write| write.barrier(barrier));
    }

    /// An operation with these accesses is next: what it sees, oldest first. What is shown for good is forgotten here.
    pub fn before(&mut self, accesses: &[Access]) -> Vec<(S, Bytes, Shown)> {
        let mut all = Vec::new();
        self.writes.retain(|write| match write.shown(accesses) {
            None => true,
            Some(shown) => {
                all.push((write.slot.clone(), write.bytes, shown));
                shown == Shown::ForNow
            }
        });
        all
    }

    /// An operation has written, at one stage and with one flag, and its bytes are kept in `slot`.
    pub fn wrote(&mut self, slot: S, bytes: Bytes, writer: Scope) {
        let (available, reach, seen) = (false, Stages::empty(), SmallVec::new());
        self.writes.push(Write { slot, bytes, writer, available, reach, seen });
    }

    /// Everybody may see everything: all writes, oldest first, which are forgotten here.
    pub fn flush(&mut self) -> Vec<(S, Bytes)> {
        self.writes.drain(..).map(|write| (write.slot, write.bytes)).collect()
    }

    /// An allocation is gone; the slots of what was written there are free.
    pub fn forget(&mut self, memory: MemoryId) -> Vec<S> {
        let mut free = Vec::new();
        self.writes.retain(|write| {
            let gone = write.bytes.memory == memory;
            if gone {
                free.push(write.slot.clone());
            }
            !gone
        });
        free
    }

    /// Whether everybody sees everything.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// The bytes that an operation writes, as disjoint intervals, and for each whether the operation reads some of them too.
/// `None` where something is written at a place that is not known, or not known to be this process's own.
pub fn written(accesses: &[Access]) -> Option<Vec<(Bytes, bool)>> {
    let mut intervals: Vec<Bytes> = Vec::new();
    for access in accesses.iter().filter(|access| access.kind == Kind::Write && !access.range.is_empty()) {
        match access.range {
            Range::Bytes { memory, start, end } if end != u64::MAX => {
                intervals.push(Bytes { memory, start, end });
            }
            _ => return None,
        }
    }
    intervals.sort_unstable();
    intervals.dedup_by(|next, last| {
        let joins = next.memory == last.memory && next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    let is_read =
        |bytes: &Bytes| accesses.iter().any(|a| a.kind == Kind::Read && a.range.overlaps(&bytes.range()));
    Some(intervals.into_iter().map(|bytes| (bytes, is_read(&bytes))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Bytes = Bytes { memory: MemoryId(7), start: 0, end: 64 };

    fn scope(stages: Stages, flags: Flags) -> Scope {
        Scope { stages, flags }
    }

    const COMPUTE: Stages = Stages::COMPUTE_SHADER;
    const STORED: Scope = Scope { stages: COMPUTE, flags: Flags::SHADER_STORAGE_WRITE };

    fn one_write() -> Delay<u32> {
        let mut delay = Delay::default();
        delay.wrote(1, BYTES, STORED);
        delay
    }

    fn shows(delay: &mut Delay<u32>, accesses: &[Access]) -> Option<Shown> {
        delay.before(accesses).first().map(|(_, _, shown)| *shown)
    }

    fn copied() -> Access {
        Access { stages: Stages::COPY, flags: Flags::TRANSFER_READ, ..Access::shader_read(BYTES.range()) }
    }

    #[test]
    fn without_a_barrier_nobody_sees_a_write_and_after_a_full_one_everybody() {
        let (read, write) = (Access::shader_read(BYTES.range()), Access::shader_write(BYTES.range()));
        assert_eq!(shows(&mut one_write(), &[read]), None);
        assert_eq!(shows(&mut one_write(), &[write]), None);
        let mut delay = one_write();
        delay.barrier(&Barrier::FULL);
        assert_eq!(shows(&mut delay, &[read]), Some(Shown::ForGood));
        assert!(delay.is_empty());
    }

    #[test]
    fn a_write_that_was_not_made_available_or_not_visible_stays_hidden() {
        let read = Access::shader_read(BYTES.range());
        let both = scope(COMPUTE, Flags::SHADER_READ | Flags::SHADER_WRITE);
        for (src, dst, seen) in [
            (both, both, true),
            (scope(COMPUTE, Flags::SHADER_READ), both, false),
            (both, scope(COMPUTE, Flags::SHADER_WRITE), false),
            (both, scope(COMPUTE, Flags::UNIFORM_READ), false),
            (both, scope(Stages::ALL_TRANSFER, Flags::MEMORY_READ), false),
            (scope(Stages::ALL_TRANSFER, Flags::MEMORY_WRITE), both, false),
            (scope(COMPUTE, Flags::empty()), scope(COMPUTE, Flags::empty()), false),
        ] {
            let mut delay = one_write();
            delay.barrier(&Barrier { src, dst });
            assert_eq!(shows(&mut delay, &[read]).is_some(), seen, "{src:?} {dst:?}");
        }
    }

    #[test]
    fn a_chain_carries_visibility_on_and_a_broken_one_does_not() {
        let transfer = scope(Stages::ALL_TRANSFER, Flags::empty());
        let read = Access::shader_read(BYTES.range());
        for (second, seen) in [(Stages::ALL_TRANSFER, true), (Stages::DRAW_INDIRECT, false)] {
            let mut delay = one_write();
            delay.barrier(&Barrier { src: STORED, dst: transfer });
            let dst = scope(COMPUTE, Flags::SHADER_READ);
            delay.barrier(&Barrier { src: scope(second, Flags::empty()), dst });
            assert_eq!(shows(&mut delay, &[read]).is_some(), seen, "{second:?}");
        }
    }

    #[test]
    fn what_only_copies_may_see_is_shown_to_a_copy_and_hidden_again() {
        let mut delay = one_write();
        delay.barrier(&Barrier { src: STORED, dst: scope(Stages::ALL_TRANSFER, Flags::TRANSFER_READ) });
        assert_eq!(shows(&mut delay, &[copied()]), Some(Shown::ForNow));
        assert_eq!(shows(&mut delay, &[Access::shader_read(BYTES.range())]), None);
        assert_eq!(shows(&mut delay, &[copied()]), Some(Shown::ForNow), "it is still there");
    }

    #[test]
    fn a_write_behind_it_needs_order_alone_but_not_where_it_also_reads() {
        let order = Barrier { src: STORED, dst: scope(COMPUTE, Flags::empty()) };
        let (read, write) = (Access::shader_read(BYTES.range()), Access::shader_write(BYTES.range()));
        let mut delay = one_write();
        delay.barrier(&order);
        assert_eq!(shows(&mut delay.clone(), &[read, write]), None);
        assert_eq!(shows(&mut delay, &[write]), Some(Shown::ForGood));
    }

    #[test]
    fn what_is_written_is_cut_into_intervals_that_know_whether_they_are_read() {
        let bytes = |start, end| Range::Bytes { memory: MemoryId(1), start, end };
        let accesses = [
            Access::shader_write(bytes(64, 128)),
            Access::shader_write(bytes(0, 64)),
            Access::shader_write(bytes(256, 320)),
            Access::shader_read(bytes(300, 400)),
        ];
        let interval = |start, end, read| (Bytes { memory: MemoryId(1), start, end }, read);
        assert_eq!(written(&accesses), Some(vec![interval(0, 128, false), interval(256, 320, true)]));
        assert_eq!(written(&[Access::shader_write(Range::Anywhere)]), None);
        assert_eq!(written(&[Access::shader_read(Range::Anywhere)]), Some(Vec::new()));
    }

    #[test]
    fn an_allocation_that_goes_takes_its_writes_along_and_a_flush_takes_all() {
        let mut delay = one_write();
        delay.wrote(2, Bytes { memory: MemoryId(8), ..BYTES }, STORED);
        assert_eq!(delay.forget(MemoryId(7)), [1]);
        assert_eq!(delay.flush().len(), 1);
        assert!(delay.is_empty());
    }
}
