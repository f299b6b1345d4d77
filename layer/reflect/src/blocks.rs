//! The blocks of a function: where each begins, which instruction ends it, and where that leads.
//!
//! What leaves out blocks must prove that nothing leads to them, so this is strict. A block is a label, instructions,
//! and one terminator of the list in [`terminator`]. Between a terminator and the next label only what has no meaning
//! may stand: debug lines, and instructions of sets that are defined to change nothing (both do stand there in valid
//! modules: a line may belong to a label). Anything else is no block that is understood, and the module is unknown.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::Op;

use crate::words::Inst;

/// How a block ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Terminator {
    /// The function or the invocation ends here.
    Leaves,
    /// To one label.
    Branch(u32),
    /// To the first label if the condition is true, otherwise to the second.
    Conditional { condition: u32, yes: u32, no: u32 },
    /// To the label of the literal that the selector equals, or to the default. Literals are zero-extended from the
    /// selector's width.
    Switch { selector: u32, cases: Vec<(u64, u32)>, default: u32 },
}

impl Terminator {
    /// Where it may lead, each label once.
    pub fn targets(&self) -> Vec<u32> {
        let mut targets = match self {
            Terminator::Leaves => Vec::new(),
            Terminator::Branch(to) => vec![*to],
            Terminator::Conditional { yes, no, .. } => vec![*yes, *no],
            Terminator::Switch { cases, default, .. } => {
                [*default].into_iter().chain(cases.iter().map(|(_, to)| *to)).collect()
            }
        };
        let mut seen = HashSet::new();
        targets.retain(|target| seen.insert(*target));
        targets
    }
}

/// A block, as positions in the instructions that it was found in.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub label: u32,
    /// Position of the label.
    pub start: usize,
    /// Position of the terminator.
    pub end: usize,
    pub terminator: Terminator,
}

/// What blocks need to know of the rest of the module.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Widths in bits of integer types.
    pub integers: HashMap<u32, u32>,
    /// The type of each id that has one.
    pub type_of: HashMap<u32, u32>,
    /// Imported sets whose instructions change nothing.
    pub without_meaning: HashSet<u32>,
}

