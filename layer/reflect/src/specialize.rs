//! Specialization constants made plain, and what they decide taken out.
//!
//! A pipeline fixes the specialization constants of its module. What is left undecided costs precision: both sides of
//! a branch count, a descriptor array indexed by a constant is reached everywhere. So the words are rewritten before
//! they are taken apart: specialization constants become plain constants, operations on them are evaluated, branches
//! on what is then constant become jumps, and blocks that nothing jumps to disappear. The rest of the crate need not
//! know that specialization exists.
//!
//! What goes must be proved to go. A function whose blocks are not understood keeps all of them, and the module is
//! unknown; a constant whose value isn't certain stays a specialization constant, which is any value to the rest.
//!
//! The result is meant for this crate only: it keeps the merge instructions of branches that became jumps, which a
//! driver would refuse.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::{Decoration, Op};

use crate::blocks::{Block, Context, Terminator, blocks};
use crate::constants::Known;
use crate::decorations::Decorations;
use crate::error::ReflectError;
use crate::ranges::Fault;
use crate::specialization::{Given, Specialization};
use crate::words::{self, Inst};

/// A module rewritten for one pipeline.
pub(crate) struct Specialized {
    pub words: Vec<u32>,
    /// Why nothing is known of the module, if so.
    pub objection: Option<String>,
}

/// Rewrites a module for one pipeline; `fault` is for tests of the tests.
///
/// # Errors
///
/// When the words are no sequence of instructions, or annotations contradict each other.
pub(crate) fn specialize(
    words: &[u32],
    specialization: &Specialization,
    fault: Fault,
) -> Result<Specialized, ReflectError> {
    let (_, instructions) = words::split(words)?;
    let decorations = Decorations::new(&instructions, fault)?;
    let context = Context::new(&instructions);
    let mut specializer = Specializer {
        known: Known::new(fault),
        decorations: &decorations,
        context: &context,
        specialization,
        fault,
        out: words.get(..5).unwrap_or(words).to_vec(),
        objection: decorations.objection.clone(),
    };
    let mut rest = instructions.as_slice();
    while let Some((inst, tail)) = rest.split_first() {
        if inst.op() == Some(Op::Function) {
            let end = rest.iter().position(|inst| inst.op() == Some(Op::FunctionEnd));
            let (body, tail) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            specializer.function(body);
            rest = tail;
        } else {
            specializer.declaration(inst);
            rest = tail;
        }
    }
    Ok(Specialized { words: specializer.out, objection: specializer.objection })
}

struct Specializer<'a> {
    known: Known,
    decorations: &'a Decorations,
    context: &'a Context,
    specialization: &'a Specialization,
    fault: Fault,
    out: Vec<u32>,
    objection: Option<String>,
}

/// What a pipeline makes of a specialization constant.
enum Chosen {
    Default,
    Bits(u64),
    /// A value of which nothing is certain.
    Unclear,
}

