//! How few barriers are enough when operations may move? T5, computed without the planner.
//!
//! Two programs that share nothing with `whole` but the vocabulary. One finds the heaviest path in the graph whose edges
//! are the model's required pairs (weight 1) and the other conflicts (weight 0). The other tries every order of the
//! operations that keeps conflicting pairs as they were, and for each every set of places for full barriers. That the
//! two agree is T5.

use super::minimal::{Gaps, before};
use crate::model::{Later, required_pairs};

/// Operations `1..=n` between what came before, 0, and what follows, `n + 1`; each pair with its weight.
pub struct Conflicts {
    pub nodes: usize,
    pub edges: Vec<(usize, usize, usize)>,
}

impl Conflicts {
    pub fn of(gaps: &Gaps) -> Conflicts {
        let (_, earlier_operations) = before();
        let count = gaps.operations.len();
        let mut edges = Vec::new();
        for pair in required_pairs(&gaps.events(&[])).iter().filter(|pair| !pair.ordered) {
            let Later::Operation(later) = pair.later else { panic!("the host is not in these programs") };
            let node = |operation: usize| (operation + 1).saturating_sub(earlier_operations);
            if later >= earlier_operations {
                edges.push((node(pair.earlier), node(later), 1));
            }
        }
        // Nothing moves across the first barrier that is due to what came before.
        let wall = edges.iter().filter(|(from, to, _)| *from == 0 && *to <= count).map(|e| e.1).min();
        if let Some(wall) = wall {
            edges.extend((wall..=count).map(|node| (0, node, 1)));
        }
        for (j, later) in gaps.operations.iter().enumerate() {
            for (i, earlier) in gaps.operations[..j].iter().enumerate() {
                if earlier.iter().any(|a| later.iter().any(|b| a.conflicts(b))) {
                    edges.push((i + 1, j + 1, 0));
                }
            }
        }
        Conflicts { nodes: count + 2, edges }
    }

    /// The weight of the heaviest path.
    pub fn heaviest_path(&self) -> usize {
        let mut weight = vec![0; self.nodes];
        for node in 0..self.nodes {
            let into = self.edges.iter().filter(|(_, to, _)| *to == node);
            weight[node] = into.map(|(from, _, w)| weight[*from] + w).max().unwrap_or(0);
        }
        weight.into_iter().max().unwrap_or(0)
    }

    /// The least number of full barriers over every order of the operations that keeps conflicting pairs as they were.
    pub fn least_over_all_orders(&self) -> usize {
        let mut order: Vec<usize> = vec![0];
        let mut least = usize::MAX;
        self.extend(&mut order, &mut least);
        least
    }

    fn extend(&self, order: &mut Vec<usize>, least: &mut usize) {
        if order.len() == self.nodes - 1 {
            order.push(self.nodes - 1);
            *least = (*least).min(self.stabbing_number(order));
            order.pop();
            return;
        }
        for node in 1..self.nodes - 1 {
            let mut into = self.edges.iter().filter(|(_, to, _)| *to == node);
            if !order.contains(&node) && into.all(|(from, ..)| order.contains(from)) {
                order.push(node);
                self.extend(order, least);
                order.pop();
            }
        }
    }

    /// The least number of places between the nodes, in this order, that stab all edges of weight 1.
    fn stabbing_number(&self, order: &[usize]) -> usize {
        let at = |node: usize| order.iter().position(|n| *n == node).expect("every node is in the order");
        let intervals: Vec<u32> = self
            .edges
            .iter()
            .filter(|(.., weight)| *weight == 1)
            .map(|(from, to, _)| (at(*from)..at(*to)).fold(0, |places, place| places | 1 << place))
            .collect();
        (0u32..1 << (order.len() - 1))
            .filter(|chosen| intervals.iter().all(|places| places & chosen != 0))
            .map(|chosen| chosen.count_ones() as usize)
            .min()
            .expect("all places together stab everything")
    }
}
