//! Which stages and flags each barrier carries.
//!
//! Any barrier that stands between the two operations of a pair can serve it, if its masks name what the pair needs.
//! First come the pairs that need everything that was asked for: the latest barrier between the two takes all of it,
//! unless one does already. Then each pair of which all is known, shortest interval first, is given to the barrier that
//! has to grow least. In the end every bit that is not kept is taken away once and stays away if all pairs are still
//! ordered, by chains too; since masks only shrink, no bit that was needed then becomes free later, and the result has
//! no bit too many.

use super::Stretch;
use super::graph::{Demand, Expanded, Graph};
use super::place::Placement;
use crate::access::Kind;
use crate::scope::{Barrier, Flags, Stages};

/// The masks of one barrier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scoped {
    pub barrier: Barrier,
    /// The part that is not cut.
    pub kept: Barrier,
}

/// A demand and the barriers that may serve it, first to last.
#[derive(Clone, Copy, Debug)]
struct Task {
    demand: Demand,
    first: usize,
    last: usize,
}

/// Finds the masks of every barrier of `placement`.
pub(super) fn assign(stretch: &Stretch, graph: &Graph, placement: &Placement) -> Vec<Scoped> {
    let mut scopes = vec![Scoped::default(); placement.points.len()];
    let tasks = tasks(stretch, graph, placement);
    for task in &tasks {
        if let Demand::All(all) = task.demand {
            let wanted = Expanded::new(&all);
            let between = &mut scopes[task.first..=task.last];
            let is_served = between.iter().any(|s| Expanded::new(&s.kept).does_all_of(&wanted));
            if let Some(latest) = between.last_mut().filter(|_| !is_served) {
                latest.kept = latest.kept.join(all);
                latest.barrier = latest.kept;
            }
        }
    }
    for task in &tasks {
        if let Demand::Atom { src, dst } = task.demand {
            give(&mut scopes[task.first..=task.last], src, dst);
        }
    }
    #[cfg(test)]
    match stretch.fault {
        Some(super::Fault::Widen) => {
            for scope in &mut scopes {
                scope.barrier.src.stages |= Stages::COMPUTE_SHADER | Stages::CLEAR;
                scope.barrier.src.flags |= Flags::SHADER_STORAGE_WRITE;
            }
            return scopes;
        }
        Some(super::Fault::ForgetVisibility) => {
            for scope in scopes.iter_mut().filter(|s| s.kept == Barrier::default()) {
                scope.barrier.dst.flags = Flags::empty();
            }
            return scopes;
        }
        _ => {}
    }
    for number in 0..scopes.len() {
        shrink(&mut scopes, number, &tasks);
    }
    scopes
}

/// The distinct demands with the barriers that may serve them. A demand whose barriers include all those of an equal
/// one is met with it.
fn tasks(stretch: &Stretch, graph: &Graph, placement: &Placement) -> Vec<Task> {
    #[cfg(not(test))]
    let _ = stretch;
    let mut all: Vec<Task> = graph
        .needs
        .iter()
        .filter(|need| {
            #[cfg(test)]
            match (stretch.fault, need.earlier, need.later) {
                (Some(super::Fault::CutThePrefix), super::graph::Earlier::Prefix, _)
                | (Some(super::Fault::CutTheFlush), _, super::graph::Later::Look(_)) => return false,
                _ => {}
            }
            let _ = need;
            true
        })
        .filter_map(|need| {
            let (from, to) = placement.interval(graph, need);
            let first = placement.points.partition_point(|point| *point < from);
            let behind = placement.points.partition_point(|point| *point <= to);
            // Empty only where a test has broken the placement.
            (first < behind).then(|| Task { demand: need.demand, first, last: behind - 1 })
        })
        .collect();
    // Of equal demands those that end first come first, and among these the shortest.
    all.sort_unstable_by_key(|t| (t.demand, t.last, std::cmp::Reverse(t.first)));
    let mut least: Vec<Task> = Vec::new();
    for task in all {
        let is_implied = least.last().is_some_and(|t| t.demand == task.demand && t.first >= task.first);
        if !is_implied {
            least.push(task);
        }
    }
    least.sort_by_key(|t| (t.last - t.first, t.last));
    least
}

