//! Pairs of modules with what compilers rarely write, in opcodes and words: untyped pointers, replicated constants,
//! masks with bits that nothing names, declarations that are missing or there twice. One of a pair is followed, and in the
//! other nothing is taken for known that isn't.

use rspirv::spirv::{
    AddressingModel, Capability, Decoration, ExecutionModel, MemoryAccess, MemoryModel, Op, Scope,
    StorageClass,
};
use zinc_reflect::{
    Dispatch, Elements, EntryPoint, Extent, Footprint, Specialization, Stage, reflect, reflect_specialized,
};

use crate::raw::{Common, Raw};

const MAIN: u32 = 1;
const LOGICAL: AddressingModel = AddressingModel::Logical;
const STORAGE: u32 = StorageClass::StorageBuffer as u32;
const FUNCTION: u32 = StorageClass::Function as u32;

/// What the extent of a write is.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    Bytes(u64, u64),
    Whole,
    Nothing,
}

/// A module with one buffer of words at 0.0 and a workgroup of one.
struct Shader {
    raw: Raw,
    common: Common,
    to_word: u32,
    buffer: u32,
    zero: u32,
}

fn shader(capabilities: &[Capability]) -> Shader {
    let mut raw = Raw::new(&[&[Capability::Shader], capabilities].concat(), LOGICAL, MAIN);
    raw.op(Op::ExecutionMode, &[MAIN, 17, 1, 1, 1]);
    let common = raw.common();
    let words = raw.declare(Op::TypeRuntimeArray, &[common.uint]);
    raw.op(Op::Decorate, &[words, Decoration::ArrayStride as u32, 4]);
    let block = raw.declare(Op::TypeStruct, &[words]);
    raw.op(Op::MemberDecorate, &[block, 0, Decoration::Offset as u32, 0]);
    let to_block = raw.declare(Op::TypePointer, &[STORAGE, block]);
    let to_word = raw.declare(Op::TypePointer, &[STORAGE, common.uint]);
    let buffer = raw.value(Op::Variable, to_block, &[STORAGE]);
    raw.bind(buffer, 0, 0);
    let zero = raw.constant(common.uint, 0);
    Shader { raw, common, to_word, buffer, zero }
}

impl Shader {
    fn begin(&mut self) {
        self.raw.begin(MAIN, self.common.void, self.common.procedure, &[]);
    }

    /// Writes the element of the buffer that an index gives, ends the module and says what is written.
    fn write(mut self, index: u32) -> Written {
        let at = self.raw.value(Op::AccessChain, self.to_word, &[self.buffer, self.zero, index]);
        self.raw.op(Op::Store, &[at, self.zero]);
        self.raw.end();
        written(&self.raw.finish())
    }
}

fn written(words: &[u32]) -> Written {
    let footprint = Footprint::compile(words, "main", &Specialization::none()).expect("a well-formed module");
    let dispatch = Dispatch { push_constants: &[], groups: [1; 3], base: [0; 3] };
    match footprint.evaluate(&dispatch).binding(0, 0).expect("it is there").write {
        Extent::Bytes { start, end, .. } => Written::Bytes(start, end),
        Extent::Whole { .. } => Written::Whole,
        Extent::Nothing => Written::Nothing,
    }
}

fn main(words: &[u32]) -> EntryPoint {
    reflect(words).expect("a well-formed module").entry_point("main", Stage::Compute).expect("main").clone()
}

/// A local variable is given 3 and then, through a pointer to it of some kind, 9; it is the index of a write.
fn index_from_local(untyped: bool, copied: bool, second: bool) -> Written {
    let mut it = shader(&[Capability::UntypedPointersKHR]);
    let [three, nine] = [3, 9].map(|n| it.raw.constant(it.common.uint, n));
    let pointer = it.raw.declare(Op::TypeUntypedPointerKHR, &[FUNCTION]);
    let typed = it.raw.declare(Op::TypePointer, &[FUNCTION, it.common.uint]);
    it.begin();
    let local = it.raw.value(Op::Variable, typed, &[FUNCTION]);
    let other = it.raw.value(Op::Variable, typed, &[FUNCTION]);
    it.raw.op(Op::Store, &[local, three]);
    it.raw.op(Op::Store, &[other, nine]);
    if second {
        let to = match untyped {
            true => it.raw.value(Op::UntypedAccessChainKHR, pointer, &[it.common.uint, local]),
            false => local,
        };
        match copied {
            true => {
                let four = it.raw.constant(it.common.uint, 4);
                it.raw.op(Op::CopyMemorySized, &[to, other, four]);
            }
            false => it.raw.op(Op::Store, &[to, nine]),
        }
    }
    let index = it.raw.value(Op::Load, it.common.uint, &[local]);
    it.write(index)
}

