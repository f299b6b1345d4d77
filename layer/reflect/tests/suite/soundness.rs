//! Soundness against the truth: random programs that are *executed while they are written*.
//!
//! The generator below writes a module instruction by instruction and keeps, beside each pointer's id, the very
//! descriptor and element that it holds in the run that the generator has in mind: conditions are constants, calls
//! are followed, slots have one content at a time. So it knows exactly which descriptors the program touches, with
//! no analysis at all, and shares no code with the crate. What is reported must contain that truth; in plain programs,
//! whose pointers never meet (no select, phi, slot, call, unknown index or unknown opcode), it must equal it. And
//! a buffer that no instruction mentions must stay untouched, or "everything is read and written" would pass.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rspirv::spirv::{AddressingModel, Capability, GlslStd450Op, Op, StorageClass};
use zinc_reflect::{Direction, Elements, Stage, reflect};

use crate::raw::{Common, Raw};

const MAIN: u32 = 1;
const BUFFERS: u32 = 4;
/// Binding of the array of descriptors, and its length.
const ARRAY: u32 = BUFFERS;
const LENGTH: u32 = 3;
/// Binding of a buffer that no program mentions.
const IDLE: u32 = 9;
const NAMELESS: u32 = 60_000;

/// Where a pointer points in the run at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// (binding, element)
    Descriptor(u32, u32),
    /// The callee's parameter.
    Parameter(usize),
}

type Truth = BTreeMap<Target, Direction>;

/// What a generated function does and returns, with its parameters left open.
struct Callee {
    id: u32,
    truth: Truth,
    returns: Target,
}

/// The choices that a program is made of; runs out into zeros.
struct Choices<'a>(std::slice::Iter<'a, u16>);

impl Choices<'_> {
    fn next(&mut self, below: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % below.max(1)
    }
}

struct Program<'a> {
    raw: Raw,
    common: Common,
    choices: Choices<'a>,
    buffers: Vec<u32>,
    array: u32,
    indices: Vec<u32>,
    unknown_index: u32,
    yes: u32,
    no: u32,
    glsl: u32,
    slots: Vec<(u32, Option<Target>)>,
    shared_slots: Vec<u32>,
    callees: Vec<Callee>,
    /// Pointers to floats in scope, with where they point.
    pointers: Vec<(u32, Target)>,
    truth: Truth,
    /// Whether pointers never meet: only chains, copies and accesses.
    plain: bool,
    block: u32,
}

