//! From a specialized module to a program: functions inlined, blocks joined up, instructions translated.
//!
//! What isn't followed is never dropped: an access through a pointer that got lost here is charged to every variable
//! that the points-to analysis of the crate allows for it (`lose`), and what it could write counts as unknown.

use std::collections::HashMap;
use std::rc::Rc;

use rspirv::spirv::{BuiltIn, Decoration, ExecutionMode, Op, StorageClass};

use super::layout::Layout;
use super::pointers::{Pointer, Root};
use super::program::{Block, End, Lost, Program, Reason, Value};
use super::ssa::{NONE, Ssa};
use super::text::{FunctionText, TextBlock};
use crate::blocks::Terminator;
use crate::flow::Flow;
use crate::meaning::{Meaning, Touch, meaning};
use crate::module::{Entry, Parsed};
use crate::resource::{self, Place};
use crate::words::Inst;

/// Deepest nest of calls that is followed.
const MOST_CALLS: usize = 48;

/// What an id stands for.
#[derive(Debug, Clone)]
pub(crate) enum Val {
    /// The leaves of its type.
    Leaves(Rc<[Value]>),
    Pointer(Pointer),
    /// Not followed.
    Opaque(Reason),
}

impl Val {
    pub fn leaves(leaves: Vec<Value>) -> Val {
        Val::Leaves(leaves.into())
    }
}

/// One function, in one of the places that it is called from.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub ids: HashMap<u32, Val>,
    /// First and, once it is translated, last block of each label.
    starts: HashMap<u32, Block>,
    ends: HashMap<u32, Block>,
    returns: Vec<(Block, Option<Val>)>,
    depth: usize,
}

pub(crate) struct Builder<'a, 'w> {
    pub parsed: &'a Parsed<'w>,
    flow: &'a Flow,
    pub layout: Layout<'a>,
    pub ssa: Ssa,
    /// Built-in input variables.
    pub built_ins: HashMap<u32, u32>,
    /// Constants at module scope.
    globals: HashMap<u32, Val>,
    /// The widths of each local variable's leaves.
    pub locals: Vec<Vec<u8>>,
    pub private: HashMap<u32, u32>,
    /// Every local variable made for a variable's id: one for each place that its function is called from.
    instances: HashMap<u32, Vec<u32>>,
}

/// Builds the program of an entry point.
///
/// # Errors
///
/// The reason for which the entry point can't be followed at all.
pub(crate) fn build(parsed: &Parsed<'_>, flow: &Flow, entry: &Entry) -> Result<Program, String> {
    if let Some(reason) = parsed.objection.clone().or_else(|| flow.gave_up.clone()) {
        return Err(reason);
    }
    let local_size = local_size(parsed, entry).ok_or("a workgroup size that isn't known")?;
    let mut builder = Builder {
        parsed,
        flow,
        layout: Layout::new(parsed),
        ssa: Ssa::new(local_size),
        built_ins: HashMap::new(),
        globals: HashMap::new(),
        locals: Vec::new(),
        private: HashMap::new(),
        instances: HashMap::new(),
    };
    let first = builder.ssa.block(0);
    builder.declarations(first);
    let mut frame = Frame::default();
    builder.function(&mut frame, entry.function, Vec::new(), first)?;
    if builder.ssa.overflow {
        return Err("a shader that is too large to follow".to_owned());
    }
    Ok(builder.ssa.program)
}

