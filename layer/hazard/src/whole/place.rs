//! Where barriers stand, and in which order operations are issued.
//!
//! In recorded order every required pair is an interval of gaps, and a barrier is a point. The greedy choice (always
//! the last gap of the first interval that no point stabs) needs the fewest points, and its mirror image the same
//! number; between the two lie all choices with that number. Of those we take the one that leaves most pairs of
//! operations between the same two barriers, since only such pairs can overlap on the device. Nothing is known of how
//! long operations take, so every pair counts the same.
//!
//! Where operations may move, they are sorted by level, and a barrier stands between two levels. Operations that could
//! be in several levels then move to the fullest of them, for the same reason.

use super::graph::{Earlier, Graph, Later, Need};
use super::{Freedom, Issue, Stretch};
use crate::tracker::Cause;

/// The order of operations and the places of barriers.
#[derive(Debug)]
pub(super) struct Placement {
    /// Operations in the order in which they are issued.
    pub order: Vec<usize>,
    /// Where in `order` each operation is.
    position: Vec<usize>,
    /// For each barrier, how many operations are issued before it; ascending.
    pub points: Vec<usize>,
    /// For each barrier, the need that forces it. No two of them share a gap of the recording.
    pub forcing: Vec<usize>,
}

impl Placement {
    pub fn new(stretch: &Stretch, graph: &Graph, freedom: Freedom) -> Placement {
        match freedom {
            Freedom::InOrder => in_order(stretch, graph),
            Freedom::AnyOrder => Levels::new(stretch, graph).place(),
        }
    }

    /// The places at which a barrier serves `need`: first and last, as numbers of operations issued before it.
    pub fn interval(&self, graph: &Graph, need: &Need) -> (usize, usize) {
        let first = match need.earlier {
            Earlier::Prefix => 0,
            Earlier::Operation(i) => self.position[i] + 1,
        };
        let last = match need.later {
            Later::Operation(j) => self.position[j],
            // Nothing moves across a look.
            Later::Look(k) => graph.looks[k],
        };
        (first, last)
    }

    pub fn issue(&self) -> Vec<Issue> {
        let mut issue = Vec::with_capacity(self.order.len() + self.points.len());
        let mut points = self.points.iter().enumerate().peekable();
        for at in 0..=self.order.len() {
            while let Some((number, _)) = points.next_if(|(_, point)| **point == at) {
                issue.push(Issue::Barrier(number));
            }
            issue.extend(self.order.get(at).map(|operation| Issue::Operation(*operation)));
        }
        issue
    }

    pub fn side_by_side(&self) -> u64 {
        let ends = self.points.iter().copied().chain([self.order.len()]);
        let mut from = 0;
        ends.map(|end| pairs(end - std::mem::replace(&mut from, end))).sum()
    }
}

fn pairs(count: usize) -> u64 {
    (count * count.saturating_sub(1) / 2) as u64
}

/// The least number of points in recorded order.
fn in_order(stretch: &Stretch, graph: &Graph) -> Placement {
    let count = stretch.len();
    let mut intervals: Vec<(usize, usize, Cause, usize)> = graph
        .needs
        .iter()
        .enumerate()
        .map(|(number, need)| {
            let (first, last) = graph.gaps(need);
            #[cfg(test)]
            let first = match stretch.fault {
                Some(super::Fault::StabTooLate) => first.saturating_sub(1),
                _ => first,
            };
            (first, last, need.cause, number)
        })
        .collect();
    intervals.sort_unstable_by_key(|(_, last, cause, number)| (*last, *cause, *number));
    let (mut latest, mut forcing) = (Vec::new(), Vec::new());
    for (first, last, _, number) in &intervals {
        if latest.last().is_none_or(|point| point < first) {
            latest.push(*last);
            forcing.push(*number);
        }
    }
    let points = most_overlap(&intervals, &latest, count);
    let order: Vec<usize> = (0..count).collect();
    Placement { position: order.clone(), order, points, forcing }
}

