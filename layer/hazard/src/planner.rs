//! Policies over the tracker, with the counts that every report shows.
//!
//! A planner is asked at three moments of a recording: the application asks for a barrier, an operation comes, what
//! follows is unknown. Under most policies its answers are what to do at that moment. Under those that decide over a
//! whole stretch (`whole`), whoever records holds everything back until [`Planner::flush`], and then finds what to issue
//! in [`Planner::take_plan`]. Every answer is counted, and always `asked + added = emitted + elided` once nothing is pending.

use crate::access::Access;
use crate::policy::Policy;
use crate::scope::Barrier;
use crate::tracker::{Carry, Cause, Due, Tracker};
use crate::whole::{Freedom, Plan, Stretch};
use std::sync::Arc;

/// What becomes of a barrier that the application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is emitted here, as asked.
    Emit,
    /// It is held back; a later [`Step`] or flush may emit what it stands for.
    Hold,
    /// It is never emitted.
    Drop,
}

/// What surrounds an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// To be emitted before the operation.
    pub before: Option<Due>,
    /// To be emitted after it.
    pub after: Option<Barrier>,
}

/// Emissions of deferred barriers by what forced them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hazards {
    /// Read after write.
    pub raw: u64,
    /// Write after read.
    pub war: u64,
    /// Write after write.
    pub waw: u64,
    /// What came before the command buffer.
    pub prefix: u64,
    /// What comes after it, or something unknown.
    pub flush: u64,
}

impl Hazards {
    fn add(&mut self, cause: Cause) {
        *match cause {
            Cause::Raw => &mut self.raw,
            Cause::War => &mut self.war,
            Cause::Waw => &mut self.waw,
            Cause::Prefix => &mut self.prefix,
            Cause::Flush => &mut self.flush,
        } += 1;
    }
}

/// Barriers of one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Asked for by the application.
    pub asked: u64,
    /// Emitted, the added ones included.
    pub emitted: u64,
    /// Asked for and never emitted, or merged into another.
    pub elided: u64,
    /// Emitted without having been asked for.
    pub added: u64,
    /// What forced the deferred ones out.
    pub hazards: Hazards,
}

/// What barriers are counted in. Barriers that are held back are in `asked` only, until something decides on them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Books {
    /// Asked since the last emission.
    held: u64,
    pub(crate) counts: Counts,
}

impl Books {
    /// A barrier was asked for and is held back.
    pub fn hold(&mut self) {
        self.counts.asked += 1;
        self.held += 1;
    }

    /// A deferred barrier was emitted, if one was due.
    pub fn due(&mut self, due: Option<Cause>) {
        let Some(cause) = due else { return };
        self.counts.emitted += 1;
        self.counts.elided += self.held.saturating_sub(1);
        self.held = 0;
        self.counts.hazards.add(cause);
    }

    /// Decides again on what is held: none of it is.
    pub fn reopen(&mut self) {
        self.held = 0;
    }

    /// A barrier that was counted as asked for is held.
    pub fn hold_again(&mut self) {
        self.held += 1;
    }

    /// Whatever is still held orders nothing that is not ordered already.
    pub fn flushed(&mut self) {
        self.counts.elided += std::mem::take(&mut self.held);
    }

    /// A barrier was passed on as it is.
    pub fn pass_through(&mut self) {
        self.counts.asked += 1;
        self.counts.emitted += 1;
    }
}

/// How far an operation may be from where it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// As far as its accesses allow.
    Movable,
    /// Nothing moves across it.
    Stays,
    /// Nothing moves across it, and whatever waits is emitted before it (rule 5).
    Synchronises,
    /// Nothing moves across it, and what waits and orders the writes of timestamps is emitted before it. Where barriers are
    /// decided one by one, whatever waits.
    Stamps {
        /// It waits by itself for compute shaders.
        after_compute: bool,
    },
}

/// A stretch that is being recorded, for a policy that decides when it has ended.
#[derive(Clone, Debug)]
struct Whole {
    freedom: Freedom,
    stretch: Stretch,
    planned: Option<Arc<Plan>>,
    /// Whether plans say what became of each asked barrier.
    explains: bool,
    /// Nothing is held back any more: the tracker decides until the command buffer ends.
    stopped: bool,
}

