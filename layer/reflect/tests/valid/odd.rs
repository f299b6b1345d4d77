//! Changes that leave a module's meaning as it is and make it odd: what a valid module may look like and compilers rarely
//! write.
//!
//! Each takes a module and gives back whether it found something to change. What becomes of specialization constants is
//! in `given`: the values that the pipeline must bring.

use std::collections::HashMap;

use fastrand::Rng;
use rspirv::spirv::{Capability, Decoration, Op, StorageClass};

use super::flags;
use super::flat::{Block, Flat, Inst, inst, op};
use crate::gpu::Constant;

/// What the pipeline must bring for constants that were made.
pub type Given = Vec<Constant>;

/// One kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Groups,
    Lines,
    Order,
    Numbers,
    Constants,
    Branches,
    Unreachable,
    Calls,
    Stores,
    Selects,
    Chains,
    Entries,
    /// Not for the installed spirv-val and lavapipe, which don't know untyped pointers: the analysis alone sees it.
    Untyped,
}

impl Kind {
    /// All kinds, in an order in which later ones find the work of earlier ones.
    pub const ALL: [Kind; 13] = [
        Kind::Constants,
        Kind::Calls,
        Kind::Stores,
        Kind::Chains,
        Kind::Selects,
        Kind::Branches,
        Kind::Unreachable,
        Kind::Entries,
        Kind::Order,
        Kind::Groups,
        Kind::Lines,
        Kind::Numbers,
        Kind::Untyped,
    ];

    /// Makes the change; false where there is nothing to change.
    pub fn apply(self, flat: &mut Flat, rng: &mut Rng, given: &mut Given) -> bool {
        match self {
            Kind::Groups => groups(flat, rng),
            Kind::Lines => lines(flat, rng),
            Kind::Order => order(flat, rng),
            Kind::Numbers => flat.renumber(|numbers| rng.shuffle(numbers)).is_ok(),
            Kind::Constants => constants(flat, rng, given),
            Kind::Branches => flags::branches(flat, rng, given),
            Kind::Unreachable => unreachable(flat, rng),
            Kind::Calls => calls(flat, rng),
            Kind::Stores => stores(flat, rng),
            Kind::Selects => selects(flat, rng, given),
            Kind::Chains => chains(flat, rng),
            Kind::Entries => entries(flat),
            Kind::Untyped => untyped(flat, rng),
        }
    }
}

/// Decorations go into groups: those that are alike into one, or all of one target.
fn groups(flat: &mut Flat, rng: &mut Rng) -> bool {
    // What is decorated, and by which words: (target, member), decoration with operands.
    let said = |i: &Inst| match op(i) {
        Some(Op::Decorate) => Some(((i[1], None), i[2..].to_vec())),
        Some(Op::MemberDecorate) => Some(((i[1], Some(i[2])), i[3..].to_vec())),
        _ => None,
    };
    let grouped: Vec<u32> =
        flat.insts.iter().filter(|i| op(i) == Some(Op::DecorationGroup)).map(|i| i[1]).collect();
    // spirv-val 2023.1 refuses built-ins by a group.
    let mut all: Vec<_> = flat.insts.iter().filter_map(said).collect();
    all.retain(|(to, words)| !grouped.contains(&to.0) && words[0] != Decoration::BuiltIn as u32);
    all.sort();
    all.dedup();
    rng.shuffle(&mut all);
    let mut changed = false;
    while let Some((target, words)) = all.pop() {
        if rng.u32(0..3) == 0 {
            continue;
        }
        let (mut targets, mut decorations) = (vec![target], vec![words.clone()]);
        if rng.bool() {
            targets.extend(all.iter().filter(|(_, other)| *other == words).map(|(target, _)| *target));
        } else {
            decorations
                .extend(all.iter().filter(|(other, _)| *other == target).map(|(_, words)| words.clone()));
        }
        all.retain(|(other, words)| !(targets.contains(other) && decorations.contains(words)));
        let gone = |i: &Inst| {
            said(i).is_some_and(|(to, words)| targets.contains(&to) && decorations.contains(&words))
        };
        flat.insts.retain(|i| !gone(i));
        let group = flat.id();
        for words in &decorations {
            flat.annotate(inst(Op::Decorate, &[&[group], words.as_slice()].concat()));
        }
        flat.annotate(inst(Op::DecorationGroup, &[group]));
        let ids: Vec<u32> =
            targets.iter().filter(|(_, member)| member.is_none()).map(|(id, _)| *id).collect();
        let members: Vec<u32> =
            targets.iter().filter_map(|(id, member)| Some([*id, (*member)?])).flatten().collect();
        for (op, targets) in [(Op::GroupDecorate, ids), (Op::GroupMemberDecorate, members)] {
            if !targets.is_empty() {
                flat.annotate(inst(op, &[&[group], targets.as_slice()].concat()));
            }
        }
        changed = true;
    }
    changed
}