impl Context {
    /// Collects it.
    pub fn new(instructions: &[Inst<'_>]) -> Context {
        let mut context = Context::default();
        for inst in instructions {
            match inst.op() {
                Some(Op::TypeInt) => drop(context.integers.insert(inst.word(1), inst.word(2))),
                Some(Op::ExtInstImport) => {
                    if inst.string(2).is_ok_and(|(name, _)| changes_nothing(&name)) {
                        context.without_meaning.insert(inst.word(1));
                    }
                }
                _ => {
                    if let Some((ty, id)) = inst.result().filter(|(ty, _)| *ty != 0) {
                        context.type_of.insert(id, ty);
                    }
                }
            }
        }
        context
    }

    /// Width in bits of the integer that an id is.
    pub fn width(&self, id: u32) -> Option<u32> {
        self.integers.get(self.type_of.get(&id)?).copied()
    }

    /// Whether an instruction does nothing wherever it stands.
    fn is_idle(&self, inst: &Inst<'_>) -> bool {
        match inst.op() {
            Some(Op::Line | Op::NoLine) => true,
            Some(Op::ExtInst | Op::ExtInstWithForwardRefsKHR) => self.without_meaning.contains(&inst.word(3)),
            _ => false,
        }
    }
}

/// Whether the instructions of a set change nothing: `NonSemantic.` promises that of all sets of that name
/// (SPV_KHR_non_semantic_info), the other two are sets of debug information.
pub(crate) fn changes_nothing(set: &str) -> bool {
    matches!(set, "DebugInfo" | "OpenCL.DebugInfo.100") || set.starts_with("NonSemantic.")
}

/// What an instruction ends a block with; nothing where it is no terminator.
fn terminator(context: &Context, inst: &Inst<'_>) -> Option<Result<Terminator, String>> {
    let words = inst.from(0).len();
    let odd = || Err(format!("{} with {words} words", inst.name()));
    Some(match inst.op()? {
        Op::Return | Op::Kill | Op::Unreachable | Op::TerminateInvocation if words == 1 => {
            Ok(Terminator::Leaves)
        }
        Op::ReturnValue if words == 2 => Ok(Terminator::Leaves),
        Op::Branch if words == 2 => Ok(Terminator::Branch(inst.word(1))),
        // Four words, or six with weights.
        Op::BranchConditional if words == 4 || words == 6 => {
            Ok(Terminator::Conditional { condition: inst.word(1), yes: inst.word(2), no: inst.word(3) })
        }
        Op::Switch => switch(context, inst),
        Op::Return
        | Op::Kill
        | Op::Unreachable
        | Op::TerminateInvocation
        | Op::ReturnValue
        | Op::Branch
        | Op::BranchConditional => odd(),
        _ => return None,
    })
}

/// A literal is as wide as the selector, in whole words; a narrow one fills the upper bits of its word with the sign.
fn switch(context: &Context, inst: &Inst<'_>) -> Result<Terminator, String> {
    let selector = inst.word(1);
    let width = context.width(selector).filter(|width| [8, 16, 32, 64].contains(width));
    let width =
        width.ok_or_else(|| format!("OpSwitch on %{selector}, which is no integer of a known width"))?;
    let (words, each) = (inst.from(3), if width == 64 { 3 } else { 2 });
    if words.len() % each != 0 {
        return Err(format!("OpSwitch on {width} bits with {} words of cases", words.len()));
    }
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let case = |words: &[u32]| match *words {
        [low, high, to] => (u64::from(low) | u64::from(high) << 32, to),
        _ => (u64::from(words[0]) & mask, words[1]),
    };
    Ok(Terminator::Switch {
        selector,
        cases: words.chunks_exact(each).map(case).collect(),
        default: inst.word(2),
    })
}

/// The blocks of a function, in the order of the text. `body` begins with or behind `OpFunction` and ends with or before
/// `OpFunctionEnd`; one without blocks is a declaration.
///
/// # Errors
///
/// The reason for which the blocks are not understood.
pub(crate) fn blocks(context: &Context, body: &[Inst<'_>]) -> Result<Vec<Block>, String> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<(u32, usize, bool)> = None;
    for (at, inst) in body.iter().enumerate() {
        let op = inst.op();
        match (&mut open, op) {
            (None, Some(Op::Label)) => open = Some((inst.word(1), at, true)),
            (Some((label, ..)), Some(Op::Label)) => {
                return Err(format!("block %{label}, which has no terminator before %{}", inst.word(1)));
            }
            (None, Some(Op::Function | Op::FunctionEnd)) => {}
            (None, Some(Op::FunctionParameter)) if found.is_empty() => {}
            (None, _) if context.is_idle(inst) => {}
            (None, _) => return Err(format!("{} outside all blocks", inst.name())),
            (Some((label, ..)), Some(Op::FunctionEnd)) => {
                return Err(format!("block %{label}, which has no terminator"));
            }
            (Some((label, start, phis)), _) => {
                if let Some(terminator) = terminator(context, inst) {
                    let (label, start, terminator) = (*label, *start, terminator?);
                    found.push(Block { label, start, end: at, terminator });
                    open = None;
                } else if op == Some(Op::Phi) {
                    // Later ones would not be of the edges into the block.
                    if !*phis {
                        return Err(format!("OpPhi behind other instructions of block %{label}"));
                    }
                } else if op.is_some_and(belongs_outside) {
                    return Err(format!("{} in block %{label}", inst.name()));
                } else if !context.is_idle(inst) {
                    *phis = false;
                }
            }
        }
    }
    if let Some((label, ..)) = open {
        return Err(format!("block %{label}, which has no terminator"));
    }
    let labels: HashSet<u32> = found.iter().map(|block| block.label).collect();
    if labels.len() != found.len() {
        return Err("two blocks with one label".to_owned());
    }
    let first = found.first().map(|block| block.label);
    for block in &found {
        for to in block.terminator.targets() {
            if !labels.contains(&to) {
                return Err(format!(
                    "a jump from %{} to %{to}, which is no block of the function",
                    block.label
                ));
            }
            if Some(to) == first {
                return Err("a jump to a function's first block".to_owned());
            }
        }
    }
    Ok(found)
}

/// Whether an instruction declares or annotates something and so stands outside of functions. What a reader of
/// declarations would not see inside one must not be there.
#[rustfmt::skip]
fn belongs_outside(op: Op) -> bool {
    op.is_type() || op.is_annotation() || matches!(
        op,
        Op::Capability | Op::Extension | Op::ExtInstImport | Op::MemoryModel | Op::EntryPoint | Op::ExecutionMode
        | Op::ExecutionModeId | Op::String | Op::Source | Op::SourceContinued | Op::SourceExtension | Op::Name
        | Op::MemberName | Op::ModuleProcessed | Op::TypeForwardPointer | Op::Constant | Op::ConstantTrue
        | Op::ConstantFalse | Op::ConstantNull | Op::ConstantComposite | Op::ConstantCompositeReplicateEXT
        | Op::SpecConstant | Op::SpecConstantTrue | Op::SpecConstantFalse | Op::SpecConstantComposite
        | Op::SpecConstantCompositeReplicateEXT | Op::SpecConstantOp | Op::Function | Op::FunctionParameter
    )
}
