//! The same recording again.
//!
//! Applications record the same commands over and over: a decode loop does it for every token. What a deferring planner
//! answers depends on nothing but what it was told since the command buffer began, so as long as a recording repeats the
//! one before it, the answers are those that were given then, and nothing need be derived or decided. A
//! [`RepeatingPlanner`] keeps a log of the last recording and compares. At the first difference it tells a planner what
//! the log says was recorded so far, and from there on that one decides.
//!
//! Comparing an operation means comparing its accesses, byte for byte, unless the caller can name what they follow from:
//! two operations with the same [`Key`] are the same without a look at them.

use crate::access::Access;
use crate::planner::{Books, Counts, Nature, Planner, Step, Verdict};
use crate::policy::Policy;
use crate::scope::{Barrier, Scope};
use crate::tracker::{Cause, Due};
use crate::whole::Plan;
use std::cell::Cell;
use std::sync::Arc;

/// What an operation's accesses and nature follow from. Whoever gives the same key twice promises that they are the same.
#[derive(Clone, Copy, Debug, Eq, PartialOrd, Ord)]
pub struct Key(pub [u64; 3]);

impl PartialEq for Key {
    /// Word by word: a key has just been written that way, and a processor that is asked for it in larger pieces waits.
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        let (a, b) = (&self.0, &other.0);
        (a[0] == b[0]) & (a[1] == b[1]) & (a[2] == b[2])
    }
}

/// How an operation's accesses were derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// How far it may be moved.
    pub nature: Nature,
    /// Whether its key stands for them: not when something was missing that may be there the next time.
    pub lasting: bool,
}

/// How many events and accesses a log may have (some 2 and 7 MB): a recording beyond is decided as if there were none.
const LONGEST: (usize, usize) = (1 << 15, 1 << 17);

/// A barrier of the log: its place among the different ones, of which streams have a handful.
type Number = u32;

/// One thing that the planner was told, and what it answered.
#[derive(Clone, Copy, Debug)]
enum Event {
    Asked(Number),
    Operation {
        key: Option<Key>,
        /// Where its accesses end in the log's; they begin where those of the operation before end.
        end: u32,
        nature: Nature,
        dispatch: bool,
        before: Option<(Number, Cause)>,
    },
    PassedThrough,
    Flushed(Option<(Number, Cause)>),
    Restarted,
}

/// What a recording consists of.
#[derive(Clone, Debug, Default)]
struct Log {
    events: Vec<Event>,
    accesses: Vec<Access>,
    barriers: Vec<Barrier>,
    /// What the counts are after all events, once somebody has asked.
    counts: Cell<Option<Counts>>,
}

impl Log {
    fn clear(&mut self) {
        self.counts.take();
        self.events.clear();
        self.accesses.clear();
        self.barriers.clear();
    }

    fn truncate(&mut self, events: usize, accesses: usize) {
        self.counts.take();
        self.events.truncate(events);
        self.accesses.truncate(accesses);
    }

    fn counts_up_to(&self, at: usize) -> Counts {
        let mut books = Books::default();
        for event in &self.events[..at] {
            match event {
                Event::Asked(_) => books.hold(),
                Event::Operation { before, nature, .. } => {
                    books.due(before.map(|(_, cause)| cause));
                    if matches!(nature, Nature::Synchronises | Nature::Stamps { .. }) {
                        books.flushed();
                    }
                }
                Event::PassedThrough => books.pass_through(),
                Event::Flushed(due) => {
                    books.due(due.map(|(_, cause)| cause));
                    books.flushed();
                }
                Event::Restarted => {}
            }
        }
        books.counts
    }

    fn number(&mut self, barrier: Barrier) -> Number {
        let known = self.barriers.iter().rposition(|b| *b == barrier);
        let at = known.unwrap_or_else(|| {
            self.barriers.push(barrier);
            self.barriers.len() - 1
        });
        at as Number
    }

    fn note(&mut self, due: Option<Due>) -> Option<(Number, Cause)> {
        due.map(|due| (self.number(due.barrier), due.cause))
    }

    #[inline]
    fn due(&self, noted: Option<(Number, Cause)>) -> Option<Due> {
        noted.map(|(number, cause)| Due { barrier: self.barriers[number as usize], cause })
    }
}

/// What a planner with a log is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// All that was recorded so far is the log up to here; the planner was told nothing of it.
    Follows {
        /// The next event.
        at: usize,
        /// The end of the accesses before it.
        accesses: usize,
    },
    /// The planner decides, and the log grows.
    Leads,
    /// The planner decides, and there is no log.
    Alone,
}

const BEGINNING: Mode = Mode::Follows { at: 0, accesses: 0 };