impl Program<'_> {
    fn touch(&mut self, target: Target, direction: Direction) {
        *self.truth.entry(target).or_default() |= direction;
    }

    fn pick(&mut self) -> (u32, Target) {
        let index = self.choices.next(self.pointers.len());
        self.pointers[index]
    }

    fn chain(&mut self) {
        let zero = self.indices[0];
        let to_float = self.common.to_float;
        let which = self.choices.next(BUFFERS as usize + 1);
        let (base, target) = match self.buffers.get(which) {
            Some(buffer) => (*buffer, Target::Descriptor(which as u32, 0)),
            None => {
                let element = self.choices.next(LENGTH as usize);
                let index = if !self.plain && self.choices.next(3) == 0 {
                    self.unknown_index
                } else {
                    self.indices[element]
                };
                let base = self.raw.value(Op::AccessChain, self.common.to_block, &[self.array, index]);
                (base, Target::Descriptor(ARRAY, element as u32))
            }
        };
        let id = self.raw.value(Op::AccessChain, to_float, &[base, zero, zero]);
        self.pointers.push((id, target));
    }

    fn step(&mut self) {
        let to_float = self.common.to_float;
        let float = self.common.float;
        let ((p, at_p), (q, at_q)) = (self.pick(), self.pick());
        match self.choices.next(if self.plain { 8 } else { 14 }) {
            0 | 1 => self.chain(),
            2 => {
                let id = self.raw.value(Op::CopyObject, to_float, &[p]);
                self.pointers.push((id, at_p));
            }
            3 => {
                self.raw.value(Op::Load, float, &[p]);
                self.touch(at_p, Direction::READ);
            }
            4 => {
                self.raw.op(Op::Store, &[p, self.common.zero]);
                self.touch(at_p, Direction::WRITE);
            }
            5 => {
                self.raw.op(Op::CopyMemory, &[p, q]);
                self.touch(at_p, Direction::WRITE);
                self.touch(at_q, Direction::READ);
            }
            6 => {
                let modf = GlslStd450Op::Modf as u32;
                self.raw.value(Op::ExtInst, float, &[self.glsl, modf, self.common.zero, p]);
                self.touch(at_p, Direction::WRITE);
            }
            7 => {
                let [one, zero] = [self.indices[1], self.indices[0]];
                self.raw.value(Op::AtomicExchange, float, &[p, one, zero, self.common.zero]);
                self.touch(at_p, Direction::BOTH);
            }
            8 => {
                let first = self.choices.next(2) == 0;
                let id =
                    self.raw.value(Op::Select, to_float, &[if first { self.yes } else { self.no }, p, q]);
                self.pointers.push((id, if first { at_p } else { at_q }));
            }
            9 => {
                let taken = self.choices.next(2) == 0;
                let (aside, merge) = (self.raw.id(), self.raw.id());
                self.raw.op(Op::SelectionMerge, &[merge, 0]);
                self.raw.op(Op::BranchConditional, &[if taken { self.yes } else { self.no }, aside, merge]);
                self.raw.op(Op::Label, &[aside]);
                self.raw.op(Op::Branch, &[merge]);
                self.raw.op(Op::Label, &[merge]);
                let id = self.raw.value(Op::Phi, to_float, &[p, self.block, q, aside]);
                self.pointers.push((id, if taken { at_q } else { at_p }));
                self.block = merge;
            }
            10 => self.slot(p, at_p),
            11 => self.call(),
            12 => {
                // Through a copy of the whole slot.
                let (from, to) = (self.choices.next(self.slots.len()), self.choices.next(self.slots.len()));
                if let (true, (source, Some(target))) = (from != to, self.slots[from]) {
                    self.raw.op(Op::CopyMemory, &[self.slots[to].0, source]);
                    self.slots[to].1 = Some(target);
                }
            }
            _ => {
                let id = self.raw.id();
                self.raw.number(NAMELESS, &[to_float, id, p, q]);
                self.touch(at_p, Direction::BOTH);
                self.touch(at_q, Direction::BOTH);
                self.pointers.push((id, at_q));
            }
        }
    }

    /// Stores to a slot, or loads from one that holds something.
    fn slot(&mut self, p: u32, at_p: Target) {
        let index = self.choices.next(self.slots.len());
        match (self.choices.next(2), self.slots[index]) {
            (1, (slot, Some(target))) => {
                let id = self.raw.value(Op::Load, self.common.to_float, &[slot]);
                self.pointers.push((id, target));
            }
            (_, (slot, _)) => {
                self.raw.op(Op::Store, &[slot, p]);
                self.slots[index].1 = Some(at_p);
            }
        }
    }

    fn call(&mut self) {
        if self.callees.is_empty() {
            return;
        }
        let arguments = [self.pick(), self.pick()];
        let index = self.choices.next(self.callees.len());
        let callee = &self.callees[index];
        let resolve = |target: Target| match target {
            Target::Parameter(parameter) => arguments[parameter].1,
            target => target,
        };
        let effects: Vec<(Target, Direction)> =
            callee.truth.iter().map(|(target, direction)| (resolve(*target), *direction)).collect();
        let (function, returned) = (callee.id, resolve(callee.returns));
        let [a, b] = arguments;
        let id = self.raw.value(Op::FunctionCall, self.common.to_float, &[function, a.0, b.0]);
        self.pointers.push((id, returned));
        for (target, direction) in effects {
            self.touch(target, direction);
        }
    }

    /// Opens a function body: its local slots, and a first pointer to work with.
    fn open(&mut self, slot_type: u32, private: &[u32]) {
        self.block = self.raw.declare(Op::Label, &[]);
        self.slots = (0..2)
            .map(|_| (self.raw.value(Op::Variable, slot_type, &[StorageClass::Function as u32]), None))
            .collect();
        // A callee may find anything in a private slot: only what it stores itself is known to it.
        self.slots.extend(private.iter().map(|slot| (*slot, None)));
        if self.pointers.is_empty() {
            self.chain();
        }
    }
}