/// The workgroup's size: the constant that is decorated so, or the execution mode.
fn local_size(parsed: &Parsed<'_>, entry: &Entry) -> Option<[u32; 3]> {
    let constant = |id: u32| parsed.constants.get(&id).and_then(|value| u32::try_from(*value).ok());
    let outside = || parsed.outside.iter().map(|index| &parsed.instructions[*index]);
    let built_ins = parsed.decorations.all(Decoration::BuiltIn);
    let mut decorated = built_ins.filter(|(_, built_in)| *built_in == BuiltIn::WorkgroupSize as u32);
    if let Some((decorated, _)) = decorated.next() {
        let made = outside().find(|inst| inst.result().is_some_and(|(_, id)| id == decorated))?;
        return match made.op() {
            _ if made.from(3).len() != 3 || decorated_twice(decorated, parsed) => None,
            Some(Op::ConstantComposite) => {
                Some([constant(made.word(3))?, constant(made.word(4))?, constant(made.word(5))?])
            }
            _ => None,
        };
    }
    // One size: what a driver makes of two that differ isn't known, nor is one that comes from a constant without a value.
    let mut sizes = outside().filter(|inst| inst.word(1) == entry.function).filter_map(|inst| {
        let three = [inst.word(3), inst.word(4), inst.word(5)];
        match (inst.op(), ExecutionMode::from_u32(inst.word(2))) {
            (Some(Op::ExecutionMode), Some(ExecutionMode::LocalSize)) => Some(Some(three)),
            (Some(Op::ExecutionModeId), Some(ExecutionMode::LocalSizeId)) => {
                let [x, y, z] = three.map(constant);
                Some(x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]))
            }
            _ => None,
        }
    });
    let first = sizes.next()??;
    sizes.all(|size| size == Some(first)).then_some(first)
}

/// Whether something else is decorated as the workgroup's size, too.
fn decorated_twice(decorated: u32, parsed: &Parsed<'_>) -> bool {
    let mut all = parsed.decorations.all(Decoration::BuiltIn);
    all.any(|(id, built_in)| built_in == BuiltIn::WorkgroupSize as u32 && id != decorated)
}

/// The bits of a variable's part; of a part that it doesn't have, which only an invalid module reaches, a word's.
fn cell_bits(locals: &[Vec<u8>], cell: (u32, u32)) -> u8 {
    locals.get(cell.0 as usize).and_then(|parts| parts.get(cell.1 as usize)).copied().unwrap_or(32)
}

impl Builder<'_, '_> {
    /// Constants, built-ins and Private variables.
    fn declarations(&mut self, first: Block) {
        let parsed = self.parsed;
        self.built_ins = parsed.decorations.all(Decoration::BuiltIn).collect();
        for index in &parsed.outside {
            let inst = &parsed.instructions[*index];
            let Some((ty, id)) = inst.result().filter(|(ty, _)| *ty != 0) else { continue };
            let val = match inst.op() {
                Some(Op::Constant | Op::ConstantTrue | Op::ConstantFalse) => {
                    let value = match inst.op() {
                        Some(Op::ConstantTrue) => 1,
                        Some(Op::ConstantFalse) => 0,
                        _ => u64::from(inst.word(3)) | u64::from(inst.word(4)) << 32,
                    };
                    match self.layout.bits(ty) {
                        Some(bits) => Val::leaves(vec![self.ssa.constant(bits, value)]),
                        None => Val::leaves(vec![NONE]),
                    }
                }
                Some(Op::ConstantNull) => match self.layout.leaf_bits(ty) {
                    Some(bits) => {
                        let zero = |bits: &u8| if *bits == 0 { NONE } else { self.ssa.constant(*bits, 0) };
                        Val::leaves(bits.iter().map(zero).collect())
                    }
                    None => self.opaque_because(ty, inst),
                },
                Some(Op::ConstantComposite) => self.compose(&Frame::default(), first, inst, ty),
                Some(Op::Variable) => {
                    if inst.word(3) == StorageClass::Private as u32
                        && let Some(local) = self.local(id)
                    {
                        self.private.insert(id, local);
                        if inst.word(4) != 0 {
                            let pointer = self.variable_pointer(id);
                            let val = self.val(&Frame::default(), first, inst.word(4));
                            self.store(first, inst, id, &pointer, &val);
                        }
                    }
                    continue;
                }
                _ => self.opaque_because(ty, inst),
            };
            self.globals.insert(id, val);
        }
    }

