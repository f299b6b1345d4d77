//! What is known while a program is evaluated: the bounds of atoms and the inequalities that hold where control is.
//!
//! Blocks are visited along the dominator tree, so that what a branch proves holds in everything below it and is
//! taken back on the way up. Bounds of a form are those of its atoms, improved by the inequalities: from
//! `8·y + x ≤ 99` follows that `24·y + 3·x + z` is at most `297 + z`, whatever `x` and `y` could be alone.

use std::collections::HashMap;

use super::Fault;
use super::form::{Atom, Form};
use super::program::Reason;

/// Beyond all numbers that occur, with room for sums.
pub(crate) const FAR: i128 = 1 << 100;
/// Newest inequalities that are looked at.
const NEWEST: usize = 64;
/// How many inequalities may be used one after the other for one bound.
const CHAIN: usize = 4;
/// How far a narrower bound is passed on from atom to atom.
const ROUNDS: usize = 3;
/// Most atoms before an evaluation is given up.
const MOST_ATOMS: usize = 200_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct AtomInfo {
    pub low: i128,
    pub high: i128,
    /// Why nothing better is known of it; 0 where its bounds are what the dispatch says.
    pub reason: Reason,
}

/// `form ≤ limit`; the form's constant is 0.
#[derive(Debug, Clone)]
struct Inequality {
    form: Form,
    limit: i128,
}

/// `divisor · quotient + rest = whole`.
#[derive(Debug, Clone)]
struct Division {
    divisor: i128,
    whole: Form,
    rest: Form,
}

/// A point to come back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    undo: usize,
    inequalities: usize,
    divided: usize,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    atoms: Vec<AtomInfo>,
    undo: Vec<(Atom, i128, i128)>,
    inequalities: Vec<Inequality>,
    /// Quotients by their atom.
    divisions: HashMap<Atom, Division>,
    /// Divisions that hold here: the whole, the divisor, the quotient and the rest.
    divided: Vec<(Form, i128, Form, Form)>,
    fault: Fault,
}

impl State {
    pub fn new(fault: Fault) -> State {
        State { fault, ..State::default() }
    }

    /// Whether the evaluation has become too large.
    pub fn overflow(&self) -> bool {
        self.atoms.len() > MOST_ATOMS
    }

    pub fn fresh(&mut self, low: i128, high: i128, reason: Reason) -> Form {
        if low >= high {
            return Form::constant(low);
        }
        self.atoms.push(AtomInfo { low, high, reason });
        Form::atom(self.atoms.len() as Atom - 1)
    }

    pub fn mark(&self) -> Mark {
        Mark { undo: self.undo.len(), inequalities: self.inequalities.len(), divided: self.divided.len() }
    }

    pub fn back(&mut self, mark: Mark) {
        while self.undo.len() > mark.undo {
            if let Some((atom, low, high)) = self.undo.pop() {
                let info = &mut self.atoms[atom as usize];
                (info.low, info.high) = (low, high);
            }
        }
        self.inequalities.truncate(mark.inequalities);
        self.divided.truncate(mark.divided);
    }

    /// Upper bound from the atoms alone.
    fn plain_upper(&self, form: &Form) -> i128 {
        let mut sum = form.constant;
        for (atom, factor) in &form.terms {
            let info = self.atoms[*atom as usize];
            let most = if *factor > 0 { info.high } else { info.low };
            let Some(most) = factor.checked_mul(most) else { return FAR };
            sum = sum.saturating_add(most);
        }
        sum.clamp(-FAR, FAR)
    }

    /// The most that a form can be.
    pub fn upper(&self, form: &Form) -> i128 {
        self.upper_chained(form, CHAIN)
    }

