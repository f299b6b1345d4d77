//! A module taken apart: the declarations by id, and the functions as ranges of instructions.
//!
//! One pass, no analysis. What contradicts itself (an id defined twice or beyond the bound, a function inside a
//! function, a descriptor with two bindings) is an error here, so that the analysis may rely on single definitions.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rspirv::spirv::{AddressingModel, Decoration, MemoryModel, Op};

use crate::capabilities;
use crate::error::ReflectError;
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

/// Decorations that matter, by the decorated id.
#[derive(Debug, Default)]
pub(crate) struct Decorations {
    pub set: HashMap<u32, u32>,
    pub binding: HashMap<u32, u32>,
    pub buffer_block: HashSet<u32>,
    /// `Coherent` or `Volatile`, on an id or on a member of a structure.
    pub shared: HashSet<u32>,
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

/// Takes a module apart.
pub(crate) fn parse(words: &[u32]) -> Result<Parsed<'_>, ReflectError> {
    let (header, instructions) = words::split(words)?;
    let mut parsed = Parsed {
        version: header.version,
        instructions: Vec::new(),
        objection: None,
        entries: Vec::new(),
        extended_sets: HashMap::new(),
        decorations: Decorations::default(),
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
    apply_groups(&mut parsed)?;
    parsed.shared_anywhere = parsed.decorations.shared.iter().any(|id| {
        !parsed.variables.contains_key(id) && !matches!(parsed.types.get(*id), Some(Type::Struct { .. }))
    });
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
                "DebugInfo" | "OpenCL.DebugInfo.100" => ExtendedSet::NonSemantic,
                name if name.starts_with("NonSemantic.") => ExtendedSet::NonSemantic,
                _ => ExtendedSet::Other,
            };
            parsed.extended_sets.insert(inst.word(1), set);
        }
        Some(Op::EntryPoint) => {
            let (name, next) = inst.string(3)?;
            let interface = inst.from(next).to_vec();
            parsed.entries.push(Entry { model: inst.word(1), function: inst.word(2), name, interface });
        }
        Some(Op::Constant) if matches!(parsed.types.get(inst.word(1)), Some(Type::Integer)) => {
            let value = u64::from(inst.word(3)) | u64::from(inst.word(4)) << 32;
            parsed.constants.insert(inst.word(2), value);
        }
        Some(Op::ConstantNull) if matches!(parsed.types.get(inst.word(1)), Some(Type::Integer)) => {
            parsed.constants.insert(inst.word(2), 0);
        }
        Some(Op::Decorate) => decorate(parsed, inst.at, inst.word(1), inst.word(2), inst.word(3))?,
        Some(Op::MemberDecorate) if is_shared(inst.word(3)) => {
            parsed.decorations.shared.insert(inst.word(1));
        }
        _ => {}
    }
    Ok(())
}

fn is_shared(decoration: u32) -> bool {
    decoration == Decoration::Coherent as u32 || decoration == Decoration::Volatile as u32
}

/// Notes one decoration of one id.
fn decorate(
    parsed: &mut Parsed<'_>,
    at: usize,
    id: u32,
    decoration: u32,
    value: u32,
) -> Result<(), ReflectError> {
    let decorations = &mut parsed.decorations;
    let place = match Decoration::from_u32(decoration) {
        Some(Decoration::DescriptorSet) => &mut decorations.set,
        Some(Decoration::Binding) => &mut decorations.binding,
        Some(Decoration::BufferBlock) => {
            decorations.buffer_block.insert(id);
            return Ok(());
        }
        Some(Decoration::Coherent | Decoration::Volatile) => {
            decorations.shared.insert(id);
            return Ok(());
        }
        _ => return Ok(()),
    };
    match place.insert(id, value) {
        Some(before) if before != value => {
            Err(ReflectError::malformed(at, format!("%{id} has two sets or bindings: {before} and {value}")))
        }
        _ => Ok(()),
    }
}

/// Hands the decorations of a group on to its targets; groups can't be nested.
fn apply_groups(parsed: &mut Parsed<'_>) -> Result<(), ReflectError> {
    let mut todo = Vec::new();
    for inst in parsed.outside.iter().map(|index| parsed.instructions[*index]) {
        let group = inst.word(1);
        let decorations = &parsed.decorations;
        let targets: Vec<u32> = match inst.op() {
            Some(Op::GroupDecorate) => inst.from(2).to_vec(),
            // Pairs of a structure and a member: only `Coherent` and `Volatile` have a meaning for both.
            Some(Op::GroupMemberDecorate) if decorations.shared.contains(&group) => {
                inst.from(2).iter().step_by(2).copied().collect()
            }
            _ => continue,
        };
        let mut hand_on = |decoration: Decoration, value: u32| {
            todo.extend(targets.iter().map(|target| (inst.at, *target, decoration as u32, value)));
        };
        if decorations.shared.contains(&group) {
            hand_on(Decoration::Coherent, 0);
        }
        if inst.op() == Some(Op::GroupDecorate) {
            if let Some(set) = decorations.set.get(&group) {
                hand_on(Decoration::DescriptorSet, *set);
            }
            if let Some(binding) = decorations.binding.get(&group) {
                hand_on(Decoration::Binding, *binding);
            }
            if decorations.buffer_block.contains(&group) {
                hand_on(Decoration::BufferBlock, 0);
            }
        }
    }
    todo.into_iter()
        .try_for_each(|(at, target, decoration, value)| decorate(parsed, at, target, decoration, value))
}

impl Parsed<'_> {
    /// Records a reason for which the whole module is unknown; the first one is kept.
    fn object(&mut self, reason: String) {
        self.objection.get_or_insert(reason);
    }

    /// The type of an id's value; 0, which is no type, where it has none.
    pub fn type_of(&self, id: u32) -> u32 {
        self.type_of.get(&id).copied().unwrap_or(0)
    }
}
