//! Specialization constants made plain, and what they decide taken out.
//!
//! A pipeline fixes the specialization constants of its module. What is left undecided costs precision: both sides of
//! a branch count, a descriptor array indexed by a constant is reached everywhere. So the words are rewritten before
//! they are taken apart: specialization constants become plain constants, operations on them are evaluated, branches
//! on what is then constant become jumps, and blocks that nothing jumps to disappear. The rest of the crate need not
//! know that specialization exists.
//!
//! The result is meant for this crate only: it keeps the merge instructions of branches that became jumps, which a
//! driver would refuse.

use std::collections::{BTreeMap, HashMap, HashSet};

use rspirv::spirv::{Decoration, Op};

use crate::error::ReflectError;
use crate::words::{self, Inst};

/// The values of a pipeline's specialization constants.
///
/// Keys are `SpecId`s, values the bits that `VkSpecializationInfo` gives for them, zero-extended to 64 bits; booleans
/// are true unless zero. A constant that isn't listed keeps its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Specialization {
    values: BTreeMap<u32, u64>,
}

impl Specialization {
    /// No constant is changed.
    pub fn none() -> Specialization {
        Specialization::default()
    }

    /// Sets one constant; `bits` is its value, zero-extended.
    pub fn set(&mut self, id: u32, bits: u64) {
        self.values.insert(id, bits);
    }

    /// The value of one constant, where it is set.
    pub fn get(&self, id: u32) -> Option<u64> {
        self.values.get(&id).copied()
    }

    /// All constants that are set, by their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.values.iter().map(|(id, bits)| (*id, *bits))
    }

    /// From the fields of `VkSpecializationInfo`: (`constantID`, `offset`, `size`) of each map entry, and the data.
    ///
    /// Entries that reach past the data or are longer than 8 bytes are left out, so that their constants keep their
    /// defaults; a valid application has none.
    pub fn from_entries(
        entries: impl IntoIterator<Item = (u32, usize, usize)>,
        data: &[u8],
    ) -> Specialization {
        let mut specialization = Specialization::default();
        for (id, offset, size) in entries {
            let bytes = offset.checked_add(size).and_then(|end| data.get(offset..end));
            if let Some(bytes) = bytes.filter(|bytes| bytes.len() <= 8) {
                let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                specialization.set(id, bits);
            }
        }
        specialization
    }
}

impl FromIterator<(u32, u64)> for Specialization {
    fn from_iter<I: IntoIterator<Item = (u32, u64)>>(values: I) -> Specialization {
        Specialization { values: values.into_iter().collect() }
    }
}

/// What is known of constant ids while the module is walked.
#[derive(Default)]
struct Known {
    /// Width in bits of integer types.
    integers: HashMap<u32, u32>,
    bools: HashSet<u32>,
    /// Type and value of integer and boolean ids.
    scalars: HashMap<u32, (u32, u64)>,
    /// Constituents of constant composites.
    composites: HashMap<u32, Vec<u32>>,
}

/// Rewrites a module for one pipeline.
///
/// # Errors
///
/// When the words are no sequence of instructions.
pub(crate) fn specialize(words: &[u32], specialization: &Specialization) -> Result<Vec<u32>, ReflectError> {
    let (_, instructions) = words::split(words)?;
    let mut spec_ids = HashMap::new();
    for inst in &instructions {
        if inst.op() == Some(Op::Decorate) && inst.word(2) == Decoration::SpecId as u32 {
            spec_ids.insert(inst.word(1), inst.word(3));
        }
    }
    let mut known = Known::default();
    let mut out = words.get(..5).unwrap_or(words).to_vec();
    let mut rest = instructions.as_slice();
    while let Some((inst, tail)) = rest.split_first() {
        if inst.op() == Some(Op::Function) {
            let end = rest.iter().position(|inst| inst.op() == Some(Op::FunctionEnd));
            let (body, tail) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            function(&mut known, body, &mut out);
            rest = tail;
        } else {
            declaration(&mut known, inst, &spec_ids, specialization, &mut out);
            rest = tail;
        }
    }
    Ok(out)
}

fn emit(out: &mut Vec<u32>, op: Op, operands: &[u32]) {
    // No instruction made here is longer than the one it replaces.
    out.push((operands.len() as u32 + 1) << 16 | op as u32);
    out.extend_from_slice(operands);
}

