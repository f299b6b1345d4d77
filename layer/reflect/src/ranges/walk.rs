//! The walk over a compiled program for one dispatch.
//!
//! Blocks are visited in the order of the dominator tree; a merge comes after all that leads to it. Branches that the
//! dispatch decides are not taken.
//!
//! A loop is walked several times before its accesses count. What its header's phis can be is guessed first: those
//! that change by a constant are `start + step · k` with `k` between 0 and some `K` for which nothing wraps, others
//! are no larger than they start. Under the guess the body is evaluated, and the guess is *proved* if it comes out
//! again at the way back: `k + 1 ≤ K` there, and the others still within their bounds. That is induction over the
//! rounds. A guess that isn't proved is replaced by one that can't be wrong, any value. From there on every walk may
//! narrow what the next one begins with: what the way back brings after a sound walk is sound itself.

use super::compiled::{Change, Compiled};
use super::form::Form;
use super::program::{Block, End, Node, Program, Span, Target, Value};
use super::state::{FAR, State};
use super::transfer::window;
use super::{Dispatch, Fault, Hull, Place};

/// Most nodes that are evaluated for one dispatch.
const FUEL: u64 = 3_000_000;

/// What is known of an edge after its source was visited.
#[derive(Debug, Clone)]
struct Edge {
    to: Block,
    /// For each phi of the target, the operand and its bounds there.
    phis: Vec<(Form, (i128, i128))>,
    /// For a loop's way back: the most rounds done before this one.
    rounds: i128,
}

pub(crate) struct Walk<'a> {
    pub compiled: &'a Compiled,
    pub dispatch: Dispatch<'a>,
    pub state: State,
    pub forms: Vec<Form>,
    pub done: Vec<bool>,
    /// Edges that can be taken, by their source.
    edges: Vec<Vec<Edge>>,
    /// The atom that counts the rounds of each loop that is being walked.
    counters: std::collections::HashMap<Block, Form>,
    block_of: &'a [Block],
    pub found: Vec<(Target, Place)>,
    fuel: u64,
    pub failed: bool,
    pub fault: Fault,
    /// Numbers of the reasons "wraps" and "push constants that were not given".
    pub wrap: u32,
    pub missing_push: u32,
}

/// What a visit is for.
#[derive(Debug, Clone, Copy)]
struct Aim {
    /// Accesses count.
    record: bool,
    /// Only blocks of this loop are visited.
    within: Option<Block>,
}

/// What a phi begins with: a form, and its bounds.
type Start = (Form, (i128, i128));

/// What a loop's phis are taken for.
#[derive(Debug, Clone)]
struct Guess {
    /// Most rounds before the last.
    rounds: i128,
    /// For each phi that isn't a line: its bounds; nothing means any value.
    free: Vec<Option<(i128, i128)>>,
}