    /// A new local variable for a variable's id, if its type has leaves.
    pub fn local(&mut self, id: u32) -> Option<u32> {
        let ty = self.parsed.variables.get(&id)?.holds?;
        let bits = self.layout.leaf_bits(ty)?;
        self.locals.push(bits);
        let local = self.locals.len() as u32 - 1;
        self.instances.entry(id).or_default().push(local);
        Some(local)
    }

    /// Why the result of an instruction isn't known.
    pub fn because(&mut self, inst: &Inst<'_>) -> Reason {
        let id = inst.result().map(|(_, id)| format!(" %{id}")).unwrap_or_default();
        self.ssa.reason(format!("{}{id}", inst.name()))
    }

    pub fn opaque_because(&mut self, ty: u32, inst: &Inst<'_>) -> Val {
        let reason = self.because(inst);
        self.opaque(ty, reason)
    }

    /// A value that isn't followed.
    pub fn opaque(&mut self, ty: u32, reason: Reason) -> Val {
        use super::layout::{Shape, is_physical};
        match self.layout.shape(ty) {
            Shape::Pointer { class, pointee } if !is_physical(*class) => {
                Val::Pointer(Pointer::new(Root::Lost, *pointee))
            }
            _ => Val::Opaque(reason),
        }
    }

    /// What an id stands for.
    pub fn val(&mut self, frame: &Frame, block: Block, id: u32) -> Val {
        if let Some(val) = frame.ids.get(&id).or_else(|| self.globals.get(&id)) {
            return val.clone();
        }
        if self.parsed.variables.contains_key(&id) {
            return Val::Pointer(self.variable_pointer(id));
        }
        let _ = block;
        let reason = self.ssa.reason(format!("%{id}"));
        self.opaque(self.parsed.type_of(id), reason)
    }

    /// The pointer that an id is.
    pub fn pointer(&mut self, frame: &Frame, block: Block, id: u32) -> Pointer {
        let ty = self.parsed.type_of(id);
        match self.val(frame, block, id) {
            Val::Pointer(pointer) => pointer,
            Val::Leaves(leaves) if leaves.len() == 1 && leaves[0] != NONE => {
                self.address_pointer(ty, leaves[0]).unwrap_or(Pointer::new(Root::Lost, 0))
            }
            _ => Pointer::new(Root::Lost, 0),
        }
    }

    /// A leaf of a value; an unknown one where it isn't followed.
    pub fn leaf_of(&mut self, block: Block, val: &Val, index: usize, bits: u8, reason: Reason) -> Value {
        match val {
            Val::Leaves(leaves) => match leaves.get(index) {
                Some(value) if *value != NONE && self.ssa.bits(*value) == bits => *value,
                _ => self.ssa.unknown(block, bits, reason),
            },
            Val::Pointer(pointer) if bits == 64 && index == 0 => {
                match self.address(block, &pointer.clone()) {
                    Some(value) => value,
                    None => self.ssa.unknown(block, bits, reason),
                }
            }
            Val::Opaque(reason) => self.ssa.unknown(block, bits, *reason),
            Val::Pointer(_) => self.ssa.unknown(block, bits, reason),
        }
    }

    /// The number that an id is; of the width of its type, or 32 bits where that has none.
    pub fn scalar(&mut self, frame: &Frame, block: Block, id: u32) -> Value {
        let val = self.val(frame, block, id);
        let bits = self.layout.bits(self.parsed.type_of(id)).unwrap_or(32);
        let reason = self.ssa.reason(format!("%{id}"));
        self.leaf_of(block, &val, 0, bits, reason)
    }

