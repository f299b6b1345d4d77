//! A module taken apart: the declarations by id, and the functions as ranges of instructions.
//!
//! One pass, no analysis. What contradicts itself (an id defined twice or beyond the bound, a function inside a
//! function, a descriptor with two bindings) is an error here, so that the analysis may rely on single definitions.

use std::collections::HashMap;
use std::ops::Range;

use rspirv::spirv::{AddressingModel, ExecutionMode, MemoryModel, Op};

use crate::api::Module;
use crate::blocks::{self, Context};
use crate::capabilities;
use crate::constants;
use crate::decorations::Decorations;
use crate::effects;
use crate::error::ReflectError;
use crate::meaning::{Meaning, meaning};
use crate::ranges::Fault;
use crate::types::{Type, Types};
use crate::words::{self, Inst};

/// Sets of extended instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtendedSet {
    /// `GLSL.std.450`
    Glsl,
    /// Sets that change nothing by their definition: `NonSemantic.*` and debug information.
    NonSemantic,
    /// Any other.
    Other,
}

/// An `OpEntryPoint`.
#[derive(Debug)]
pub(crate) struct Entry {
    pub model: u32,
    pub function: u32,
    pub name: String,
    pub interface: Vec<u32>,
}

/// A function: its parameters and the indices of the instructions in it.
#[derive(Debug)]
pub(crate) struct Function {
    pub parameters: Vec<u32>,
    pub body: Range<usize>,
    /// Whether there is a block; a declaration without one is somewhere else.
    pub defined: bool,
}

/// A variable of any storage class.
#[derive(Debug)]
pub(crate) struct Variable {
    pub class: u32,
    /// The type of what it holds, where it says one.
    pub holds: Option<u32>,
}

/// The whole module.
#[derive(Debug)]
pub(crate) struct Parsed<'w> {
    pub version: (u8, u8),
    pub instructions: Vec<Inst<'w>>,
    /// Why nothing about the module is known, if so.
    pub objection: Option<String>,
    pub entries: Vec<Entry>,
    pub extended_sets: HashMap<u32, ExtendedSet>,
    pub decorations: Decorations,
    /// What the blocks of its functions need to know.
    pub context: Context,
    pub types: Types,
    /// Result type of each id (0 where it has none).
    pub type_of: HashMap<u32, u32>,
    /// Integer constants that no specialization can change.
    pub constants: HashMap<u32, u64>,
    pub variables: HashMap<u32, Variable>,
    pub functions: HashMap<u32, Function>,
    /// Indices of the instructions outside all functions.
    pub outside: Vec<usize>,
    /// Whether pointers without a pointee type exist: a value can be stored as one type and loaded as another.
    pub untyped: bool,
    /// Whether physical addresses exist.
    pub physical: bool,
    /// Whether something other than a variable or a structure is `Coherent` or `Volatile` (a parameter, a chain): what
    /// it is used for later isn't followed, so any access may be meant.
    pub shared_anywhere: bool,
}

/// Newest SPIR-V version whose rules are known.
const NEWEST: (u8, u8) = (1, 6);

