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

use crate::access::{Access, Range};
use crate::config::{ConfigRef, DueList, Plan, Step, Steps};
use crate::memo::{BarrierRef, ShapeRef, StateRef};
use crate::ranges::RangeSet;
use crate::scope::Barrier;
#[cfg(test)]
use crate::state::Did;
use crate::state::{Shape, Which};
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

/// Follows one command buffer, or one stretch of it after something unknown.
#[derive(Clone, Debug)]
pub struct Tracker {
    carry: Carry,
    /// The states of all classes, by number.
    config: Option<ConfigRef>,
    /// The same one by one, where they have no number together.
    states: Vec<StateRef>,
    /// By class: which of `sets` its ranges are.
    places: Vec<usize>,
    sets: Vec<RangeSet>,
    /// Sets that no class has, empty.
    free: Vec<usize>,
    /// All barriers asked since the prefix began.
    all_asked: Barrier,
    /// The barriers asked since the last emission.
    pending: Option<Barrier>,
    /// A pending barrier names the host in its second scope.
    host_waits: bool,
    /// The barrier taken apart last: streams tend to repeat one.
    last: BarrierRef,
    /// The shapes met first: streams have a handful.
    shapes: SmallVec<[ShapeRef; 4]>,
    #[cfg(test)]
    fault: Option<Fault>,
}

impl Tracker {
    /// A tracker at the beginning of a command buffer: anything may have come before.
    pub fn new(carry: Carry) -> Tracker {
        let mut tracker = Tracker {
            carry,
            config: None,
            states: Vec::new(),
            places: Vec::with_capacity(16),
            sets: Vec::with_capacity(16),
            free: Vec::with_capacity(16),
            all_asked: Barrier::default(),
            pending: None,
            host_waits: false,
            last: BarrierRef::new(Barrier::default()),
            shapes: SmallVec::new(),
            #[cfg(test)]
            fault: None,
        };
        tracker.restart();
        tracker
    }

    #[cfg(test)]
    pub(crate) fn break_with(&mut self, fault: Fault) {
        self.spell_out();
        self.fault = Some(fault);
    }

    /// Whether [`Tracker::operation`] would emit.
    #[cfg(test)]
    pub(crate) fn is_due(&self, accesses: &[Access]) -> bool {
        let mut runs = Runs::new();
        by_shape(accesses, |shape| ShapeRef::new(*shape), &mut runs);
        self.due_before(&runs).is_some()
    }

    #[cfg(test)]
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// A new prefix begins: something unknown happens here, after a [`Tracker::flush`], or a new command buffer does.
    pub fn restart(&mut self) {
        while let Some(place) = self.places.pop() {
            self.give_back(place);
        }
        self.all_asked = Barrier::default();
        self.pending = None;
        self.host_waits = false;
        let prefix = StateRef::prefix();
        for _ in &prefix {
            let place = self.take();
            self.sets[place].insert(&Range::Anywhere);
            self.places.push(place);
        }
        self.states.clear();
        self.states.extend(prefix);
        self.number();
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
        let mut runs = Runs::new();
        by_shape(accesses, |shape| self.shape(shape), &mut runs);
        let mut due = None;
        if self.pending.is_some() {
            self.tidy();
            due = self.due_before(&runs).map(|cause| self.emit(cause));
            debug_assert!(
                self.is_broken() || self.due_before(&runs).is_none(),
                "an emission orders what it was for"
            );
        }
        self.remember(&runs);
        due
    }

    /// What follows is unknown, or nothing follows: what is returned must be emitted now.
    pub fn flush(&mut self) -> Option<Due> {
        #[cfg(test)]
        if self.has(Fault::ForgetFinalFlush) {
            return None;
        }
        let pending = self.pending.is_some() && self.any_pending();
        pending.then(|| self.emit(Cause::Flush))
    }

