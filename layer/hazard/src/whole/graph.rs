//! Which pairs of a stretch conflict, and which of them the asked barriers order.
//!
//! This walks the recording once. For every past access it knows how far the barriers asked since have carried it, in
//! *groups*: accesses of one kind, stage and flag between the same two asked barriers are in one state for ever. A
//! barrier equal to the one before it changes nothing for a group that has seen that one, so a stretch with uniform
//! barriers pays for each group once.
//!
//! An access that stands for several stages or flags is taken apart, so that masks can be cut to the part that is
//! required. One that stands for a great many is an access of which little is known: it is kept whole, and whatever
//! relies on it relies on everything that was asked between the two operations.

use super::Stretch;
use crate::access::{Access, Kind, MemoryId, Range};
use crate::relation::Relation;
use crate::scope::{Barrier, Flags, Side, Stages};
use crate::tracker::Cause;

/// An access that stands for more (stage, flag) pairs than this is one of which little is known.
const MOST_ATOMS: u32 = 16;

/// Who comes first in a required pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Earlier {
    Prefix,
    Operation(usize),
}

/// Who comes second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Later {
    Operation(usize),
    /// The look of this number; the flush at the end is the last one.
    Look(usize),
}

/// What a barrier, or a chain of them, must do for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Demand {
    /// Order a single stage of the earlier operation, with a flag where it writes, against a single stage of the later
    /// one, with its flag where what was asked names it for what was written. A read needs that. A later write does
    /// not, by the memory model, but whoever judges writes by the second access scope, as Khronos validation does, must
    /// find below the layer what the application asked for (docs/semantics.md, rule 15).
    Atom { src: (Stages, Flags), dst: (Stages, Flags) },
    /// Do all that this barrier does.
    All(Barrier),
}

/// A required pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub earlier: Earlier,
    pub later: Later,
    pub demand: Demand,
    pub cause: Cause,
    /// What the two touch; meaningless for the prefix and for looks.
    pub ranges: (Range, Range),
}

/// The conflicts of a stretch.
#[derive(Debug)]
pub(super) struct Graph {
    pub needs: Vec<Need>,
    /// Conflicting pairs that the application left unordered.
    pub unordered: Vec<(usize, usize)>,
    /// For each look, the number of operations recorded before it; the flush at the end is the last.
    pub looks: Vec<usize>,
    /// The first operation before which the prefix forces a barrier: nothing moves across it.
    pub prefix_wall: Option<usize>,
}

/// A barrier with its masks taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub src: (Stages, Flags),
    pub dst: (Stages, Flags),
    pub src_execution: Stages,
    pub dst_execution: Stages,
}

impl Expanded {
    pub fn new(barrier: &Barrier) -> Expanded {
        let (src, dst) = (barrier.src, barrier.dst);
        Expanded {
            src: (src.stages.expand(), src.flags.expand()),
            dst: (dst.stages.expand(), dst.flags.expand()),
            src_execution: src.stages.execution(Side::First),
            dst_execution: dst.stages.execution(Side::Second),
        }
    }

    /// Whether it does all that `other` does.
    pub fn does_all_of(&self, other: &Expanded) -> bool {
        self.src.0.contains(other.src.0)
            && self.src.1.contains(other.src.1)
            && self.dst.0.contains(other.dst.0)
            && self.dst.1.contains(other.dst.1)
            && self.src_execution.contains(other.src_execution)
            && self.dst_execution.contains(other.dst_execution)
    }

    /// Whether it begins a chain for an access: the flags of a write must be named, a read has none.
    pub fn begins(&self, kind: Kind, stages: Stages, flags: Flags) -> bool {
        match kind {
            Kind::Read => self.src_execution.intersects(stages),
            Kind::Write => self.src.0.intersects(stages) && self.src.1.intersects(flags),
        }
    }
}

/// Past accesses in one state.
#[derive(Debug)]
struct Group {
    kind: Kind,
    stages: Stages,
    /// Empty for reads.
    flags: Flags,
    /// Stages that chains of asked barriers reach.
    reached: Stages,
    /// Writes: where they are visible.
    visible: Relation,
}

