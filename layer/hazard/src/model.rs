//! The contract, written as a search: which pairs does the application's synchronisation order, and does what was
//! emitted order them too?
//!
//! This is the definition of docs/semantics.md in the plainest form that runs. It shares the vocabulary (operations,
//! accesses, barriers) with the tracker and none of its logic: it keeps every operation and every barrier, and for
//! each operation looks back at every earlier one. That makes it slow and easy to believe; the tracker is fast and
//! has to be believed because of this file. Masks are read by `reading`, not by `scope`.
//!
//! # The definition
//!
//! Take operations i before j, an access of each on common bytes, at least one a write. Barriers *between* them are
//! those recorded after i and before j. The pair is ordered by a sequence of barriers when
//!
//! - **WAR** (i reads): b1, ..., bk lie between them in this order, i's stage is in the first execution scope of b1,
//!   the second execution scope of each meets the first of the next, and j's stage is in the second of bk;
//! - **WAW** (both write): as WAR, and b1 makes the write available: its source stage mask names i's stage and its
//!   source access mask i's flag;
//! - **RAW** (j reads): as WAW, and bk makes the write visible: its destination masks name j's stage and j's flag.
//!
//! An access with several stages or flags stands for one access at each of those stages with each of those flags.
//!
//! A pair that the *asked* barriers order is required. A required pair that the *emitted* ones do not order, stage by
//! stage and flag by flag, is a violation. What the application left unordered is not looked at.
//!
//! # The host
//!
//! A barrier with the host in its second scope promises the host something, and the host has no operation that would
//! ask for it. So the host is taken to look before the next operation, or at the end, at everything.

pub mod issued;
mod reading;

use crate::access::{Access, Kind};
use crate::scope::{Barrier, Flags, Stages};
pub(crate) use reading::Spelled;
use smallvec::{SmallVec, smallvec};
use std::fmt;

/// A list that is mostly short.
type Few<T> = SmallVec<[T; 8]>;

/// One thing that happened on a queue, in the order in which it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A dispatch, a copy, ...: its accesses.
    Operation(Vec<Access>),
    /// The application asked for this barrier here.
    Asked(Barrier),
    /// This barrier was emitted here; it stands before the operation that follows.
    Emitted(Barrier),
}

/// The kinds of dependency between an earlier and a later access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// The later one reads what the earlier one wrote.
    Raw,
    /// The later one overwrites what the earlier one read.
    War,
    /// The later one overwrites what the earlier one wrote.
    Waw,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Dependency::Raw => "RAW",
            Dependency::War => "WAR",
            Dependency::Waw => "WAW",
        })
    }
}

/// The later side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Later {
    /// The operation of this number.
    Operation(usize),
    /// The host, looking just before the operation of this number.
    HostBefore(usize),
}

/// A required pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The earlier operation; operations are numbered from 0 in recorded order.
    pub earlier: usize,
    /// The later one.
    pub later: Later,
    /// What the two do to common bytes.
    pub dependency: Dependency,
    /// Whether the emitted barriers order all of it, with the same availability and visibility.
    pub ordered: bool,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from operation {} to ", self.dependency, self.earlier)?;
        match self.later {
            Later::Operation(n) => write!(f, "operation {n}")?,
            Later::HostBefore(n) => write!(f, "the host before operation {n}")?,
        }
        f.write_str(if self.ordered { " is ordered" } else { " is not ordered" })
    }
}

/// A queue as the model remembers it: everything, for ever.
///
/// Memory grows with what happened, and each operation costs a look at all earlier ones. Whoever audits a long run
/// starts a new model where the queue is known to be idle.
#[derive(Clone, Debug, Default)]
pub struct Model {
    operations: usize,
    past: Vec<Past>,
    asked: Vec<Placed>,
    emitted: Vec<Placed>,
    /// An asked barrier since the last operation has the host in its second scope.
    host_looks: bool,
}

/// An access of the operation of this number.
#[derive(Clone, Copy, Debug)]
struct Past {
    operation: usize,
    access: Access,
}

/// A barrier and its place: it stands before the operation of number `before`.
#[derive(Clone, Copy, Debug)]
struct Placed {
    before: usize,
    barrier: Spelled,
}

impl Model {
    /// A queue on which nothing has happened.
    pub fn new() -> Model {
        Model::default()
    }

    /// Takes in the next event. The result is the required pairs that it completes.
    pub fn push(&mut self, event: &Event) -> Vec<Pair> {
        match event {
            Event::Operation(accesses) => self.operation(accesses),
            Event::Asked(barrier) => {
                self.asked(barrier);
                Vec::new()
            }
            Event::Emitted(barrier) => {
                self.emitted(barrier);
                Vec::new()
            }
        }
    }

