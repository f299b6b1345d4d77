//! What a compiled module takes: bindings, push constants, specialization constants, capabilities.
//!
//! All of it is in the module's declarations. Names are those of the GLSL, which glslang keeps: of a block, of a block's member,
//! of a constant. The size of a workgroup has no name there and is called [`WORKGROUP`].

use std::collections::BTreeMap;

use rspirv::dr::{self, Operand};
use rspirv::spirv::{BuiltIn, Decoration, Op, StorageClass};

use super::interface::{Binding, Constant, Direction, Field, Kind, Module};

/// The name of the constant that is the workgroup's size along x.
pub const WORKGROUP: &str = "WORKGROUP";

/// A module's declarations by id.
#[derive(Default)]
struct Declarations {
    names: BTreeMap<u32, String>,
    /// By struct and number of the member.
    member_names: BTreeMap<(u32, u32), String>,
    spec_ids: BTreeMap<u32, u32>,
    bindings: BTreeMap<u32, u32>,
    /// The constant composite that is the workgroup's size.
    workgroup: Option<u32>,
    /// By struct and number of the member.
    marks: Vec<(u32, u32, Decoration)>,
    offsets: BTreeMap<(u32, u32), u32>,
    kinds: BTreeMap<u32, Kind>,
    structs: BTreeMap<u32, Vec<u32>>,
    pointees: BTreeMap<u32, u32>,
}

/// Reads what a kernel takes that was compiled from `file`.
///
/// # Errors
///
/// The file, what it declares that a kernel must not, and how to write it instead.
pub fn reflect(file: &str, words: &[u32]) -> Result<Module, String> {
    declared(words).map_err(|error| format!("{file}: {error}"))
}

fn declared(words: &[u32]) -> Result<Module, String> {
    let module = dr::load_words(words).map_err(|error| format!("the compiler's output is odd: {error}"))?;
    let declared = Declarations::of(&module);
    let mut found = Module::default();
    for instruction in &module.capabilities {
        if let [Operand::Capability(capability)] = instruction.operands[..] {
            found.capabilities.push(capability);
        }
    }
    let first_of_workgroup = module
        .types_global_values
        .iter()
        .find(|i| i.result_id.is_some() && i.result_id == declared.workgroup)
        .and_then(|i| i.operands.first().and_then(Operand::id_ref_any));
    let mut bindings = BTreeMap::new();
    for instruction in &module.types_global_values {
        let (Some(id), Some(ty)) = (instruction.result_id, instruction.result_type) else { continue };
        if instruction.class.opcode == Op::Variable {
            let block = declared.pointees.get(&ty).copied().unwrap_or(0);
            if let Some(Operand::StorageClass(StorageClass::PushConstant)) = instruction.operands.first() {
                found.push = declared.push(block)?;
            } else if let Some(number) = declared.bindings.get(&id)
                && bindings.insert(*number, declared.binding(block, *number)?).is_some()
            {
                return Err(format!("two variables share binding {number}: number bindings from 0 on"));
            }
        } else if let Some(spec_id) = declared.spec_ids.get(&id) {
            let default = match (instruction.class.opcode, &instruction.operands[..]) {
                (Op::SpecConstantTrue, _) => 1,
                (Op::SpecConstantFalse, _) => 0,
                (_, [Operand::LiteralBit32(value)]) => *value,
                _ => return Err(format!("constant_id = {spec_id} is not 32 bits: make it a uint")),
            };
            let name = if first_of_workgroup == Some(id) {
                WORKGROUP.to_owned()
            } else {
                let name = declared.names.get(&id).filter(|name| !name.is_empty()).cloned();
                name.ok_or_else(|| format!("constant_id = {spec_id} has no name: give the constant one"))?
            };
            let kind = declared.kind(ty, &name)?;
            found.constants.push(Constant { id: *spec_id, name, kind, default });
        }
    }
    found.constants.sort_by_key(|constant| constant.id);
    if !bindings.keys().copied().eq(0..bindings.len() as u32) {
        return Err("bindings have gaps: number them from 0 on".to_owned());
    }
    found.bindings = bindings.into_values().collect();
    Ok(found)
}