impl Group {
    fn take(&mut self, barrier: &Expanded) {
        let continues = self.reached.intersects(barrier.src_execution);
        if continues || barrier.begins(self.kind, self.stages, self.flags) {
            self.reached |= barrier.dst_execution;
            if self.kind == Kind::Write {
                self.visible.add(barrier.dst.0, barrier.dst.1);
            }
        }
    }

    /// Whether a later access, or a part of it, comes after these accesses by what was asked.
    fn orders(&self, later: &Part) -> bool {
        match (self.kind, later.kind) {
            (Kind::Read, Kind::Read) => false,
            (Kind::Write, Kind::Read) => self.names(later),
            (_, Kind::Write) => self.reached.intersects(later.stages),
        }
    }

    /// Whether these are writes, and a second scope on a chain from them names the stage and flag of a later access.
    fn names(&self, later: &Part) -> bool {
        self.kind == Kind::Write && self.visible.exceeds(&Relation::default(), later.stages, later.flags)
    }
}

/// An access, or a part of it with one stage and one flag.
#[derive(Clone, Copy, Debug)]
struct Part {
    range: Range,
    kind: Kind,
    stages: Stages,
    flags: Flags,
    is_wide: bool,
}

/// A past access of the operation `operation`.
#[derive(Clone, Copy, Debug)]
struct Past {
    operation: usize,
    part: Part,
    group: usize,
}

/// Past accesses by allocation.
#[derive(Debug, Default)]
struct History {
    anywhere: Vec<Past>,
    memories: Vec<(MemoryId, Vec<Past>)>,
}

impl History {
    fn insert(&mut self, past: Past) {
        match past.part.range {
            Range::Anywhere => self.anywhere.push(past),
            Range::Bytes { memory, .. } => match self.memories.binary_search_by_key(&memory, |m| m.0) {
                Ok(at) => self.memories[at].1.push(past),
                Err(at) => self.memories.insert(at, (memory, vec![past])),
            },
        }
    }

    /// Calls `f` with every past access that conflicts with `part`.
    fn conflicts(&self, part: &Part, mut f: impl FnMut(&Past)) {
        let mut try_all = |list: &[Past]| {
            for past in list {
                if (past.part.kind == Kind::Write || part.kind == Kind::Write)
                    && past.part.range.overlaps(&part.range)
                {
                    f(past);
                }
            }
        };
        try_all(&self.anywhere);
        match part.range {
            Range::Anywhere => self.memories.iter().for_each(|(_, list)| try_all(list)),
            Range::Bytes { memory, .. } => {
                if let Ok(at) = self.memories.binary_search_by_key(&memory, |m| m.0) {
                    try_all(&self.memories[at].1);
                }
            }
        }
    }
}

fn bits(mask: u64) -> impl Iterator<Item = u64> {
    (0..64).map(|n| 1 << n).filter(move |bit| mask & bit != 0)
}

/// Takes an access apart.
fn parts(access: &Access, out: &mut Vec<Part>) {
    let Access { range, kind, stages, flags } = *access;
    let atoms = stages.bits().count_ones() * flags.bits().count_ones();
    if atoms <= 1 || atoms > MOST_ATOMS {
        out.push(Part { range, kind, stages, flags, is_wide: atoms > 1 });
        return;
    }
    for stage in bits(stages.bits()) {
        for flag in bits(flags.bits()) {
            let (stages, flags) = (Stages::from_bits_retain(stage), Flags::from_bits_retain(flag));
            out.push(Part { range, kind, stages, flags, is_wide: false });
        }
    }
}

/// The asked barriers so far, each kind once.
#[derive(Debug, Default)]
struct Asked {
    kinds: Vec<(Barrier, Expanded)>,
    join: Barrier,
}

impl Asked {
    fn add(&mut self, barrier: Barrier) -> Expanded {
        self.join = self.join.join(barrier);
        if let Some((_, known)) = self.kinds.iter().find(|(b, _)| *b == barrier) {
            return *known;
        }
        let expanded = Expanded::new(&barrier);
        self.kinds.push((barrier, expanded));
        expanded
    }