    /// The application asks for `barrier`.
    pub fn asked(&mut self, barrier: &Barrier) {
        let barrier = Spelled::new(barrier);
        self.host_looks |= barrier.dst_execution & reading::HOST != 0;
        self.asked.push(Placed { before: self.operations, barrier });
    }

    /// `barrier` is emitted.
    pub fn emitted(&mut self, barrier: &Barrier) {
        self.emitted.push(Placed { before: self.operations, barrier: Spelled::new(barrier) });
    }

    /// An operation comes. The result is the required pairs that it, or the host before it, completes.
    pub fn operation(&mut self, accesses: &[Access]) -> Vec<Pair> {
        let pairs = self.completed_by(accesses);
        let operation = self.operations;
        self.past.extend(accesses.iter().map(|access| Past { operation, access: *access }));
        self.operations += 1;
        self.host_looks = false;
        pairs
    }

    /// What [`Model::operation`] would return, without taking the operation in.
    pub fn completed_by(&self, accesses: &[Access]) -> Vec<Pair> {
        let mut pairs = self.seen_by_host();
        self.pairs_with(accesses, Later::Operation(self.operations), &mut pairs);
        pairs
    }

    /// Nothing more comes. The result is the required pairs with the host that are complete now.
    pub fn finish(&mut self) -> Vec<Pair> {
        let pairs = self.seen_by_host();
        self.host_looks = false;
        pairs
    }

    /// How many operations there were.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// The required pairs with the host, where it looks now.
    fn seen_by_host(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        if self.host_looks {
            let host = Access::unknown().map(|access| Access { stages: Stages::HOST, ..access });
            self.pairs_with(&host, Later::HostBefore(self.operations), &mut pairs);
        }
        pairs
    }

    /// The required pairs of every operation so far with one that comes now.
    fn pairs_with(&self, now: &[Access], later: Later, pairs: &mut Vec<Pair>) {
        let first = pairs.len();
        for Past { operation: earlier, access: a } in &self.past {
            for b in now.iter().filter(|b| a.conflicts(b)) {
                let asked = since(&self.asked, *earlier);
                let Some(ordered) = required(asked, since(&self.emitted, *earlier), a, b) else { continue };
                let dependency = dependency(a, b);
                let is_known = |p: &&mut Pair| p.earlier == *earlier && p.dependency == dependency;
                match pairs[first..].iter_mut().rev().take(3).find(is_known) {
                    Some(pair) => pair.ordered &= ordered,
                    None => pairs.push(Pair { earlier: *earlier, later, dependency, ordered }),
                }
            }
        }
    }
}

/// Whether access `a` of an earlier operation and access `b` of a later one are required to be ordered, given the
/// barriers asked between the two; and if so, whether they are, given those emitted between them.
fn required(asked: &[Placed], emitted: &[Placed], a: &Access, b: &Access) -> Option<bool> {
    if asked.is_empty() {
        return None;
    }
    let both = || asked.iter().chain(emitted).map(|placed| &placed.barrier);
    // Stages that no first scope tells apart behave alike, and so do flags: one of each kind is enough.
    let stages = alike(a.stages.bits(), both().flat_map(|b| [b.src_stages, b.src_execution]));
    let flags = match a.kind {
        Kind::Read => smallvec![Flags::all().bits()],
        Kind::Write => alike(a.flags.bits(), both().map(|b| b.src_flags)),
    };
    let mut required = None;
    for stage in &stages {
        for flag in &flags {
            let start = Start { kind: a.kind, stage: lowest(*stage), flag: lowest(*flag) };
            let (wanted, got) = (start.reach(asked), start.reach(emitted));
            let (any, all) = match b.kind {
                Kind::Write => {
                    let wanted = wanted.execution & b.stages.bits();
                    (wanted != 0, wanted & !got.execution == 0)
                }
                Kind::Read => {
                    let wanted = wanted.visible_within(b);
                    (!wanted.is_empty(), wanted.iter().all(|&(stage, flags)| got.sees(stage, flags)))
                }
            };
            if any {
                required = Some(required.unwrap_or(true) && all);
            }
        }
    }
    required
}

/// The barriers after operation `earlier`, of those that are there so far.
fn since(barriers: &[Placed], earlier: usize) -> &[Placed] {
    &barriers[barriers.partition_point(|placed| placed.before <= earlier)..]
}

