//! Conditions that are always true or always false, written in many ways, and what they decide.

use fastrand::Rng;
use rspirv::spirv::{Capability, Decoration, Op};

use super::flat::{Block, Flat, inst, op};
use super::odd::{Given, may_be_cut};

/// `SpecId`s from here on are those of made constants.
const FIRST: u32 = 100;

/// A specialization constant of a type, whose default is wrong and whose value the pipeline gives. Its `SpecId` may come
/// through a group.
fn spec(flat: &mut Flat, rng: &mut Rng, given: &mut Given, ty: u32, (width, value): (u32, u64)) -> u32 {
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let wrong = (value ^ rng.u64(1..=mask)) & mask;
    // Narrow signed ones have their sign in all of the word.
    let is_signed = flat.declaration(ty).is_some_and(|ty| ty[3] == 1);
    let extended = |value: u64| match is_signed && width < 32 && value >> (width - 1) & 1 == 1 {
        true => value | !mask,
        false => value,
    };
    let words = [extended(wrong) as u32, (wrong >> 32) as u32];
    let id = flat.declare(Op::SpecConstant, Some(ty), &words[..if width == 64 { 2 } else { 1 }]);
    let number = FIRST + given.len() as u32;
    given.push((number, value & mask, width as usize / 8));
    decorate(flat, rng, id, number);
    id
}

fn decorate(flat: &mut Flat, rng: &mut Rng, id: u32, number: u32) {
    let decoration = Decoration::SpecId as u32;
    if rng.bool() {
        return flat.annotate(inst(Op::Decorate, &[id, decoration, number]));
    }
    let group = flat.id();
    flat.annotate(inst(Op::Decorate, &[group, decoration, number]));
    flat.annotate(inst(Op::DecorationGroup, &[group]));
    flat.annotate(inst(Op::GroupDecorate, &[group, id]));
}

fn integer(flat: &mut Flat, width: u32, signed: bool) -> u32 {
    let capability = match width {
        8 => Some(Capability::Int8),
        16 => Some(Capability::Int16),
        64 => Some(Capability::Int64),
        _ => None,
    };
    if let Some(capability) = capability {
        flat.capability(capability as u32);
    }
    flat.ty(Op::TypeInt, &[width, u32::from(signed)])
}

/// A constant number that is `value` in the pipeline.
pub fn number(flat: &mut Flat, rng: &mut Rng, given: &mut Given, ty: u32, value: u64) -> u32 {
    let width = flat.width(ty).expect("an integer type");
    match rng.u32(0..4) {
        0 => {
            // The right one of two.
            let flag = flag(flat, rng, given, true);
            let right = spec(flat, rng, given, ty, (width, value));
            let wrong = spec(flat, rng, given, ty, (width, value.wrapping_add(1)));
            flat.declare(Op::SpecConstantOp, Some(ty), &[Op::Select as u32, flag, right, wrong])
        }
        1 => {
            // A sum that wraps around.
            let by = rng.u64(..);
            let a = spec(flat, rng, given, ty, (width, value.wrapping_sub(by)));
            let b = spec(flat, rng, given, ty, (width, by));
            flat.declare(Op::SpecConstantOp, Some(ty), &[Op::IAdd as u32, a, b])
        }
        _ => spec(flat, rng, given, ty, (width, value)),
    }
}

/// A boolean constant that has this truth in the pipeline.
pub fn flag(flat: &mut Flat, rng: &mut Rng, given: &mut Given, truth: bool) -> u32 {
    let boolean = flat.ty(Op::TypeBool, &[]);
    match rng.u32(0..4) {
        0 => flat.declare(if truth { Op::ConstantTrue } else { Op::ConstantFalse }, Some(boolean), &[]),
        1 => {
            let wrong = if truth { Op::SpecConstantFalse } else { Op::SpecConstantTrue };
            let id = flat.declare(wrong, Some(boolean), &[]);
            let number = FIRST + given.len() as u32;
            given.push((number, u64::from(truth), 4));
            decorate(flat, rng, id, number);
            id
        }
        kind => {
            // A product or a sum in few bits, which wraps around, against what it is in them.
            let (width, signed) = ([8, 16, 32, 64][rng.usize(0..4)], rng.bool());
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let ty = integer(flat, width, signed);
            let (x, y) = (rng.u64(..) | 1 << (width - 1), rng.u64(..) | 1 << (width - 1));
            let (operation, result) = match kind {
                2 => (Op::IAdd, x.wrapping_add(y)),
                _ => (Op::IMul, x.wrapping_mul(y)),
            };
            let a = spec(flat, rng, given, ty, (width, x & mask));
            let b = spec(flat, rng, given, ty, (width, y & mask));
            let made = flat.declare(Op::SpecConstantOp, Some(ty), &[operation as u32, a, b]);
            let to = spec(flat, rng, given, ty, (width, result & mask));
            let compare = if truth { Op::IEqual } else { Op::INotEqual };
            flat.declare(Op::SpecConstantOp, Some(boolean), &[compare as u32, made, to])
        }
    }
}

