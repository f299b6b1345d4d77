//! The contract for streams that were issued in another order than they were recorded in.
//!
//! What is *required* is a matter of the recording: the asked barriers between two operations, in recorded order. Whether
//! it is *ordered* is a matter of what reached the driver: the emitted barriers between the two, in issued order. And
//! one thing is new: two operations that conflict and that the application left unordered must come in the order in
//! which they were recorded. (A device may overlap them, and the application has to live with that; it has never had to
//! live with the later one coming first for certain.)
//!
//! Like the rest of the model it is slow and easy to believe, and shares no logic with what it judges.

use super::{Dependency, Event, Later, Pair, Placed, Spelled, dependency, reading, required};
use crate::access::Access;
use crate::scope::{Barrier, Stages};

/// One thing that reached the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issued {
    /// The operation of this number; numbers count the operations of one [`Queue::submit`], in recorded order from 0.
    Operation(usize),
    /// A barrier.
    Emitted(Barrier),
}

/// Two conflicting operations, neither ordered by the application, that came the wrong way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Swap {
    /// Recorded first.
    pub earlier: usize,
    /// Recorded second and issued first.
    pub later: usize,
}

/// What is wrong with a piece of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many required pairs the piece completed.
    pub required: u64,
    /// Required pairs that the emitted barriers don't order.
    pub violations: Vec<Pair>,
    /// Conflicting pairs that changed places.
    pub swaps: Vec<Swap>,
    /// Operations that were issued twice or never.
    pub lost: Vec<usize>,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.swaps.is_empty() && self.lost.is_empty()
    }
}

/// A queue, as recorded and as issued. It remembers everything; [`Queue::idle`] makes it forget.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    past: Vec<(usize, Access)>,
    /// Where each operation was issued, counted in operations.
    position: Vec<usize>,
    asked: Vec<Placed>,
    emitted: Vec<Placed>,
    host_looks: bool,
}

impl Queue {
    /// A queue on which nothing has happened.
    pub fn new() -> Queue {
        Queue::default()
    }

    /// How many operations it remembers; the numbers in findings count from the first of them.
    pub fn operations(&self) -> usize {
        self.position.len()
    }

    /// Everything so far has ended, and whoever comes next knows it.
    pub fn idle(&mut self) {
        *self = Queue::default();
    }

    /// Takes in a piece of the stream: what was recorded ([`Event::Emitted`] is not looked at), and what was issued for
    /// it. Nothing of one piece is issued in another one's place.
    pub fn submit(&mut self, recorded: &[Event], issued: &[Issued]) -> Findings {
        let mut findings = Findings::default();
        let first = self.position.len();
        let count = recorded.iter().filter(|e| matches!(e, Event::Operation(_))).count();
        let mut position: Vec<Option<usize>> = vec![None; count];
        let mut at = first;
        for item in issued {
            match item {
                Issued::Operation(number) => {
                    match position.get_mut(*number) {
                        Some(place @ None) => *place = Some(at),
                        _ => findings.lost.push(first + number),
                    }
                    at += 1;
                }
                Issued::Emitted(barrier) => {
                    self.emitted.push(Placed { before: at, barrier: Spelled::new(barrier) });
                }
            }
        }
        findings.lost.extend((0..count).filter(|n| position[*n].is_none()).map(|n| first + n));
        if !findings.lost.is_empty() {
            return findings;
        }
        self.position.extend(position.into_iter().flatten());
        let mut number = first;
        for event in recorded {
            match event {
                Event::Emitted(_) => {}
                Event::Asked(barrier) => {
                    let barrier = Spelled::new(barrier);
                    self.host_looks |= barrier.dst_execution & reading::HOST != 0;
                    self.asked.push(Placed { before: number, barrier });
                }
                Event::Operation(accesses) => {
                    self.host(number, &mut findings);
                    let place = self.position[number];
                    self.pairs(accesses, Later::Operation(number), place, &mut findings);
                    self.past.extend(accesses.iter().map(|access| (number, *access)));
                    number += 1;
                }
            }
        }
        findings
    }

    /// Nothing more comes: the host looks now, where a barrier promised it something.
    pub fn finish(&mut self) -> Findings {
        let mut findings = Findings::default();
        self.host(self.position.len(), &mut findings);
        findings
    }

    /// The host looks before operation `number`, if a barrier since the last operation names it. It looks before any
    /// operation that was recorded behind the barrier is issued.
    fn host(&mut self, number: usize, findings: &mut Findings) {
        if std::mem::take(&mut self.host_looks) {
            let host = Access::unknown().map(|access| Access { stages: Stages::HOST, ..access });
            let place = self.position[number..].iter().min().copied().unwrap_or(self.position.len());
            self.pairs(&host, Later::HostBefore(number), place, findings);
        }
    }