/// Adds to the barrier that has to grow least what orders `src` before `dst`.
fn give(between: &mut [Scoped], src: (Stages, Flags), dst: (Stages, Flags)) {
    let grown = |scope: &Scoped| {
        let mut barrier = scope.barrier;
        let now = Expanded::new(&barrier);
        let is_write = !src.1.is_empty();
        let begins = now.begins(if is_write { Kind::Write } else { Kind::Read }, src.0, src.1);
        let ends = if dst.1.is_empty() {
            now.dst_execution.contains(dst.0)
        } else {
            now.dst.0.contains(dst.0) && now.dst.1.contains(dst.1)
        };
        let mut bits = 0;
        if !begins {
            bits += u32::from(!now.src.0.contains(src.0)) + u32::from(!now.src.1.contains(src.1));
            barrier.src.stages |= src.0 & !now.src.0;
            barrier.src.flags |= src.1 & !now.src.1;
        }
        if !ends {
            bits += u32::from(!now.dst.0.contains(dst.0)) + u32::from(!now.dst.1.contains(dst.1));
            barrier.dst.stages |= dst.0 & !now.dst.0;
            barrier.dst.flags |= dst.1 & !now.dst.1;
        }
        (bits, barrier)
    };
    let mut best: Option<(u32, usize, Barrier)> = None;
    for (at, scope) in between.iter().enumerate() {
        let (bits, barrier) = grown(scope);
        // Of equal ones the latest.
        if best.is_none_or(|(least, ..)| bits <= least) {
            best = Some((bits, at, barrier));
        }
    }
    if let Some((_, at, barrier)) = best {
        between[at].barrier = barrier;
    }
}

/// Takes away every bit of barrier `number` that no pair misses.
fn shrink(scopes: &mut [Scoped], number: usize, tasks: &[Task]) {
    let kept = scopes[number].kept;
    let concerned: Vec<&Task> = tasks
        .iter()
        .filter(|t| t.first <= number && number <= t.last && matches!(t.demand, Demand::Atom { .. }))
        .collect();
    let mut smaller = |without: fn(&mut Barrier, u64)| {
        for bit in (0..64).map(|n| 1u64 << n) {
            let before = scopes[number].barrier;
            let mut after = before;
            without(&mut after, bit);
            if after == before || after.join(kept) != after {
                continue;
            }
            scopes[number].barrier = after;
            let expanded: Vec<Expanded> = scopes.iter().map(|s| Expanded::new(&s.barrier)).collect();
            if !concerned.iter().all(|task| is_served(&expanded[task.first..=task.last], task.demand)) {
                scopes[number].barrier = before;
            }
        }
    };
    smaller(|barrier, bit| barrier.src.stages.remove(Stages::from_bits_retain(bit)));
    smaller(|barrier, bit| barrier.src.flags.remove(Flags::from_bits_retain(bit)));
    smaller(|barrier, bit| barrier.dst.stages.remove(Stages::from_bits_retain(bit)));
    smaller(|barrier, bit| barrier.dst.flags.remove(Flags::from_bits_retain(bit)));
}

/// Whether a chain of `barriers`, in this order, does what is demanded.
fn is_served(barriers: &[Expanded], demand: Demand) -> bool {
    let (src, dst) = match demand {
        Demand::Atom { src, dst } => (src, dst),
        Demand::All(all) => {
            let wanted = Expanded::new(&all);
            return barriers.iter().any(|b| b.does_all_of(&wanted));
        }
    };
    let kind = if src.1.is_empty() { Kind::Read } else { Kind::Write };
    let mut reached = Stages::empty();
    for barrier in barriers {
        if reached.intersects(barrier.src_execution) || barrier.begins(kind, src.0, src.1) {
            reached |= barrier.dst_execution;
            let ends = match dst.1.is_empty() {
                true => barrier.dst_execution.contains(dst.0),
                false => barrier.dst.0.contains(dst.0) && barrier.dst.1.contains(dst.1),
            };
            if ends {
                return true;
            }
        }
    }
    false
}