#[test]
fn what_untyped_pointers_write_to_a_local_variable_is_not_forgotten() {
    assert_eq!(index_from_local(false, false, false), Written::Bytes(12, 16));
    assert_eq!(index_from_local(false, false, true), Written::Bytes(36, 40));
    for (untyped, copied) in [(true, false), (true, true)] {
        assert_eq!(index_from_local(untyped, copied, false), Written::Bytes(12, 16));
        assert_eq!(index_from_local(untyped, copied, true), Written::Whole, "{untyped} {copied}");
    }
}

#[test]
fn an_untyped_access_reaches_at_least_as_far_as_the_typed_one() {
    let write = |untyped: bool| {
        let mut it = shader(&[Capability::UntypedPointersKHR]);
        let five = it.raw.constant(it.common.uint, 5);
        let pointer = it.raw.declare(Op::TypeUntypedPointerKHR, &[STORAGE]);
        let words = it.raw.declare(Op::TypeRuntimeArray, &[it.common.uint]);
        it.raw.op(Op::Decorate, &[words, Decoration::ArrayStride as u32, 4]);
        it.begin();
        if !untyped {
            return it.write(five);
        }
        let at = it.raw.value(Op::UntypedAccessChainKHR, pointer, &[words, it.buffer, five]);
        it.raw.op(Op::Store, &[at, it.zero]);
        it.raw.end();
        written(&it.raw.finish())
    };
    assert_eq!(write(false), Written::Bytes(20, 24));
    assert_eq!(write(true), Written::Whole);
}

#[test]
fn a_replicated_constant_is_taken_apart_or_any_value() {
    let write = |op: Op| {
        let mut it = shader(&[Capability::ReplicatedCompositesEXT]);
        let six = it.raw.constant(it.common.uint, 6);
        let pair = it.raw.declare(Op::TypeVector, &[it.common.uint, 2]);
        let parts: &[u32] = if op == Op::ConstantComposite { &[six, six] } else { &[six] };
        let both = it.raw.value(op, pair, parts);
        it.begin();
        let index = it.raw.value(Op::CompositeExtract, it.common.uint, &[both, 1]);
        it.write(index)
    };
    assert_eq!(write(Op::ConstantComposite), Written::Bytes(24, 28));
    assert_eq!(write(Op::ConstantCompositeReplicateEXT), Written::Whole);
    assert_eq!(write(Op::SpecConstantCompositeReplicateEXT), Written::Whole);
}

#[test]
fn a_composite_that_goes_on_in_another_instruction_makes_the_module_unknown() {
    let unknown = |more: Option<Op>| {
        let mut it = shader(&[]);
        let pair = it.raw.declare(Op::TypeVector, &[it.common.uint, 2]);
        it.raw.value(Op::ConstantComposite, pair, &[it.zero, it.zero]);
        if let Some(more) = more {
            it.raw.op(more, &[it.zero]);
        }
        it.begin();
        it.raw.end();
        main(&it.raw.finish()).unknown
    };
    assert_eq!(unknown(None), None);
    for more in [
        Op::ConstantCompositeContinuedINTEL,
        Op::SpecConstantCompositeContinuedINTEL,
        Op::TypeStructContinuedINTEL,
    ] {
        assert!(unknown(Some(more)).is_some(), "{more:?}");
    }
}

#[test]
fn what_is_declared_under_a_condition_makes_the_module_unknown() {
    let unknown = |number: Option<u32>, words: &[u32]| {
        let mut it = shader(&[]);
        if let Some(number) = number {
            it.raw.number(number, words);
        }
        it.begin();
        it.raw.end();
        main(&it.raw.finish()).unknown
    };
    assert_eq!(unknown(None, &[]), None);
    // OpConditionalExtensionINTEL, OpConditionalEntryPointINTEL, OpConditionalCapabilityINTEL, and one without a name.
    for number in [6248, 6249, 6250, 60_000] {
        assert!(unknown(Some(number), &[2, 1, 1, 0, 0]).is_some(), "{number}");
    }
}