/// The choice of as many points as `latest` that stabs all intervals and leaves most pairs side by side.
fn most_overlap(
    intervals: &[(usize, usize, Cause, usize)],
    latest: &[usize],
    operations: usize,
) -> Vec<usize> {
    let mut by_first: Vec<(usize, usize)> =
        intervals.iter().map(|(first, last, ..)| (*first, *last)).collect();
    by_first.sort_unstable_by(|a, b| b.cmp(a));
    let mut earliest: Vec<usize> = Vec::with_capacity(latest.len());
    for (first, last) in &by_first {
        if earliest.last().is_none_or(|point| point > last) {
            earliest.push(*first);
        }
    }
    earliest.reverse();
    debug_assert_eq!(earliest.len(), latest.len(), "both ends need the same number of points");
    // `limit[p]`: behind a point p the next one stands no later than here; no interval begins behind p and ends before.
    let mut limit = vec![usize::MAX; operations + 2];
    let mut shortest = usize::MAX;
    let mut next = by_first.iter().peekable();
    for point in (0..=operations).rev() {
        while let Some((_, last)) = next.next_if(|(first, _)| *first > point) {
            shortest = shortest.min(*last);
        }
        limit[point] = shortest;
    }
    // `best[k][p - earliest[k]]`: the most pairs side by side before p when p is point k, and the point before it.
    let mut best: Vec<Vec<Option<(u64, usize)>>> = Vec::with_capacity(latest.len());
    for (k, (from, to)) in earliest.iter().zip(latest).enumerate() {
        let column = (*from..=*to).map(|p| match k {
            0 => Some((pairs(p), 0)),
            _ => (earliest[k - 1]..=latest[k - 1])
                .filter(|q| *q < p && p <= limit[*q])
                .filter_map(|q| best[k - 1][q - earliest[k - 1]].map(|(sum, _)| (sum + pairs(p - q), q)))
                // Of equal sums the later point: it is where the tracker would have put the barrier.
                .max(),
        });
        let column = column.collect();
        best.push(column);
    }
    let Some(last) = best.last() else { return Vec::new() };
    let (k, mut at) = (best.len() - 1, 0);
    let mut most = None;
    for (offset, entry) in last.iter().enumerate() {
        let p = earliest[k] + offset;
        let sum = entry.filter(|_| limit[p] == usize::MAX).map(|(sum, _)| sum + pairs(operations - p));
        if sum.is_some() && sum >= most {
            (most, at) = (sum, p);
        }
    }
    let mut points = vec![at];
    for k in (1..best.len()).rev() {
        let Some((_, before)) = best[k][at - earliest[k]] else { return latest.to_vec() };
        at = before;
        points.push(at);
    }
    points.reverse();
    points
}

/// A node of the conflict graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Operation(usize),
    Look(usize),
}

/// Why a node has the level that it has.
#[derive(Clone, Copy, Debug, Default)]
struct Why {
    level: usize,
    /// The node before it on a heaviest path.
    parent: Option<Node>,
    /// The need between the two, if the edge has weight 1.
    need: Option<usize>,
}

impl Why {
    fn offer(&mut self, level: usize, parent: Option<Node>, need: Option<usize>) {
        if level > self.level {
            *self = Why { level, parent, need };
        }
    }
}

/// Levels of all nodes: the weight of the heaviest path to each.
struct Levels {
    operations: Vec<Why>,
    looks: Vec<Why>,
    /// Per operation, the lowest level that fixed points allow.
    floor: Vec<usize>,
    /// Per operation, the highest.
    ceiling: Vec<usize>,
    /// Edges between operations: earlier, later, weight.
    edges: Vec<(usize, usize, usize)>,
}

impl Levels {
    fn new(stretch: &Stretch, graph: &Graph) -> Levels {
        let count = stretch.len();
        let mut edges: Vec<(usize, usize, usize)> = Vec::new();
        // What leads to an operation or a look: the earlier one (`None` is the prefix), and the need for weight 1.
        let mut into: Vec<Vec<(Option<usize>, Option<usize>)>> = vec![Vec::new(); count];
        let mut into_look: Vec<Vec<(Option<usize>, usize)>> = vec![Vec::new(); graph.looks.len()];
        for (number, need) in graph.needs.iter().enumerate() {
            let earlier = match need.earlier {
                Earlier::Prefix => None,
                Earlier::Operation(i) => Some(i),
            };
            match need.later {
                Later::Operation(j) => {
                    into[j].push((earlier, Some(number)));
                    edges.extend(earlier.map(|i| (i, j, 1)));
                }
                Later::Look(k) => into_look[k].push((earlier, number)),
            }
        }
        let may_swap = {
            #[cfg(test)]
            let broken = stretch.fault == Some(super::Fault::SwapUnordered);
            #[cfg(not(test))]
            let broken = false;
            broken
        };
        if !may_swap {
            for &(i, j) in &graph.unordered {
                into[j].push((Some(i), None));
                edges.push((i, j, 0));
            }
        }
        let mut levels = Levels {
            operations: vec![Why::default(); count],
            looks: vec![Why::default(); graph.looks.len()],
            floor: vec![0; count],
            ceiling: vec![usize::MAX; count],
            edges,
        };
        levels.rise(stretch, graph, &into, &into_look);
        levels.bound(stretch, graph, &into_look);
        levels
    }