    fn any_pending(&self) -> bool {
        match self.config {
            Some(config) => !config.pending().is_empty(),
            None => self.states.iter().any(StateRef::is_pending),
        }
    }

    /// Makes the sets of pending classes fast to ask.
    fn tidy(&mut self) {
        match self.config {
            Some(config) => {
                for class in config.pending() {
                    self.sets[self.places[usize::from(*class)]].tidy();
                }
            }
            None => {
                let pending = self.states.iter().zip(&self.places).filter(|(s, _)| s.is_pending());
                pending.for_each(|(_, place)| self.sets[*place].tidy());
            }
        }
    }

    /// The strongest reason to emit before `accesses`; a pair of operations is a better reason than the prefix.
    fn due_before(&self, runs: &[Run<'_>]) -> Option<Cause> {
        self.pending?;
        if self.host_waits && self.any_pending() {
            return Some(Cause::Flush);
        }
        let mut found: Option<Cause> = None;
        for (shape, alike) in runs {
            let mut look = |list: &DueList| {
                for &(class, cause) in list {
                    let ranges = &self.sets[self.places[class]];
                    let better = found.is_none_or(|f| cause < f);
                    if better && alike.iter().any(|a| ranges.overlaps(&a.range)) {
                        found = Some(cause);
                    }
                }
            };
            match self.config.and_then(|c| c.due(shape, || due_list(c.states(), shape))) {
                Some(list) => look(list),
                None => look(&self.due_list(shape)),
            }
        }
        found
    }

    fn due_list(&self, shape: &ShapeRef) -> DueList {
        match self.config {
            Some(config) => due_list(config.states(), shape),
            #[cfg(test)]
            None if self.has(Fault::ForgetWar) => {
                let mut list = due_list(self.states.iter().cloned(), shape);
                list.retain(|(class, _)| self.states[*class].get().did != Did::Read);
                list
            }
            None => due_list(self.states.iter().cloned(), shape),
        }
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
            let all = self.has(Fault::EmissionClearsEverything);
            let prefix = self.has(Fault::PrefixOnlyBeforeFirstBarrier);
            for class in (0..self.states.len()).rev() {
                if all || prefix && self.states[class].get().prefix {
                    self.states.remove(class);
                    self.places.remove(class);
                }
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
        if let Some(plan) = self.config.and_then(|c| c.plan(&self.last, which)) {
            plan.steps.iter().for_each(|step| self.take_step(*step));
            self.config = Some(plan.to);
            return;
        }
        let from = self.config;
        self.spell_out();
        let mut steps = Steps::new();
        let mut moved: SmallVec<[usize; 8]> = SmallVec::new();
        let count = self.states.len();
        for class in 0..count {
            let Some(advanced) = self.advanced(class, which) else { continue };
            moved.push(class);
            let mut states = advanced.into_iter();
            if let Some(state) = states.next() {
                self.states[class] = state;
            }
            // What is split off goes to the end, and is not covered.
            for state in states {
                self.states.push(state);
                steps.push(Step::Split(class));
            }
        }
        moved.extend(count..self.states.len());
        // Those that moved may be in the state of another now; no two others can have become equal. From the back: what
        // swap_remove puts in the place of a class was behind it, and has been looked at.
        for &gone in moved.iter().rev() {
            let state = &self.states[gone];
            let twin = (0..self.states.len()).find(|&i| i != gone && self.states[i].is(state));
            if let Some(twin) = twin {
                self.states.swap_remove(gone);
                steps.push(Step::Merge { gone, twin });
            }
        }
        steps.iter().for_each(|step| self.take_step(*step));
        self.number();
        if let (Some(from), Some(to)) = (from, self.config) {
            from.keep_plan(&self.last, which, Plan { to, steps });
        }
    }

    fn advanced(&self, class: usize, which: Which) -> Option<SmallVec<[StateRef; 3]>> {
        let state = &self.states[class];
        #[cfg(test)]
        if self.has(Fault::ForgetChains) {
            let advanced = state.get().advance(&self.last.expanded, which, false)?;
            return Some(advanced.into_iter().map(StateRef::of).collect());
        }
        state.advance(&self.last, which)
    }

    fn take_step(&mut self, step: Step) {
        match step {
            Step::Split(class) => {
                let new = self.take();
                self.sets[new] = self.sets[self.places[class]].clone();
                self.places.push(new);
            }
            Step::Merge { gone, twin } => {
                let (from, to) = (self.places[gone], self.places[twin]);
                if let Ok([from, to]) = self.sets.get_disjoint_mut([from, to]) {
                    to.absorb(from);
                }
                self.places.swap_remove(gone);
                self.give_back(from);
            }
        }
    }

    fn remember(&mut self, runs: &[Run<'_>]) {
        for (shape, alike) in runs {
            if alike.iter().all(|a| a.range.is_empty()) {
                continue;
            }
            let class = self.class_of(shape);
            if class == self.places.len() {
                let place = self.take();
                self.places.push(place);
            }
            let ranges = &mut self.sets[self.places[class]];
            alike.iter().for_each(|a| ranges.insert(&a.range));
        }
    }

    /// The class of new accesses of this shape; if there was none, one past the classes whose ranges there are.
    fn class_of(&mut self, shape: &ShapeRef) -> usize {
        if let Some((to, class)) = self.config.and_then(|c| c.fresh(shape)) {
            self.config = Some(to);
            return class;
        }
        let from = self.config;
        self.spell_out();
        let fresh = StateRef::fresh(shape);
        let class = self.states.iter().position(|s| s.is(&fresh)).unwrap_or(self.states.len());
        if class == self.states.len() {
            self.states.push(fresh);
        }
        self.number();
        if let (Some(from), Some(to)) = (from, self.config) {
            from.keep_fresh(shape, to, class);
        }
        class
    }

    fn shape(&mut self, shape: &Shape) -> ShapeRef {
        if let Some(known) = self.shapes.iter().find(|known| known.shape == *shape) {
            return *known;
        }
        let new = ShapeRef::new(*shape);
        if self.shapes.len() < self.shapes.inline_size() {
            self.shapes.push(new);
        }
        new
    }

    /// Has the states one by one, and not by number.
    fn spell_out(&mut self) {
        if let Some(config) = self.config.take() {
            self.states.clear();
            self.states.extend(config.states());
        }
    }

    /// Has the states by number, if they have one. A broken tracker would fill the tables with what it believes.
    fn number(&mut self) {
        self.config = if self.is_broken() { None } else { ConfigRef::of(&self.states) };
    }

    /// An empty set.
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.sets.push(RangeSet::default());
            self.sets.len() - 1
        })
    }

    /// A set that no class needs any more. Its memory is kept.
    fn give_back(&mut self, place: usize) {
        self.sets[place].clear();
        self.free.push(place);
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

fn due_list(states: impl Iterator<Item = StateRef>, shape: &ShapeRef) -> DueList {
    (0..).zip(states).filter_map(|(class, state)| Some((class, state.due(shape)?))).collect()
}

/// Accesses that differ in their bytes alone.
type Run<'a> = (ShapeRef, &'a [Access]);

/// An operation's.
type Runs<'a> = SmallVec<[Run<'a>; 4]>;

/// Cuts accesses into runs of the same shape.
fn by_shape<'a>(accesses: &'a [Access], mut find: impl FnMut(&Shape) -> ShapeRef, runs: &mut Runs<'a>) {
    let mut rest = accesses;
    while let [first, ..] = rest {
        let alike = |a: &Access| (a.kind, a.stages, a.flags) == (first.kind, first.stages, first.flags);
        let (run, others) = rest.split_at(rest.iter().take_while(|a| alike(a)).count());
        runs.push((find(&Shape { kind: first.kind, stages: first.stages, flags: first.flags }), run));
        rest = others;
    }
}