/// A [`Planner`] that remembers its last recording and, as long as the next one repeats it, answers as it did then.
///
/// Policies that decide at once without looking at accesses, and those that decide over whole stretches, are passed on
/// to the planner.
#[derive(Clone, Debug)]
pub struct RepeatingPlanner {
    planner: Planner,
    log: Log,
    mode: Mode,
    scratch: Vec<Access>,
}

impl RepeatingPlanner {
    /// A planner at the beginning of its first command buffer.
    pub fn new(policy: Policy) -> RepeatingPlanner {
        let planner = Planner::new(policy);
        let mode = first_mode(&planner);
        RepeatingPlanner { planner, log: Log::default(), mode, scratch: Vec::new() }
    }

    /// Begins a new command buffer, and keeps what was recorded in the last one.
    pub fn reset(&mut self) {
        if self.mode != Mode::Alone && !self.log.events.is_empty() {
            self.mode = BEGINNING;
            return;
        }
        self.log.clear();
        self.planner.reset();
        self.mode = first_mode(&self.planner);
    }

    /// [`Planner::planned`].
    pub fn planned(&self) -> Option<&Plan> {
        self.planner.planned()
    }

    /// [`Planner::stop_holding`].
    pub fn stop_holding(&mut self) {
        self.planner.stop_holding();
    }

    /// [`Planner::asked`].
    #[inline(always)]
    pub fn asked(&mut self, barrier: Barrier) -> Verdict {
        if let Mode::Follows { at, accesses } = self.mode
            && let Some(Event::Asked(number)) = self.log.events.get(at)
            && self.log.barriers.get(*number as usize).is_some_and(|known| is_same(known, &barrier))
        {
            self.mode = Mode::Follows { at: at + 1, accesses };
            return Verdict::Hold;
        }
        self.asked_anew(barrier)
    }

    #[inline(never)]
    fn asked_anew(&mut self, barrier: Barrier) -> Verdict {
        if let Mode::Follows { at, accesses } = self.mode {
            self.diverge(at, accesses);
        }
        let verdict = self.planner.asked(barrier);
        if self.mode == Mode::Leads {
            let number = self.log.number(barrier);
            self.append(Event::Asked(number));
        }
        verdict
    }

    /// [`Planner::operation_of`] for an operation whose accesses `derive` puts into an empty list, if they are needed; `key`
    /// is what they follow from, if that has a name.
    #[inline]
    pub fn operation(
        &mut self,
        key: Option<Key>,
        dispatch: bool,
        derive: impl FnOnce(&mut Vec<Access>) -> Derived,
    ) -> Step {
        if let Some(key) = key
            && let Some(before) = self.repeats(key, dispatch)
        {
            return Step { before, after: None };
        }
        if !self.planner.needs_accesses() {
            return self.planner.operation_of(Nature::Stays, &[], dispatch);
        }
        self.derived_operation(key, dispatch, derive)
    }

    /// The operation with this key, if it comes next in the log: what must be emitted before it.
    #[inline]
    pub fn repeats(&mut self, key: Key, dispatch: bool) -> Option<Option<Due>> {
        if let Mode::Follows { at, .. } = self.mode
            && let Some(Event::Operation { key: Some(known), end, before, dispatch: known_dispatch, .. }) =
                self.log.events.get(at)
            && *known == key
            && *known_dispatch == dispatch
        {
            self.mode = Mode::Follows { at: at + 1, accesses: *end as usize };
            return Some(self.log.due(*before));
        }
        None
    }

    /// As [`RepeatingPlanner::operation`], where the key does not tell.
    fn derived_operation(
        &mut self,
        key: Option<Key>,
        dispatch: bool,
        derive: impl FnOnce(&mut Vec<Access>) -> Derived,
    ) -> Step {
        let mut own = std::mem::take(&mut self.scratch);
        own.clear();
        let derived = derive(&mut own);
        let key = key.filter(|_| derived.lasting);
        let step = self.operation_with(key, dispatch, derived.nature, &own);
        self.scratch = own;
        step
    }

    fn operation_with(&mut self, key: Option<Key>, dispatch: bool, nature: Nature, own: &[Access]) -> Step {
        if let Mode::Follows { at, accesses } = self.mode {
            let log = &mut self.log;
            if let Some(Event::Operation { key: known, end, nature: n, dispatch: d, before }) =
                log.events.get_mut(at)
                && (*n, *d) == (nature, dispatch)
                && log.accesses[accesses..*end as usize] == *own
            {
                // What it follows from now is what the next recording is likely to have.
                *known = key;
                let (end, before) = (*end as usize, *before);
                self.mode = Mode::Follows { at: at + 1, accesses: end };
                return Step { before: self.log.due(before), after: None };
            }
            self.diverge(at, accesses);
        }
        let step = self.planner.operation_of(nature, own, dispatch);
        if self.mode == Mode::Leads {
            self.log.accesses.extend_from_slice(own);
            let before = self.log.note(step.before);
            let end = self.log.accesses.len() as u32;
            self.append(Event::Operation { key, end, nature, dispatch, before });
        }
        step
    }

