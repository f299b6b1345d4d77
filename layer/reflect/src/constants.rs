//! What is known of constants: their types, their values, and what operations make of them.
//!
//! A value that isn't here is not known: both sides of what it decides count. So an operation is evaluated only if it is
//! listed, all its operands are known, and the specification says what comes of them: a division by zero, the one signed
//! quotient that doesn't fit, and a shift by the width or more have no value here.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::Op;

use crate::ranges::Fault;
use crate::words::Inst;

/// What is known of constant ids while a module is walked.
#[derive(Default)]
pub(crate) struct Known {
    /// Width in bits of integer types.
    integers: HashMap<u32, u32>,
    bools: HashSet<u32>,
    floats: HashMap<u32, u32>,
    /// Type and value of integer and boolean ids.
    scalars: HashMap<u32, (u32, u64)>,
    /// Constituents of constant composites.
    composites: HashMap<u32, Vec<u32>>,
    fault: Fault,
}

/// All bits of a width.
pub(crate) fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// A number of a width, read as signed.
fn signed(value: u64, width: u32) -> i64 {
    let shift = 64 - width.clamp(1, 64);
    ((value << shift) as i64) >> shift
}

impl Known {
    pub fn new(fault: Fault) -> Known {
        Known { fault, ..Known::default() }
    }

    /// Takes in a type.
    pub fn take_type(&mut self, inst: &Inst<'_>) {
        match inst.op() {
            Some(Op::TypeInt) => drop(self.integers.insert(inst.word(1), inst.word(2))),
            Some(Op::TypeFloat) => drop(self.floats.insert(inst.word(1), inst.word(2))),
            Some(Op::TypeBool) => drop(self.bools.insert(inst.word(1))),
            _ => {}
        }
    }

    /// Width in bits of numbers of a type; `VkBool32` is what is given for a boolean.
    pub fn given_width(&self, ty: u32) -> Option<u32> {
        let width = self.integers.get(&ty).or_else(|| self.floats.get(&ty)).copied();
        width.or_else(|| self.bools.contains(&ty).then_some(32))
    }

    pub fn is_bool(&self, ty: u32) -> bool {
        self.bools.contains(&ty)
    }

    /// How many words a literal of an integer type has.
    pub fn words(&self, ty: u32) -> usize {
        if self.integers.get(&ty).is_some_and(|width| *width > 32) { 2 } else { 1 }
    }

    /// The value of a scalar.
    pub fn value(&self, id: u32) -> Option<u64> {
        self.scalars.get(&id).map(|(_, value)| *value)
    }

    /// Notes a constant, of which any value may be given that its type takes.
    pub fn note(&mut self, ty: u32, id: u32, value: u64) {
        if let Some(width) = self.integers.get(&ty) {
            self.scalars.insert(id, (ty, self.cut(value, *width)));
        } else if self.bools.contains(&ty) {
            self.scalars.insert(id, (ty, u64::from(value != 0)));
        }
    }

    /// Notes the constituents of a composite.
    pub fn compose(&mut self, id: u32, parts: &[u32]) {
        self.composites.insert(id, parts.to_vec());
    }

    /// Evaluates an instruction in a function, if its result is one that is followed and not known yet.
    pub fn evaluate_instruction(&mut self, inst: &Inst<'_>) {
        let (Some((ty, id)), Some(op)) = (inst.result(), inst.op()) else { return };
        if ty == 0 || self.scalars.contains_key(&id) {
            return;
        }
        let value = match op {
            Op::CompositeExtract => self.part(inst.word(3), inst.from(4)),
            op => self.evaluate(op, ty, inst.from(3)),
        };
        if let Some(value) = value {
            self.note(ty, id, value);
        }
    }

    /// The scalar in a constant composite.
    pub fn part(&self, mut at: u32, indices: &[u32]) -> Option<u64> {
        for index in indices {
            at = *self.composites.get(&at)?.get(*index as usize)?;
        }
        self.value(at)
    }

