//! A module as a list of instructions, to be changed in place.
//!
//! Nothing of the crate's own parser is used here: instructions are words, and where the ids are in them is rspirv's
//! grammar's word.

use std::collections::HashMap;

use rspirv::binary::{Assemble as _, Consumer, ParseAction, parse_words};
use rspirv::dr::{Instruction, ModuleHeader};
use rspirv::spirv::Op;

/// An instruction's words, the first one included.
pub type Inst = Vec<u32>;

/// A module.
#[derive(Debug, Clone)]
pub struct Flat {
    header: [u32; 5],
    pub insts: Vec<Inst>,
}

/// The opcode of an instruction.
pub fn op(inst: &Inst) -> Option<Op> {
    Op::from_u32(inst[0] & 0xffff)
}

/// An instruction of an opcode and operands.
pub fn inst(op: Op, operands: &[u32]) -> Inst {
    let mut inst = vec![(operands.len() as u32 + 1) << 16 | op as u32];
    inst.extend_from_slice(operands);
    inst
}

/// A block: its label, and the positions of label and terminator.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    pub label: u32,
    pub start: usize,
    pub end: usize,
}

/// Whether an instruction ends a block.
pub fn terminates(inst: &Inst) -> bool {
    matches!(
        op(inst),
        Some(
            Op::Branch
                | Op::BranchConditional
                | Op::Switch
                | Op::Return
                | Op::ReturnValue
                | Op::Kill
                | Op::Unreachable
        )
    )
}

impl Flat {
    pub fn new(words: &[u32]) -> Flat {
        let (header, mut rest) = words.split_first_chunk::<5>().expect("a header");
        let mut insts = Vec::new();
        while let Some(first) = rest.first() {
            let (inst, tail) = rest.split_at((first >> 16) as usize);
            insts.push(inst.to_vec());
            rest = tail;
        }
        Flat { header: *header, insts }
    }

    pub fn words(&self) -> Vec<u32> {
        self.header.iter().chain(self.insts.iter().flatten()).copied().collect()
    }

    /// A new id.
    pub fn id(&mut self) -> u32 {
        self.header[3] += 1;
        self.header[3] - 1
    }

    pub fn version(&self) -> (u32, u32) {
        (self.header[1] >> 16 & 0xff, self.header[1] >> 8 & 0xff)
    }

    /// Position of the first instruction that is of one of these opcodes.
    pub fn first(&self, ops: &[Op]) -> Option<usize> {
        self.insts.iter().position(|inst| op(inst).is_some_and(|op| ops.contains(&op)))
    }

    /// Position of the first function: where global declarations end.
    pub fn functions(&self) -> usize {
        self.first(&[Op::Function]).expect("a function")
    }

    /// Position of the first type or constant: where annotations end.
    pub fn types(&self) -> usize {
        let declares = |inst: &Inst| op(inst).is_some_and(|op| op.is_type() || op.is_constant());
        self.insts.iter().position(declares).expect("a type")
    }

    /// Adds a declaration behind all others, with a new result, and returns that.
    pub fn declare(&mut self, op: Op, ty: Option<u32>, operands: &[u32]) -> u32 {
        let (id, at) = (self.id(), self.functions());
        let words: Vec<u32> = ty.into_iter().chain([id]).chain(operands.iter().copied()).collect();
        self.insts.insert(at, inst(op, &words));
        id
    }

    /// The type that is declared like this, which is declared if it isn't yet.
    pub fn ty(&mut self, kind: Op, operands: &[u32]) -> u32 {
        let found = self.insts.iter().find(|i| op(i) == Some(kind) && i[2..] == *operands);
        match found {
            Some(found) => found[1],
            None => self.declare(kind, None, operands),
        }
    }

    /// Adds a capability, if the module lacks it.
    pub fn capability(&mut self, number: u32) {
        let new = inst(Op::Capability, &[number]);
        if !self.insts.contains(&new) {
            self.insts.insert(0, new);
        }
    }

    /// Adds an extension, if the module lacks it.
    pub fn extension(&mut self, name: &str) {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(name.len() / 4 * 4 + 4, 0);
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let new = inst(Op::Extension, &words);
        if !self.insts.contains(&new) {
            let at = self.insts.iter().position(|inst| op(inst) != Some(Op::Capability));
            self.insts.insert(at.unwrap_or(0), new);
        }
    }

    /// Adds an annotation.
    pub fn annotate(&mut self, annotation: Inst) {
        let at = self.types();
        self.insts.insert(at, annotation);
    }