    /// [`Planner::flush`].
    pub fn flush(&mut self) -> Option<Due> {
        if let Mode::Follows { at, accesses } = self.mode {
            if let Some(Event::Flushed(due)) = self.log.events.get(at) {
                self.mode = Mode::Follows { at: at + 1, accesses };
                return self.log.due(*due);
            }
            self.diverge(at, accesses);
        }
        let due = self.planner.flush();
        if self.mode == Mode::Leads {
            let noted = self.log.note(due);
            self.append(Event::Flushed(noted));
        }
        due
    }

    /// [`Planner::restart`].
    pub fn restart(&mut self) {
        self.told(Event::Restarted, Planner::restart);
    }

    /// [`Planner::passed_through`].
    pub fn passed_through(&mut self) {
        self.told(Event::PassedThrough, Planner::passed_through);
    }

    /// Something without an answer.
    fn told(&mut self, event: Event, tell: impl FnOnce(&mut Planner)) {
        if let Mode::Follows { at, accesses } = self.mode {
            let next = self.log.events.get(at);
            if next.is_some_and(|next| std::mem::discriminant(next) == std::mem::discriminant(&event)) {
                self.mode = Mode::Follows { at: at + 1, accesses };
                return;
            }
            self.diverge(at, accesses);
        }
        tell(&mut self.planner);
        if self.mode == Mode::Leads {
            self.append(event);
        }
    }

    fn append(&mut self, event: Event) {
        self.log.counts.take();
        self.log.events.push(event);
        if self.log.events.len() > LONGEST.0 || self.log.accesses.len() > LONGEST.1 {
            self.log.clear();
            self.mode = Mode::Alone;
        }
    }

    /// What comes next is not what the log has there: the planner is told what came before, and decides from here on.
    #[cold]
    fn diverge(&mut self, at: usize, accesses: usize) {
        match at {
            0 => self.log.clear(),
            _ => self.log.truncate(at, accesses),
        }
        self.planner.reset();
        let mut start = 0;
        for event in &self.log.events {
            match *event {
                Event::Asked(number) => {
                    self.planner.asked(self.log.barriers[number as usize]);
                }
                Event::Operation { end, nature, dispatch, .. } => {
                    let end = end as usize;
                    self.planner.operation_of(nature, &self.log.accesses[start..end], dispatch);
                    start = end;
                }
                Event::PassedThrough => self.planner.passed_through(),
                Event::Flushed(_) => {
                    self.planner.flush();
                }
                Event::Restarted => self.planner.restart(),
            }
        }
        self.mode = Mode::Leads;
    }

    /// [`Planner::counts`].
    pub fn counts(&self) -> Counts {
        let Mode::Follows { at, .. } = self.mode else { return self.planner.counts() };
        let whole = at == self.log.events.len();
        if let Some(counts) = self.log.counts.get().filter(|_| whole) {
            return counts;
        }
        let counts = self.log.counts_up_to(at);
        if whole {
            self.log.counts.set(Some(counts));
        }
        counts
    }

    /// [`Planner::policy`].
    pub fn policy(&self) -> Policy {
        self.planner.policy()
    }

    /// [`Planner::needs_accesses`].
    pub fn needs_accesses(&self) -> bool {
        self.planner.needs_accesses()
    }

    /// [`Planner::holds`].
    pub fn holds(&self) -> bool {
        self.planner.holds()
    }

    /// [`Planner::held_operations`].
    pub fn held_operations(&self) -> usize {
        self.planner.held_operations()
    }

    /// [`Planner::take_plan`].
    pub fn take_plan(&mut self) -> Option<Arc<Plan>> {
        self.planner.take_plan()
    }

    /// How many events of this recording repeat the one before it.
    pub fn repeated(&self) -> usize {
        match self.mode {
            Mode::Follows { at, .. } => at,
            Mode::Leads | Mode::Alone => 0,
        }
    }
}

/// `a == b`, word by word, for the same reason as with keys.
#[inline(always)]
fn is_same(a: &Barrier, b: &Barrier) -> bool {
    let differs = |a: &Scope, b: &Scope| (a.stages ^ b.stages).bits() | (a.flags ^ b.flags).bits();
    differs(&a.src, &b.src) | differs(&a.dst, &b.dst) == 0
}

/// Only a planner that defers and decides at once has anything to remember.
fn first_mode(planner: &Planner) -> Mode {
    if planner.needs_accesses() && !planner.holds() { Mode::Leads } else { Mode::Alone }
}

#[cfg(test)]
#[path = "tests/repeat.rs"]
mod tests;