    fn upper_chained(&self, form: &Form, chain: usize) -> i128 {
        let plain = self.plain_upper(form);
        if chain == 0 || form.terms.len() < 2 && form.terms.iter().all(|(atom, _)| self.is_narrow(*atom)) {
            return plain;
        }
        // The inequality that helps most, then from what is left on.
        let mut best: Option<(i128, i128, i128, Form)> = None;
        for inequality in self.inequalities.iter().rev().take(NEWEST) {
            for (atom, theirs) in &inequality.form.terms {
                let ours = form.factor(*atom);
                if ours == 0 || (ours > 0) != (*theirs > 0) {
                    continue;
                }
                let divisor = gcd(ours, *theirs);
                let (scale, times) = ((theirs / divisor).abs(), (ours / divisor).abs());
                let rest = form
                    .times(scale)
                    .and_then(|form| form.plus(&inequality.form, -times))
                    .zip(times.checked_mul(inequality.limit));
                let Some((rest, given)) = rest else { continue };
                let bound = self.plain_upper(&rest).saturating_add(given).div_euclid(scale);
                if bound < plain && best.as_ref().is_none_or(|(best, ..)| bound < *best) {
                    best = Some((bound, scale, given, rest));
                }
            }
        }
        match best {
            Some((bound, scale, given, rest)) => {
                bound.min(self.upper_chained(&rest, chain - 1).saturating_add(given).div_euclid(scale))
            }
            None => plain,
        }
    }

    fn is_narrow(&self, atom: Atom) -> bool {
        let info = self.atoms[atom as usize];
        info.low == info.high
    }

    /// The least that a form can be.
    pub fn lower(&self, form: &Form) -> i128 {
        match form.times(-1) {
            Some(negated) => -self.upper(&negated),
            None => -FAR,
        }
    }

    pub fn bounds(&self, form: &Form) -> (i128, i128) {
        match form.known() {
            Some(value) => (value, value),
            None => (self.lower(form), self.upper(form)),
        }
    }

    /// Bounds from the atoms alone: quick, and not as good.
    pub fn plain_bounds(&self, form: &Form) -> (i128, i128) {
        let (mut low, mut high) = (form.constant, form.constant);
        for (atom, factor) in &form.terms {
            let info = self.atoms[*atom as usize];
            let (Some(a), Some(b)) = (factor.checked_mul(info.low), factor.checked_mul(info.high)) else {
                return (-FAR, FAR);
            };
            low = low.saturating_add(a.min(b));
            high = high.saturating_add(a.max(b));
        }
        (low.clamp(-FAR, FAR), high.clamp(-FAR, FAR))
    }

    /// Takes `form ≤ 0` for true; false where it can't be.
    pub fn assume(&mut self, form: &Form) -> bool {
        if self.upper(form) <= 0 {
            return true;
        }
        if self.lower(form) > 0 {
            return false;
        }
        let bare =
            Inequality { limit: -form.constant, form: Form { constant: 0, terms: form.terms.clone() } };
        let mut changed = Vec::new();
        if !self.tighten(&bare, &mut changed) {
            return false;
        }
        if bare.form.terms.len() > 1 {
            self.inequalities.push(bare);
        }
        // What became narrower may narrow its neighbours: a quotient, when its numerator was bounded.
        for _ in 0..ROUNDS {
            let moved = std::mem::take(&mut changed);
            if moved.is_empty() {
                break;
            }
            let from = self.inequalities.len().saturating_sub(NEWEST);
            for index in from..self.inequalities.len() {
                let inequality = &self.inequalities[index];
                if !moved.iter().any(|atom| inequality.form.factor(*atom) != 0) {
                    continue;
                }
                let inequality = inequality.clone();
                if !self.tighten(&inequality, &mut changed) {
                    return false;
                }
            }
        }
        true
    }

    /// Narrows the atoms of an inequality as far as the others' bounds allow; false where nothing is left.
    fn tighten(&mut self, inequality: &Inequality, changed: &mut Vec<Atom>) -> bool {
        for (atom, factor) in &inequality.form.terms {
            // factor · atom ≤ limit − (the rest at its least)
            let mut rest = inequality.form.clone();
            rest.terms.retain(|(other, _)| other != atom);
            let left = inequality.limit.saturating_sub(self.plain_bounds(&rest).0);
            let info = self.atoms[*atom as usize];
            let (low, high) = if *factor > 0 {
                (info.low, info.high.min(left.div_euclid(*factor)))
            } else {
                (info.low.max(-(left.div_euclid(-*factor))), info.high)
            };
            if low > high {
                return false;
            }
            if (low, high) != (info.low, info.high) {
                self.undo.push((*atom, info.low, info.high));
                let info = &mut self.atoms[*atom as usize];
                (info.low, info.high) = (low, high);
                changed.push(*atom);
            }
        }
        true
    }