    /// A composite made of an instruction's operands from word 3 on.
    pub fn compose(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>, ty: u32) -> Val {
        let reason = self.because(inst);
        let Some(bits) = self.layout.leaf_bits(ty) else { return self.opaque(ty, reason) };
        let mut leaves = Vec::with_capacity(bits.len());
        for id in inst.from(3) {
            let part = self.layout.leaf_bits(self.parsed.type_of(*id)).unwrap_or_default();
            let val = self.val(frame, block, *id);
            for (index, bits) in part.iter().enumerate() {
                leaves.push(match bits {
                    0 => NONE,
                    bits => self.leaf_of(block, &val, index, *bits, reason),
                });
            }
        }
        if leaves.len() == bits.len() { Val::leaves(leaves) } else { self.opaque(ty, reason) }
    }

    /// Charges an access to whatever the id could denote.
    pub fn lose(&mut self, block: Block, inst: &Inst<'_>, id: u32, read: bool, write: bool) {
        let places: Vec<u32> = self.flow.denotes(id).map(|place| place.variable).collect();
        let reason = self.because(inst);
        if places.is_empty() {
            let address = self.parsed.types.is_address(self.parsed.type_of(id));
            if address {
                self.ssa.program.lost.push(Lost { variable: None, read, write, reason });
            }
        }
        places.into_iter().for_each(|place| self.lose_place(block, place, read, write, reason));
    }

    fn lose_place(&mut self, block: Block, place: u32, read: bool, write: bool, reason: Reason) {
        let class = self.parsed.variables.get(&place).map(|variable| variable.class);
        match class.map(resource::place) {
            None => self.ssa.program.lost.push(Lost { variable: None, read, write, reason }),
            Some(Place::Descriptor | Place::Unknown) => {
                self.ssa.program.lost.push(Lost { variable: Some(place), read, write, reason });
            }
            Some(Place::Own) if write => {
                for local in self.instances.get(&place).cloned().unwrap_or_default() {
                    self.havoc(block, local, 0, self.locals[local as usize].len(), reason);
                }
            }
            Some(Place::Own | Place::Elsewhere) => {}
        }
    }

    /// An instruction that touches memory in a way that isn't followed further.
    pub fn lose_touch(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>, touch: &Touch) {
        if touch.read != 0 {
            self.lose_through(frame, block, inst, inst.word(touch.read), true, false);
        }
        if touch.write != 0 {
            self.lose_through(frame, block, inst, inst.word(touch.write), false, true);
        }
        if touch.calls != 0 {
            self.lose_called(block, inst.from(touch.calls));
        }
    }

    fn lose_through(
        &mut self,
        frame: &Frame,
        block: Block,
        inst: &Inst<'_>,
        id: u32,
        read: bool,
        write: bool,
    ) {
        if self.flow.denotes(id).next().is_none() {
            // Values such as images made in this function; or a local variable, which this builder knows better.
            let pointer = self.pointer(frame, block, id);
            if let (Root::Local { local, .. } | Root::LocalAny { local, .. }, true) = (&pointer.root, write) {
                let reason = self.because(inst);
                self.havoc(block, *local, 0, self.locals[*local as usize].len(), reason);
            }
        }
        self.lose(block, inst, id, read, write);
    }