fn dependency(a: &Access, b: &Access) -> Dependency {
    match (a.kind, b.kind) {
        (Kind::Read, _) => Dependency::War,
        (Kind::Write, Kind::Read) => Dependency::Raw,
        (Kind::Write, Kind::Write) => Dependency::Waw,
    }
}

/// Cuts `mask` into parts that each of `masks` contains wholly or not at all.
fn alike(mask: u64, masks: impl Iterator<Item = u64>) -> Few<u64> {
    let mut parts: Few<u64> = smallvec![mask];
    parts.retain(|part| *part != 0);
    if mask.count_ones() > 1 {
        for cut in masks {
            parts =
                parts.iter().flat_map(|part| [part & cut, part & !cut]).filter(|part| *part != 0).collect();
        }
    }
    parts
}

fn lowest(mask: u64) -> u64 {
    mask & mask.wrapping_neg()
}

/// One access, one stage, one flag: where a chain begins.
struct Start {
    kind: Kind,
    stage: u64,
    flag: u64,
}

/// Where the chains from one start lead.
struct Reach {
    /// Stages in the second execution scope of some barrier on a chain.
    execution: u64,
    /// Stages and flags that the second scopes of the barriers on a chain name.
    visible: Few<(u64, u64)>,
}

impl Start {
    /// Follows all chains through `barriers`, which stand in recorded order. A chain goes forward only, so one walk
    /// from first to last finds every barrier that lies on one: it begins a chain, or its first execution scope meets
    /// the second one of a barrier that was found before.
    fn reach(&self, barriers: &[Placed]) -> Reach {
        let mut reach = Reach { execution: 0, visible: Few::new() };
        for Placed { barrier, .. } in barriers {
            let begins = match self.kind {
                Kind::Read => barrier.src_execution & self.stage != 0,
                Kind::Write => barrier.src_stages & self.stage != 0 && barrier.src_flags & self.flag != 0,
            };
            if begins || reach.execution & barrier.src_execution != 0 {
                reach.execution |= barrier.dst_execution;
                reach.visible.push((barrier.dst_stages, barrier.dst_flags));
            }
        }
        reach
    }
}

impl Reach {
    /// The visible (stage, flags) that `access` could use, stage by stage.
    fn visible_within(&self, access: &Access) -> Few<(u64, u64)> {
        let mut found = Few::new();
        for (stages, flags) in &self.visible {
            let (mut stages, flags) = (stages & access.stages.bits(), flags & access.flags.bits());
            while stages != 0 && flags != 0 {
                found.push((lowest(stages), flags));
                stages &= stages - 1;
            }
        }
        found
    }

    /// Whether all of `flags` at `stage` see the write.
    fn sees(&self, stage: u64, flags: u64) -> bool {
        let seen = self.visible.iter().filter(|(s, _)| s & stage != 0).fold(0, |seen, (_, f)| seen | f);
        flags & !seen == 0
    }
}

/// What a whole queue's events come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How many required pairs there are.
    pub required: u64,
    /// Those that the emitted barriers do not order.
    pub violations: Vec<Pair>,
}

impl Audit {
    /// Whether every required pair is ordered.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }

    fn take(&mut self, pairs: Vec<Pair>) {
        self.required += pairs.len() as u64;
        self.violations.extend(pairs.into_iter().filter(|pair| !pair.ordered));
    }
}

/// Every required pair of `events`, in the order in which they are completed.
pub fn required_pairs(events: &[Event]) -> Vec<Pair> {
    let mut model = Model::new();
    let mut pairs: Vec<Pair> = events.iter().flat_map(|event| model.push(event)).collect();
    pairs.extend(model.finish());
    pairs
}

/// Holds `events` against the contract.
///
/// ```
/// use zinc_hazard::model::{Event, audit};
/// use zinc_hazard::{Access, Barrier, MemoryId, Range};
///
/// let bytes = Range::bytes(MemoryId(1), 0, 256, 64);
/// let dropped = [
///     Event::Operation(vec![Access::shader_write(bytes)]),
///     Event::Asked(Barrier::FULL),
///     Event::Operation(vec![Access::shader_read(bytes)]),
/// ];
/// let audit = audit(&dropped);
/// assert_eq!(audit.violations[0].to_string(), "RAW from operation 0 to operation 1 is not ordered");
/// ```
pub fn audit(events: &[Event]) -> Audit {
    let mut model = Model::new();
    let mut audit = Audit::default();
    for event in events {
        audit.take(model.push(event));
    }
    audit.take(model.finish());
    audit
}