/// Decides for one command buffer under one policy.
#[derive(Clone, Debug)]
pub struct Planner {
    policy: Policy,
    /// Only where barriers are deferred: the other policies look at no access.
    tracker: Option<Tracker>,
    whole: Option<Whole>,
    books: Books,
}

impl Planner {
    /// A planner at the beginning of a command buffer.
    pub fn new(policy: Policy) -> Planner {
        let tracker = (policy == Policy::AliasOnly).then(|| Tracker::new(Carry::AskedJoin));
        let whole = policy.freedom().map(|freedom| Whole {
            freedom,
            stretch: Stretch::new(),
            planned: None,
            explains: false,
            stopped: false,
        });
        Planner { policy, tracker, whole, books: Books::default() }
    }

    /// From now on plans say what became of each asked barrier.
    pub fn explain(&mut self) {
        if let Some(whole) = &mut self.whole {
            whole.explains = true;
        }
    }

    /// Begins a new command buffer, and keeps what memory it has.
    pub fn reset(&mut self) {
        self.restart();
        if let Some(whole) = &mut self.whole {
            whole.stretch.clear();
            whole.planned = None;
            whole.stopped = false;
            self.tracker = None;
        }
        self.books = Books::default();
    }

    /// The policy it decides by.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether it looks at accesses at all. Where it does not, callers need not derive them.
    pub fn needs_accesses(&self) -> bool {
        self.tracker.is_some() || self.whole.is_some()
    }

    /// Whether it decides only when a stretch has ended: then operations and barriers are to be held back until
    /// [`Planner::flush`].
    pub fn holds(&self) -> bool {
        self.whole.as_ref().is_some_and(|whole| !whole.stopped)
    }

    /// The segment that is being recorded, while everything is held back.
    fn holding(&mut self) -> Option<&mut Whole> {
        self.whole.as_mut().filter(|whole| !whole.stopped)
    }

    /// From here until the command buffer ends nothing can be held back: each barrier is decided as under `alias-only`.
    ///
    /// So is what was held: [`Planner::take_plan`] says what to issue of it, in recorded order, with the barriers that
    /// `alias-only` would have emitted. What waits at the end of it goes on waiting: that nothing can be held is no reason
    /// to emit it.
    pub fn stop_holding(&mut self) {
        let Some(whole) = self.whole.as_mut().filter(|whole| !whole.stopped) else { return };
        let mut tracker = Tracker::new(Carry::AskedJoin);
        let plan = whole.stretch.as_recorded(&mut tracker, &mut self.books);
        whole.stretch.clear();
        whole.planned = Some(Arc::new(plan));
        whole.stopped = true;
        self.tracker = Some(tracker);
    }

    /// How many operations the stretch that is being held has.
    pub fn held_operations(&self) -> usize {
        self.whole.as_ref().map_or(0, |whole| whole.stretch.len())
    }

    /// The stretch that is being held.
    pub fn stretch(&self) -> Option<&Stretch> {
        self.whole.as_ref().map(|whole| &whole.stretch)
    }

    /// What [`Planner::take_plan`] would take.
    pub fn planned(&self) -> Option<&Plan> {
        self.whole.as_ref()?.planned.as_deref()
    }

    /// What was decided over the stretch that ended with the last [`Planner::flush`].
    pub fn take_plan(&mut self) -> Option<Arc<Plan>> {
        self.whole.as_mut()?.planned.take()
    }

    /// The application asks for `barrier`.
    pub fn asked(&mut self, barrier: Barrier) -> Verdict {
        if let Some(whole) = self.holding() {
            whole.stretch.asked(barrier);
            self.books.hold();
            return Verdict::Hold;
        }
        match (self.policy, &mut self.tracker) {
            (_, Some(tracker)) => {
                tracker.asked(barrier);
                self.books.hold();
                Verdict::Hold
            }
            (Policy::None, None) => {
                self.books.counts.asked += 1;
                self.books.counts.elided += 1;
                Verdict::Drop
            }
            (_, None) => {
                self.books.pass_through();
                Verdict::Emit
            }
        }
    }

    /// The application asks for something that must be passed on as it is (a layout transition, say), after a
    /// [`Planner::flush`] and before a [`Planner::restart`].
    pub fn passed_through(&mut self) {
        self.books.pass_through();
    }