impl<'a> Walk<'a> {
    pub fn new(
        compiled: &'a Compiled,
        block_of: &'a [Block],
        dispatch: Dispatch<'a>,
        (wrap, missing_push): (u32, u32),
        fault: Fault,
    ) -> Walk<'a> {
        let nodes = compiled.program.nodes.len();
        Walk {
            compiled,
            dispatch,
            state: State::new(fault),
            fault,
            forms: vec![Form::default(); nodes],
            done: vec![false; nodes],
            edges: vec![Vec::new(); compiled.program.blocks.len()],
            counters: Default::default(),
            block_of,
            found: Vec::new(),
            fuel: FUEL,
            failed: false,
            wrap,
            missing_push,
        }
    }

    pub fn program(&self) -> &'a Program {
        &self.compiled.program
    }

    pub fn evaluated(&self, value: Value) -> bool {
        self.done[value as usize]
    }

    pub fn block_of(&self, value: Value) -> Option<Block> {
        self.block_of.get(value as usize).copied().filter(|block| *block != Block::MAX)
    }

    pub fn edge_is_live(&self, from: Block, to: Block) -> bool {
        self.edges[from as usize].iter().any(|edge| edge.to == to)
    }

    /// What an edge brought to a phi, where that is one number.
    pub fn brought(&self, from: Block, to: Block, phi: Value) -> Option<i128> {
        let index = self.phis(to).position(|other| other == phi)?;
        let edge = self.edges[from as usize].iter().find(|edge| edge.to == to)?;
        edge.phis.get(index)?.0.known()
    }

    /// Walks everything.
    pub fn run(&mut self) {
        if self.dispatch.groups.contains(&0) || self.program().local_size.contains(&0) {
            return;
        }
        for value in &self.program().pool {
            self.evaluate(*value);
            self.done[*value as usize] = true;
        }
        if !self.program().blocks.is_empty() {
            self.visit(0, Aim { record: true, within: None });
        }
    }

    fn visit(&mut self, block: Block, aim: Aim) {
        if self.failed {
            return;
        }
        if self.compiled.loops.contains_key(&block) {
            return self.enter_loop(block, aim);
        }
        let program = self.program();
        for (index, phi) in self.phis(block).enumerate() {
            if !(aim.record || self.compiled.steers[phi as usize]) {
                continue;
            }
            let mut found = Vec::new();
            for from in &self.compiled.entering[block as usize] {
                let edge = self.edges[*from as usize].iter().find(|edge| edge.to == block);
                found.extend(edge.and_then(|edge| edge.phis.get(index)).cloned());
            }
            self.forms[phi as usize] = self.join(&found, program.nodes[phi as usize].bits);
            self.done[phi as usize] = true;
        }
        self.body(block, aim);
    }

    fn phis(&self, block: Block) -> impl Iterator<Item = Value> + 'a {
        let program = self.program();
        let nodes = program.blocks[block as usize].nodes.iter().copied();
        nodes.take_while(|value| matches!(program.nodes[*value as usize].node, Node::Phi(_)))
    }

    /// A block's values, its accesses, its edges, and everything below it.
    fn body(&mut self, block: Block, aim: Aim) {
        let program = self.program();
        let outer = self.state.mark();
        let nodes = &program.blocks[block as usize].nodes;
        self.fuel = self.fuel.saturating_sub(nodes.len() as u64 + 1);
        if self.fuel == 0 || self.state.overflow() {
            self.failed = true;
            return;
        }
        for value in nodes {
            // Before a loop is understood only what steers it is of interest.
            if aim.record || self.compiled.steers[*value as usize] {
                self.evaluate(*value);
                self.done[*value as usize] = true;
            }
        }
        if aim.record {
            for access in &program.blocks[block as usize].accesses {
                self.access(access);
            }
        }
        self.leave(block, aim);
        for child in &self.compiled.children[block as usize] {
            if aim.within.is_some_and(|header| !self.compiled.loops[&header].blocks.contains(child)) {
                continue;
            }
            let entering = &self.compiled.entering[*child as usize];
            if !entering.iter().any(|from| self.edge_is_live(*from, *child)) {
                continue;
            }
            let mark = self.state.mark();
            if entering[..] != [block] || self.refine_edge(block, *child) {
                self.visit(*child, aim);
            }
            self.state.back(mark);
        }
        self.state.back(outer);
    }

    /// Notes the edges that leave a block, and what they bring to phis.
    fn leave(&mut self, block: Block, aim: Aim) {
        let program = self.program();
        let end = &program.blocks[block as usize].end;
        let mut targets = match end {
            End::If(condition, yes, no) => match self.decide(*condition) {
                Some(true) => vec![*yes],
                Some(false) => vec![*no],
                None => end.targets(),
            },
            End::Switch(selector, cases, default) => match self.exact(*selector, false).known() {
                Some(known) => {
                    let case = cases.iter().find(|(literal, _)| i128::from(*literal) == known);
                    vec![case.map_or(*default, |(_, to)| *to)]
                }
                None => end.targets(),
            },
            _ => end.targets(),
        };
        targets.sort_unstable();
        targets.dedup();
        self.edges[block as usize].clear();
        for to in targets {
            let mark = self.state.mark();
            if self.refine_edge(block, to) {
                let mut phis = Vec::new();
                for phi in self.phis(to) {
                    let Node::Phi(operands) = &program.nodes[phi as usize].node else { continue };
                    if !(aim.record || self.compiled.steers[phi as usize]) {
                        phis.push((Form::default(), (0, 0)));
                        continue;
                    }
                    let operand = operands.iter().find(|(from, _)| *from == block).map(|(_, value)| *value);
                    phis.push(match operand {
                        Some(value) if self.bits(value) == 1 => match self.decide(value) {
                            Some(truth) => {
                                (Form::constant(i128::from(truth)), (i128::from(truth), i128::from(truth)))
                            }
                            None => (self.forms[value as usize].clone(), (0, 1)),
                        },
                        Some(value) => {
                            let form = self.forms[value as usize].clone();
                            let bounds = self.state.bounds(&form);
                            (form, bounds)
                        }
                        None => {
                            let any = self.any(program.nodes[phi as usize].bits, 0);
                            let bounds = self.state.bounds(&any);
                            (any, bounds)
                        }
                    });
                }
                let counter = self.counters.get(&to).cloned();
                let rounds = counter.map_or(0, |counter| self.state.upper(&counter));
                self.edges[block as usize].push(Edge { to, phis, rounds });
            }
            self.state.back(mark);
        }
    }

    fn enter_loop(&mut self, header: Block, aim: Aim) {
        let compiled = self.compiled;
        let blocks = &compiled.loops[&header].blocks;
        let phis: Vec<Value> = self.phis(header).collect();
        // What the phis begin with.
        let mut starts = Vec::new();
        for (index, phi) in phis.iter().enumerate() {
            let mut found = Vec::new();
            for from in &compiled.entering[header as usize] {
                let edge = self.edges[*from as usize].iter().find(|edge| edge.to == header);
                found.extend(edge.and_then(|edge| edge.phis.get(index)).cloned());
            }
            let hull =
                found.iter().fold((i128::MAX, i128::MIN), |(l, h), (_, (a, b))| (l.min(*a), h.max(*b)));
            let form = self.join(&found, self.bits(*phi));
            starts.push((form, hull));
        }
        let steps: Vec<Option<i128>> = phis.iter().map(|phi| self.step_of(*phi)).collect();
        let walk = |this: &mut Self, guess: &Guess, aim: Aim| {
            let mark = this.state.mark();
            for block in blocks {
                this.edges[*block as usize].clear();
            }
            let counter = this.state.fresh(0, guess.rounds, 0);
            for (index, phi) in phis.iter().enumerate() {
                let bits = this.bits(*phi);
                let form = match (steps[index], guess.free[index]) {
                    (Some(step), _) => match starts[index].0.plus(&counter, step) {
                        Some(form) => form.reduced(bits),
                        None => this.any(bits, this.wrap),
                    },
                    (None, Some((low, high))) => {
                        let reason = this.state.reason(&starts[index].0);
                        this.state.fresh(low, high, reason)
                    }
                    (None, None) => this.any(bits, this.wrap),
                };
                this.forms[*phi as usize] = form;
                this.done[*phi as usize] = true;
            }
            this.counters.insert(header, counter);
            this.body(header, aim);
            this.counters.remove(&header);
            this.state.back(mark);
        };
        let inner = Aim { record: false, within: Some(header) };
        let mut proved = None;
        for rounds in self.hypotheses(&phis, &steps, &starts) {
            let guess = Guess { rounds, free: self.no_larger(&phis, &steps, &starts) };
            walk(self, &guess, inner);
            let mut next = self.next_guess(header, &phis, &steps, &starts);
            if next.rounds.min(FAR) > guess.rounds {
                continue;
            }
            let held = |index: usize| match (guess.free[index], next.free[index]) {
                (Some((low, high)), Some((l, h))) => low <= l && h <= high,
                (Some(_), None) => steps[index].is_some(),
                (None, _) => true,
            };
            if !(0..phis.len()).all(held) {
                // The counter alone, the others any value.
                let guess = Guess { rounds, free: vec![None; phis.len()] };
                walk(self, &guess, inner);
                next = self.next_guess(header, &phis, &steps, &starts);
                if next.rounds.min(FAR) > guess.rounds {
                    continue;
                }
            }
            next.rounds = next.rounds.min(FAR);
            proved = Some(next);
            break;
        }
        let guess = proved.unwrap_or_else(|| {
            let guess = Guess { rounds: FAR, free: vec![None; phis.len()] };
            walk(self, &guess, inner);
            let next = self.next_guess(header, &phis, &steps, &starts);
            Guess { rounds: next.rounds.min(FAR), ..next }
        });
        let early = i128::from(self.fault == Fault::LoopsEndEarly);
        walk(self, &Guess { rounds: (guess.rounds - early).max(0), ..guess }, aim);
    }

    /// The constant by which a phi changes each round, if it is one.
    fn step_of(&mut self, phi: Value) -> Option<i128> {
        let Some(Change::Steps(steps)) = self.compiled.changes.get(&phi) else { return None };
        let bits = self.bits(phi);
        let mut sum = Form::default();
        for (value, plus) in steps {
            sum = sum.plus(&self.forms[*value as usize], if *plus { 1 } else { -1 })?;
        }
        // As a number between −2^(bits−1) and 2^(bits−1): the way round doesn't matter.
        let known = sum.known()?;
        let (least, _) = window(bits, true);
        Some((known - least).rem_euclid(1 << bits) + least)
    }

    /// Numbers of rounds for which nothing that changes by a constant wraps: as unsigned and as signed numbers.
    fn hypotheses(&self, phis: &[Value], steps: &[Option<i128>], starts: &[Start]) -> Vec<i128> {
        let mut most = [FAR, FAR];
        for ((phi, step), (_, (low, high))) in phis.iter().zip(steps).zip(starts) {
            let Some(step) = step.filter(|step| *step != 0) else { continue };
            for (signed, most) in [false, true].into_iter().zip(&mut most) {
                let (least, largest) = window(self.bits(*phi), signed);
                let room = if step > 0 { largest - high } else { low - least };
                *most = (*most).min(room.max(0) / step.abs());
            }
        }
        if most[0] == most[1] {
            return vec![most[0]];
        }
        most.sort_unstable();
        most.to_vec()
    }

    /// For phis that aren't lines: between zero and what they begin with.
    fn no_larger(
        &self,
        phis: &[Value],
        steps: &[Option<i128>],
        starts: &[Start],
    ) -> Vec<Option<(i128, i128)>> {
        let one = |((phi, step), (_, (low, high))): ((&Value, &Option<i128>), &Start)| {
            let (_, most) = window(self.bits(*phi), false);
            (step.is_none() && *low >= 0 && *high <= most).then_some((0.min(*low), *high))
        };
        phis.iter().zip(steps).zip(starts).map(one).collect()
    }

    /// What the way back says: the most rounds, and the bounds of the other phis.
    fn next_guess(&self, header: Block, phis: &[Value], steps: &[Option<i128>], starts: &[Start]) -> Guess {
        let blocks = &self.compiled.loops[&header].blocks;
        let back: Vec<&Edge> = blocks
            .iter()
            .flat_map(|block| &self.edges[*block as usize])
            .filter(|edge| edge.to == header)
            .collect();
        // One round more than have been done; none at all if nothing leads back.
        let rounds = back.iter().map(|edge| edge.rounds.saturating_add(1)).max().unwrap_or(0);
        let free = phis.iter().enumerate().map(|(index, phi)| {
            if steps[index].is_some() {
                return None;
            }
            let (least, most) = window(self.bits(*phi), false);
            let within = |(low, high): (i128, i128)| (low >= least && high <= most).then_some((low, high));
            let mut hull = within(starts[index].1)?;
            for edge in &back {
                let (low, high) = within(edge.phis.get(index)?.1)?;
                hull = (hull.0.min(low), hull.1.max(high));
            }
            Some(hull)
        });
        Guess { rounds, free: free.collect() }
    }

    /// Evaluates an access.
    fn access(&mut self, access: &super::program::Access) {
        let mut offset = Form::constant(i128::from(access.offset.constant));
        for (index, stride) in &access.offset.terms {
            let exact = self.exact(*index, false);
            let bits = self.bits(*index);
            // A number that is negative as signed means different places to different readers.
            if self.state.upper(&exact) > window(bits, true).1 {
                let reason = self.state.reason(&exact).max(self.wrap);
                return self.found.push((access.target, Place::lost(access, reason)));
            }
            match offset.plus(&exact, i128::from(*stride)) {
                Some(sum) => offset = sum,
                None => return self.found.push((access.target, Place::lost(access, self.wrap))),
            }
        }
        if let Target::Address { base, .. } = access.target {
            let base = self.exact(base, false);
            match offset.plus(&base, 1) {
                Some(sum) => offset = sum,
                None => return self.found.push((access.target, Place::lost(access, self.wrap))),
            }
        }
        let offset = self.state.simplify(offset);
        let (low, high) = self.state.bounds(&offset);
        let mut reason = self.state.reason(&offset);
        let length = match access.span {
            Span::Bytes(size) => i128::from(size),
            Span::Matrix { lines, line, stride, unit } => {
                let stride = self.exact(stride, false);
                if self.state.upper(&stride) > window(31, false).1 {
                    reason = reason.max(self.state.reason(&stride)).max(self.wrap);
                    return self.found.push((access.target, Place::lost(access, reason)));
                }
                let between = self.state.upper(&stride).saturating_mul(i128::from(unit));
                i128::from(lines.saturating_sub(1)).saturating_mul(between).saturating_add(i128::from(line))
            }
        };
        let end = high.saturating_add(length);
        match (u64::try_from(low), u64::try_from(end)) {
            (Ok(start), Ok(end)) => {
                let hull = Hull { start, end, reason };
                self.found.push((access.target, Place::hull(access, hull)));
            }
            _ => self.found.push((access.target, Place::lost(access, reason.max(self.wrap)))),
        }
    }
}
