//! The deferring tracker: which barrier is due before this operation?
//!
//! An asked barrier is never dropped, it becomes *pending*: it may be a link of a chain that a later, narrower barrier
//! relies on. Before an operation that completes a required pair which no emitted barrier orders yet, one barrier is
//! emitted. docs/semantics.md says what "required" means; `model` is the same definition written as a search, and the
//! tests hold the two against each other.
//!
//! # Why there are classes
//!
//! Whether a past access and a new one are a required pair depends on the barriers since the past access, on its
//! stage and flag, and on nothing else about it (`state`). So accesses are not kept one by one. A `Class` is all past
//! accesses that are in the same *state*: the same stage and flag, and the same reach of asked and of emitted
//! barriers since. Classes in equal states evolve equally for ever and are merged, so a stream with uniform barriers has about
//! six of them however long it is, and a class whose emitted reach covers its asked reach needs no look at its
//! ranges at all. Nothing is approximated by this, and nothing is forgotten: an emission does not "clear" what its
//! scopes did not cover.
//!
//! # The prefix
//!
//! What came before (earlier submissions, semaphore waits at any stage) is a pseudo-operation that did everything at
//! every stage. It is three classes: reads; writes nobody has made available yet; and writes that *are* available at
//! some stage, by a barrier of an earlier command buffer or by a semaphore, and that wait only for a chain to carry
//! them on. The third kind is why a barrier with an empty source access mask is not idle at the beginning of a
//! command buffer. A class that stands for many stages is split when a barrier covers part of it.

use crate::access::Access;
use crate::memo::{BarrierRef, ShapeRef, StateRef};
use crate::ranges::RangeSet;
use crate::scope::Barrier;
use crate::state::{Shape, Which};
#[cfg(test)]
use crate::{memo::Row, state::Did};
use smallvec::SmallVec;

/// What the tracker puts into the barriers that it emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// The join of all barriers asked since the prefix began. Least among all placements that emit such joins (T3);
    /// what `alias-only` does.
    AskedJoin,
    /// The join of the barriers asked since the last emission only. Sound, and sometimes one barrier more.
    PendingJoin,
    /// Everything to everything. Least among all placements with any scopes (T1).
    Full,
}

/// Why a barrier had to be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Read after write.
    Raw,
    /// Write after read.
    War,
    /// Write after write.
    Waw,
    /// Something that may have happened before the command buffer.
    Prefix,
    /// What follows is not known: the end of the command buffer, an unknown command, the host.
    Flush,
}

/// A barrier that must be emitted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// What to emit, in the application's own masks.
    pub barrier: Barrier,
    /// What forced it.
    pub cause: Cause,
}

/// Faults that the tests plant, to see that they would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Reads are not remembered.
    ForgetWar,
    /// Barriers are not links of chains.
    ForgetChains,
    /// An emission is taken to order everything before it.
    EmissionClearsEverything,
    /// After the first emission the prefix is forgotten.
    PrefixOnlyBeforeFirstBarrier,
    /// What is pending at the end is not emitted.
    ForgetFinalFlush,
}

/// Past accesses in the same state.
#[derive(Clone, Debug)]
struct Class {
    state: StateRef,
    /// [`State::is_pending`] of it.
    pending: bool,
    ranges: RangeSet,
}

/// Follows one command buffer, or one stretch of it after something unknown.
#[derive(Clone, Debug)]
pub struct Tracker {
    carry: Carry,
    classes: Vec<Class>,
    /// All barriers asked since the prefix began.
    all_asked: Barrier,
    /// The barriers asked since the last emission.
    pending: Option<Barrier>,
    /// A pending barrier names the host in its second scope.
    host_waits: bool,
    /// The barrier taken apart last: streams tend to repeat one.
    last: BarrierRef,
    /// Sets whose classes are gone, for their memory.
    spare: Vec<RangeSet>,
    #[cfg(test)]
    fault: Option<Fault>,
}

