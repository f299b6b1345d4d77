//! Saying why: the pair that forces a barrier, and what became of a barrier that was asked for.
//!
//! The needs that force the barriers of a plan follow one another in the recording: no two share a gap. Each was made
//! by a barrier that was asked for inside its own interval, so each emission can be said to stand for one asked
//! barrier, and no asked barrier is counted twice.

use super::graph::{Earlier, Graph, Later, Need};
use super::place::Placement;
use super::{Edge, Fate, Stretch, Witness};
use crate::tracker::Cause;

/// The pair that forces an emission.
pub(super) fn witness(stretch: &Stretch, need: &Need) -> Witness {
    let earlier = match need.earlier {
        Earlier::Prefix => None,
        Earlier::Operation(i) => Some(i),
    };
    let later = match need.later {
        Later::Operation(j) => Some(j),
        Later::Look(_) => None,
    };
    let range = |operation: Option<usize>, known| {
        operation.map(|i| if later.is_some() { known } else { first_range(stretch, i).unwrap_or(known) })
    };
    Witness {
        cause: if need.earlier == Earlier::Prefix && later.is_some() { Cause::Prefix } else { need.cause },
        earlier,
        later,
        touched: range(earlier, need.ranges.0),
        touches: later.map(|_| need.ranges.1),
    }
}

/// What an operation writes first, or reads first if it writes nothing.
fn first_range(stretch: &Stretch, operation: usize) -> Option<crate::Range> {
    let accesses = stretch.accesses(operation);
    let written = accesses.iter().find(|a| a.kind == crate::Kind::Write);
    written.or(accesses.first()).map(|a| a.range)
}

/// What became of each asked barrier.
pub(super) fn fates(stretch: &Stretch, graph: &Graph, placement: &Placement) -> Vec<Fate> {
    let gaps: Vec<usize> = stretch.asked.iter().map(|(gap, _)| *gap).collect();
    let mut fates: Vec<Option<Fate>> = vec![None; gaps.len()];
    for (emission, need) in placement.forcing.iter().enumerate() {
        let (first, last) = graph.gaps(&graph.needs[*need]);
        let inside = gaps.partition_point(|gap| *gap < first)..gaps.partition_point(|gap| *gap <= last);
        if let Some(at) = inside.rev().find(|at| fates[*at].is_none()) {
            fates[at] = Some(Fate::Emitted(emission));
        }
    }
    // `reach[g]`: a need whose interval holds gap g, preferably a short one of two operations.
    let mut holding: Vec<Option<(usize, usize)>> = vec![None; stretch.len() + 1];
    for (number, need) in graph.needs.iter().enumerate() {
        if !matches!((need.earlier, need.later), (Earlier::Operation(_), Later::Operation(_))) {
            continue;
        }
        let (first, last) = graph.gaps(need);
        for gap in &mut holding[first..=last] {
            if gap.is_none_or(|(length, _)| last - first < length) {
                *gap = Some((last - first, number));
            }
        }
    }
    let merged = |gap: usize| {
        let (_, number) = holding[gap]?;
        let (from, to) = placement.interval(graph, &graph.needs[number]);
        let emission = placement.points.partition_point(|point| *point < from);
        placement.points.get(emission).filter(|point| **point <= to).map(|_| Fate::Merged(emission))
    };
    fates
        .into_iter()
        .zip(gaps)
        .map(|(fate, gap)| fate.or_else(|| merged(gap)).unwrap_or(Fate::Idle))
        .collect()
}

/// The conflict graph for drawings: its edges, and those of the heaviest path among them.
pub(super) fn edges(graph: &Graph, placement: &Placement) -> (Vec<Edge>, Vec<usize>) {
    let end = graph.looks.len() - 1;
    let edge = |need: &Need| {
        let earlier = match need.earlier {
            Earlier::Prefix => None,
            Earlier::Operation(i) => Some(i),
        };
        let later = match need.later {
            Later::Operation(j) => Some(j),
            Later::Look(k) if k == end => None,
            Later::Look(_) => return None,
        };
        Some(Edge { earlier, later, required: true })
    };
    let unordered =
        graph.unordered.iter().map(|(i, j)| Edge { earlier: Some(*i), later: Some(*j), required: false });
    let mut edges: Vec<Edge> = graph.needs.iter().filter_map(edge).chain(unordered).collect();
    edges.sort_unstable();
    // A pair may be required for one of its accesses and not for another.
    edges.dedup_by(|a, b| {
        a.earlier == b.earlier && a.later == b.later && {
            b.required |= a.required;
            true
        }
    });
    let heaviest = placement
        .forcing
        .iter()
        .filter_map(|need| edge(&graph.needs[*need]))
        .filter_map(|edge| edges.iter().position(|e| *e == edge))
        .collect();
    (edges, heaviest)
}