    /// Functions that an instruction calls on its own: all that they touch is lost.
    fn lose_called(&mut self, block: Block, words: &[u32]) {
        let parsed = self.parsed;
        let mut open: Vec<u32> =
            words.iter().copied().filter(|word| parsed.functions.contains_key(word)).collect();
        let mut seen = std::collections::HashSet::new();
        while let Some(id) = open.pop() {
            let Some(function) = parsed.functions.get(&id).filter(|_| seen.insert(id)) else { continue };
            for inst in &parsed.instructions[function.body.clone()] {
                match meaning(parsed, inst) {
                    Meaning::Call => open.push(inst.word(3)),
                    Meaning::Touch(touch) => {
                        if touch.read != 0 {
                            self.lose(block, inst, inst.word(touch.read), true, touch.write == touch.read);
                        }
                        if touch.write != 0 {
                            self.lose(block, inst, inst.word(touch.write), false, true);
                        }
                        if touch.calls != 0 {
                            open.extend(inst.from(touch.calls));
                        }
                    }
                    Meaning::Unlisted => {
                        self.lose_words(block, inst);
                        open.extend(inst.from(1).iter().filter(|word| parsed.functions.contains_key(word)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// An instruction that isn't listed: everything behind its words.
    pub fn lose_unlisted(&mut self, block: Block, inst: &Inst<'_>) {
        self.lose_words(block, inst);
        let named: Vec<u32> =
            inst.from(1).iter().copied().filter(|word| self.parsed.functions.contains_key(word)).collect();
        if !named.is_empty() {
            self.lose_called(block, &named);
        }
    }

    /// What such an instruction names itself. Functions that it names are the caller's part: they may name each other.
    fn lose_words(&mut self, block: Block, inst: &Inst<'_>) {
        let reason = self.because(inst);
        for word in inst.from(1) {
            if self.parsed.types.is_address(self.parsed.type_of(*word)) {
                self.ssa.program.lost.push(Lost { variable: None, read: true, write: true, reason });
            }
        }
        for place in self.flow.all_behind(inst) {
            self.lose_place(block, place.variable, true, true, reason);
        }
    }

    /// Translates a function into blocks from `first` on; the frame then holds where it returns.
    pub fn function(
        &mut self,
        frame: &mut Frame,
        id: u32,
        arguments: Vec<Val>,
        first: Block,
    ) -> Result<(), String> {
        let parsed = self.parsed;
        let function = parsed.functions.get(&id).ok_or_else(|| format!("a call of %{id}"))?;
        if frame.depth > MOST_CALLS || self.ssa.overflow {
            return Err("calls that are too deep or too many to follow".to_owned());
        }
        frame.ids.extend(function.parameters.iter().copied().zip(arguments));
        let body = &parsed.instructions[function.body.clone()];
        let text = FunctionText::new(&parsed.context, body)?;
        for (index, label) in text.order.iter().enumerate() {
            let block = match index {
                0 => first,
                _ => self.ssa.block(text.predecessors.get(label).map_or(0, Vec::len)),
            };
            frame.starts.insert(*label, block);
        }
        // Phis of blocks that are there already, for edges that come later.
        let mut waiting: HashMap<u32, Vec<(&Inst<'_>, Vec<Value>)>> = HashMap::new();
        for label in &text.order {
            let mut block = frame.starts[label];
            for inst in text.blocks[label].body {
                if inst.op() == Some(Op::Phi) {
                    let leaves = self.phi(frame, block, inst);
                    waiting.entry(*label).or_default().push((inst, leaves));
                } else {
                    block = self.instruction(frame, block, inst)?;
                }
            }
            frame.ends.insert(*label, block);
            self.terminate(frame, block, &text.blocks[label]);
            // Edges that are complete now: from here on to blocks that were begun, and from earlier ones to those next.
            let from = *label;
            for to in &text.blocks[label].targets {
                let target = frame.starts[to];
                self.ssa.edge(block, target, |cell| cell_bits(&self.locals, cell));
                for (phi, leaves) in waiting.get(to).cloned().unwrap_or_default() {
                    self.phi_operand(frame, phi, &leaves, from, block);
                }
            }
        }
        Ok(())
    }

    /// Begins a phi: one for each leaf that is followed, with the operands that are there.
    fn phi(&mut self, frame: &mut Frame, block: Block, inst: &Inst<'_>) -> Vec<Value> {
        let (ty, id) = (inst.word(1), inst.word(2));
        let Some(bits) = self.layout.leaf_bits(ty) else {
            let val = self.opaque_because(ty, inst);
            frame.ids.insert(id, val);
            return Vec::new();
        };
        let leaves: Vec<Value> =
            bits.iter().map(|bits| if *bits == 0 { NONE } else { self.ssa.phi(block, *bits) }).collect();
        frame.ids.insert(id, Val::leaves(leaves.clone()));
        for pair in inst.from(3).chunks_exact(2) {
            if let Some(end) = frame.ends.get(&pair[1]).copied() {
                self.phi_operand(frame, inst, &leaves, pair[1], end);
            }
        }
        leaves
    }

    fn phi_operand(&mut self, frame: &Frame, inst: &Inst<'_>, leaves: &[Value], from: u32, end: Block) {
        let Some(pair) = inst.from(3).chunks_exact(2).find(|pair| pair[1] == from) else { return };
        let val = self.val(frame, end, pair[0]);
        let reason = self.ssa.reason(format!("%{}", pair[0]));
        for (index, phi) in leaves.iter().enumerate().filter(|(_, phi)| **phi != NONE) {
            let bits = self.ssa.bits(*phi);
            let value = self.leaf_of(end, &val, index, bits, reason);
            self.ssa.operand(*phi, end, value);
        }
    }

    fn terminate(&mut self, frame: &mut Frame, block: Block, text: &TextBlock<'_>) {
        // Every label that a reached block leads to has been reached, too.
        let to = |label: u32| frame.starts[&label];
        let end = match &text.terminator {
            Terminator::Branch(label) => End::Goto(to(*label)),
            Terminator::Conditional { condition, yes, no } => {
                let (yes, no) = (to(*yes), to(*no));
                End::If(self.scalar(frame, block, *condition), yes, no)
            }
            Terminator::Switch { selector, cases, default } => {
                let cases = cases.iter().map(|(literal, label)| (*literal, to(*label))).collect();
                let default = to(*default);
                End::Switch(self.scalar(frame, block, *selector), cases, default)
            }
            Terminator::Leaves => {
                match text.end.op() {
                    Some(Op::Return) => frame.returns.push((block, None)),
                    Some(Op::ReturnValue) => {
                        let val = self.val(frame, block, text.end.word(1));
                        frame.returns.push((block, Some(val)));
                    }
                    // The invocation ends, or can't come here.
                    _ => {}
                }
                End::Stop
            }
        };
        self.ssa.end(block, end);
    }

    /// Inlines a call; returns the block in which it goes on.
    pub fn call(&mut self, frame: &mut Frame, block: Block, inst: &Inst<'_>) -> Result<Block, String> {
        let (ty, id) = (inst.word(1), inst.word(2));
        let arguments: Vec<Val> = inst.from(4).iter().map(|id| self.val(frame, block, *id)).collect();
        let mut callee = Frame { depth: frame.depth + 1, ..Frame::default() };
        // A block of its own: the callee's first block may not be the middle of another.
        let first = self.ssa.block(1);
        self.ssa.end(block, End::Goto(first));
        self.ssa.edge(block, first, |cell| cell_bits(&self.locals, cell));
        self.function(&mut callee, inst.word(3), arguments, first)?;
        let next = self.ssa.block(callee.returns.len());
        let reason = self.because(inst);
        let bits = self.layout.leaf_bits(ty);
        let phis: Vec<Value> = bits
            .iter()
            .flatten()
            .map(|bits| if *bits == 0 { NONE } else { self.ssa.phi(next, *bits) })
            .collect();
        for (end, val) in &callee.returns {
            self.ssa.end(*end, End::Goto(next));
            for (index, phi) in phis.iter().enumerate().filter(|(_, phi)| **phi != NONE) {
                let bits = self.ssa.bits(*phi);
                let val = val.clone().unwrap_or(Val::Opaque(reason));
                let value = self.leaf_of(*end, &val, index, bits, reason);
                self.ssa.operand(*phi, *end, value);
            }
            self.ssa.edge(*end, next, |cell| cell_bits(&self.locals, cell));
        }
        let val = match (bits, callee.returns.as_slice()) {
            (Some(_), _) => Val::leaves(phis),
            (None, [(_, Some(val))]) => val.clone(),
            _ => self.opaque(ty, reason),
        };
        frame.ids.insert(id, val);
        Ok(next)
    }
}
