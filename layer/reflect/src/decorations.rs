//! The decorations of a module, in one table for all who read any.
//!
//! A decoration may be said of an id, of a member of a structure, or of a group that is then applied to either, and a
//! reader that knows one way and not the other takes the default for the truth: the constant keeps its default and the
//! branch that it decides goes. So no other part of the crate looks at an annotation instruction.
//!
//! A decoration that is said twice with different values contradicts itself, and so does one whose group is none: that
//! is an error. What a valid module can't have either but a driver might make something of (a group in a group,
//! `OpDecorateId` with a decoration that takes a number, a decoration without a known number) is an objection: nothing
//! is known of the module.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::{Decoration, Op};

use crate::error::ReflectError;
use crate::ranges::Fault;
use crate::words::Inst;

/// What is decorated: an id, or one of its members.
type Target = (u32, Option<u32>);

/// All decorations whose meaning matters to the crate, groups applied.
#[derive(Debug, Default)]
pub(crate) struct Decorations {
    /// The first operand of each decoration; 0 where it has none.
    said: HashMap<(Target, u32), u32>,
    /// Structures of which a member is `Coherent` or `Volatile`, and ids that are.
    shared: HashSet<u32>,
    /// Why nothing is known of the module, if so.
    pub objection: Option<String>,
}

/// Decorations that some part of the crate reads, and whether each comes with a number.
const READ: [(Decoration, bool); 12] = [
    (Decoration::SpecId, true),
    (Decoration::BufferBlock, false),
    (Decoration::RowMajor, false),
    (Decoration::ColMajor, false),
    (Decoration::ArrayStride, true),
    (Decoration::MatrixStride, true),
    (Decoration::BuiltIn, true),
    (Decoration::Coherent, false),
    (Decoration::Volatile, false),
    (Decoration::Offset, true),
    (Decoration::DescriptorSet, true),
    (Decoration::Binding, true),
];

/// Whether a decoration is read, and then whether it comes with a number.
fn is_read(decoration: u32) -> Option<bool> {
    READ.iter().find(|(read, _)| *read as u32 == decoration).map(|(_, number)| *number)
}

impl Decorations {
    /// Reads all annotations among the instructions of a module; `fault` is for tests of the tests.
    ///
    /// # Errors
    ///
    /// When one contradicts another.
    pub fn new(instructions: &[Inst<'_>], fault: Fault) -> Result<Decorations, ReflectError> {
        let mut table = Decorations::default();
        let groups: HashSet<u32> = instructions
            .iter()
            .filter(|inst| inst.op() == Some(Op::DecorationGroup))
            .map(|inst| inst.word(1))
            .collect();
        let mut of_group: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
        for inst in instructions {
            let (id, member, decoration, value) = match inst.op() {
                Some(Op::Decorate) => (inst.word(1), None, inst.word(2), inst.from(3)),
                Some(Op::MemberDecorate) => (inst.word(1), Some(inst.word(2)), inst.word(3), inst.from(4)),
                Some(Op::DecorateId | Op::DecorateString) => {
                    table.other(inst, inst.word(2));
                    continue;
                }
                Some(Op::MemberDecorateString | Op::MemberDecorateIdEXT) => {
                    table.other(inst, inst.word(3));
                    continue;
                }
                _ => continue,
            };
            if Decoration::from_u32(decoration).is_none() {
                table.object(format!("decoration {decoration}"));
            }
            if is_read(decoration).is_some_and(|number| usize::from(number) != value.len()) {
                return Err(ReflectError::malformed(
                    inst.at,
                    format!("{} of {} words", inst.name(), value.len()),
                ));
            }
            let value = value.first().copied().unwrap_or(0);
            match (groups.contains(&id), member) {
                (true, None) => of_group.entry(id).or_default().push((decoration, value)),
                (true, Some(_)) => table.object(format!("a member of the decoration group %{id}")),
                (false, _) => table.say(inst, (id, member), decoration, value)?,
            }
        }
        for inst in instructions {
            let targets: Vec<Target> = match inst.op() {
                Some(Op::GroupDecorate) => inst.from(2).iter().map(|id| (*id, None)).collect(),
                Some(Op::GroupMemberDecorate) if inst.from(2).len() % 2 != 0 => {
                    return Err(ReflectError::malformed(inst.at, "a structure without a member's number"));
                }
                Some(Op::GroupMemberDecorate) => {
                    inst.from(2).chunks_exact(2).map(|pair| (pair[0], Some(pair[1]))).collect()
                }
                _ => continue,
            };
            let group = inst.word(1);
            if !groups.contains(&group) {
                return Err(ReflectError::malformed(inst.at, format!("%{group} is no decoration group")));
            }
            if targets.iter().any(|(id, _)| groups.contains(id)) {
                table.object(format!("a decoration group within the group %{group}"));
            }
            let said = of_group.get(&group).into_iter().flatten();
            let place = [Decoration::DescriptorSet, Decoration::Binding].map(|decoration| decoration as u32);
            for (decoration, value) in
                said.filter(|(said, _)| fault != Fault::GroupsIgnored || place.contains(said))
            {
                for target in &targets {
                    table.say(inst, *target, *decoration, *value)?;
                }
            }
        }
        Ok(table)
    }

    /// A decoration whose operands are ids or strings: none that is read here is of that kind.
    fn other(&mut self, inst: &Inst<'_>, decoration: u32) {
        if is_read(decoration).is_some() || Decoration::from_u32(decoration).is_none() {
            self.object(format!("{} with decoration {decoration}", inst.name()));
        }
    }

    fn object(&mut self, reason: String) {
        self.objection.get_or_insert(reason);
    }

    fn say(
        &mut self,
        inst: &Inst<'_>,
        target: Target,
        decoration: u32,
        value: u32,
    ) -> Result<(), ReflectError> {
        if is_read(decoration).is_none() {
            return Ok(());
        }
        if [Decoration::Coherent as u32, Decoration::Volatile as u32].contains(&decoration) {
            self.shared.insert(target.0);
        }
        match self.said.insert((target, decoration), value) {
            Some(before) if before != value => {
                let name = Decoration::from_u32(decoration).map_or(String::new(), |name| format!("{name:?}"));
                let what = format!("%{} has two decorations {name}: {before} and {value}", target.0);
                Err(ReflectError::malformed(inst.at, what))
            }
            _ => Ok(()),
        }
    }

    /// The number that a decoration of an id comes with; 0 for one that comes with none.
    pub fn of(&self, id: u32, decoration: Decoration) -> Option<u32> {
        self.said.get(&((id, None), decoration as u32)).copied()
    }

    /// The same of a structure's member.
    pub fn of_member(&self, id: u32, member: u32, decoration: Decoration) -> Option<u32> {
        self.said.get(&((id, Some(member)), decoration as u32)).copied()
    }

    /// All ids (not members) that have a decoration, and the number that it comes with.
    pub fn all(&self, decoration: Decoration) -> impl Iterator<Item = (u32, u32)> + '_ {
        let wanted = decoration as u32;
        self.said.iter().filter_map(move |(((id, member), found), value)| {
            (*found == wanted && member.is_none()).then_some((*id, *value))
        })
    }

    /// The set and binding of a variable.
    pub fn place(&self, variable: u32) -> Option<(u32, u32)> {
        self.of(variable, Decoration::DescriptorSet).zip(self.of(variable, Decoration::Binding))
    }

    /// Ids that are `Coherent` or `Volatile`, and structures with a member that is.
    pub fn shared(&self) -> &HashSet<u32> {
        &self.shared
    }
}