    /// An operation with these accesses comes next; `dispatch` says whether it is a dispatch.
    pub fn operation(&mut self, accesses: &[Access], dispatch: bool) -> Step {
        self.operation_of(Nature::Movable, accesses, dispatch)
    }

    /// As [`Planner::operation`], for an operation of some nature.
    pub fn operation_of(&mut self, nature: Nature, accesses: &[Access], dispatch: bool) -> Step {
        if let Some(whole) = self.holding() {
            match nature {
                Nature::Synchronises => whole.stretch.flush(),
                Nature::Stamps { after_compute } => whole.stretch.timestamp(after_compute),
                Nature::Movable | Nature::Stays => {}
            }
            whole.stretch.operation(accesses, nature != Nature::Movable);
            return Step::default();
        }
        let flushes = matches!(nature, Nature::Synchronises | Nature::Stamps { .. });
        let flushed = if flushes { self.flush() } else { None };
        let before = self.tracker.as_mut().and_then(|t| t.operation(accesses));
        self.books.due(before.map(|due| due.cause));
        let before = flushed.or(before);
        let after = (self.policy == Policy::Every && dispatch).then_some(Barrier::FULL);
        if after.is_some() {
            self.books.counts.added += 1;
            self.books.counts.emitted += 1;
        }
        Step { before, after }
    }

    /// What follows is unknown, or nothing follows: what is returned must be emitted now.
    ///
    /// Where everything is held back ([`Planner::holds`]) the stretch ends here, and [`Planner::take_plan`] says what
    /// to issue.
    pub fn flush(&mut self) -> Option<Due> {
        if let Some(whole) = self.whole.as_mut().filter(|whole| !whole.stopped) {
            let plan = match whole.explains {
                true => Arc::new(whole.stretch.plan(whole.freedom)),
                false => whole.stretch.recall(whole.freedom),
            };
            let (books, emitted) = (&mut self.books, plan.emissions.len() as u64);
            books.counts.emitted += emitted;
            books.counts.elided += std::mem::take(&mut books.held).saturating_sub(emitted);
            plan.emissions.iter().for_each(|emission| books.counts.hazards.add(emission.witness.cause));
            whole.stretch.clear();
            whole.planned = Some(plan);
            return None;
        }
        let due = self.tracker.as_mut().and_then(Tracker::flush);
        self.books.due(due.map(|due| due.cause));
        self.books.flushed();
        due
    }

    /// Something unknown happens here, after a [`Planner::flush`].
    pub fn restart(&mut self) {
        if let Some(tracker) = &mut self.tracker {
            tracker.restart();
        }
    }

    /// The counts so far. Barriers that are held back are in `asked` only, until something decides on them.
    pub fn counts(&self) -> Counts {
        self.books.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{MemoryId, Range};
    use crate::scope::{Flags, Scope, Stages};

    fn compute() -> Barrier {
        let scope = Scope { stages: Stages::COMPUTE_SHADER, flags: Flags::SHADER_READ | Flags::SHADER_WRITE };
        Barrier { src: scope, dst: scope }
    }

    fn range(i: u64) -> Range {
        Range::bytes(MemoryId(1), i * 256, 256, 64)
    }

    /// Three independent writers, then one reader of the last, a barrier after each.
    fn run(policy: Policy) -> (Counts, Vec<Step>) {
        let mut planner = Planner::new(policy);
        let mut steps = Vec::new();
        for accesses in [
            [Access::shader_write(range(0)), Access::shader_read(range(9))],
            [Access::shader_write(range(1)), Access::shader_read(range(9))],
            [Access::shader_write(range(2)), Access::shader_read(range(9))],
            [Access::shader_write(range(3)), Access::shader_read(range(2))],
        ] {
            steps.push(planner.operation(&accesses, true));
            planner.asked(compute());
        }
        planner.flush();
        (planner.counts(), steps)
    }

    #[test]
    fn alias_only_emits_for_the_prefix_once_for_the_true_dependency_and_at_the_end() {
        let (counts, steps) = run(Policy::AliasOnly);
        assert_eq!(counts.asked, 4);
        assert_eq!(steps[1].before.map(|d| d.cause), Some(Cause::Prefix), "anything may have come before");
        assert_eq!(steps[2].before, None, "disjoint ranges need no barrier");
        assert_eq!(steps[3].before.map(|d| d.cause), Some(Cause::Raw));
        assert_eq!(counts.hazards, Hazards { prefix: 1, raw: 1, flush: 1, ..Hazards::default() });
        assert_eq!((counts.emitted, counts.elided), (3, 1));
    }

    /// What a recording is made of: an operation on two of four ranges of a nature, or a barrier.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Operation(u64, u64, Nature),
        Asked(Barrier),
    }

