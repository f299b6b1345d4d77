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
//! stage and flag, and on nothing else about it. So accesses are not kept one by one. A `Class` is all past
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

use crate::access::{Access, Kind};
use crate::ranges::RangeSet;
use crate::relation::Relation;
use crate::scope::{Barrier, Flags, Side, Stages};
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

/// What the accesses of a class did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Read,
    Write,
    /// Wrote, and the write is already available at the class's stages.
    WriteAvailable,
}

/// How far barriers have carried a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reach {
    /// Reads: stages that execution chains reach. Writes: stages reached by chains that begin with availability.
    stages: Stages,
    /// Writes: where they have become visible.
    visible: Relation,
}

/// Past accesses in the same state; each stands for all of `stages` with all of `flags`.
#[derive(Clone, Debug)]
struct Class {
    did: Did,
    stages: Stages,
    /// Empty for reads and available writes, whose flags no barrier looks at.
    flags: Flags,
    prefix: bool,
    asked: Reach,
    emitted: Reach,
    ranges: RangeSet,
}

/// A barrier with its masks taken apart, once.
#[derive(Clone, Copy, Debug)]
struct Expanded {
    src: (Stages, Flags),
    dst: (Stages, Flags),
    src_execution: Stages,
    dst_execution: Stages,
}

impl Expanded {
    fn new(barrier: &Barrier) -> Expanded {
        let (src, dst) = (barrier.src, barrier.dst);
        Expanded {
            src: (src.stages.expand(), src.flags.expand()),
            dst: (dst.stages.expand(), dst.flags.expand()),
            src_execution: src.stages.execution(Side::First),
            dst_execution: dst.stages.execution(Side::Second),
        }
    }
}

impl Class {
    fn is_same_state(&self, other: &Class) -> bool {
        self.did == other.did
            && self.stages == other.stages
            && self.flags == other.flags
            && self.prefix == other.prefix
            && self.asked == other.asked
            && self.emitted == other.emitted
    }

    /// The part of the class that `barrier` takes in its first scope directly.
    fn covered(&self, barrier: &Expanded) -> (Stages, Flags) {
        match self.did {
            Did::Read | Did::WriteAvailable => (self.stages & barrier.src_execution, self.flags),
            Did::Write => (self.stages & barrier.src.0, self.flags & barrier.src.1),
        }
    }

    /// What a later access still needs: `None` when no pair with it is required or all are ordered.
    fn due(&self, later: &Access) -> Option<Cause> {
        let unordered = match (self.did, later.kind) {
            (Did::Read, Kind::Read) => false,
            (Did::Write | Did::WriteAvailable, Kind::Read) => {
                self.asked.visible.exceeds(&self.emitted.visible, later.stages, later.flags)
            }
            (_, Kind::Write) => (self.asked.stages & !self.emitted.stages).intersects(later.stages),
        };
        if !unordered || !self.ranges.overlaps(&later.range) {
            return None;
        }
        Some(match (self.did, later.kind) {
            _ if self.prefix => Cause::Prefix,
            (Did::Read, _) => Cause::War,
            (_, Kind::Read) => Cause::Raw,
            (_, Kind::Write) => Cause::Waw,
        })
    }

    /// Whether some later access could form a required pair that is not ordered yet.
    fn is_pending(&self) -> bool {
        !self.emitted.stages.contains(self.asked.stages) || !self.asked.visible.within(&self.emitted.visible)
    }
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
    last_expanded: (Barrier, Expanded),
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
            last_expanded: (Barrier::default(), Expanded::new(&Barrier::default())),
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

    /// A new prefix begins: something unknown happens here, after a [`Tracker::flush`].
    pub fn restart(&mut self) {
        self.classes.clear();
        self.all_asked = Barrier::default();
        self.pending = None;
        self.host_waits = false;
        let prefix = |did, flags| Class {
            did,
            stages: Stages::EVERY,
            flags,
            prefix: true,
            asked: Reach::default(),
            emitted: Reach::default(),
            ranges: RangeSet::anywhere(),
        };
        self.classes.push(prefix(Did::Read, Flags::empty()));
        self.classes.push(prefix(Did::Write, Flags::WRITES | Flags::UNNAMED));
        self.classes.push(prefix(Did::WriteAvailable, Flags::empty()));
    }

    /// The application asks for `barrier` here. It becomes pending.
    pub fn asked(&mut self, barrier: Barrier) {
        self.all_asked = self.all_asked.join(barrier);
        self.pending = Some(self.pending.map_or(barrier, |p| p.join(barrier)));
        let expanded = self.expand(barrier);
        self.host_waits |= expanded.dst.0.contains(Stages::HOST);
        self.advance(&expanded, |class| &mut class.asked);
    }

    /// An operation with these accesses comes next. What is returned must be emitted before it.
    pub fn operation(&mut self, accesses: &[Access]) -> Option<Due> {
        let cause = self.due_before(accesses);
        let due = cause.map(|cause| self.emit(cause));
        debug_assert!(
            self.is_broken() || self.due_before(accesses).is_none(),
            "an emission orders what it was for"
        );
        for access in accesses {
            self.remember(access);
        }
        due
    }