/// Takes a module apart; `fault` is for tests of the tests.
pub(crate) fn parse(words: &[u32], fault: Fault) -> Result<Parsed<'_>, ReflectError> {
    let (header, instructions) = words::split(words)?;
    let mut parsed = Parsed {
        version: header.version,
        instructions: Vec::new(),
        objection: None,
        entries: Vec::new(),
        extended_sets: HashMap::new(),
        decorations: Decorations::new(&instructions, fault)?,
        context: Context::new(&instructions),
        types: Types::default(),
        type_of: HashMap::new(),
        constants: HashMap::new(),
        variables: HashMap::new(),
        functions: HashMap::new(),
        outside: Vec::new(),
        untyped: false,
        physical: false,
        shared_anywhere: false,
    };
    if let Some(objection) = parsed.decorations.objection.clone() {
        parsed.object(objection);
    }
    if header.version > NEWEST || header.version.0 != 1 {
        parsed.object(format!("SPIR-V version {}.{}", header.version.0, header.version.1));
    }
    let mut current: Option<(u32, Function)> = None;
    for (index, inst) in instructions.iter().enumerate() {
        define(&mut parsed, inst, header.bound)?;
        match inst.op() {
            Some(Op::Function) => {
                if current.is_some() {
                    return Err(ReflectError::malformed(inst.at, "a function inside a function"));
                }
                let function = Function { parameters: Vec::new(), body: index..index, defined: false };
                current = Some((inst.word(2), function));
            }
            Some(Op::FunctionEnd) => {
                let Some((id, mut function)) = current.take() else {
                    return Err(ReflectError::malformed(inst.at, "OpFunctionEnd outside a function"));
                };
                function.body.end = index;
                parsed.functions.insert(id, function);
            }
            op => match &mut current {
                Some((_, function)) => match op {
                    Some(Op::FunctionParameter) => function.parameters.push(inst.word(2)),
                    Some(Op::Label) => function.defined = true,
                    _ => {}
                },
                None => {
                    parsed.outside.push(index);
                    declare(&mut parsed, inst)?;
                }
            },
        }
    }
    if current.is_some() {
        return Err(ReflectError::malformed(words.len(), "the last function has no OpFunctionEnd: cut off?"));
    }
    define_unlisted(&mut parsed, &instructions, header.bound);
    parsed.instructions = instructions;
    parsed.look_at_text();
    parsed.shared_anywhere = parsed.decorations.shared().iter().any(|id| {
        !parsed.variables.contains_key(id) && !matches!(parsed.types.get(*id), Some(Type::Struct { .. }))
    });
    // What the rest relies on, and a valid module has.
    let memory_models = parsed.instructions.iter().filter(|inst| inst.op() == Some(Op::MemoryModel)).count();
    if memory_models != 1 {
        parsed.object(format!("{memory_models} memory models"));
    }
    let mut names: Vec<(u32, &str)> = parsed.entries.iter().map(|e| (e.model, e.name.as_str())).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let reason = format!("two entry points {:?}", twice[0].1);
        parsed.object(reason);
    }
    if let Some(pointer) = parsed.types.other_than_announced() {
        parsed.object(format!("the pointer type %{pointer}, which is not as OpTypeForwardPointer says"));
    }
    for entry in &parsed.entries {
        if !parsed.functions.contains_key(&entry.function) {
            let what =
                format!("entry point {:?} names %{}, which is no function", entry.name, entry.function);
            return Err(ReflectError::malformed(words.len(), what));
        }
    }
    Ok(parsed)
}

/// Notes the result of an instruction.
fn define(parsed: &mut Parsed<'_>, inst: &Inst<'_>, bound: u32) -> Result<(), ReflectError> {
    if let Some((ty, id)) = inst.result() {
        if id == 0 || id >= bound {
            let what = format!("{} defines %{id}, and the bound is {bound}", inst.name());
            return Err(ReflectError::malformed(inst.at, what));
        }
        if parsed.type_of.insert(id, ty).is_some() {
            return Err(ReflectError::malformed(inst.at, format!("%{id} is defined twice")));
        }
        if let Some(Op::Variable | Op::UntypedVariableKHR) = inst.op() {
            let holds = match (inst.op(), parsed.types.get(ty)) {
                (Some(Op::Variable), Some(Type::Pointer { pointee, .. })) => Some(*pointee),
                (Some(Op::UntypedVariableKHR), _) => inst.from(4).first().copied(),
                _ => None,
            };
            parsed.variables.insert(id, Variable { class: inst.word(3), holds });
        }
    }
    Ok(())
}

/// Gives the results of instructions outside the grammar a type.
///
/// The second word is taken for a result if the first operand is a type and nothing else defines that id. Where
/// this guess finds no result, whoever uses the id meets a pointer without an origin and gives up.
fn define_unlisted(parsed: &mut Parsed<'_>, instructions: &[Inst<'_>], bound: u32) {
    for inst in instructions.iter().filter(|inst| !inst.in_grammar()) {
        let (ty, id) = (inst.word(1), inst.word(2));
        if parsed.types.get(ty).is_some() && id != 0 && id < bound {
            parsed.type_of.entry(id).or_insert(ty);
        }
    }
}