    /// The join of the barriers that could lie on a chain from the prefix to one of `parts`; `None` when none ends
    /// there. What came before did everything at every stage, so any barrier with a first scope begins a chain.
    fn on_chains_to(&self, parts: &[Part]) -> Option<Barrier> {
        let ends = |e: &Expanded, part: &Part| match part.kind {
            Kind::Read => e.dst.0.intersects(part.stages) && e.dst.1.intersects(part.flags),
            Kind::Write => e.dst_execution.intersects(part.stages),
        };
        let mut on_chain: Vec<bool> = self
            .kinds
            .iter()
            .map(|(_, e)| !e.src_execution.is_empty() && parts.iter().any(|part| ends(e, part)))
            .collect();
        // Which came first is not looked at: too many links are better than one too few.
        let mut grows = true;
        while grows {
            grows = false;
            for one in 0..self.kinds.len() {
                let links = |two: usize| {
                    let (from, to) = (&self.kinds[one].1, &self.kinds[two].1);
                    !from.src_execution.is_empty() && from.dst_execution.intersects(to.src_execution)
                };
                if !on_chain[one] && (0..on_chain.len()).any(|two| on_chain[two] && links(two)) {
                    on_chain[one] = true;
                    grows = true;
                }
            }
        }
        let chosen = self.kinds.iter().zip(&on_chain).filter(|(_, on)| **on).map(|((b, _), _)| *b);
        chosen.reduce(Barrier::join)
    }
}

impl Graph {
    pub fn new(stretch: &Stretch) -> Graph {
        Walk::default().through(stretch)
    }

    /// The gap in recorded order before which a need must be served, and the first gap that serves it. Gap g stands
    /// before operation g.
    pub fn gaps(&self, need: &Need) -> (usize, usize) {
        let first = match need.earlier {
            Earlier::Prefix => 0,
            Earlier::Operation(i) => i + 1,
        };
        let last = match need.later {
            Later::Operation(j) => j,
            Later::Look(k) => self.looks[k],
        };
        (first, last)
    }
}

/// The state of a walk through a stretch.
#[derive(Debug, Default)]
struct Walk {
    asked: Asked,
    last_asked: Option<Barrier>,
    groups: Vec<Group>,
    /// Groups before this one have taken `last_asked`.
    fresh: usize,
    history: History,
    /// All groups of an operation.
    of_operation: Vec<Vec<usize>>,
    needs: Vec<Need>,
    unordered: Vec<(usize, usize)>,
    prefix_wall: Option<usize>,
}

impl Walk {
    fn through(mut self, stretch: &Stretch) -> Graph {
        let mut asked = stretch.asked.iter().peekable();
        let mut looks = stretch.looks.iter().peekable();
        let mut gaps = Vec::new();
        for number in 0..=stretch.operations.len() {
            while let Some((_, barrier)) = asked.next_if(|(gap, _)| *gap == number) {
                self.asked(*barrier);
            }
            while let Some(look) = looks.next_if(|look| look.gap == number) {
                self.look(gaps.len(), number, (look.stages, look.waits));
                gaps.push(number);
            }
            if number < stretch.operations.len() {
                self.operation(stretch, number);
            }
        }
        let end = stretch.operations.len();
        self.look(gaps.len(), end, (Stages::EVERY, Stages::empty()));
        gaps.push(end);
        self.needs.sort_by_key(|n| (n.later, n.earlier, n.demand, n.cause));
        self.needs.dedup_by_key(|n| (n.later, n.earlier, n.demand));
        self.unordered.sort_unstable();
        self.unordered.dedup();
        Graph { needs: self.needs, unordered: self.unordered, looks: gaps, prefix_wall: self.prefix_wall }
    }

    fn asked(&mut self, barrier: Barrier) {
        let expanded = self.asked.add(barrier);
        let first = if self.last_asked == Some(barrier) { self.fresh } else { 0 };
        self.groups[first..].iter_mut().for_each(|group| group.take(&expanded));
        self.last_asked = Some(barrier);
        self.fresh = self.groups.len();
    }

