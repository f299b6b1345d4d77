//! Deciding over a whole stretch of recording at once: `narrow` and `reorder`.
//!
//! The tracker answers while an application records, so it can neither know what a barrier will be needed for nor move
//! anything. Whoever holds a stretch back until it ends can do both (docs/semantics.md, T4 and T5). A [`Stretch`] is
//! what was recorded between two points at which nothing is known: it begins behind a *prefix*, which may have done
//! anything, and ends at a *flush*, behind which anything may follow. [`Stretch::plan`] says in which order its
//! operations are issued and which barriers stand between them.
//!
//! # How
//!
//! 1. `graph` finds every pair of operations that conflict, and for each whether the asked barriers order it (it is
//!    *required*) or not (then the two keep their order, and nothing else). The prefix and the flush take part as
//!    operations that do everything.
//! 2. `place` chooses where barriers stand. In recorded order they are the least number of points that stab the
//!    interval of every required pair (T1); between several such choices the one that leaves most operations side by
//!    side wins. Where operations may move, each gets a *level*: the weight of the heaviest path that leads to it, with
//!    1 for a required pair and 0 for a conflict that was left unordered (T5). A barrier stands between two levels.
//! 3. `masks` gives each barrier the stages and flags of the pairs that rely on it and no more. A barrier that the
//!    prefix, the flush or an operation of which nothing is known relies on keeps the scopes that were asked for: what
//!    it is needed for can't be listed.
//! 4. `explain` names the pair that forces each barrier, and says of each asked barrier what became of it.
//!
//! `memo` remembers all that for whoever records the same again.

mod explain;
mod graph;
mod masks;
mod memo;
mod place;

use crate::access::{Access, Range};
use crate::planner::Books;
use crate::scope::{Barrier, Side, Stages};
use crate::tracker::{Cause, Due, Tracker};
use graph::Graph;
use place::Placement;
use std::sync::Arc;

/// Whether operations may be issued in another order than they were recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Freedom {
    /// As recorded: `narrow`.
    InOrder,
    /// In any order that keeps every conflicting pair as it was: `reorder`.
    AnyOrder,
}

/// Faults that the tests plant, to see that they would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Pairs in which the earlier operation only reads are not seen.
    ForgetWar,
    /// A conflict that the application left unordered may be swapped.
    SwapUnordered,
    /// The barrier that serves the prefix is cut like any other.
    CutThePrefix,
    /// The barrier that serves the flush is cut like any other.
    CutTheFlush,
    /// Operations move across a point that nothing may cross.
    MoveAcrossLooks,
    /// The read that a write must become visible to is not in the mask.
    ForgetVisibility,
    /// The later of two writes is not in the mask.
    ForgetLaterWrite,
    /// A point is taken to stab intervals that end just before it.
    StabTooLate,
    /// Masks hold a stage and a flag that no pair needs.
    Widen,
}

/// One operation of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    /// Its accesses, as a range of the stretch's list.
    accesses: (usize, usize),
    /// Nothing moves across it.
    fixed: bool,
}

/// A point at which something looks that is no operation: at a flush everything, the host where only it was named, a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// The number of operations recorded before it.
    gap: usize,
    /// At which stages.
    stages: Stages,
    /// Stages of earlier operations for which it waits by itself.
    waits: Stages,
}

/// What was recorded between two points at which nothing is known.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    accesses: Vec<Access>,
    operations: Vec<Operation>,
    /// Each with the number of operations recorded before it.
    asked: Vec<(usize, Barrier)>,
    looks: Vec<Look>,
    /// A barrier asked since the last operation names the host in its second scope.
    host_waits: bool,
    #[cfg(test)]
    fault: Option<Fault>,
}

/// One thing to issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// The operation of this number, in recorded order from 0.
    Operation(usize),
    /// The emission of this number.
    Barrier(usize),
}

/// Why a barrier must be where it is: a pair that no other emission orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The kind of dependency.
    pub cause: Cause,
    /// The earlier operation; `None` for what came before the stretch.
    pub earlier: Option<usize>,
    /// The later one; `None` for what follows the stretch, or for the host.
    pub later: Option<usize>,
    /// What the earlier one touches; `None` where [`Witness::earlier`] is, and where nobody wanted to know.
    pub touched: Option<Range>,
    /// What the later one touches; `None` where [`Witness::later`] is, and where nobody wanted to know.
    pub touches: Option<Range>,
}