/// Writes a program; returns the module and the truth.
fn write(choices: &[u16], plain: bool) -> (Vec<u32>, Truth) {
    let capabilities = [Capability::Shader, Capability::VariablePointers];
    let mut raw = Raw::new(&capabilities, AddressingModel::Logical, MAIN);
    let name: Vec<u32> =
        b"GLSL.std.450\0\0\0\0".chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let glsl = raw.declare(Op::ExtInstImport, &name);
    let common = raw.common();
    let bool_type = raw.declare(Op::TypeBool, &[]);
    let yes = raw.value(Op::ConstantTrue, bool_type, &[]);
    let no = raw.value(Op::ConstantFalse, bool_type, &[]);
    let indices: Vec<u32> = (0..=LENGTH).map(|value| raw.constant(common.uint, value)).collect();
    let unknown_index = raw.value(Op::SpecConstant, common.uint, &[0]);
    let storage = StorageClass::StorageBuffer as u32;
    let blocks = raw.declare(Op::TypeArray, &[common.block, indices[LENGTH as usize]]);
    let to_blocks = raw.declare(Op::TypePointer, &[storage, blocks]);
    let [function_slot, private_slot] = [StorageClass::Function, StorageClass::Private]
        .map(|class| raw.declare(Op::TypePointer, &[class as u32, common.to_float]));
    let callee_type = raw.declare(Op::TypeFunction, &[common.to_float, common.to_float, common.to_float]);
    let buffers: Vec<u32> = (0..BUFFERS).map(|binding| raw.buffer(&common, binding)).collect();
    raw.buffer(&common, IDLE);
    let array = raw.value(Op::Variable, to_blocks, &[storage]);
    raw.bind(array, 0, ARRAY);
    let private = raw.value(Op::Variable, private_slot, &[StorageClass::Private as u32]);
    let mut program = Program {
        raw,
        common,
        choices: Choices(choices.iter()),
        buffers,
        array,
        indices,
        unknown_index,
        yes,
        no,
        glsl,
        slots: Vec::new(),
        shared_slots: vec![private],
        callees: Vec::new(),
        pointers: Vec::new(),
        truth: Truth::new(),
        plain,
        block: 0,
    };
    for _ in 0..program.choices.next(if plain { 1 } else { 3 }) {
        let id = program.raw.id();
        program.raw.op(Op::Function, &[common.to_float, id, 0, callee_type]);
        program.pointers = (0..2)
            .map(|n| (program.raw.value(Op::FunctionParameter, common.to_float, &[]), Target::Parameter(n)))
            .collect();
        program.open(function_slot, &[]);
        for _ in 0..1 + program.choices.next(6) {
            program.step();
        }
        let (id_returned, returns) = program.pick();
        program.raw.op(Op::ReturnValue, &[id_returned]);
        program.raw.op(Op::FunctionEnd, &[]);
        let truth = std::mem::take(&mut program.truth);
        program.callees.push(Callee { id, truth, returns });
    }
    program.pointers.clear();
    program.raw.op(Op::Function, &[common.void, MAIN, 0, common.procedure]);
    let shared = program.shared_slots.clone();
    program.open(function_slot, &shared);
    while program.choices.0.len() > 0 {
        program.step();
    }
    program.raw.end();
    (program.raw.finish(), program.truth)
}

fn check(choices: &[u16], plain: bool) -> Result<(), TestCaseError> {
    let (words, truth) = write(choices, plain);
    let module = reflect(&words).expect("a well-formed module");
    let entry = module.entry_point("main", Stage::Compute).expect("main");
    prop_assert_eq!(&entry.unknown, &None);
    prop_assert_eq!(entry.binding(0, IDLE).unwrap().direction, Direction::NONE);
    for (target, direction) in &truth {
        let Target::Descriptor(binding, element) = *target else { unreachable!("main has no parameters") };
        let found = entry.binding(0, binding).unwrap();
        prop_assert!(found.direction.contains(*direction), "{target:?} is {direction}, found {found:?}");
        let reached = match &found.elements {
            Elements::All => true,
            Elements::These(elements) => elements.contains(&element),
        };
        prop_assert!(reached, "{:?} is touched, found {:?}", target, found);
    }
    if plain {
        for found in &entry.bindings {
            let of_binding = truth.iter().filter_map(|(target, direction)| match target {
                Target::Descriptor(binding, element) if *binding == found.binding => {
                    Some((*element, *direction))
                }
                _ => None,
            });
            let exact = of_binding.clone().fold(Direction::NONE, |sum, (_, direction)| sum | direction);
            prop_assert_eq!(found.direction, exact);
            let elements = Elements::These(of_binding.map(|(element, _)| element).collect());
            prop_assert_eq!(&found.elements, &elements);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_random_program_touches_is_reported(choices in prop::collection::vec(any::<u16>(), 0..240)) {
        check(&choices, false)?;
    }

    #[test]
    fn where_pointers_do_not_meet_the_answer_is_exact(choices in prop::collection::vec(any::<u16>(), 0..60)) {
        check(&choices, true)?;
    }
}

#[test]
fn the_random_programs_touch_much() {
    // The checks above are worth what the programs contain.
    let mut state = 1u32;
    let mut touched = [0, 0];
    for length in 0..240 {
        let choices: Vec<u16> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as u16
            })
            .collect();
        touched[0] += write(&choices, false).1.len();
        touched[1] += write(&choices, true).1.len();
    }
    assert!(
        touched.iter().all(|touched| *touched > 480),
        "fewer than two descriptors a program: {touched:?}"
    );
}