/// Cuts blocks in two, with a branch or a switch between the halves that constants decide: what is on the wrong side leaves
/// the function, or comes back.
pub fn branches(flat: &mut Flat, rng: &mut Rng, given: &mut Given) -> bool {
    let mut changed = false;
    for _ in 0..rng.u32(1..4) {
        changed |= branch(flat, rng, given);
    }
    changed
}

fn branch(flat: &mut Flat, rng: &mut Rng, given: &mut Given) -> bool {
    let ranges = flat.function_ranges();
    let nth = rng.usize(0..ranges.len());
    let candidates = |flat: &Flat| {
        let range = flat.function_ranges()[nth];
        let blocks = flat.blocks(range);
        let may: Vec<Block> =
            blocks.iter().copied().filter(|block| may_be_cut(flat, &blocks, *block)).collect();
        (range, may)
    };
    let may = candidates(flat).1;
    if may.is_empty() {
        return false;
    }
    let chosen = rng.usize(0..may.len());
    let [dead, rest] = [flat.id(), flat.id()];
    // Declarations first: they move everything else.
    let decision = match rng.u32(0..3) {
        0 => {
            let (width, signed) = ([8, 16, 32, 64][rng.usize(0..4)], rng.bool());
            let ty = integer(flat, width, signed);
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let value = rng.u64(..) & mask;
            let selector = spec(flat, rng, given, ty, (width, value));
            let word = match signed && width < 32 && value >> (width - 1) & 1 == 1 {
                true => value as u32 | !mask as u32,
                false => value as u32,
            };
            let words = [selector, dead, word, (value >> 32) as u32];
            let literal = if width == 64 { 4 } else { 3 };
            inst(Op::Switch, &[&words[..literal], &[rest]].concat())
        }
        1 => {
            let flag = flag(flat, rng, given, false);
            inst(Op::BranchConditional, &[flag, dead, rest])
        }
        _ => {
            let flag = flag(flat, rng, given, true);
            let weights: &[u32] = if rng.bool() { &[3, 1] } else { &[] };
            inst(Op::BranchConditional, &[&[flag, rest, dead], weights].concat())
        }
    };
    let (range, may) = candidates(flat);
    let block = may[chosen];
    let (first, last) = (flat.behind_head(block), flat.tail(block));
    let at = rng.usize(first..=last.max(first));
    // Only at the end of the innermost construct may a function be left; in a loop's rounds it may not.
    let leaves = rng.u32(0..3) != 0;
    let returns = flat.insts[range.0..range.1].iter().any(|i| op(i) == Some(Op::Return));
    let end = match (leaves, returns) {
        (false, _) => inst(Op::Branch, &[rest]),
        (true, true) => inst(Op::Return, &[]),
        (true, false) => inst(Op::Unreachable, &[]),
    };
    // What came from the block comes from its second half.
    for i in &mut flat.insts[range.0..range.1] {
        if op(i) == Some(Op::Phi) {
            i.iter_mut()
                .skip(4)
                .step_by(2)
                .filter(|from| **from == block.label)
                .for_each(|from| *from = rest);
        }
    }
    let between = [
        inst(Op::SelectionMerge, &[rest, 0]),
        decision,
        inst(Op::Label, &[dead]),
        end,
        inst(Op::Label, &[rest]),
    ];
    flat.insts.splice(at..at, between);
    true
}