impl Tracker {
    /// A tracker at the beginning of a command buffer: anything may have come before.
    pub fn new(carry: Carry) -> Tracker {
        let mut tracker = Tracker {
            carry,
            classes: Vec::with_capacity(16),
            all_asked: Barrier::default(),
            pending: None,
            host_waits: false,
            last: BarrierRef::new(Barrier::default()),
            spare: Vec::new(),
            #[cfg(test)]
            fault: None,
        };
        tracker.restart();
        tracker
    }

    #[cfg(test)]
    pub(crate) fn break_with(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// Whether [`Tracker::operation`] would emit.
    #[cfg(test)]
    pub(crate) fn is_due(&self, accesses: &[Access]) -> bool {
        self.due_before(accesses).is_some()
    }

    #[cfg(test)]
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// A new prefix begins: something unknown happens here, after a [`Tracker::flush`], or a new command buffer does.
    pub fn restart(&mut self) {
        let Tracker { classes, spare, .. } = self;
        for class in classes.drain(..) {
            keep(spare, class.ranges);
        }
        self.all_asked = Barrier::default();
        self.pending = None;
        self.host_waits = false;
        for state in StateRef::prefix() {
            // Nothing was asked since, so nothing is pending.
            self.classes.push(Class { state, pending: false, ranges: RangeSet::anywhere() });
        }
    }

    /// The application asks for `barrier` here. It becomes pending.
    pub fn asked(&mut self, barrier: Barrier) {
        self.all_asked = self.all_asked.join(barrier);
        self.pending = Some(self.pending.map_or(barrier, |p| p.join(barrier)));
        self.look_up(barrier);
        self.host_waits |= self.last.expanded.reaches_host();
        self.advance(Which::Asked);
    }

    /// An operation with these accesses comes next. What is returned must be emitted before it.
    pub fn operation(&mut self, accesses: &[Access]) -> Option<Due> {
        let mut due = None;
        if self.pending.is_some() {
            self.classes.iter_mut().filter(|c| c.pending).for_each(|c| c.ranges.tidy());
            due = self.due_before(accesses).map(|cause| self.emit(cause));
            debug_assert!(
                self.is_broken() || self.due_before(accesses).is_none(),
                "an emission orders what it was for"
            );
        }
        self.remember(accesses);
        due
    }

    /// What follows is unknown, or nothing follows: what is returned must be emitted now.
    pub fn flush(&mut self) -> Option<Due> {
        #[cfg(test)]
        if self.has(Fault::ForgetFinalFlush) {
            return None;
        }
        let pending = self.pending.is_some() && self.classes.iter().any(|c| c.pending);
        pending.then(|| self.emit(Cause::Flush))
    }

    /// The strongest reason to emit before `accesses`; a pair of operations is a better reason than the prefix.
    fn due_before(&self, accesses: &[Access]) -> Option<Cause> {
        self.pending?;
        if self.host_waits && self.classes.iter().any(|c| c.pending) {
            return Some(Cause::Flush);
        }
        let mut found: Option<Cause> = None;
        for (shape, alike) in by_shape(accesses) {
            for class in self.classes.iter().filter(|c| c.pending) {
                #[cfg(test)]
                if self.has(Fault::ForgetWar) && class.state.get().did == Did::Read {
                    continue;
                }
                let Some(cause) = class.state.due(&shape) else { continue };
                if found.is_none_or(|f| cause < f) && alike.iter().any(|a| class.ranges.overlaps(&a.range)) {
                    found = Some(cause);
                }
            }
        }
        found
    }

    fn emit(&mut self, cause: Cause) -> Due {
        let barrier = match self.carry {
            Carry::AskedJoin => self.all_asked,
            Carry::PendingJoin => self.pending.unwrap_or(self.all_asked),
            Carry::Full => Barrier::FULL.join(self.all_asked),
        };
        self.pending = None;
        self.host_waits = false;
        #[cfg(test)]
        {
            if self.has(Fault::EmissionClearsEverything) {
                self.classes.clear();
            }
            if self.has(Fault::PrefixOnlyBeforeFirstBarrier) {
                self.classes.retain(|c| !c.state.get().prefix);
            }
        }
        self.look_up(barrier);
        self.advance(Which::Emitted);
        Due { barrier, cause }
    }

    fn look_up(&mut self, barrier: Barrier) {
        if self.last.barrier != barrier {
            self.last = BarrierRef::new(barrier);
        }
    }

    /// Takes the barrier looked up last into one of the two reaches of every class.
    fn advance(&mut self, which: Which) {
        let row = self.last.row(which);
        #[cfg(test)]
        let row = if self.has(Fault::ForgetChains) { Row::NOTHING_KNOWN } else { row };
        let mut moved: SmallVec<[usize; 8]> = SmallVec::new();
        let count = self.classes.len();
        for index in 0..count {
            let class = &mut self.classes[index];
            if let Some(state) = class.state.step(row) {
                if !state.is(&class.state) {
                    class.pending = state.is_pending();
                    class.state = state;
                    moved.push(index);
                }
                continue;
            }
            let Some(advanced) = self.advanced(index, which) else { continue };
            moved.push(index);
            let mut states = advanced.into_iter();
            if let Some(state) = states.next() {
                let class = &mut self.classes[index];
                class.pending = state.is_pending();
                class.state = state;
            }
            // What is split off goes to the end, and is not covered.
            for state in states {
                let ranges = self.classes[index].ranges.clone();
                self.classes.push(Class { pending: state.is_pending(), state, ranges });
            }
        }
        moved.extend(count..self.classes.len());
        self.merge(&moved);
    }

    fn advanced(&self, index: usize, which: Which) -> Option<SmallVec<[StateRef; 3]>> {
        let state = &self.classes[index].state;
        #[cfg(test)]
        if self.has(Fault::ForgetChains) {
            let advanced = state.get().advance(&self.last.expanded, which, false)?;
            return Some(advanced.into_iter().map(StateRef::of).collect());
        }
        state.advance(&self.last, which)
    }

    /// Merges those of the classes at `moved`, in ascending order, that are now in the state of another. No two others
    /// can have become equal.
    fn merge(&mut self, moved: &[usize]) {
        // From the back: what swap_remove puts in the place of a class was behind it, and has been looked at.
        for &index in moved.iter().rev() {
            let state = &self.classes[index].state;
            let twin = (0..self.classes.len()).find(|&i| i != index && self.classes[i].state.is(state));
            if let Some(twin) = twin {
                let mut gone = std::mem::take(&mut self.classes[index].ranges);
                self.classes[twin].ranges.absorb(&mut gone);
                keep(&mut self.spare, gone);
                self.classes.swap_remove(index);
            }
        }
    }

    fn remember(&mut self, accesses: &[Access]) {
        for (shape, alike) in by_shape(accesses) {
            if alike.iter().all(|a| a.range.is_empty()) {
                continue;
            }
            let fresh = StateRef::fresh(&shape);
            // Fresh classes were added last.
            let at = match self.classes.iter().rposition(|c| c.state.is(&fresh)) {
                Some(at) => at,
                None => {
                    let ranges = self.spare.pop().unwrap_or_default();
                    self.classes.push(Class { state: fresh, pending: false, ranges });
                    self.classes.len() - 1
                }
            };
            let ranges = &mut self.classes[at].ranges;
            alike.iter().for_each(|a| ranges.insert(&a.range));
        }
    }

    #[cfg(test)]
    fn is_broken(&self) -> bool {
        self.fault.is_some()
    }

    #[cfg(not(test))]
    fn is_broken(&self) -> bool {
        false
    }
}

/// Keeps the memory of a set that is not needed any more.
fn keep(spare: &mut Vec<RangeSet>, mut ranges: RangeSet) {
    if spare.len() < 8 {
        ranges.clear();
        spare.push(ranges);
    }
}

/// Cuts accesses into runs of the same shape.
fn by_shape(accesses: &[Access]) -> impl Iterator<Item = (ShapeRef, &[Access])> {
    let shape = |a: &Access| Shape { kind: a.kind, stages: a.stages, flags: a.flags };
    accesses
        .chunk_by(move |a, b| shape(a) == shape(b))
        .filter_map(move |alike| Some((ShapeRef::new(shape(alike.first()?)), alike)))
}