/// Takes in a declaration at module scope.
fn declare(parsed: &mut Parsed<'_>, inst: &Inst<'_>) -> Result<(), ReflectError> {
    if parsed.types.take(inst) {
        parsed.untyped |= inst.op() == Some(Op::TypeUntypedPointerKHR);
        if inst.op() == Some(Op::TypeInt) && ![8, 16, 32, 64].contains(&inst.word(2)) {
            parsed.object(format!("integers of {} bits", inst.word(2)));
        }
        return Ok(());
    }
    match inst.op() {
        Some(Op::Capability) => {
            if let Some(objection) = capabilities::objection(inst.word(1)) {
                parsed.object(objection);
            }
        }
        Some(Op::MemoryModel) => {
            let (addressing, memory) = (inst.word(1), inst.word(2));
            parsed.physical = addressing != AddressingModel::Logical as u32;
            let known = [AddressingModel::Logical as u32, AddressingModel::PhysicalStorageBuffer64 as u32];
            if !known.contains(&addressing) {
                parsed.object(format!("addressing model {addressing}"));
            }
            let known = [MemoryModel::GLSL450 as u32, MemoryModel::Vulkan as u32];
            if !known.contains(&memory) {
                parsed.object(format!("memory model {memory}"));
            }
        }
        Some(Op::ExtInstImport) => {
            let set = match inst.string(2)?.0.as_str() {
                "GLSL.std.450" => ExtendedSet::Glsl,
                name if blocks::changes_nothing(name) => ExtendedSet::NonSemantic,
                _ => ExtendedSet::Other,
            };
            parsed.extended_sets.insert(inst.word(1), set);
        }
        Some(Op::EntryPoint) => {
            let (name, next) = inst.string(3)?;
            let interface = inst.from(next).to_vec();
            parsed.entries.push(Entry { model: inst.word(1), function: inst.word(2), name, interface });
        }
        Some(Op::Constant) => {
            if let Some(Type::Integer { width }) = parsed.types.get(inst.word(1)) {
                let value = u64::from(inst.word(3)) | u64::from(inst.word(4)) << 32;
                parsed.constants.insert(inst.word(2), value & constants::mask(*width));
            }
        }
        Some(Op::ConstantNull) if matches!(parsed.types.get(inst.word(1)), Some(Type::Integer { .. })) => {
            parsed.constants.insert(inst.word(2), 0);
        }
        Some(Op::ExecutionMode | Op::ExecutionModeId) if ExecutionMode::from_u32(inst.word(2)).is_none() => {
            parsed.object(format!("execution mode {}", inst.word(2)));
        }
        _ => {}
    }
    Ok(())
}

impl Parsed<'_> {
    /// What each entry point does.
    pub fn reflected(&self) -> Module {
        Module { entry_points: self.entries.iter().map(|entry| effects::entry_point(self, entry)).collect() }
    }

    /// Looks whether every instruction stands where its kind belongs: what the other modules look for outside functions,
    /// and what they look for inside, must not be elsewhere.
    fn look_at_text(&mut self) {
        let mut reason = None;
        for function in self.functions.values() {
            if let Err(found) = blocks::blocks(&self.context, &self.instructions[function.body.clone()]) {
                reason.get_or_insert(found);
            }
        }
        for inst in self.outside.iter().map(|index| &self.instructions[*index]) {
            // Declarations, variables and constants. All others do something, and no reader looks for them there.
            let declares = match meaning(self, inst) {
                Meaning::Ignored => !matches!(
                    inst.op(),
                    Some(
                        Op::Label
                            | Op::FunctionParameter
                            | Op::Branch
                            | Op::BranchConditional
                            | Op::Switch
                            | Op::Return
                            | Op::Kill
                            | Op::Unreachable
                            | Op::TerminateInvocation
                            | Op::SelectionMerge
                            | Op::LoopMerge
                    )
                ),
                Meaning::Variable { .. } => true,
                Meaning::Value(_) => inst.op().is_some_and(Op::is_constant),
                _ => false,
            };
            if !declares {
                reason.get_or_insert(format!("{} outside functions", inst.name()));
            }
        }
        if let Some(reason) = reason {
            self.object(reason);
        }
    }

    /// Records a reason for which the whole module is unknown; the first one is kept.
    fn object(&mut self, reason: String) {
        self.objection.get_or_insert(reason);
    }

    /// The type of an id's value; 0, which is no type, where it has none.
    pub fn type_of(&self, id: u32) -> u32 {
        self.type_of.get(&id).copied().unwrap_or(0)
    }
}