#[test]
fn an_opcode_that_may_end_a_block_makes_the_module_unknown_where_it_does() {
    let unknown = |ends: bool| {
        let mut it = shader(&[]);
        it.begin();
        it.raw.number(60_000, &[]);
        if !ends {
            it.raw.op(Op::Return, &[]);
        }
        it.raw.declare(Op::Label, &[]);
        it.raw.end();
        main(&it.raw.finish()).unknown
    };
    assert_eq!(unknown(false), None);
    assert!(unknown(true).is_some());
}

#[test]
fn a_module_whose_frame_contradicts_itself_is_unknown() {
    let unknown = |change: &dyn Fn(&mut Raw)| {
        let mut it = shader(&[]);
        change(&mut it.raw);
        it.begin();
        it.raw.end();
        main(&it.raw.finish()).unknown
    };
    assert_eq!(unknown(&|_| {}), None);
    let memory = [LOGICAL as u32, MemoryModel::GLSL450 as u32];
    assert!(unknown(&|raw| raw.op(Op::MemoryModel, &memory)).is_some());
    let entry = |name: &[u8; 4]| [ExecutionModel::GLCompute as u32, MAIN, u32::from_le_bytes(*name), 0];
    assert!(unknown(&|raw| raw.op(Op::EntryPoint, &entry(b"main"))).is_some());
    assert_eq!(unknown(&|raw| raw.op(Op::EntryPoint, &entry(b"next"))), None);
    assert!(unknown(&|raw| raw.op(Op::ExecutionMode, &[MAIN, 9_999])).is_some());
    assert_eq!(unknown(&|raw| raw.op(Op::ExecutionMode, &[MAIN, 17, 1, 1, 1])), None);
    let int = |bits: u32| {
        move |raw: &mut Raw| {
            raw.declare(Op::TypeInt, &[bits, 0]);
        }
    };
    assert!(unknown(&int(24)).is_some());
    assert_eq!(unknown(&int(16)), None);
    assert!(unknown(&|raw| raw.op(Op::Decorate, &[MAIN, 9_999])).is_some());
    assert_eq!(unknown(&|raw| raw.op(Op::Decorate, &[MAIN, Decoration::RelaxedPrecision as u32])), None);
}

#[test]
fn a_pointer_type_is_what_was_announced_or_the_module_is_unknown() {
    let unknown = |announced: StorageClass| {
        let mut it = shader(&[]);
        let pointer = it.raw.id();
        it.raw.op(Op::TypeForwardPointer, &[pointer, announced as u32]);
        it.raw.op(Op::TypePointer, &[pointer, STORAGE, it.common.float]);
        it.begin();
        it.raw.end();
        main(&it.raw.finish()).unknown
    };
    assert_eq!(unknown(StorageClass::StorageBuffer), None);
    assert!(unknown(StorageClass::PhysicalStorageBuffer).is_some());
}

#[test]
fn a_bit_of_memory_operands_without_a_name_may_make_an_access_visible() {
    let synchronising = |bits: u32| {
        let mut it = shader(&[]);
        let device = it.raw.constant(it.common.uint, Scope::Device as u32);
        let semantics = it.raw.constant(it.common.uint, 0x48);
        it.begin();
        let at = it.raw.value(Op::AccessChain, it.to_word, &[it.buffer, it.zero, it.zero]);
        it.raw.op(Op::Store, &[at, it.zero, bits]);
        it.raw.op(Op::MemoryBarrier, &[device, semantics]);
        it.raw.end();
        main(&it.raw.finish()).synchronising
    };
    assert!(!synchronising(0));
    assert!(!synchronising(MemoryAccess::NONTEMPORAL.bits()));
    assert!(synchronising(MemoryAccess::VOLATILE.bits()));
    assert!(synchronising(1 << 29));
}

#[test]
fn the_first_invocations_exclusive_scan_is_none_of_the_values() {
    let write = |operation: u32| {
        let mut it = shader(&[Capability::GroupNonUniform, Capability::GroupNonUniformArithmetic]);
        let [subgroup, two] = [3, 2].map(|n| it.raw.constant(it.common.uint, n));
        it.begin();
        let index = it.raw.value(Op::GroupNonUniformUMin, it.common.uint, &[subgroup, operation, two]);
        it.write(index)
    };
    for one_of_them in [0, 1] {
        assert_eq!(write(one_of_them), Written::Bytes(8, 12), "{one_of_them}");
    }
    // ExclusiveScan, PartitionedExclusiveScanEXT, and one without a name.
    for none_of_them in [2, 8, 77] {
        assert_eq!(write(none_of_them), Written::Whole, "{none_of_them}");
    }
}