    fn cut(&self, value: u64, width: u32) -> u64 {
        if self.fault == Fault::WidthsIgnored { value } else { value & mask(width) }
    }

    /// The value of an operation whose operands are known; nothing for what isn't listed or isn't defined.
    pub fn evaluate(&self, op: Op, ty: u32, operands: &[u32]) -> Option<u64> {
        let width = match self.integers.get(&ty) {
            Some(width) => *width,
            None if self.bools.contains(&ty) => 1,
            None => return None,
        };
        let value = |index: usize| self.value(*operands.get(index)?);
        let signed = |index: usize| {
            let (ty, value) = self.scalars.get(operands.get(index)?)?;
            Some(signed(*value, *self.integers.get(ty)?))
        };
        if op == Op::Select {
            return value(if value(0)? != 0 { 1 } else { 2 });
        }
        if matches!(op, Op::CopyObject | Op::UConvert | Op::Bitcast) {
            return Some(self.cut(value(0)?, width));
        }
        let shift = |f: fn(u64, u32) -> u64| {
            let by = value(1)?;
            (by < u64::from(width)).then(|| Some(f(value(0)?, by as u32))).flatten()
        };
        // −2^(width − 1) / −1 doesn't fit, and neither the quotient nor the remainder is defined then.
        let divided = |f: fn(i64, i64) -> Option<i64>| {
            let (a, b) = (signed(0)?, signed(1)?);
            let overflows = b == -1 && a == i64::MIN >> (64 - width.clamp(1, 64));
            if overflows { None } else { f(a, b) }
        };
        let truth = |truth: bool| Some(u64::from(truth));
        let result = match op {
            Op::SConvert => signed(0)? as u64,
            Op::IAdd => value(0)?.wrapping_add(value(1)?),
            Op::ISub => value(0)?.wrapping_sub(value(1)?),
            Op::IMul => value(0)?.wrapping_mul(value(1)?),
            Op::SNegate => value(0)?.wrapping_neg(),
            Op::Not => !value(0)?,
            Op::UDiv => value(0)?.checked_div(value(1)?)?,
            Op::UMod => value(0)?.checked_rem(value(1)?)?,
            Op::SDiv => divided(i64::checked_div)? as u64,
            Op::SRem => divided(i64::checked_rem)? as u64,
            Op::SMod => {
                let (b, rem) = (signed(1)?, divided(i64::checked_rem)?);
                (if rem != 0 && (rem < 0) != (b < 0) { rem + b } else { rem }) as u64
            }
            Op::ShiftLeftLogical => shift(|a, by| a << by)?,
            Op::ShiftRightLogical => shift(|a, by| a >> by)?,
            Op::ShiftRightArithmetic => {
                let by = value(1)?;
                (by < u64::from(width)).then_some(signed(0)?)?.wrapping_shr(by as u32) as u64
            }
            Op::BitwiseAnd | Op::LogicalAnd => value(0)? & value(1)?,
            Op::BitwiseOr | Op::LogicalOr => value(0)? | value(1)?,
            Op::BitwiseXor | Op::LogicalNotEqual => value(0)? ^ value(1)?,
            Op::LogicalEqual | Op::IEqual => return truth(value(0)? == value(1)?),
            Op::LogicalNot => return truth(value(0)? == 0),
            Op::INotEqual => return truth(value(0)? != value(1)?),
            Op::ULessThan => return truth(value(0)? < value(1)?),
            Op::ULessThanEqual => return truth(value(0)? <= value(1)?),
            Op::UGreaterThan => return truth(value(0)? > value(1)?),
            Op::UGreaterThanEqual => return truth(value(0)? >= value(1)?),
            Op::SLessThan => return truth(signed(0)? < signed(1)?),
            Op::SLessThanEqual => return truth(signed(0)? <= signed(1)?),
            Op::SGreaterThan => return truth(signed(0)? > signed(1)?),
            Op::SGreaterThanEqual => return truth(signed(0)? >= signed(1)?),
            _ => return None,
        };
        Some(self.cut(result, width))
    }
}
