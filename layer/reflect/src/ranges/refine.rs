//! What conditions prove, and whether they are decided.

use super::Fault;
use super::form::Form;
use super::program::{Binary as B, Block, End, Node, Unary as U, Value};
use super::walk::Walk;

impl Walk<'_> {
    /// Whether a condition is true or false for certain.
    pub fn decide(&mut self, condition: Value) -> Option<bool> {
        self.decide_within(condition, 16)
    }

    fn decide_within(&mut self, condition: Value, depth: usize) -> Option<bool> {
        if let Some(known) = self.form(condition).known().filter(|_| self.evaluated(condition)) {
            return Some(known != 0);
        }
        if depth == 0 {
            return None;
        }
        let compiled = self.compiled;
        match &compiled.program.nodes[condition as usize].node {
            Node::Const(value) => Some(*value != 0),
            Node::Un(U::Not, a) => self.decide_within(*a, depth - 1).map(|truth| !truth),
            Node::Bin(op @ (B::And | B::Or), a, b) => {
                let (a, b) = (self.decide_within(*a, depth - 1), self.decide_within(*b, depth - 1));
                let dominant = *op == B::Or;
                match (a, b) {
                    (Some(x), _) | (_, Some(x)) if x == dominant => Some(dominant),
                    (Some(_), Some(_)) => Some(!dominant),
                    _ => None,
                }
            }
            Node::Bin(op, a, b) if self.bits(*a) == 1 => {
                let (a, b) = (self.decide_within(*a, depth - 1)?, self.decide_within(*b, depth - 1)?);
                match op {
                    B::Eq => Some(a == b),
                    B::Ne | B::Xor => Some(a != b),
                    _ => None,
                }
            }
            Node::Bin(op @ (B::Eq | B::Ne), a, b) => {
                let difference = self.difference(*a, *b, false)?;
                let (low, high) = self.state.bounds(&difference);
                match (low, high) {
                    (0, 0) => Some(*op == B::Eq),
                    _ if low > 0 || high < 0 => Some(*op == B::Ne),
                    _ => None,
                }
            }
            Node::Bin(op @ (B::ULt | B::ULe | B::SLt | B::SLe), a, b) => {
                let difference = self.difference(*a, *b, matches!(op, B::SLt | B::SLe))?;
                let (low, high) = self.state.bounds(&difference);
                let limit = if matches!(op, B::ULt | B::SLt) { -1 } else { 0 };
                if high <= limit {
                    Some(true)
                } else if low > limit {
                    Some(false)
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// `a − b` as numbers.
    fn difference(&mut self, a: Value, b: Value, signed: bool) -> Option<Form> {
        let (x, y) = (self.exact(a, signed), self.exact(b, signed));
        x.plus(&y, -1)
    }

    /// Takes a condition for true or false; false when it can't be so.
    pub fn refine(&mut self, condition: Value, truth: bool) -> bool {
        self.refine_within(condition, truth, 16)
    }

    fn refine_within(&mut self, condition: Value, truth: bool, depth: usize) -> bool {
        if let Some(decided) = self.decide(condition) {
            return decided == truth;
        }
        if depth == 0 {
            return true;
        }
        let compiled = self.compiled;
        match &compiled.program.nodes[condition as usize].node {
            Node::Un(U::Not, a) => self.refine_within(*a, !truth, depth - 1),
            Node::Bin(op @ (B::And | B::Or), a, b) => {
                let both = (*op == B::And) == truth;
                if both {
                    return self.refine_within(*a, truth, depth - 1)
                        && self.refine_within(*b, truth, depth - 1);
                }
                // One of the two: if the other is decided otherwise, this one.
                match (self.decide(*a), self.decide(*b)) {
                    (Some(x), None) if x != truth => self.refine_within(*b, truth, depth - 1),
                    (None, Some(x)) if x != truth => self.refine_within(*a, truth, depth - 1),
                    _ => true,
                }
            }
            Node::Bin(op @ (B::Eq | B::Ne), a, b) if self.bits(*a) == 1 => {
                match (self.decide(*a), self.decide(*b)) {
                    (Some(x), None) => self.refine_within(*b, x == ((*op == B::Eq) == truth), depth - 1),
                    (None, Some(x)) => self.refine_within(*a, x == ((*op == B::Eq) == truth), depth - 1),
                    _ => true,
                }
            }
            Node::Bin(op @ (B::Eq | B::Ne), a, b) => {
                let (x, y) = (self.pin(*a, false), self.pin(*b, false));
                let (Some(difference), Some(negated)) = (x.plus(&y, -1), y.plus(&x, -1)) else { return true };
                if (*op == B::Eq) == truth {
                    return self.state.assume(&difference) && self.state.assume(&negated);
                }
                // Different, and at one end: one further in.
                let (low, high) = self.state.bounds(&difference);
                let further = match (low, high) {
                    (0, _) => negated.shifted(1),
                    (_, 0) => difference.shifted(1),
                    _ => None,
                };
                further.is_none_or(|form| self.state.assume(&form))
            }
            Node::Bin(op @ (B::ULt | B::ULe | B::SLt | B::SLe), a, b) => {
                let signed = matches!(op, B::SLt | B::SLe);
                let (x, y) = (self.pin(*a, signed), self.pin(*b, signed));
                let strict = matches!(op, B::ULt | B::SLt);
                let form = if truth {
                    let stricter = strict && self.fault == Fault::StrictIsStricter;
                    let by = i128::from(strict) + i128::from(stricter);
                    x.plus(&y, -1).and_then(|form| form.shifted(by))
                } else {
                    // Not a < b: b ≤ a; not a ≤ b: b < a.
                    y.plus(&x, -1).and_then(|form| form.shifted(i128::from(!strict)))
                };
                form.is_none_or(|form| self.state.assume(&form))
            }
            Node::Phi(_) => self.refine_phi(condition, truth, depth),
            _ => true,
        }
    }

    /// A truth that comes from one of several blocks: if only one of them can have brought it, control came through
    /// there, and what holds there holds here.
    fn refine_phi(&mut self, phi: Value, truth: bool, depth: usize) -> bool {
        let compiled = self.compiled;
        let Some(block) = self.block_of(phi) else { return true };
        let Node::Phi(operands) = &compiled.program.nodes[phi as usize].node else { return true };
        if compiled.loops.contains_key(&block) {
            return true;
        }
        let mut possible = Vec::new();
        for (from, value) in operands {
            // What the operand was where it came from: there its own branch may have decided it.
            let brought = self.brought(*from, block, phi).map(|known| known != 0);
            if self.edge_is_live(*from, block)
                && brought != Some(!truth)
                && self.decide(*value) != Some(!truth)
            {
                possible.push((*from, *value));
            }
        }
        let [(from, value)] = possible[..] else { return !possible.is_empty() };
        let top = compiled.dominator[block as usize];
        let mut path = vec![(from, block)];
        let mut at = from;
        while Some(at) != top {
            let Some(up) = compiled.dominator[at as usize] else { break };
            if compiled.entering[at as usize][..] == [up] && !compiled.loops.contains_key(&at) {
                path.push((up, at));
            }
            at = up;
        }
        for (from, to) in path.into_iter().rev() {
            if !self.refine_edge_within(from, to, depth - 1) {
                return false;
            }
        }
        self.refine_within(value, truth, depth - 1)
    }

    /// Takes for true what an edge proves; false when it can't be taken.
    pub fn refine_edge(&mut self, from: Block, to: Block) -> bool {
        self.refine_edge_within(from, to, 16)
    }

    fn refine_edge_within(&mut self, from: Block, to: Block, depth: usize) -> bool {
        let compiled = self.compiled;
        match &compiled.program.blocks[from as usize].end {
            End::If(condition, yes, no) if yes != no => self.refine_within(*condition, to == *yes, depth),
            End::Switch(selector, cases, default) => {
                let selected: Vec<u64> =
                    cases.iter().filter(|(_, target)| *target == to).map(|(literal, _)| *literal).collect();
                let exact = self.pin(*selector, false);
                let literals: Vec<i128> = selected.iter().map(|literal| i128::from(*literal)).collect();
                match (literals.iter().min(), literals.iter().max(), to == *default) {
                    (Some(least), Some(most), false) => {
                        let below = exact.times(-1).and_then(|form| form.shifted(*least));
                        let above = exact.shifted(-*most);
                        below.is_none_or(|form| self.state.assume(&form))
                            && above.is_none_or(|form| self.state.assume(&form))
                    }
                    (_, _, true) => match exact.known() {
                        // The default is taken when no case fits.
                        Some(known) => !cases
                            .iter()
                            .any(|(literal, target)| i128::from(*literal) == known && *target != to),
                        None => true,
                    },
                    _ => true,
                }
            }
            _ => true,
        }
    }
}
