//! What each node's value can be: the transfer functions of the analysis.
//!
//! A node's form is *congruent* to its value modulo 2^width, so sums may wrap in between without losing anything. Where
//! the number itself is needed (comparisons, divisions, indices), `exact` shows that the form lies within the width, or
//! gives it up for an atom that may be anything.

use super::form::Form;
use super::program::{Binary as B, Input, Node, Unary as U, Value};
use super::semantics::mask;
use super::state::gcd;
use super::walk::Walk;

impl Walk<'_> {
    pub fn bits(&self, value: Value) -> u8 {
        self.program().nodes[value as usize].bits
    }

    pub fn form(&self, value: Value) -> &Form {
        &self.forms[value as usize]
    }

    /// Any value of a width.
    pub fn any(&mut self, bits: u8, reason: u32) -> Form {
        self.state.fresh(0, i128::from(mask(bits)), reason)
    }

    /// The form that is the value itself, as unsigned or signed.
    pub fn exact(&mut self, value: Value, signed: bool) -> Form {
        let bits = self.bits(value);
        let form = self.forms[value as usize].clone();
        self.exact_form(&form, bits, signed).unwrap_or_else(|| {
            let reason = self.state.reason(&form).max(self.wrap);
            let (low, high) = window(bits, signed);
            self.state.fresh(low, high, reason)
        })
    }

    /// A form congruent to `form` that stays within the width, if the bounds show that there is one.
    fn exact_form(&self, form: &Form, bits: u8, signed: bool) -> Option<Form> {
        let (least, most) = window(bits, signed);
        // Mostly the atoms' own bounds do.
        let (low, high) = self.state.plain_bounds(form);
        if low >= least && high <= most {
            return Some(form.clone());
        }
        let (low, high) = self.state.bounds(form);
        if low >= least && high <= most {
            return Some(form.clone());
        }
        let modulus = 1i128 << bits;
        let turns = (low - least).div_euclid(modulus);
        ((high - least).div_euclid(modulus) == turns).then(|| form.shifted(-turns * modulus)).flatten()
    }

    /// As `exact`, and the value is that form from here on: what a comparison proves must reach its later uses.
    pub fn pin(&mut self, value: Value, signed: bool) -> Form {
        let form = self.exact(value, signed);
        self.forms[value as usize] = form.clone();
        form
    }

    /// Evaluates a node that is no phi.
    pub fn evaluate(&mut self, value: Value) {
        let compiled = self.compiled;
        let typed = &compiled.program.nodes[value as usize];
        let bits = typed.bits;
        // In a loop's next walk its earlier value counts no more, or a truth would confirm itself.
        self.done[value as usize] = false;
        let form = match &typed.node {
            Node::Const(constant) => Form::constant(i128::from(*constant)),
            Node::Push(offset) => self.push(*offset, bits),
            Node::Input(input) => self.input(*input),
            Node::Range(low, high) => self.state.fresh(i128::from(*low), i128::from(*high), 0),
            Node::Unknown(reason) => self.any(bits, *reason),
            Node::Un(op, a) if bits > 1 || *op != U::Not => self.unary(*op, *a, bits),
            Node::Bin(op, a, b) if bits > 1 => self.binary(*op, *a, *b, bits),
            Node::FastDiv { n, magic, shift, sum } => self.fast_division(*n, *magic, *shift, *sum),
            Node::Select(condition, a, b) if bits > 1 => self.select(*condition, *a, *b, bits),
            Node::Phi(_) => return,
            // Truths.
            _ => match self.decide(value) {
                Some(truth) => Form::constant(i128::from(truth)),
                None => self.any(1, 0),
            },
        };
        self.forms[value as usize] = self.state.simplify(form.reduced(bits));
    }

    fn push(&mut self, offset: u32, bits: u8) -> Form {
        let start = offset as usize;
        let bytes = start.checked_add(usize::from(bits.div_ceil(8)));
        match bytes.and_then(|end| self.dispatch.push_constants.get(start..end)) {
            Some(bytes) => {
                let value = bytes.iter().rev().fold(0i128, |value, byte| value << 8 | i128::from(*byte));
                Form::constant(value)
            }
            None => self.any(bits, self.missing_push),
        }
    }

    fn input(&mut self, input: Input) -> Form {
        let size = self.compiled.program.local_size;
        match input {
            Input::WorkgroupId(axis) => {
                let (base, count) = (self.dispatch.base[axis as usize], self.dispatch.groups[axis as usize]);
                let first = i128::from(base);
                self.state.fresh(first, first + i128::from(count) - 1, 0)
            }
            Input::LocalId(axis) => self.state.fresh(0, i128::from(size[axis as usize]) - 1, 0),
            Input::GroupCount(axis) => Form::constant(i128::from(self.dispatch.groups[axis as usize])),
        }
    }

    fn unary(&mut self, op: U, a: Value, bits: u8) -> Form {
        match op {
            U::Negate | U::Not => {
                let negated = self.form(a).times(-1);
                let by = if op == U::Not { -1 } else { 0 };
                match negated.and_then(|form| form.shifted(by)) {
                    Some(form) => form,
                    None => self.any(bits, self.wrap),
                }
            }
            U::ZeroExtend => self.exact(a, false),
            U::SignExtend => self.exact(a, true),
            U::Truncate => self.form(a).clone(),
            U::Among => {
                let exact = self.exact(a, false);
                if exact.known().is_some() {
                    return exact;
                }
                let ((low, high), reason) = (self.state.bounds(&exact), self.state.reason(&exact));
                let _ = bits;
                self.state.fresh(low, high, reason)
            }
        }
    }

    fn binary(&mut self, op: B, a: Value, b: Value, bits: u8) -> Form {
        let lost = |walk: &mut Self| {
            let reason = walk.state.reason(walk.form(a)).max(walk.state.reason(walk.form(b)));
            walk.any(bits, reason.max(walk.wrap))
        };
        let result = match op {
            B::Add => self.form(a).plus(self.form(b), 1),
            B::Sub => self.form(a).plus(self.form(b), -1),
            B::Mul => self.product(a, b, bits),
            B::MulHigh => {
                let (x, y) = (self.exact(a, false), self.exact(b, false));
                match (x.known(), y.known()) {
                    (Some(k), _) => y.times(k).map(|product| self.state.divide(&product, 1 << bits).0),
                    (_, Some(k)) => x.times(k).map(|product| self.state.divide(&product, 1 << bits).0),
                    _ => None,
                }
            }
            B::UDiv | B::UMod | B::SDiv | B::SRem | B::SMod => self.division(op, a, b),
            B::Shl => match self.form(b).known().filter(|by| (0..i128::from(bits)).contains(by)) {
                Some(by) => self.form(a).times(1 << by),
                None => {
                    let (x, y) = (self.exact(a, false), self.exact(b, false));
                    let ((x_low, x_high), (y_low, y_high)) = (self.state.bounds(&x), self.state.bounds(&y));
                    let fits =
                        y_low >= 0 && y_high < i128::from(bits) && x_high < 1 << (i128::from(bits) - y_high);
                    let reason = self.state.reason(&x).max(self.state.reason(&y));
                    fits.then(|| self.state.fresh(x_low << y_low, x_high << y_high, reason))
                }
            },
            B::Shr | B::Sar => {
                let (x, y) = (self.exact(a, op == B::Sar), self.exact(b, false));
                match y.known() {
                    Some(by) if (0..i128::from(bits)).contains(&by) => Some(self.state.divide(&x, 1 << by).0),
                    Some(_) => None,
                    None => {
                        let ((low, high), (least, most)) = (self.state.bounds(&x), self.state.bounds(&y));
                        let fits = least >= 0 && most < i128::from(bits) && low >= 0;
                        let reason = self.state.reason(&x).max(self.state.reason(&y));
                        fits.then(|| self.state.fresh(low >> most, high >> least, reason))
                    }
                }
            }
            B::And | B::Or | B::Xor => self.bitwise(op, a, b, bits),
            B::UMin | B::UMax | B::SMin | B::SMax => Some(self.extreme(op, a, b)),
            B::Eq | B::Ne | B::ULt | B::ULe | B::SLt | B::SLe => None,
        };
        result.unwrap_or_else(|| lost(self))
    }

    fn product(&mut self, a: Value, b: Value, bits: u8) -> Option<Form> {
        match (self.form(a).known(), self.form(b).known()) {
            (Some(k), _) => return self.form(b).clone().reduced(bits).times(k),
            (_, Some(k)) => return self.form(a).clone().reduced(bits).times(k),
            _ => {}
        }
        for signed in [false, true] {
            let (fa, fb) = (self.form(a).clone(), self.form(b).clone());
            let (Some(x), Some(y)) = (self.exact_form(&fa, bits, signed), self.exact_form(&fb, bits, signed))
            else {
                continue;
            };
            let ((xl, xh), (yl, yh)) = (self.state.bounds(&x), self.state.bounds(&y));
            let corners = [(xl, yl), (xl, yh), (xh, yl), (xh, yh)].map(|(a, b)| a.checked_mul(b));
            let [Some(a), Some(b), Some(c), Some(d)] = corners else { continue };
            let (low, high) = (a.min(b).min(c).min(d), a.max(b).max(c).max(d));
            let (least, most) = window(bits, signed);
            if low >= least && high <= most {
                let reason = self.state.reason(&x).max(self.state.reason(&y));
                let product = self.state.fresh(low, high, reason);
                // x·y lies between the lines x·y_low, x·y_high and their mirror images.
                if xl >= 0 && yl >= 0 {
                    for (line, factor, above) in
                        [(&x, yh, true), (&y, xh, true), (&x, yl, false), (&y, xl, false)]
                    {
                        let difference = product.plus(line, -factor);
                        let difference =
                            if above { difference } else { difference.and_then(|form| form.times(-1)) };
                        if let Some(difference) = difference {
                            self.state.note(&difference);
                        }
                    }
                }
                return Some(product);
            }
        }
        None
    }

    fn division(&mut self, op: B, a: Value, b: Value) -> Option<Form> {
        let signed = !matches!(op, B::UDiv | B::UMod);
        let quotient = matches!(op, B::UDiv | B::SDiv);
        let (x, y) = (self.exact(a, signed), self.exact(b, signed));
        let ((xl, xh), (yl, yh)) = (self.state.bounds(&x), self.state.bounds(&y));
        let reason = self.state.reason(&x).max(self.state.reason(&y));
        if yl <= 0 {
            return None;
        }
        if xl >= 0 || op == B::SMod {
            if yl == yh {
                let (q, r) = self.state.divide(&x, yl);
                return Some(if quotient { q } else { r });
            }
            if quotient {
                return Some(self.state.fresh(xl / yh, xh / yl, reason));
            }
            let most = if xl >= 0 { xh.min(yh - 1) } else { yh - 1 };
            return Some(if xl >= 0 && xh < yl { x } else { self.state.fresh(0, most, reason) });
        }
        // Towards zero, the numerator's sign open.
        if quotient {
            return Some(self.state.fresh((xl / yl).min(xl / yh), (xh / yl).max(xh / yh), reason));
        }
        Some(self.state.fresh(xl.max(1 - yh), xh.max(0).min(yh - 1), reason))
    }

    /// `(mulhi(n, magic) + n) >> shift`: exactly `n / d` for the `d` that the numbers stand for, as far as `n` reaches.
    ///
    /// With M = 2^32 + magic the result is ⌊n·M / 2^(32+shift)⌋, as long as the sum doesn't wrap. For d = ⌈2^(32+shift) / M⌉
    /// and e = M·d − 2^(32+shift) this is ⌊n/d + n·e / (d·2^(32+shift))⌋, which is ⌊n/d⌋ when n·e < 2^(32+shift)
    /// (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994).
    fn fast_division(&mut self, n: Value, magic: Value, shift: Value, sum: Value) -> Form {
        let whole = self.exact(n, false);
        let most = self.state.upper(&whole);
        if let (Some(magic), Some(shift)) = (self.form(magic).known(), self.form(shift).known())
            && (0..32).contains(&shift)
            && ((most * magic) >> 32) + most < 1 << 32
        {
            let (factor, power) = ((1i128 << 32) + magic, 1i128 << (32 + shift));
            let divisor = (power + factor - 1) / factor;
            let error = factor * divisor - power;
            if most * error < power {
                return self.state.divide(&whole, divisor).0;
            }
        }
        self.binary(B::Shr, sum, shift, 32)
    }

    fn bitwise(&mut self, op: B, a: Value, b: Value, bits: u8) -> Option<Form> {
        let (mut x, mut y) = (self.exact(a, false), self.exact(b, false));
        if x.known().is_some() {
            (x, y) = (y, x);
        }
        let ((xl, xh), (yl, yh)) = (self.state.bounds(&x), self.state.bounds(&y));
        let reason = self.state.reason(&x).max(self.state.reason(&y));
        if let (Some(x), Some(y)) = (x.known(), y.known()) {
            return Some(Form::constant(match op {
                B::And => x & y,
                B::Or => x | y,
                _ => x ^ y,
            }));
        }
        if op == B::And {
            let Some(bit_mask) = y.known() else {
                return Some(self.state.fresh(0, xh.min(yh), reason));
            };
            if bit_mask == 0 {
                return Some(Form::constant(0));
            }
            let low = 1i128 << bit_mask.trailing_zeros();
            let inner = bit_mask / low + 1;
            if bit_mask + low == 1i128 << bits {
                // Upper bits only: what is below them goes.
                let (_, rest) = self.state.divide(&x, low);
                return x.plus(&rest, -1);
            }
            if inner.count_ones() == 1 {
                let (upper, _) = self.state.divide(&x, low);
                let (_, middle) = self.state.divide(&upper, inner);
                return middle.times(low);
            }
            return Some(self.state.fresh(0, xh.min(bit_mask), reason));
        }
        // Disjoint bits add up.
        if yh < alignment(&x) || xh < alignment(&y) {
            return x.plus(&y, 1);
        }
        let all = (1i128 << (128 - (xh | yh).leading_zeros())) - 1;
        let least = if op == B::Or { xl.max(yl) } else { 0 };
        Some(self.state.fresh(least, all, reason))
    }

    fn extreme(&mut self, op: B, a: Value, b: Value) -> Form {
        let signed = matches!(op, B::SMin | B::SMax);
        let smaller = matches!(op, B::UMin | B::SMin);
        let (x, y) = (self.exact(a, signed), self.exact(b, signed));
        let Some(difference) = x.plus(&y, -1) else { return self.any(self.bits(a), self.wrap) };
        let (low, high) = self.state.bounds(&difference);
        if high <= 0 {
            return if smaller { x } else { y };
        }
        if low >= 0 {
            return if smaller { y } else { x };
        }
        let ((xl, xh), (yl, yh)) = (self.state.bounds(&x), self.state.bounds(&y));
        // A minimum is only as unknown as the better known of the two.
        let reason = match (self.state.reason(&x), self.state.reason(&y)) {
            (0, _) | (_, 0) => 0,
            (x, _) => x,
        };
        let (low, high) = if smaller { (xl.min(yl), xh.min(yh)) } else { (xl.max(yl), xh.max(yh)) };
        let result = self.state.fresh(low, high, reason);
        for operand in [&x, &y] {
            let difference = if smaller { result.plus(operand, -1) } else { operand.plus(&result, -1) };
            if let Some(difference) = difference {
                self.state.note(&difference);
            }
        }
        result
    }

    fn select(&mut self, condition: Value, a: Value, b: Value, bits: u8) -> Form {
        if let Some(truth) = self.decide(condition) {
            return self.form(if truth { a } else { b }).clone();
        }
        let mut found = Vec::new();
        for (truth, value) in [(true, a), (false, b)] {
            let mark = self.state.mark();
            if self.refine(condition, truth) {
                let form = self.form(value).clone();
                let bounds = self.state.bounds(&form);
                found.push((form, bounds));
            }
            self.state.back(mark);
        }
        self.join(&found, bits)
    }

    /// One of several values, each with the bounds that it has where it comes from.
    pub fn join(&mut self, found: &[(Form, (i128, i128))], bits: u8) -> Form {
        let Some(((first, _), others)) = found.split_first() else { return self.any(bits, 0) };
        if others.iter().all(|(form, _)| form == first) {
            return first.clone();
        }
        if !first.terms.is_empty() && others.iter().all(|(form, _)| form.terms == first.terms) {
            let constants = found.iter().map(|(form, _)| form.constant);
            let (low, high) = constants.fold((i128::MAX, i128::MIN), |(l, h), c| (l.min(c), h.max(c)));
            let apart = self.state.fresh(0, high - low, 0);
            let base = Form { constant: low, terms: first.terms.clone() };
            return base.plus(&apart, 1).unwrap_or_else(|| self.any(bits, self.wrap));
        }
        let reason = found.iter().map(|(form, _)| self.state.reason(form)).max().unwrap_or(0);
        // Whichever reading makes the hull narrower.
        let hull = |signed: bool| {
            found.iter().try_fold((i128::MAX, i128::MIN), |(low, high), (_, (l, h))| {
                let (least, most) = window(bits, signed);
                let modulus = 1i128 << bits;
                let turns = (l - least).div_euclid(modulus) * modulus;
                (h - turns <= most).then(|| (low.min(l - turns), high.max(h - turns)))
            })
        };
        let narrower = [hull(false), hull(true)].into_iter().flatten().min_by_key(|(low, high)| high - low);
        match narrower {
            Some((low, high)) => self.state.fresh(low, high, reason),
            None => self.any(bits, reason.max(self.wrap)),
        }
    }
}

/// The numbers of a width. A module that is not valid may declare one that no integer has; what comes of that is of no use to
/// anybody, but must come.
pub(crate) fn window(bits: u8, signed: bool) -> (i128, i128) {
    let bits = bits.clamp(1, 126);
    if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) }
}

/// The largest power of two that divides all that a form can be.
fn alignment(form: &Form) -> i128 {
    let all = form.terms.iter().fold(form.constant, |all, (_, factor)| gcd(all, *factor));
    // gcd(0, 0) is 1 there, and a form that is the constant 0 is known and doesn't come here.
    1 << all.trailing_zeros().min(100)
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn a_width_that_no_integer_has_still_has_numbers() {
        for bits in [0, 1, 127, 128, u8::MAX] {
            for signed in [false, true] {
                let (least, most) = window(bits, signed);
                assert!(least <= 0 && most >= 0 && least < most, "{bits} {signed}");
            }
        }
        assert_eq!((window(8, true), window(8, false)), ((-128, 127), (0, 255)));
    }
}