    /// Gives each node, in recorded order, the least level that it can have.
    fn rise(
        &mut self,
        stretch: &Stretch,
        graph: &Graph,
        into: &[Vec<(Option<usize>, Option<usize>)>],
        into_look: &[Vec<(Option<usize>, usize)>],
    ) {
        let ignores_looks = {
            #[cfg(test)]
            let broken = stretch.fault == Some(super::Fault::MoveAcrossLooks);
            #[cfg(not(test))]
            let broken = false;
            broken
        };
        // The last fixed point and its level, and the highest level so far.
        let mut wall = Why::default();
        let mut highest = Why::default();
        let mut look = 0;
        for number in 0..=stretch.len() {
            while look < graph.looks.len() && graph.looks[look] == number {
                let mut why = Why { level: highest.level, ..highest };
                for &(earlier, need) in &into_look[look] {
                    let level = earlier.map_or(0, |i| self.operations[i].level) + 1;
                    why.offer(level, earlier.map(Node::Operation), Some(need));
                }
                self.looks[look] = why;
                let node = Why { level: why.level, parent: Some(Node::Look(look)), need: None };
                if !ignores_looks {
                    wall = node;
                }
                if node.level >= highest.level {
                    highest = node;
                }
                look += 1;
            }
            let Some(into) = into.get(number) else { break };
            let fixed = stretch.operations[number].fixed && !ignores_looks;
            let mut why = if fixed { highest } else { wall };
            // Pairs of operations are offered before the prefix: they are the better reason.
            let (prefix, others): (Vec<_>, Vec<_>) = into.iter().partition(|(i, _)| i.is_none());
            for &(earlier, need) in others.into_iter().chain(prefix) {
                let level = earlier.map_or(0, |i| self.operations[i].level) + usize::from(need.is_some());
                why.offer(level, earlier.map(Node::Operation), need);
            }
            self.operations[number] = why;
            let node = Why { level: why.level, parent: Some(Node::Operation(number)), need: None };
            if fixed || graph.prefix_wall == Some(number) && wall.level < 1 {
                // Everything behind a fixed operation, and behind the barrier that the prefix forces first.
                wall = if fixed { node } else { Why { level: 1, ..node } };
            }
            self.floor[number] = if fixed { why.level } else { wall.level.min(why.level) };
            if node.level >= highest.level {
                highest = node;
            }
        }
    }

    /// Sets the highest level that fixed points allow each operation.
    fn bound(&mut self, stretch: &Stretch, graph: &Graph, into_look: &[Vec<(Option<usize>, usize)>]) {
        let mut limit = usize::MAX;
        let mut look = graph.looks.len();
        for number in (0..=stretch.len()).rev() {
            while look > 0 && graph.looks[look - 1] == number {
                look -= 1;
                limit = limit.min(self.looks[look].level);
                for (earlier, _) in &into_look[look] {
                    if let Some(i) = earlier {
                        self.ceiling[*i] = self.ceiling[*i].min(self.looks[look].level - 1);
                    }
                }
            }
            if graph.prefix_wall == Some(number) {
                limit = 0;
            }
            if let Some(before) = number.checked_sub(1) {
                self.ceiling[before] = self.ceiling[before].min(limit);
                if stretch.operations[before].fixed {
                    // It keeps its level itself, too: at a higher one, what was recorded behind it could come before it.
                    limit = limit.min(self.operations[before].level);
                    self.ceiling[before] = limit;
                }
            }
        }
    }

    /// The level that each operation is issued at. Starting from the least, operations move to the fullest level that
    /// their conflicts leave open, last first.
    fn settle(&self, most: usize) -> Vec<usize> {
        let count = self.operations.len();
        let mut level: Vec<usize> = self.operations.iter().map(|why| why.level).collect();
        let mut population = vec![0usize; most + 1];
        level.iter().for_each(|l| population[*l] += 1);
        let (mut before, mut behind) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for &(i, j, weight) in &self.edges {
            before[j].push((i, weight));
            behind[i].push((j, weight));
        }
        for number in (0..count).rev() {
            let lowest = before[number].iter().map(|(i, w)| level[*i] + w).max().unwrap_or(0);
            let highest = behind[number].iter().map(|(j, w)| level[*j] - w).min().unwrap_or(most);
            let lowest = lowest.max(self.floor[number]);
            let highest = highest.min(self.ceiling[number]).min(most);
            let now = level[number];
            let open = population.iter().enumerate().take(highest + 1).skip(lowest);
            let others = open.filter(|(candidate, count)| *candidate != now && **count > population[now] - 1);
            let chosen = others.max_by_key(|(_, count)| **count).map_or(now, |(candidate, _)| candidate);
            population[now] -= 1;
            population[chosen] += 1;
            level[number] = chosen;
        }
        level
    }

    fn why(&self, node: Node) -> Why {
        match node {
            Node::Operation(i) => self.operations[i],
            Node::Look(k) => self.looks[k],
        }
    }

    /// The needs on a heaviest path, first to last.
    fn heaviest(&self) -> Vec<usize> {
        let nodes = (0..self.operations.len()).map(Node::Operation);
        let all = nodes.chain((0..self.looks.len()).map(Node::Look));
        let mut at = all.max_by_key(|node| self.why(*node).level);
        let mut needs = Vec::new();
        while let Some(node) = at {
            let why = self.why(node);
            needs.extend(why.need);
            at = why.parent;
        }
        needs.reverse();
        needs
    }

    fn place(&self) -> Placement {
        let forcing = self.heaviest();
        let most = forcing.len();
        let level = self.settle(most);
        let mut order: Vec<usize> = (0..level.len()).collect();
        order.sort_by_key(|i| level[*i]);
        let mut position = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, i)| position[*i] = at);
        let points = (1..=most).map(|k| order.partition_point(|i| level[*i] < k)).collect();
        Placement { order, position, points, forcing }
    }
}