/// Debug lines before any instruction of a function that may have one, labels among them, and between declarations.
fn lines(flat: &mut Flat, rng: &mut Rng) -> bool {
    let heads = [
        Op::Capability,
        Op::Extension,
        Op::ExtInstImport,
        Op::MemoryModel,
        Op::EntryPoint,
        Op::ExecutionMode,
        Op::ExecutionModeId,
    ];
    let heading = |i: &Inst| op(i).is_some_and(|op| heads.contains(&op));
    let at = flat.insts.iter().position(|i| !heading(i)).unwrap_or(0);
    let file = flat.id();
    flat.insts.insert(at, inst(Op::String, &[file, u32::from_le_bytes(*b"odd\0")]));
    let (types, functions) = (flat.types(), flat.functions());
    let density = rng.u32(2..12);
    let mut out = Vec::with_capacity(flat.insts.len() * 2);
    let (mut inside, mut merge) = (false, false);
    for (at, i) in flat.insts.drain(..).enumerate() {
        let (declares, opcode) = ((types..functions).contains(&at), op(&i));
        // Not in a function's head, and not between a merge instruction and its branch.
        let may = declares || inside && !merge;
        let often = if opcode == Some(Op::Label) { 2 } else { density };
        if may && rng.u32(0..often) == 0 {
            for _ in 0..rng.u32(1..3) {
                let line = rng.u32(1..99);
                out.push(if rng.u32(0..3) == 0 {
                    inst(Op::NoLine, &[])
                } else {
                    inst(Op::Line, &[file, line, 1])
                });
            }
        }
        inside = (inside || opcode == Some(Op::Label)) && opcode != Some(Op::FunctionEnd);
        merge = matches!(opcode, Some(Op::SelectionMerge | Op::LoopMerge));
        out.push(i);
    }
    flat.insts = out;
    true
}

/// Blocks in another order, in which each still stands behind those that dominate it.
fn order(flat: &mut Flat, rng: &mut Rng) -> bool {
    let mut changed = false;
    for range in flat.function_ranges().into_iter().rev() {
        let blocks = flat.blocks(range);
        let by_label: HashMap<u32, usize> = blocks.iter().enumerate().map(|(n, b)| (b.label, n)).collect();
        // A reverse post-order of any depth-first walk is such an order.
        let (mut seen, mut post) = (vec![false; blocks.len()], Vec::new());
        let successors: Vec<Vec<usize>> = blocks
            .iter()
            .map(|block| {
                let mut to: Vec<usize> =
                    flat.targets(*block).iter().filter_map(|l| by_label.get(l).copied()).collect();
                rng.shuffle(&mut to);
                to
            })
            .collect();
        let mut open = vec![(0, 0)];
        if blocks.is_empty() {
            continue;
        }
        seen[0] = true;
        while let Some((block, next)) = open.pop() {
            match successors[block].get(next) {
                Some(to) => {
                    open.push((block, next + 1));
                    if !std::mem::replace(&mut seen[*to], true) {
                        open.push((*to, 0));
                    }
                }
                None => post.push(block),
            }
        }
        post.reverse();
        post.extend((0..blocks.len()).filter(|block| !seen[*block]));
        let (first, last) = (blocks[0].start, blocks[blocks.len() - 1].end);
        let mut text: Vec<Inst> = Vec::new();
        for block in &post {
            text.extend_from_slice(&flat.insts[blocks[*block].start..=blocks[*block].end]);
        }
        changed |= post.windows(2).any(|pair| pair[0] > pair[1]);
        // Lines between blocks go; they say nothing.
        flat.insts.splice(first..=last, text);
    }
    changed
}