/// A barrier to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emission {
    /// Its scopes. Where it is cut, the stages and flags are single ones (`COPY`, `SHADER_STORAGE_READ`); where it is
    /// not, they are the application's.
    pub barrier: Barrier,
    /// What of it is not cut, since the prefix, a flush or an unknown operation relies on it. Empty where all is cut.
    pub kept: Barrier,
    /// The pair that forces it.
    pub witness: Witness,
}

/// What became of an asked barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The emission of this number stands for it.
    Emitted(usize),
    /// Pairs need it, and the emission of this number, which stands for another one, orders such a pair.
    Merged(usize),
    /// No two conflicting accesses need it.
    Idle,
}

/// What to do with a stretch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Everything to issue, in order.
    pub issue: Vec<Issue>,
    /// The barriers in it.
    pub emissions: Vec<Emission>,
    /// What became of each asked barrier; empty where nobody wanted to know.
    pub fates: Vec<Fate>,
    /// How many pairs of operations stand between the same two barriers and may overlap.
    pub side_by_side: u64,
}

/// A pair of operations that conflict, for drawings and for whoever wants to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The earlier operation; `None` is the prefix.
    pub earlier: Option<usize>,
    /// The later one; `None` is the flush at the end.
    pub later: Option<usize>,
    /// The asked barriers order it.
    pub required: bool,
}

/// Forgets the plans that [`Stretch`]es share in this process. Whoever counts what a program leaves behind calls it first.
pub fn forget_plans() {
    memo::forget();
}

impl Stretch {
    /// A stretch behind something unknown, in which nothing was recorded yet.
    pub fn new() -> Stretch {
        Stretch::default()
    }

    #[cfg(test)]
    pub(crate) fn break_with(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// How many operations were recorded.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether neither an operation nor a barrier was recorded.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.asked.is_empty()
    }

    /// The barriers asked for, each with the number of operations recorded before it.
    pub fn asked_barriers(&self) -> &[(usize, Barrier)] {
        &self.asked
    }

    /// What an operation touches.
    ///
    /// # Panics
    ///
    /// If there is no operation of this number.
    pub fn accesses(&self, operation: usize) -> &[Access] {
        let (from, to) = self.operations[operation].accesses;
        &self.accesses[from..to]
    }

    /// Whether nothing moves across an operation.
    ///
    /// # Panics
    ///
    /// If there is no operation of this number.
    pub fn stays(&self, operation: usize) -> bool {
        self.operations[operation].fixed
    }

    /// Where [`Stretch::flush`] was called: the numbers of operations recorded before.
    pub fn flush_points(&self) -> Vec<usize> {
        self.looks.iter().filter(|look| look.stages == Stages::EVERY).map(|look| look.gap).collect()
    }

    /// The application asks for `barrier`. One that names the host in its second scope is not crossed by anything: the
    /// host looks before the next operation.
    pub fn asked(&mut self, barrier: Barrier) {
        self.asked.push((self.operations.len(), barrier));
        self.host_waits |= barrier.dst.stages.expand().contains(Stages::HOST);
    }

    /// Records an operation. Nothing moves across a `fixed` one.
    pub fn operation(&mut self, accesses: &[Access], fixed: bool) {
        if std::mem::take(&mut self.host_waits) {
            self.look(Stages::HOST, Stages::empty());
        }
        let from = self.accesses.len();
        self.accesses.extend(accesses.iter().filter(|a| !a.range.is_empty()));
        self.operations.push(Operation { accesses: (from, self.accesses.len()), fixed });
    }

    /// Whatever is pending must be emitted here, though what follows is known: before a synchronising dispatch, say.
    /// Nothing moves across.
    pub fn flush(&mut self) {
        self.look(Stages::EVERY, Stages::empty());
    }

    /// A timestamp is written here, which by itself waits for compute shaders, or for nothing. What is pending and orders it
    /// against more than that must be emitted here. Nothing moves across.
    pub fn timestamp(&mut self, after_compute: bool) {
        let waits =
            if after_compute { Stages::COMPUTE_SHADER.execution(Side::First) } else { Stages::empty() };
        self.look(Stages::TIMESTAMPS, waits);
    }