    fn pairs(&self, now: &[Access], later: Later, place: usize, findings: &mut Findings) {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut swaps: Vec<Swap> = Vec::new();
        for (earlier, a) in &self.past {
            let came_first = self.position[*earlier] < place;
            for b in now.iter().filter(|b| a.conflicts(b)) {
                let asked = behind(&self.asked, *earlier);
                let between = behind(&self.emitted, self.position[*earlier]);
                let between = &between[..between.partition_point(|placed| placed.before <= place)];
                match required(asked, between, a, b) {
                    Some(ordered) => {
                        let dependency: Dependency = dependency(a, b);
                        let ordered = ordered && came_first;
                        let known = |p: &&mut Pair| p.earlier == *earlier && p.dependency == dependency;
                        match pairs.iter_mut().rev().take(3).find(known) {
                            Some(pair) => pair.ordered &= ordered,
                            None => pairs.push(Pair { earlier: *earlier, later, dependency, ordered }),
                        }
                    }
                    None => match later {
                        Later::Operation(number) if !came_first => {
                            swaps.push(Swap { earlier: *earlier, later: number });
                        }
                        _ => {}
                    },
                }
            }
        }
        swaps.dedup();
        findings.required += pairs.len() as u64;
        findings.violations.extend(pairs.into_iter().filter(|pair| !pair.ordered));
        findings.swaps.extend(swaps);
    }
}

/// The barriers behind place `place`.
fn behind(barriers: &[Placed], place: usize) -> &[Placed] {
    &barriers[barriers.partition_point(|placed| placed.before <= place)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryId, Range};

    fn range(i: u64) -> Range {
        Range::bytes(MemoryId(1), i * 64, 64, 64)
    }

    fn writer_and_reader(asked: bool) -> Vec<Event> {
        let write = Event::Operation(vec![Access::shader_write(range(0))]);
        let read = Event::Operation(vec![Access::shader_read(range(0))]);
        let other = Event::Operation(vec![Access::shader_write(range(1))]);
        let barrier = asked.then_some(Event::Asked(Barrier::FULL));
        [write].into_iter().chain(barrier).chain([read, other]).collect()
    }

    #[test]
    fn only_a_barrier_between_the_two_as_issued_orders_a_required_pair() {
        use Issued::{Emitted, Operation};
        let full = Emitted(Barrier::FULL);
        let recorded = writer_and_reader(true);
        let judge = |issued: &[Issued]| Queue::new().submit(&recorded, issued).violations.len();
        assert_eq!(judge(&[Operation(2), Operation(0), full, Operation(1)]), 0);
        assert_eq!(judge(&[Operation(0), full, Operation(2), Operation(1)]), 0);
        assert_eq!(judge(&[full, Operation(0), Operation(1), Operation(2)]), 1);
        assert_eq!(judge(&[Operation(1), full, Operation(0), Operation(2)]), 1, "the wrong way round");
    }

    #[test]
    fn what_was_left_unordered_keeps_its_order() {
        use Issued::Operation;
        let recorded = writer_and_reader(false);
        let judge = |issued: &[Issued]| Queue::new().submit(&recorded, issued);
        assert!(judge(&[Operation(2), Operation(0), Operation(1)]).is_sound());
        let swapped = judge(&[Operation(1), Operation(0), Operation(2)]);
        assert_eq!(swapped.swaps, [Swap { earlier: 0, later: 1 }]);
    }

    #[test]
    fn an_operation_that_is_lost_or_issued_twice_is_found() {
        use Issued::Operation;
        let recorded = writer_and_reader(false);
        let judge = |issued: &[Issued]| Queue::new().submit(&recorded, issued).lost;
        assert_eq!(judge(&[Operation(0), Operation(1)]), [2]);
        assert_eq!(judge(&[Operation(0), Operation(1), Operation(1), Operation(2)]), [1]);
    }

    #[test]
    fn pairs_across_two_pieces_are_seen_and_an_idle_queue_forgets() {
        let write = [Event::Operation(vec![Access::shader_write(range(0))])];
        let read = [Event::Asked(Barrier::FULL), Event::Operation(vec![Access::shader_read(range(0))])];
        let one = [Issued::Operation(0)];
        let mut queue = Queue::new();
        assert!(queue.submit(&write, &one).is_sound());
        assert_eq!(queue.submit(&read, &one).violations.len(), 1);
        queue.idle();
        assert!(queue.submit(&read, &one).is_sound());
        assert_eq!(queue.operations(), 1);
    }
}