    /// Quotient and remainder of a whole by a positive divisor, the quotient rounded down.
    pub fn divide(&mut self, whole: &Form, divisor: i128) -> (Form, Form) {
        if let Some(exact) = self.divide_exactly(whole, divisor) {
            return exact;
        }
        // Numbers that are too large to reckon with: what the bounds alone say.
        let (low, high) = self.bounds(whole);
        let reason = self.reason(whole);
        let quotient = self.fresh(low.div_euclid(divisor), high.div_euclid(divisor), reason);
        (quotient, self.fresh(0, divisor - 1, reason))
    }

    fn divide_exactly(&mut self, whole: &Form, divisor: i128) -> Option<(Form, Form)> {
        let (outer, inner) = whole.split(divisor);
        let (low, high) = self.bounds(&inner);
        let (first, last) = (low.div_euclid(divisor), high.div_euclid(divisor));
        let join = |quotient: &Form, rest: Form| Some((outer.plus(quotient, 1)?, rest));
        if first == last {
            let rest = inner.shifted(first.checked_mul(-divisor)?)?;
            return join(&Form::constant(first), rest);
        }
        if let Some((.., quotient, rest)) =
            self.divided.iter().find(|(whole, by, ..)| *by == divisor && *whole == inner)
        {
            return join(&quotient.clone(), rest.clone());
        }
        let reason = self.reason(&inner);
        // What divides every factor and the divisor divides the remainder's distance from the constant.
        let step = inner.terms.iter().fold(divisor, |step, (_, factor)| gcd(step, *factor));
        let quotient = self.fresh(first, last, reason);
        let smaller = i128::from(self.fault == Fault::RestsAreSmaller);
        let rest = self.fresh(0, (divisor / step - 1 - smaller).max(0), 0);
        let rest = rest.times(step).and_then(|rest| rest.shifted(inner.constant.rem_euclid(step)))?;
        if let Some((atom, _)) = quotient.terms.first() {
            let known = Division { divisor, whole: inner.clone(), rest: rest.clone() };
            self.divisions.insert(*atom, known);
        }
        let equal =
            quotient.times(divisor).and_then(|q| q.plus(&rest, 1)).and_then(|sum| sum.plus(&inner, -1));
        if let Some(equal) = equal {
            self.note(&equal);
            if let Some(negated) = equal.times(-1) {
                self.note(&negated);
            }
        }
        self.divided.push((inner, divisor, quotient.clone(), rest.clone()));
        join(&quotient, rest)
    }

    /// An inequality that holds by the definition of its atoms.
    pub fn note(&mut self, form: &Form) {
        if form.terms.len() > 1 {
            let bare = Form { constant: 0, terms: form.terms.clone() };
            self.inequalities.push(Inequality { form: bare, limit: -form.constant });
        }
    }

    /// Puts quotients back where that makes a form shorter: `x − 8·(x / 8)` is `x mod 8`.
    pub fn simplify(&self, form: Form) -> Form {
        let mut form = form;
        'again: for _ in 0..4 {
            for (atom, factor) in &form.terms {
                let Some(division) = self.divisions.get(atom) else { continue };
                if factor % division.divisor != 0 {
                    continue;
                }
                let times = factor / division.divisor;
                let shorter = form
                    .plus(&Form::atom(*atom), -factor)
                    .and_then(|form| form.plus(&division.whole, times))
                    .and_then(|form| form.plus(&division.rest, -times));
                if let Some(shorter) = shorter.filter(|shorter| shorter.terms.len() < form.terms.len()) {
                    form = shorter;
                    continue 'again;
                }
            }
            break;
        }
        form
    }

    /// Why a form isn't known better: the reason of the atom that adds most to its width.
    pub fn reason(&self, form: &Form) -> Reason {
        let width = |(atom, factor): &&(Atom, i128)| {
            let info = self.atoms[*atom as usize];
            (info.high - info.low).saturating_mul(factor.abs())
        };
        let with = form.terms.iter().filter(|(atom, _)| self.atoms[*atom as usize].reason != 0);
        with.max_by_key(width).map_or(0, |(atom, _)| self.atoms[*atom as usize].reason)
    }
}

pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