    /// Where [`Stretch::timestamp`] was called: the numbers of operations recorded before, and with what.
    pub fn timestamps(&self) -> Vec<(usize, bool)> {
        let stamps = self.looks.iter().filter(|look| look.stages == Stages::TIMESTAMPS);
        stamps.map(|look| (look.gap, !look.waits.is_empty())).collect()
    }

    fn look(&mut self, stages: Stages, waits: Stages) {
        self.looks.push(Look { gap: self.operations.len(), stages, waits });
    }

    /// Forgets everything, and keeps what memory it has: a new stretch begins.
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.operations.clear();
        self.asked.clear();
        self.looks.clear();
        self.host_waits = false;
    }

    /// Decides: the stretch ends here, and anything may follow.
    pub fn plan(&self, freedom: Freedom) -> Plan {
        self.decide(freedom, true)
    }

    /// As [`Stretch::decide`] without `explain`: made now, or before for a stretch that differs in nothing that a plan
    /// depends on.
    pub fn recall(&self, freedom: Freedom) -> Arc<Plan> {
        memo::plan(self, freedom)
    }

    /// As [`Stretch::plan`]; without `explain` the fates of the asked barriers are left out, and what the pairs that force
    /// barriers touch, which costs less.
    pub fn decide(&self, freedom: Freedom, explain: bool) -> Plan {
        let graph = Graph::new(self);
        let placement = Placement::new(self, &graph, freedom);
        let masks = masks::assign(self, &graph, &placement);
        let emissions: Vec<Emission> = masks
            .into_iter()
            .zip(placement.forcing.iter())
            .map(|(scope, need)| Emission {
                barrier: scope.barrier,
                kept: scope.kept,
                witness: match explain::witness(self, &graph.needs[*need]) {
                    witness if explain => witness,
                    witness => Witness { touched: None, touches: None, ..witness },
                },
            })
            .collect();
        Plan {
            issue: placement.issue(),
            fates: if explain { explain::fates(self, &graph, &placement) } else { Vec::new() },
            side_by_side: placement.side_by_side(),
            emissions,
        }
    }

    /// What `tracker`, which is at its beginning, decides when it is asked about all of this as it was recorded. `books` holds
    /// the segment's asked barriers; afterwards those that `tracker` still defers.
    pub(crate) fn as_recorded(&self, tracker: &mut Tracker, books: &mut Books) -> Plan {
        let mut plan = Plan { issue: Vec::new(), emissions: Vec::new(), fates: Vec::new(), side_by_side: 0 };
        let mut emit = |due: Option<Due>, later: Option<usize>, issue: &mut Vec<Issue>| {
            let Some(Due { barrier, cause }) = due else { return };
            issue.push(Issue::Barrier(plan.emissions.len()));
            let witness = Witness { cause, earlier: None, later, touched: None, touches: None };
            plan.emissions.push(Emission { barrier, kept: barrier, witness });
        };
        let flushes =
            |gap: usize| self.looks.iter().any(|look| look.gap == gap && look.stages != Stages::HOST);
        books.reopen();
        let mut asked = self.asked.iter().peekable();
        for number in 0..=self.operations.len() {
            while let Some((_, barrier)) = asked.next_if(|(gap, _)| *gap == number) {
                tracker.asked(*barrier);
                books.hold_again();
            }
            if flushes(number) {
                let due = tracker.flush();
                books.due(due.map(|due| due.cause));
                books.flushed();
                emit(due, None, &mut plan.issue);
            }
            if number < self.operations.len() {
                let due = tracker.operation(self.accesses(number));
                books.due(due.map(|due| due.cause));
                emit(due, Some(number), &mut plan.issue);
                plan.issue.push(Issue::Operation(number));
            }
        }
        plan
    }

    /// The conflict graph: every conflicting pair of operations, those of the prefix and of the flush that are
    /// required, and beside it the heaviest path, as the indices of its edges.
    pub fn edges(&self) -> (Vec<Edge>, Vec<usize>) {
        let graph = Graph::new(self);
        let placement = Placement::new(self, &graph, Freedom::AnyOrder);
        explain::edges(&graph, &placement)
    }
}