/// Numbers in arithmetic become specialization constants, whose values the pipeline gives.
fn constants(flat: &mut Flat, rng: &mut Rng, given: &mut Given) -> bool {
    let plain: HashMap<u32, (u32, u64)> = flat
        .insts
        .iter()
        .filter(|i| op(i) == Some(Op::Constant) && flat.width(i[1]).is_some())
        .map(|i| (i[2], (i[1], u64::from(i[3]) | i.get(4).map_or(0, |high| u64::from(*high) << 32))))
        .collect();
    let mut uses = Vec::new();
    for (at, i) in flat.insts.iter().enumerate().skip(flat.functions()) {
        let operands = match op(i) {
            Some(
                Op::IAdd
                | Op::ISub
                | Op::IMul
                | Op::UDiv
                | Op::UMod
                | Op::BitwiseAnd
                | Op::BitwiseOr
                | Op::BitwiseXor
                | Op::ULessThan
                | Op::UGreaterThan
                | Op::ULessThanEqual
                | Op::UGreaterThanEqual
                | Op::IEqual
                | Op::INotEqual
                | Op::ShiftRightLogical
                | Op::ShiftLeftLogical
                | Op::SLessThan
                | Op::SGreaterThanEqual,
            ) => 3..5,
            Some(Op::Store) => 2..3,
            Some(Op::Select) => 4..6,
            _ => continue,
        };
        uses.extend(operands.filter(|word| plain.contains_key(&i[*word])).map(|word| (at, word)));
    }
    rng.shuffle(&mut uses);
    uses.truncate(uses.len() / 2 + 1);
    // Positions move as declarations are added, so these are made last.
    let mut made: HashMap<u32, u32> = HashMap::new();
    let before = flat.insts.len();
    for (at, word) in &uses {
        let constant = flat.insts[*at + flat.insts.len() - before][*word];
        let (ty, value) = plain[&constant];
        let new = match made.get(&constant).filter(|_| rng.bool()) {
            Some(new) => *new,
            None => {
                let new = flags::number(flat, rng, given, ty, value);
                made.insert(constant, new);
                new
            }
        };
        let moved = flat.insts.len() - before;
        flat.insts[*at + moved][*word] = new;
    }
    !uses.is_empty()
}

/// Blocks that nothing jumps to.
fn unreachable(flat: &mut Flat, rng: &mut Rng) -> bool {
    let ranges = flat.function_ranges();
    let (_, last) = ranges[rng.usize(0..ranges.len())];
    let label = flat.id();
    flat.insts.insert(last, inst(Op::Unreachable, &[]));
    flat.insts.insert(last, inst(Op::Label, &[label]));
    true
}

/// Operations on two numbers become calls of functions that do the same.
fn calls(flat: &mut Flat, rng: &mut Rng) -> bool {
    let types = flat.type_of();
    let mut places: Vec<usize> = (flat.functions()..flat.insts.len())
        .filter(|at| {
            let i = &flat.insts[*at];
            let listed =
                matches!(op(i), Some(Op::IAdd | Op::ISub | Op::IMul | Op::BitwiseAnd | Op::BitwiseXor));
            listed && flat.width(i[1]).is_some() && (3..5).all(|word| types.get(&i[word]) == Some(&i[1]))
        })
        .collect();
    rng.shuffle(&mut places);
    places.truncate(3);
    for at in &places {
        let (i, function) = (flat.insts[*at].clone(), flat.id());
        flat.insts[*at] = inst(Op::FunctionCall, &[i[1], i[2], function, i[3], i[4]]);
        let [a, b, label, result] = [0; 4].map(|_| flat.id());
        let before = flat.insts.len();
        let ty = flat.ty(Op::TypeFunction, &[i[1], i[1], i[1]]);
        debug_assert!(flat.insts.len() - before <= 1);
        let opcode = op(&i).expect("an opcode");
        flat.insts.extend([
            inst(Op::Function, &[i[1], function, 0, ty]),
            inst(Op::FunctionParameter, &[i[1], a]),
            inst(Op::FunctionParameter, &[i[1], b]),
            inst(Op::Label, &[label]),
            inst(opcode, &[i[1], result, a, b]),
            inst(Op::ReturnValue, &[result]),
            inst(Op::FunctionEnd, &[]),
        ]);
        if flat.insts.len() - before != 7 {
            // A type was declared in front of the functions, and all places have moved.
            return true;
        }
    }
    !places.is_empty()
}