    /// Positions of the functions: first and last instruction.
    pub fn function_ranges(&self) -> Vec<(usize, usize)> {
        let of = |wanted: Op| {
            let all = self.insts.iter().enumerate().filter(move |(_, i)| op(i) == Some(wanted));
            all.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        of(Op::Function).into_iter().zip(of(Op::FunctionEnd)).collect()
    }

    /// The blocks of a function.
    pub fn blocks(&self, (first, last): (usize, usize)) -> Vec<Block> {
        let mut found = Vec::new();
        let mut open = None;
        for at in first..last {
            let inst = &self.insts[at];
            if op(inst) == Some(Op::Label) {
                open = Some((inst[1], at));
            } else if let (Some((label, start)), true) = (open, terminates(inst)) {
                found.push(Block { label, start, end: at });
                open = None;
            }
        }
        found
    }

    /// The position in a block behind what must be its beginning: phis, variables and lines.
    pub fn behind_head(&self, block: Block) -> usize {
        let head = |inst: &Inst| {
            matches!(op(inst), Some(Op::Phi | Op::Variable | Op::Line | Op::NoLine | Op::ExtInst | Op::Label))
        };
        (block.start..=block.end).find(|at| !head(&self.insts[*at])).unwrap_or(block.end)
    }

    /// The position of a block's merge instruction, or of its terminator where it has none.
    pub fn tail(&self, block: Block) -> usize {
        let merges = |at: &usize| matches!(op(&self.insts[*at]), Some(Op::SelectionMerge | Op::LoopMerge));
        (block.start..block.end).find(merges).unwrap_or(block.end)
    }

    /// Labels that a terminator may go to; switches are given with the words of one literal.
    pub fn targets(&self, block: Block) -> Vec<u32> {
        let inst = &self.insts[block.end];
        match op(inst) {
            Some(Op::Branch) => vec![inst[1]],
            Some(Op::BranchConditional) => vec![inst[2], inst[3]],
            Some(Op::Switch) => {
                let labels: Vec<u32> =
                    self.insts.iter().filter(|i| op(i) == Some(Op::Label)).map(|i| i[1]).collect();
                let selector = self.type_of().get(&inst[1]).and_then(|ty| self.width(*ty));
                let each = if selector == Some(64) { 3 } else { 2 };
                let cases = inst[3..].chunks_exact(each).map(|case| case[each - 1]);
                cases.chain([inst[2]]).filter(|label| labels.contains(label)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The type of each result that has one.
    pub fn type_of(&self) -> HashMap<u32, u32> {
        let types: std::collections::HashSet<u32> =
            self.insts.iter().filter(|i| op(i).is_some_and(Op::is_type)).map(|i| i[1]).collect();
        let typed = self.insts.iter().filter(|i| {
            let names = matches!(
                op(i),
                Some(
                    Op::Name
                        | Op::MemberName
                        | Op::Decorate
                        | Op::MemberDecorate
                        | Op::GroupDecorate
                        | Op::Store
                        | Op::EntryPoint
                        | Op::Branch
                        | Op::BranchConditional
                        | Op::Switch
                        | Op::GroupMemberDecorate
                )
            );
            i.len() > 2 && !names && !op(i).is_some_and(Op::is_type) && types.contains(&i[1])
        });
        typed.map(|i| (i[2], i[1])).collect()
    }

    /// Width of an integer type.
    pub fn width(&self, ty: u32) -> Option<u32> {
        self.insts.iter().find(|i| op(i) == Some(Op::TypeInt) && i[1] == ty).map(|i| i[2])
    }

    /// The declaration of an id.
    pub fn declaration(&self, id: u32) -> Option<&Inst> {
        self.insts.iter().find(|i| match op(i) {
            Some(op) if op.is_type() => i[1] == id,
            Some(op) if op.is_constant() || op == Op::Variable => i[2] == id,
            _ => false,
        })
    }

    /// Applies decoration groups to their targets, as the log wants it: it reads decorations of ids and members only.
    pub fn ungroup(&mut self) {
        let groups: Vec<u32> =
            self.insts.iter().filter(|i| op(i) == Some(Op::DecorationGroup)).map(|i| i[1]).collect();
        let mut of: HashMap<u32, Vec<Vec<u32>>> = HashMap::new();
        for i in self.insts.iter().filter(|i| op(i) == Some(Op::Decorate) && groups.contains(&i[1])) {
            of.entry(i[1]).or_default().push(i[2..].to_vec());
        }
        let mut out = Vec::with_capacity(self.insts.len());
        for i in self.insts.drain(..) {
            match op(&i) {
                Some(Op::DecorationGroup) => {}
                Some(Op::Decorate) if groups.contains(&i[1]) => {}
                Some(Op::GroupDecorate) => {
                    for (target, words) in
                        i[2..].iter().flat_map(|t| of[&i[1]].iter().map(move |words| (*t, words)))
                    {
                        out.push(inst(Op::Decorate, &[&[target], words.as_slice()].concat()));
                    }
                }
                Some(Op::GroupMemberDecorate) => {
                    for pair in i[2..].chunks_exact(2) {
                        for words in &of[&i[1]] {
                            out.push(inst(Op::MemberDecorate, &[pair, words.as_slice()].concat()));
                        }
                    }
                }
                _ => out.push(i),
            }
        }
        self.insts = out;
    }

    /// Gives every id another number. `shuffle` orders the numbers.
    pub fn renumber(&mut self, shuffle: impl FnOnce(&mut [u32])) -> Result<(), String> {
        let mut read = Reader::default();
        parse_words(self.words(), &mut read).map_err(|error| error.to_string())?;
        let mut numbers: Vec<u32> = (1..self.header[3]).collect();
        shuffle(&mut numbers);
        let to = |id: &mut u32| *id = numbers[*id as usize - 1];
        for instruction in &mut read.0 {
            instruction.result_id.iter_mut().for_each(to);
            instruction.result_type.iter_mut().for_each(to);
            instruction.operands.iter_mut().filter_map(|operand| operand.id_ref_any_mut()).for_each(to);
        }
        self.insts = read.0.iter().map(|instruction| instruction.assemble()).collect();
        Ok(())
    }
}

/// Collects what rspirv reads.
#[derive(Default)]
struct Reader(Vec<Instruction>);

impl Consumer for Reader {
    fn initialize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn finalize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn consume_header(&mut self, _: ModuleHeader) -> ParseAction {
        ParseAction::Continue
    }

    fn consume_instruction(&mut self, instruction: Instruction) -> ParseAction {
        self.0.push(instruction);
        ParseAction::Continue
    }
}