#[test]
fn numbers_that_share_a_byte_have_no_place_of_their_own() {
    let write = |bits: u32| {
        let mut raw = Raw::new(&[Capability::Shader], LOGICAL, MAIN);
        raw.op(Op::ExecutionMode, &[MAIN, 17, 1, 1, 1]);
        let common = raw.common();
        let small = raw.declare(Op::TypeFloat, &[bits]);
        let four = raw.declare(Op::TypeVector, &[small, 4]);
        let block = raw.declare(Op::TypeStruct, &[four]);
        raw.op(Op::MemberDecorate, &[block, 0, Decoration::Offset as u32, 0]);
        let [to_block, to_small] = [block, small].map(|ty| raw.declare(Op::TypePointer, &[STORAGE, ty]));
        let buffer = raw.value(Op::Variable, to_block, &[STORAGE]);
        raw.bind(buffer, 0, 0);
        let [zero, three] = [0, 3].map(|n| raw.constant(common.uint, n));
        let value = raw.value(Op::Undef, small, &[]);
        raw.begin(MAIN, common.void, common.procedure, &[]);
        let at = raw.value(Op::AccessChain, to_small, &[buffer, zero, three]);
        raw.op(Op::Store, &[at, value]);
        raw.end();
        written(&raw.finish())
    };
    assert_eq!(write(8), Written::Bytes(3, 4));
    assert_eq!(write(32), Written::Bytes(12, 16));
    for shared in [4, 6] {
        assert_eq!(write(shared), Written::Whole, "{shared}");
    }
}

#[test]
fn what_a_function_that_is_not_called_does_is_not_reported_and_what_it_calls_is() {
    let write = |called: bool| {
        let mut it = shader(&[]);
        let callee = it.raw.id();
        it.begin();
        if called {
            it.raw.value(Op::FunctionCall, it.common.void, &[callee]);
        }
        it.raw.end();
        it.raw.begin(callee, it.common.void, it.common.procedure, &[]);
        let zero = it.zero;
        it.write(zero)
    };
    assert_eq!(write(false), Written::Nothing);
    assert_eq!(write(true), Written::Bytes(0, 4));
}

/// The elements of an array of three descriptors that a write reaches whose index is a specialization constant; its `SpecId` 7
/// may come through a group.
fn elements(grouped: bool, specialization: &Specialization) -> Elements {
    let mut raw = Raw::new(&[Capability::Shader], LOGICAL, MAIN);
    let common = raw.common();
    let [zero, three] = [0, 3].map(|n| raw.constant(common.uint, n));
    let index = raw.value(Op::SpecConstant, common.uint, &[1]);
    let decoration = [Decoration::SpecId as u32, 7];
    if grouped {
        let group = raw.id();
        raw.op(Op::Decorate, &[&[group], decoration.as_slice()].concat());
        raw.op(Op::DecorationGroup, &[group]);
        raw.op(Op::GroupDecorate, &[group, index]);
    } else {
        raw.op(Op::Decorate, &[&[index], decoration.as_slice()].concat());
    }
    let blocks = raw.declare(Op::TypeArray, &[common.block, three]);
    let to_blocks = raw.declare(Op::TypePointer, &[STORAGE, blocks]);
    let array = raw.value(Op::Variable, to_blocks, &[STORAGE]);
    raw.bind(array, 0, 0);
    raw.begin(MAIN, common.void, common.procedure, &[]);
    let at = raw.value(Op::AccessChain, common.to_float, &[array, index, zero, zero]);
    raw.op(Op::Store, &[at, common.zero]);
    raw.end();
    let module = reflect_specialized(&raw.finish(), specialization).expect("a well-formed module");
    module
        .entry_point("main", Stage::Compute)
        .expect("main")
        .binding(0, 0)
        .expect("it is there")
        .elements
        .clone()
}

#[test]
fn the_descriptor_that_a_specialization_constant_picks_is_that_of_its_value() {
    let these = |element: u32| Elements::These([element].into());
    for grouped in [false, true] {
        assert_eq!(elements(grouped, &Specialization::none()), these(1), "{grouped}");
        let given = |size: usize| Specialization::from_entries([(7, 0, size)], &[2, 0, 0, 0]);
        assert_eq!(elements(grouped, &given(4)), these(2), "{grouped}");
        assert_eq!(elements(grouped, &given(2)), Elements::All, "{grouped}");
    }
}