impl Specializer<'_> {
    fn object(&mut self, reason: String) {
        self.objection.get_or_insert(reason);
    }

    fn emit(&mut self, op: Op, operands: &[u32]) {
        // No instruction made here is longer than the one it replaces.
        self.out.push((operands.len() as u32 + 1) << 16 | op as u32);
        self.out.extend_from_slice(operands);
    }

    fn copy(&mut self, inst: &Inst<'_>) {
        self.out.extend_from_slice(inst.from(0));
    }

    fn chosen(&self, ty: u32, id: u32) -> Chosen {
        let spec = self.decorations.of(id, Decoration::SpecId);
        let Some(given) = spec.and_then(|spec| self.specialization.given(spec)) else {
            return Chosen::Default;
        };
        let Given::Bits { bits, size } = given else { return Chosen::Unclear };
        // A driver may take as many bytes as the type has or as many as were given; only where these agree is it known.
        let fits = self
            .known
            .given_width(ty)
            .is_some_and(|width| size.is_none_or(|size| Some(width) == u32::try_from(size * 8).ok()));
        // Of a VkBool32 any other number may be tested in any way.
        let clear = !self.known.is_bool(ty) || bits <= 1;
        if fits && clear { Chosen::Bits(bits) } else { Chosen::Unclear }
    }

    fn declaration(&mut self, inst: &Inst<'_>) {
        let (ty, id) = (inst.word(1), inst.word(2));
        match inst.op() {
            Some(Op::TypeInt | Op::TypeBool | Op::TypeFloat) => self.known.take_type(inst),
            Some(op @ (Op::SpecConstantTrue | Op::SpecConstantFalse)) => {
                let value = match self.chosen(ty, id) {
                    Chosen::Default => op == Op::SpecConstantTrue,
                    Chosen::Bits(bits) => bits != 0,
                    Chosen::Unclear => return self.copy(inst),
                };
                self.known.note(ty, id, u64::from(value));
                return self.emit(if value { Op::ConstantTrue } else { Op::ConstantFalse }, &[ty, id]);
            }
            Some(Op::SpecConstant) => {
                let value = match self.chosen(ty, id) {
                    Chosen::Default => literal(inst),
                    Chosen::Bits(bits) => bits,
                    Chosen::Unclear => return self.copy(inst),
                };
                self.known.note(ty, id, value);
                let literals = [value as u32, (value >> 32) as u32];
                let literals = &literals[..inst.from(3).len().min(2)];
                return self.emit(Op::Constant, &[&[ty, id], literals].concat());
            }
            Some(op @ (Op::SpecConstantComposite | Op::ConstantComposite)) => {
                self.no_spec_id(inst, id);
                self.known.compose(id, inst.from(3));
                if op == Op::SpecConstantComposite {
                    return self.emit(Op::ConstantComposite, inst.from(1));
                }
            }
            Some(Op::SpecConstantOp) => {
                self.no_spec_id(inst, id);
                let value = match Op::from_u32(inst.word(3)) {
                    Some(Op::CompositeExtract) => self.known.part(inst.word(4), inst.from(5)),
                    Some(op) => self.known.evaluate(op, ty, inst.from(4)),
                    None => None,
                };
                if let Some(value) = value {
                    self.known.note(ty, id, value);
                    if self.known.is_bool(ty) {
                        let op = if value != 0 { Op::ConstantTrue } else { Op::ConstantFalse };
                        return self.emit(op, &[ty, id]);
                    }
                    let literals = [value as u32, (value >> 32) as u32];
                    let count = self.known.words(ty);
                    return self.emit(Op::Constant, &[&[ty, id], &literals[..count]].concat());
                }
            }
            Some(Op::Constant) => self.known.note(ty, id, literal(inst)),
            Some(Op::ConstantNull) => self.known.note(ty, id, 0),
            Some(op @ (Op::ConstantTrue | Op::ConstantFalse)) => {
                self.known.note(ty, id, u64::from(op == Op::ConstantTrue));
            }
            _ => {}
        }
        self.copy(inst);
    }

    /// A pipeline gives values to scalars alone. What it would give to anything else isn't known.
    fn no_spec_id(&mut self, inst: &Inst<'_>, id: u32) {
        if self.decorations.of(id, Decoration::SpecId).is_some() {
            self.object(format!("a SpecId of %{id}, which is the result of {}", inst.name()));
        }
    }

    /// Folds what is constant in a function and leaves out blocks that can't be reached.
    fn function(&mut self, body: &[Inst<'_>]) {
        // What constants decide; a second round sees constants whose block stood after their use in the text.
        for _ in 0..2 {
            body.iter().for_each(|inst| self.known.evaluate_instruction(inst));
        }
        let mut found = match blocks(self.context, body) {
            Ok(found) => found,
            Err(reason) => {
                self.object(reason);
                return body.iter().for_each(|inst| self.copy(inst));
            }
        };
        if self.fault == Fault::LastIsTerminator {
            last_is_terminator(&mut found);
        }
        // Only what a recognised terminator leads to is reached, and only what is not reached goes.
        let by_label: HashMap<u32, &Block> = found.iter().map(|block| (block.label, block)).collect();
        let mut edges: HashSet<(u32, u32)> = HashSet::new();
        let mut reached: HashSet<u32> = HashSet::new();
        let mut open: Vec<u32> = found.first().map(|block| block.label).into_iter().collect();
        while let Some(label) = open.pop() {
            let Some(block) = by_label.get(&label).filter(|_| reached.insert(label)) else { continue };
            for target in
                self.decided(&block.terminator).map_or_else(|| block.terminator.targets(), |to| vec![to])
            {
                edges.insert((label, target));
                open.push(target);
            }
        }
        let mut at = 0;
        for block in &found {
            // What stands between blocks has no meaning.
            body[at..block.start].iter().for_each(|inst| self.copy(inst));
            at = block.end + 1;
            if !reached.contains(&block.label) {
                continue;
            }
            for inst in &body[block.start..block.end] {
                match inst.op() {
                    Some(Op::Phi) => {
                        let pairs = inst.from(3).chunks_exact(2);
                        let kept = pairs.filter(|pair| edges.contains(&(pair[1], block.label)));
                        let kept: Vec<u32> = kept.flatten().copied().collect();
                        self.emit(Op::Phi, &[&[inst.word(1), inst.word(2)], kept.as_slice()].concat());
                    }
                    _ => self.copy(inst),
                }
            }
            match self.decided(&block.terminator) {
                Some(target) if !matches!(block.terminator, Terminator::Branch(_)) => {
                    self.emit(Op::Branch, &[target]);
                }
                _ if block.terminator == Terminator::Leaves && leads(&body[block.end]) => {
                    // Only with a fault built in.
                    self.emit(Op::Return, &[]);
                }
                _ => self.copy(&body[block.end]),
            }
        }
        body[at..].iter().for_each(|inst| self.copy(inst));
    }

    /// The one label that a terminator leads to, where constants decide it.
    fn decided(&self, terminator: &Terminator) -> Option<u32> {
        match terminator {
            Terminator::Leaves => None,
            Terminator::Branch(to) => Some(*to),
            Terminator::Conditional { condition, yes, no } => {
                self.known.value(*condition).map(|value| if value != 0 { *yes } else { *no })
            }
            Terminator::Switch { selector, cases, default } => {
                let value = self.known.value(*selector)?;
                Some(cases.iter().find(|(literal, _)| *literal == value).map_or(*default, |(_, to)| *to))
            }
        }
    }
}

/// The literal of a constant of up to 64 bits.
fn literal(inst: &Inst<'_>) -> u64 {
    u64::from(inst.word(3)) | u64::from(inst.word(4)) << 32
}

/// Whether an instruction leads to other blocks.
fn leads(inst: &Inst<'_>) -> bool {
    matches!(inst.op(), Some(Op::Branch | Op::BranchConditional | Op::Switch))
}

/// The fault [`Fault::LastIsTerminator`]: what stands before the next label ends a block, and leads nowhere if it is no
/// terminator.
fn last_is_terminator(found: &mut [Block]) {
    let starts: Vec<usize> = found.iter().map(|block| block.start).collect();
    for (block, next) in found.iter_mut().zip(starts.into_iter().skip(1)) {
        if block.end + 1 != next {
            block.terminator = Terminator::Leaves;
        }
    }
}