fn declaration(
    known: &mut Known,
    inst: &Inst<'_>,
    spec_ids: &HashMap<u32, u32>,
    specialization: &Specialization,
    out: &mut Vec<u32>,
) {
    let (ty, id) = (inst.word(1), inst.word(2));
    let chosen = spec_ids.get(&id).and_then(|spec| specialization.get(*spec));
    match inst.op() {
        Some(Op::Decorate) if inst.word(2) == Decoration::SpecId as u32 => return,
        Some(Op::TypeInt) => {
            known.integers.insert(inst.word(1), inst.word(2));
        }
        Some(Op::TypeBool) => {
            known.bools.insert(inst.word(1));
        }
        Some(op @ (Op::SpecConstantTrue | Op::SpecConstantFalse)) => {
            let value = chosen.map_or(op == Op::SpecConstantTrue, |bits| bits & 0xffff_ffff != 0);
            known.scalars.insert(id, (ty, u64::from(value)));
            return emit(out, if value { Op::ConstantTrue } else { Op::ConstantFalse }, &[ty, id]);
        }
        Some(Op::SpecConstant) => {
            let default = u64::from(inst.word(3)) | u64::from(inst.word(4)) << 32;
            let value = chosen.unwrap_or(default);
            known.integer(ty, id, value);
            let literals = [value as u32, (value >> 32) as u32];
            let literals = &literals[..inst.from(3).len().min(2)];
            return emit(out, Op::Constant, &[&[ty, id], literals].concat());
        }
        Some(op @ (Op::SpecConstantComposite | Op::ConstantComposite)) => {
            known.composites.insert(id, inst.from(3).to_vec());
            if op == Op::SpecConstantComposite {
                return emit(out, Op::ConstantComposite, inst.from(1));
            }
        }
        Some(Op::SpecConstantOp) => {
            let value = match Op::from_u32(inst.word(3)) {
                Some(Op::CompositeExtract) => known.part(inst.word(4), inst.from(5)),
                Some(op) => known.evaluate(op, ty, inst.from(4)),
                None => None,
            };
            if let Some(value) = value {
                known.scalars.insert(id, (ty, value));
                if known.bools.contains(&ty) {
                    let op = if value != 0 { Op::ConstantTrue } else { Op::ConstantFalse };
                    return emit(out, op, &[ty, id]);
                }
                let literals = [value as u32, (value >> 32) as u32];
                let count = if known.integers.get(&ty) == Some(&64) { 2 } else { 1 };
                return emit(out, Op::Constant, &[&[ty, id], &literals[..count]].concat());
            }
        }
        Some(Op::Constant) => {
            known.integer(ty, id, u64::from(inst.word(3)) | u64::from(inst.word(4)) << 32);
        }
        Some(Op::ConstantNull) => known.integer(ty, id, 0),
        Some(op @ (Op::ConstantTrue | Op::ConstantFalse)) => {
            known.scalars.insert(id, (ty, u64::from(op == Op::ConstantTrue)));
        }
        _ => {}
    }
    copy(out, inst);
}

fn copy(out: &mut Vec<u32>, inst: &Inst<'_>) {
    out.extend_from_slice(inst.from(0));
}

/// Where a block's last instruction goes to, as far as it is decided.
fn targets(known: &Known, last: &Inst<'_>) -> (Vec<u32>, Option<u32>) {
    match last.op() {
        Some(Op::Branch) => (vec![last.word(1)], None),
        Some(Op::BranchConditional) => match known.scalars.get(&last.word(1)) {
            Some((_, value)) => {
                let target = last.word(if *value != 0 { 2 } else { 3 });
                (vec![target], Some(target))
            }
            None => (vec![last.word(2), last.word(3)], None),
        },
        Some(Op::Switch) => {
            let selector = known.scalars.get(&last.word(1)).copied();
            let wide = known.width_of(last.word(1)) == Some(64);
            let cases = last.from(3).chunks_exact(if wide { 3 } else { 2 });
            match selector {
                Some((_, value)) if !wide => {
                    // Narrow selectors' literals are sign-extended to a word.
                    let mask = known.width_of(last.word(1)).map_or(u64::MAX, mask);
                    let found = cases.clone().find(|case| u64::from(case[0]) & mask == value & mask);
                    let target = found.map_or(last.word(2), |case| case[1]);
                    (vec![target], Some(target))
                }
                _ => {
                    // A 64-bit selector isn't followed; taking one literal's words for targets is harmless.
                    let mut all = vec![last.word(2)];
                    all.extend(last.from(3));
                    (all, None)
                }
            }
        }
        _ => (Vec::new(), None),
    }
}