/// Results of access chains into storage buffers of one word, by their position.
fn pointers(flat: &Flat) -> Vec<usize> {
    (flat.functions()..flat.insts.len())
        .filter(|at| {
            let i = &flat.insts[*at];
            let class =
                flat.declaration(i.get(1).copied().unwrap_or(0)).map(|ty| (op(ty), ty.get(2).copied()));
            matches!(op(i), Some(Op::AccessChain | Op::InBoundsAccessChain))
                && class == Some((Some(Op::TypePointer), Some(StorageClass::StorageBuffer as u32)))
        })
        .collect()
}

fn variable_pointers(flat: &mut Flat) {
    flat.capability(Capability::VariablePointersStorageBuffer as u32);
    flat.extension("SPV_KHR_variable_pointers");
}

/// Stores become calls of a function that gets the pointer and the value.
fn stores(flat: &mut Flat, rng: &mut Rng) -> bool {
    let types = flat.type_of();
    let of: HashMap<u32, u32> =
        pointers(flat).into_iter().map(|at| (flat.insts[at][2], flat.insts[at][1])).collect();
    let found: Vec<usize> = (flat.functions()..flat.insts.len())
        .filter(|at| {
            let i = &flat.insts[*at];
            op(i) == Some(Op::Store) && i.len() == 3 && of.contains_key(&i[1]) && types.contains_key(&i[2])
        })
        .collect();
    if found.is_empty() {
        return false;
    }
    let i = flat.insts[found[rng.usize(0..found.len())]].clone();
    let (pointer, value) = (of[&i[1]], types[&i[2]]);
    let [function, a, b, label, result] = [0; 5].map(|_| flat.id());
    let void = flat.ty(Op::TypeVoid, &[]);
    let ty = flat.ty(Op::TypeFunction, &[void, pointer, value]);
    let at = flat.insts.iter().position(|other| *other == i).expect("the store");
    flat.insts[at] = inst(Op::FunctionCall, &[void, result, function, i[1], i[2]]);
    flat.insts.extend([
        inst(Op::Function, &[void, function, 0, ty]),
        inst(Op::FunctionParameter, &[pointer, a]),
        inst(Op::FunctionParameter, &[value, b]),
        inst(Op::Label, &[label]),
        inst(Op::Store, &[a, b]),
        inst(Op::Return, &[]),
        inst(Op::FunctionEnd, &[]),
    ]);
    variable_pointers(flat);
    true
}

/// A pointer becomes one of two, of which a constant picks the right one.
fn selects(flat: &mut Flat, rng: &mut Rng, given: &mut Given) -> bool {
    let found = pointers(flat);
    if found.is_empty() {
        return false;
    }
    let i = flat.insts[found[rng.usize(0..found.len())]].clone();
    let flag = flags::flag(flat, rng, given, true);
    let at = flat.insts.iter().position(|other| *other == i).expect("the chain");
    let [right, wrong] = [flat.id(), flat.id()];
    let mut chain = i.clone();
    chain[2] = right;
    let mut other = i.clone();
    other[2] = wrong;
    let select = inst(Op::Select, &[i[1], i[2], flag, right, wrong]);
    flat.insts.splice(at..=at, [chain, other, select]);
    variable_pointers(flat);
    true
}