    /// Records `events` and stops holding before the event of number `stop`. The result is what is issued, in order: an
    /// operation by its number, or a barrier; and the counts.
    fn issued(policy: Policy, events: &[Event], stop: usize) -> (Vec<Result<usize, Barrier>>, Counts) {
        let mut planner = Planner::new(policy);
        let (mut out, mut held, mut operations) = (Vec::new(), Vec::new(), 0);
        let take = |planner: &mut Planner, held: &mut Vec<usize>, out: &mut Vec<_>| {
            let Some(plan) = planner.take_plan() else { return };
            for issue in &plan.issue {
                out.push(match issue {
                    crate::whole::Issue::Operation(number) => Ok(held[*number]),
                    crate::whole::Issue::Barrier(number) => Err(plan.emissions[*number].barrier),
                });
            }
            held.clear();
        };
        for (number, event) in events.iter().enumerate() {
            if number == stop {
                planner.stop_holding();
                take(&mut planner, &mut held, &mut out);
            }
            match *event {
                Event::Asked(barrier) => {
                    planner.asked(barrier);
                }
                Event::Operation(read, written, nature) => {
                    let accesses = [Access::shader_read(range(read)), Access::shader_write(range(written))];
                    let step = planner.operation_of(nature, &accesses, true);
                    if planner.holds() {
                        held.push(operations);
                    } else {
                        out.extend(step.before.map(|due| Err(due.barrier)));
                        out.push(Ok(operations));
                    }
                    operations += 1;
                }
            }
        }
        let due = planner.flush();
        take(&mut planner, &mut held, &mut out);
        out.extend(due.map(|due| Err(due.barrier)));
        (out, planner.counts())
    }

    proptest::proptest! {
        #[test]
        fn once_it_stops_holding_a_policy_has_issued_and_issues_what_alias_only_does(
            events in proptest::collection::vec((0u8..10, 0u64..4, 0u64..4), 0..24),
            stop in 0usize..24,
        ) {
            let transfer = Scope { stages: Stages::ALL_TRANSFER, flags: Flags::TRANSFER_WRITE };
            let event = |(kind, read, written): &(u8, u64, u64)| match kind {
                0 if *read == 0 => Event::Operation(*read, *written, Nature::Stamps { after_compute: *written == 0 }),
                0 => Event::Operation(*read, *written, Nature::Synchronises),
                1 => Event::Operation(*read, *written, Nature::Stays),
                2..=5 => Event::Operation(*read, *written, Nature::Movable),
                6 => Event::Asked(Barrier { dst: transfer, ..compute() }),
                7 => Event::Asked(Barrier { src: transfer, ..compute() }),
                _ => Event::Asked(compute()),
            };
            let events: Vec<Event> = events.iter().map(event).collect();
            let stop = stop % (events.len() + 1);
            let truth = issued(Policy::AliasOnly, &events, usize::MAX);
            for policy in [Policy::Narrow, Policy::Reorder] {
                // At the very end there is nothing to stop for.
                let found = issued(policy, &events, stop);
                if stop < events.len() {
                    proptest::prop_assert_eq!(&found, &truth, "{}", policy);
                }
                let c = found.1;
                proptest::prop_assert_eq!(c.asked + c.added, c.emitted + c.elided);
            }
        }
    }

    #[test]
    fn every_policy_keeps_its_books() {
        for policy in Policy::ALL {
            let (c, steps) = run(policy);
            assert_eq!(c.asked + c.added, c.emitted + c.elided, "{policy}");
            let emitted = match policy {
                Policy::Stock => 4,
                Policy::Every => 8,
                Policy::AliasOnly | Policy::Narrow | Policy::Reorder => 3,
                Policy::None => 0,
            };
            assert_eq!(c.emitted, emitted, "{policy}");
            assert_eq!(
                steps.iter().filter(|s| s.after == Some(Barrier::FULL)).count(),
                if policy == Policy::Every { 4 } else { 0 }
            );
        }
    }
}