/// Folds what is constant in a function and leaves out blocks that can't be reached.
fn function(known: &mut Known, body: &[Inst<'_>], out: &mut Vec<u32>) {
    // What constants decide; a second round sees constants whose block stood after their use in the text.
    for _ in 0..2 {
        for inst in body {
            let (Some((ty, id)), Some(op)) = (inst.result(), inst.op()) else { continue };
            if ty == 0 || known.scalars.contains_key(&id) {
                continue;
            }
            if op == Op::CompositeExtract {
                if let Some(value) = known.part(inst.word(3), inst.from(4)) {
                    known.scalars.insert(id, (ty, value));
                }
            } else if let Some(value) = known.evaluate(op, ty, inst.from(3)) {
                known.scalars.insert(id, (ty, value));
            }
        }
    }
    // Blocks: label, first instruction, terminator.
    let mut blocks: HashMap<u32, usize> = HashMap::new();
    for (index, inst) in body.iter().enumerate() {
        if inst.op() == Some(Op::Label) {
            blocks.insert(inst.word(1), index);
        }
    }
    let last_of = |start: usize| {
        let next = body[start + 1..].iter().position(|i| matches!(i.op(), Some(Op::Label | Op::FunctionEnd)));
        next.map_or(body.len() - 1, |next| start + next)
    };
    let mut edges: HashSet<(u32, u32)> = HashSet::new();
    let mut reached: HashSet<u32> = HashSet::new();
    let first = body.iter().find(|inst| inst.op() == Some(Op::Label)).map(|inst| inst.word(1));
    let mut open: Vec<u32> = first.into_iter().collect();
    while let Some(label) = open.pop() {
        let Some(start) = blocks.get(&label) else { continue };
        if reached.insert(label) {
            for target in targets(known, &body[last_of(*start)]).0 {
                edges.insert((label, target));
                open.push(target);
            }
        }
    }
    let mut label = None;
    for (index, inst) in body.iter().enumerate() {
        match inst.op() {
            Some(Op::Label) => label = Some(inst.word(1)),
            Some(Op::FunctionEnd) => label = None,
            _ => {}
        }
        if label.is_some_and(|label| !reached.contains(&label)) {
            continue;
        }
        match inst.op() {
            Some(Op::Phi) => {
                let here = label.unwrap_or(0);
                let kept = inst.from(3).chunks_exact(2).filter(|pair| edges.contains(&(pair[1], here)));
                let kept: Vec<u32> = kept.flatten().copied().collect();
                emit(out, Op::Phi, &[&[inst.word(1), inst.word(2)], kept.as_slice()].concat());
            }
            Some(Op::BranchConditional | Op::Switch) => match targets(known, &body[index]).1 {
                Some(target) => emit(out, Op::Branch, &[target]),
                None => copy(out, inst),
            },
            _ => copy(out, inst),
        }
    }
}

fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

impl Known {
    fn integer(&mut self, ty: u32, id: u32, value: u64) {
        if let Some(width) = self.integers.get(&ty) {
            self.scalars.insert(id, (ty, value & mask(*width)));
        } else if self.bools.contains(&ty) {
            self.scalars.insert(id, (ty, u64::from(value != 0)));
        }
    }

    /// The scalar in a constant composite.
    fn part(&self, mut at: u32, indices: &[u32]) -> Option<u64> {
        for index in indices {
            at = *self.composites.get(&at)?.get(*index as usize)?;
        }
        self.scalars.get(&at).map(|(_, value)| *value)
    }

    fn width_of(&self, id: u32) -> Option<u32> {
        self.integers.get(&self.scalars.get(&id)?.0).copied()
    }

    /// The value of an operation whose operands are known; nothing for what isn't listed or isn't defined.
    fn evaluate(&self, op: Op, ty: u32, operands: &[u32]) -> Option<u64> {
        let width = match self.integers.get(&ty) {
            Some(width) => *width,
            None if self.bools.contains(&ty) => 1,
            None => return None,
        };
        let value = |index: usize| Some(self.scalars.get(operands.get(index)?)?.1);
        let signed = |index: usize| {
            let (ty, value) = self.scalars.get(operands.get(index)?)?;
            let width = self.integers.get(ty).copied()?;
            Some(((value << (64 - width.clamp(1, 64))) as i64) >> (64 - width.clamp(1, 64)))
        };
        if op == Op::Select {
            return value(if value(0)? != 0 { 1 } else { 2 });
        }
        if matches!(op, Op::CopyObject | Op::UConvert | Op::Bitcast) {
            return Some(value(0)? & mask(width));
        }
        let shift = |f: fn(u64, u32) -> u64| {
            let by = value(1)?;
            (by < u64::from(width)).then(|| Some(f(value(0)?, by as u32))).flatten()
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
            Op::SDiv => signed(0)?.checked_div(signed(1)?)? as u64,
            Op::SRem => signed(0)?.checked_rem(signed(1)?)? as u64,
            Op::SMod => {
                let (a, b) = (signed(0)?, signed(1)?);
                let rem = a.checked_rem(b)?;
                (if rem != 0 && (rem < 0) != (b < 0) { rem + b } else { rem }) as u64
            }
            Op::ShiftLeftLogical => shift(|a, by| a << by)?,
            Op::ShiftRightLogical => shift(|a, by| a >> by)?,
            Op::ShiftRightArithmetic => {
                let by = value(1)?;
                (by < u64::from(width)).then_some(signed(0)? >> by)? as u64
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
        Some(result & mask(width))
    }
}