/// An access chain of several indices becomes two.
fn chains(flat: &mut Flat, rng: &mut Rng) -> bool {
    let mut found = pointers(flat);
    found.retain(|at| flat.insts[*at].len() > 5);
    if found.is_empty() {
        return false;
    }
    let i = flat.insts[found[rng.usize(0..found.len())]].clone();
    // The type behind the first index.
    let types = flat.type_of();
    let pointee = |flat: &Flat, ty: u32| {
        flat.declaration(ty).filter(|ty| op(ty) == Some(Op::TypePointer)).map(|ty| ty[3])
    };
    let Some(of) = types.get(&i[3]).and_then(|ty| pointee(flat, *ty)) else { return false };
    let Some(of) = flat.declaration(of) else { return false };
    let part = match op(of) {
        Some(Op::TypeStruct) => {
            let member = flat.declaration(i[4]).filter(|c| op(c) == Some(Op::Constant)).map(|c| c[3]);
            member.and_then(|member| of.get(2 + member as usize).copied())
        }
        Some(Op::TypeArray | Op::TypeRuntimeArray) => Some(of[2]),
        _ => None,
    };
    let Some(part) = part else { return false };
    let pointer = flat.ty(Op::TypePointer, &[StorageClass::StorageBuffer as u32, part]);
    let at = flat.insts.iter().position(|other| *other == i).expect("the chain");
    let middle = flat.id();
    let first = inst(Op::AccessChain, &[pointer, middle, i[3], i[4]]);
    let second = inst(Op::AccessChain, &[&[i[1], i[2], middle], &i[5..]].concat());
    flat.insts.splice(at..=at, [first, second]);
    true
}

/// Another entry point in front of the first, with a workgroup of its own.
fn entries(flat: &mut Flat) -> bool {
    let [function, label] = [flat.id(), flat.id()];
    let void = flat.ty(Op::TypeVoid, &[]);
    let ty = flat.ty(Op::TypeFunction, &[void]);
    let at = flat.first(&[Op::EntryPoint]).expect("an entry point");
    flat.insts.insert(at, inst(Op::EntryPoint, &[5, function, u32::from_le_bytes(*b"alt\0")]));
    let at = flat.first(&[Op::ExecutionMode, Op::ExecutionModeId]).expect("a workgroup's size");
    flat.insts.insert(at, inst(Op::ExecutionMode, &[function, 17, 1, 2, 1]));
    flat.insts.extend([
        inst(Op::Function, &[void, function, 0, ty]),
        inst(Op::Label, &[label]),
        inst(Op::Return, &[]),
        inst(Op::FunctionEnd, &[]),
    ]);
    true
}

/// Access chains become untyped ones.
fn untyped(flat: &mut Flat, rng: &mut Rng) -> bool {
    let found = pointers(flat);
    if found.is_empty() {
        return false;
    }
    let (types, before) = (flat.type_of(), flat.clone());
    let pointer = flat.ty(Op::TypeUntypedPointerKHR, &[StorageClass::StorageBuffer as u32]);
    let mut changed = false;
    for at in 0..flat.insts.len() {
        let i = flat.insts[at].clone();
        let chain = matches!(op(&i), Some(Op::AccessChain | Op::InBoundsAccessChain));
        let base = if chain { types.get(&i[3]).and_then(|ty| flat.declaration(*ty)) } else { None };
        let Some(base) = base.filter(|ty| op(ty) == Some(Op::TypePointer)) else { continue };
        if base[2] != StorageClass::StorageBuffer as u32 || rng.u32(0..3) == 0 {
            continue;
        }
        // Only where the result is loaded or stored through.
        let used_otherwise = flat.insts.iter().any(|user| {
            let accesses = matches!(op(user), Some(Op::Load | Op::Store));
            !accesses && user.iter().skip(3).any(|word| *word == i[2])
        });
        if !used_otherwise {
            flat.insts[at] = inst(Op::UntypedAccessChainKHR, &[&[pointer, i[2], base[3]], &i[3..]].concat());
            changed = true;
        }
    }
    if !changed {
        *flat = before;
        return false;
    }
    flat.capability(Capability::UntypedPointersKHR as u32);
    flat.extension("SPV_KHR_untyped_pointers");
    true
}

/// Whether a block may be cut in two: not a loop's header, its way back, or where its rounds go on.
pub fn may_be_cut(flat: &Flat, blocks: &[Block], block: Block) -> bool {
    let merge = flat.tail(block);
    let header = op(&flat.insts[merge]) == Some(Op::LoopMerge);
    let before = |label: &u32| blocks.iter().any(|other| other.label == *label && other.start <= block.start);
    let continues = flat.insts.iter().any(|i| op(i) == Some(Op::LoopMerge) && i[2] == block.label);
    !header && !continues && !flat.targets(block).iter().any(before)
}