    /// Everybody, or the host, looks at everything; or a timestamp is written, which `waits` for some stages by itself.
    fn look(&mut self, number: usize, operations: usize, (stages, waits): (Stages, Stages)) {
        let nowhere = (Range::Anywhere, Range::Anywhere);
        let demand = Demand::All(self.asked.join);
        let later = Later::Look(number);
        let need = |earlier| Need { earlier, later, demand, cause: Cause::Flush, ranges: nowhere };
        let asked = &self.asked.kinds;
        if asked.iter().any(|(_, e)| !waits.contains(e.src_execution) && e.dst_execution.intersects(stages)) {
            self.needs.push(need(Earlier::Prefix));
        }
        for operation in 0..operations {
            let looked_for =
                |group: &Group| group.reached.intersects(stages) && !waits.contains(group.stages);
            if self.of_operation[operation].iter().any(|g| looked_for(&self.groups[*g])) {
                self.needs.push(need(Earlier::Operation(operation)));
            }
        }
    }

    fn operation(&mut self, stretch: &Stretch, number: usize) {
        let mut all = Vec::new();
        for access in stretch.accesses(number) {
            parts(access, &mut all);
        }
        if let Some(join) = self.asked.on_chains_to(&all) {
            self.prefix_wall.get_or_insert(number);
            self.needs.push(Need {
                earlier: Earlier::Prefix,
                later: Later::Operation(number),
                demand: Demand::All(join),
                cause: Cause::Prefix,
                ranges: (Range::Anywhere, all.first().map_or(Range::Anywhere, |part| part.range)),
            });
        }
        for part in &all {
            self.pairs(stretch, number, part);
        }
        let own: Vec<usize> = all.iter().map(|part| self.group_of(part)).collect();
        for (part, group) in all.iter().zip(&own) {
            self.history.insert(Past { operation: number, part: *part, group: *group });
        }
        self.of_operation.push(own);
    }

    /// The pairs of past accesses with one that comes now.
    fn pairs(&mut self, stretch: &Stretch, number: usize, part: &Part) {
        let (groups, needs, unordered) = (&self.groups, &mut self.needs, &mut self.unordered);
        self.history.conflicts(part, |past| {
            if past.operation == number {
                return;
            }
            #[cfg(test)]
            if past.part.kind == Kind::Read && stretch.fault == Some(super::Fault::ForgetWar) {
                return;
            }
            let group = &groups[past.group];
            if !group.orders(part) {
                unordered.push((past.operation, number));
                return;
            }
            let named = group.names(part);
            #[cfg(test)]
            let named =
                named && (part.kind == Kind::Read || stretch.fault != Some(super::Fault::ForgetLaterWrite));
            let demand = if past.part.is_wide || part.is_wide {
                Demand::All(asked_between(stretch, past.operation, number))
            } else {
                Demand::Atom {
                    src: (group.stages, group.flags),
                    dst: (part.stages, if named { part.flags } else { Flags::empty() }),
                }
            };
            needs.push(Need {
                earlier: Earlier::Operation(past.operation),
                later: Later::Operation(number),
                demand,
                cause: match (group.kind, part.kind) {
                    (Kind::Read, _) => Cause::War,
                    (Kind::Write, Kind::Read) => Cause::Raw,
                    (Kind::Write, Kind::Write) => Cause::Waw,
                },
                ranges: (past.part.range, part.range),
            });
        });
    }

    /// The group that an access belongs to from now on.
    fn group_of(&mut self, part: &Part) -> usize {
        let flags = if part.kind == Kind::Read { Flags::empty() } else { part.flags };
        let known = self.groups[self.fresh..]
            .iter()
            .position(|g| g.kind == part.kind && g.stages == part.stages && g.flags == flags);
        known.map_or_else(
            || {
                self.groups.push(Group {
                    kind: part.kind,
                    stages: part.stages,
                    flags,
                    reached: Stages::empty(),
                    visible: Relation::default(),
                });
                self.groups.len() - 1
            },
            |at| self.fresh + at,
        )
    }
}

/// The join of the barriers asked between two operations.
fn asked_between(stretch: &Stretch, earlier: usize, later: usize) -> Barrier {
    let asked = &stretch.asked;
    let first = asked.partition_point(|(gap, _)| *gap <= earlier);
    let last = asked.partition_point(|(gap, _)| *gap <= later);
    asked[first..last].iter().fold(Barrier::default(), |join, (_, barrier)| join.join(*barrier))
}
