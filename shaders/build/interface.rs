//! What kernels take, as data: checked across all of them, and joined for those that one Rust module stands for.

use std::collections::BTreeMap;

use rspirv::spirv::Capability;

/// The type of a constant or of a push constant; all have 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Uint,
    Float,
}

/// What a kernel does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    ReadWrite,
}

/// A specialization constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    pub id: u32,
    pub name: String,
    pub kind: Kind,
    /// The bits that the shader gives it.
    pub default: u32,
}

/// A push constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
}

/// A storage buffer, by the name of its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub name: String,
    pub direction: Direction,
}

/// What one module takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// By number, which go from 0 on.
    pub bindings: Vec<Binding>,
    /// In their order; each is four bytes behind the one before.
    pub push: Vec<Field>,
    /// By id.
    pub constants: Vec<Constant>,
    pub capabilities: Vec<Capability>,
}

/// A kernel: a source file, built with certain macros.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub name: String,
    /// The source file, for messages.
    pub file: String,
    /// The family that one Rust module stands for.
    pub family: String,
    /// One line on what it does.
    pub doc: String,
    pub module: Module,
    pub spirv: Vec<u32>,
}

/// Something that all kernels of a family have, or only some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Of<T> {
    pub what: T,
    pub everywhere: bool,
}

/// What the kernels of a family take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    pub name: String,
    pub push: Vec<Field>,
    pub constants: Vec<Of<Constant>>,
    pub bindings: Vec<Of<Binding>>,
}

/// Checks that an id of a constant has one name in all kernels, and a name one id and one type.
///
/// # Errors
///
/// The file, the constant, the other file, and what to change.
pub fn one_meaning(kernels: &[Kernel]) -> Result<(), String> {
    let all = || kernels.iter().flat_map(|k| k.module.constants.iter().map(move |c| (c, &k.file)));
    let free = (0..).find(|id| all().all(|(constant, _)| constant.id != *id)).unwrap_or(0);
    let mut by_id: BTreeMap<u32, (&Constant, &String)> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, (&Constant, &String)> = BTreeMap::new();
    for (constant, file) in all() {
        let Constant { id, name, kind, .. } = constant;
        let (first, other) = *by_id.entry(*id).or_insert((constant, file));
        if first.name != *name {
            return Err(format!(
                "{file}: constant_id = {id} is {name} here and {} in {other}: give {name} an id of its own, such as \
                 {free}, or both the same name",
                first.name
            ));
        }
        let (first, other) = *by_name.entry(name).or_insert((constant, file));
        if first.id != *id {
            return Err(format!(
                "{file}: {name} has constant_id = {id} here and {} in {other}: use {} in both, or another name if it \
                 is something else",
                first.id, first.id
            ));
        }
        if first.kind != *kind {
            return Err(format!(
                "{file}: {name} is a {kind:?} here and a {:?} in {other}: declare both alike",
                first.kind
            ));
        }
    }
    Ok(())
}

/// What these kernels of one family take together: the same push constants, the constants of each, and the bindings of each in one
/// order.
///
/// # Errors
///
/// The file, what keeps it from being of the family, and what to change.
pub fn family(kernels: &[&Kernel]) -> Result<Family, String> {
    let count = |kernel: &Kernel| kernel.module.bindings.len();
    let longest =
        kernels.iter().rev().max_by_key(|kernel| count(kernel)).ok_or("a family without kernels")?;
    let name = longest.family.clone();
    let mut constants: BTreeMap<u32, Constant> = BTreeMap::new();
    for kernel in kernels {
        if kernel.module.push != longest.module.push {
            return Err(format!(
                "{}: other push constants than {}: declare them alike, or take one of them out of family {name}",
                kernel.file, longest.file
            ));
        }
        for constant in &kernel.module.constants {
            let first = constants.entry(constant.id).or_insert_with(|| constant.clone());
            if first.default != constant.default {
                return Err(format!(
                    "{}: {} has another value than in the rest of family {name}: give it the same",
                    kernel.file, constant.name
                ));
            }
        }
        let mut rest = longest.module.bindings.iter();
        for binding in &kernel.module.bindings {
            if !rest.any(|other| other == binding) {
                return Err(format!(
                    "{}: binding {} is not in {} in this order and direction: declare it there, or take the file out of \
                     family {name}",
                    kernel.file, binding.name, longest.file
                ));
            }
        }
    }
    let in_all = |has: &dyn Fn(&Module) -> bool| kernels.iter().all(|kernel| has(&kernel.module));
    let constants = constants.into_values().map(|what| {
        let everywhere = in_all(&|module| module.constants.iter().any(|c| c.id == what.id));
        Of { what, everywhere }
    });
    let bindings = longest.module.bindings.iter().map(|what| {
        let everywhere = in_all(&|module| module.bindings.contains(what));
        Of { what: what.clone(), everywhere }
    });
    Ok(Family {
        name: name.clone(),
        push: longest.module.push.clone(),
        constants: constants.collect(),
        bindings: bindings.collect(),
    })
}