    /// What follows is unknown, or nothing follows: what is returned must be emitted now.
    pub fn flush(&mut self) -> Option<Due> {
        #[cfg(test)]
        if self.has(Fault::ForgetFinalFlush) {
            return None;
        }
        let pending = self.pending.is_some() && self.classes.iter().any(Class::is_pending);
        pending.then(|| self.emit(Cause::Flush))
    }

    /// The strongest reason to emit before `accesses`; a pair of operations is a better reason than the prefix.
    fn due_before(&self, accesses: &[Access]) -> Option<Cause> {
        self.pending?;
        if self.host_waits && self.classes.iter().any(Class::is_pending) {
            return Some(Cause::Flush);
        }
        let mut found: Option<Cause> = None;
        for class in &self.classes {
            #[cfg(test)]
            if self.has(Fault::ForgetWar) && class.did == Did::Read {
                continue;
            }
            for access in accesses {
                if let Some(cause) = class.due(access) {
                    found = Some(found.map_or(cause, |f| f.min(cause)));
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
                self.classes.retain(|c| !c.prefix);
            }
        }
        let expanded = self.expand(barrier);
        self.advance(&expanded, |class| &mut class.emitted);
        Due { barrier, cause }
    }

    fn expand(&mut self, barrier: Barrier) -> Expanded {
        if self.last_expanded.0 != barrier {
            self.last_expanded = (barrier, Expanded::new(&barrier));
        }
        self.last_expanded.1
    }

    /// Takes `barrier` into one of the two reaches of every class.
    fn advance(&mut self, barrier: &Expanded, reach: fn(&mut Class) -> &mut Reach) {
        #[cfg(test)]
        let chains = !self.has(Fault::ForgetChains);
        #[cfg(not(test))]
        let chains = true;
        let mut split: SmallVec<[Class; 4]> = SmallVec::new();
        let mut changed: SmallVec<[usize; 8]> = SmallVec::new();
        for (index, class) in self.classes.iter_mut().enumerate() {
            let continues = chains && reach(class).stages.intersects(barrier.src_execution);
            if !continues {
                let (stages, flags) = class.covered(barrier);
                if stages.is_empty() || (class.did == Did::Write && flags.is_empty()) {
                    continue;
                }
                // The rest of a class that is covered in part stays behind, as one or two classes of its own.
                for (rest_stages, rest_flags) in
                    [(stages, class.flags & !flags), (class.stages & !stages, class.flags)]
                {
                    if rest_stages.is_empty() || (class.did == Did::Write && rest_flags.is_empty()) {
                        continue;
                    }
                    if class.did != Did::Write && rest_stages == stages {
                        continue;
                    }
                    split.push(Class { stages: rest_stages, flags: rest_flags, ..class.clone() });
                }
                (class.stages, class.flags) = (stages, flags);
            }
            // A write flag shows the write to nobody: kept, it would look like something still pending.
            let shown = match class.did {
                Did::Read => Flags::empty(),
                Did::Write | Did::WriteAvailable => barrier.dst.1 & (Flags::READS | Flags::UNNAMED),
            };
            let reach = reach(class);
            if reach.stages.contains(barrier.dst_execution) && reach.visible.covers(barrier.dst.0, shown) {
                continue;
            }
            changed.push(index);
            reach.stages |= barrier.dst_execution;
            reach.visible.add(barrier.dst.0, shown);
        }
        if split.is_empty() {
            self.merge_changed(&changed);
        } else {
            self.classes.extend(split);
            let all: SmallVec<[usize; 16]> = (0..self.classes.len()).collect();
            self.merge_changed(&all);
        }
    }

    /// Merges those of the classes at `changed`, in ascending order, that are now in the state of another. No two others
    /// can have become equal.
    fn merge_changed(&mut self, changed: &[usize]) {
        // From the back: what swap_remove puts in the place of a class was behind it, and has been looked at.
        for &index in changed.iter().rev() {
            let class = &self.classes[index];
            let twin = (0..self.classes.len()).find(|&i| i != index && self.classes[i].is_same_state(class));
            if let Some(twin) = twin {
                let ranges = std::mem::take(&mut self.classes[index].ranges);
                self.classes[twin].ranges.merge(ranges);
                self.classes.swap_remove(index);
            }
        }
    }

    fn remember(&mut self, access: &Access) {
        if access.range.is_empty() {
            return;
        }
        let (did, flags) = match access.kind {
            Kind::Read => (Did::Read, Flags::empty()),
            Kind::Write => (Did::Write, access.flags),
        };
        let fresh = Reach::default();
        let known = self.classes.iter_mut().find(|c| {
            !c.prefix
                && c.did == did
                && c.stages == access.stages
                && c.flags == flags
                && c.asked == fresh
                && c.emitted == fresh
        });
        match known {
            Some(class) => class.ranges.insert(&access.range),
            None => {
                let mut ranges = RangeSet::default();
                ranges.insert(&access.range);
                let stages = access.stages;
                self.classes.push(Class {
                    did,
                    stages,
                    flags,
                    prefix: false,
                    asked: Reach::default(),
                    emitted: Reach::default(),
                    ranges,
                });
            }
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