impl Declarations {
    fn of(module: &dr::Module) -> Self {
        let mut all = Self::default();
        for instruction in &module.debug_names {
            match &instruction.operands[..] {
                [Operand::IdRef(id), Operand::LiteralString(name)] => {
                    all.names.insert(*id, name.clone());
                }
                [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::LiteralString(name)] => {
                    all.member_names.insert((*id, *member), name.clone());
                }
                _ => {}
            }
        }
        for instruction in &module.annotations {
            match &instruction.operands[..] {
                [Operand::IdRef(id), Operand::Decoration(what), Operand::LiteralBit32(value)] => {
                    match what {
                        Decoration::SpecId => drop(all.spec_ids.insert(*id, *value)),
                        Decoration::Binding => drop(all.bindings.insert(*id, *value)),
                        _ => {}
                    };
                }
                [Operand::IdRef(id), Operand::Decoration(_), Operand::BuiltIn(BuiltIn::WorkgroupSize)] => {
                    all.workgroup = Some(*id);
                }
                [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::Decoration(mark)] => {
                    all.marks.push((*id, *member, *mark));
                }
                [
                    Operand::IdRef(id),
                    Operand::LiteralBit32(member),
                    Operand::Decoration(Decoration::Offset),
                    Operand::LiteralBit32(offset),
                ] => drop(all.offsets.insert((*id, *member), *offset)),
                _ => {}
            }
        }
        for instruction in &module.types_global_values {
            let Some(id) = instruction.result_id else { continue };
            match (instruction.class.opcode, &instruction.operands[..]) {
                (Op::TypeBool, _) => drop(all.kinds.insert(id, Kind::Bool)),
                (Op::TypeInt, [Operand::LiteralBit32(32), Operand::LiteralBit32(0)]) => {
                    all.kinds.insert(id, Kind::Uint);
                }
                (Op::TypeFloat, [Operand::LiteralBit32(32), ..]) => drop(all.kinds.insert(id, Kind::Float)),
                (Op::TypeStruct, members) => {
                    all.structs.insert(id, members.iter().filter_map(Operand::id_ref_any).collect());
                }
                (Op::TypePointer, [_, Operand::IdRef(to)]) => drop(all.pointees.insert(id, *to)),
                _ => {}
            }
        }
        all
    }

    fn kind(&self, ty: u32, name: &str) -> Result<Kind, String> {
        let kind = self.kinds.get(&ty).copied();
        kind.ok_or_else(|| format!("{name} is not of 32 bits: make it a uint, a float or a bool"))
    }

    fn push(&self, block: u32) -> Result<Vec<Field>, String> {
        let members = self.structs.get(&block).map_or(&[][..], Vec::as_slice);
        let field = |(member, ty): (u32, &u32)| {
            let name = self.member_names.get(&(block, member)).filter(|name| !name.is_empty()).cloned();
            let name =
                name.ok_or_else(|| format!("push constant {member} has no name: give the member one"))?;
            let kind = self.kind(*ty, &name)?;
            if self.offsets.get(&(block, member)) != Some(&(4 * member)) {
                return Err(format!("push constant {name} does not follow the one before: leave no gaps"));
            }
            Ok(Field { name, kind })
        };
        (0..).zip(members).map(field).collect()
    }

    fn binding(&self, block: u32, number: u32) -> Result<Binding, String> {
        let marked = |mark| self.marks.contains(&(block, 0, mark));
        let direction = match (marked(Decoration::NonWritable), marked(Decoration::NonReadable)) {
            (true, false) => Direction::Read,
            (false, true) => Direction::Write,
            (false, false) => Direction::ReadWrite,
            (true, true) => {
                return Err(format!("binding {number} is neither read nor written: take it out"));
            }
        };
        let name = self.names.get(&block).filter(|name| !name.is_empty()).cloned();
        let name = name.ok_or_else(|| format!("binding {number} has no name: give its block one"))?;
        Ok(Binding { name, direction })
    }
}
