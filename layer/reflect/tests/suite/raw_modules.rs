//! What neither the installed compiler nor the installed assembler can say: untyped pointers, cooperative matrices
//! and the functions that they call, opcodes and capabilities that nobody has named.

use rspirv::spirv::{AddressingModel, Capability, Op, Scope, StorageClass};
use zinc_reflect::{Direction, EntryPoint, Stage, reflect};

use crate::raw::{Common, Raw};
use crate::tables::render;

const MAIN: u32 = 1;
/// No opcode has this number.
const NAMELESS: u32 = 60_000;
const LOGICAL: AddressingModel = AddressingModel::Logical;
const PHYSICAL: AddressingModel = AddressingModel::PhysicalStorageBuffer64;

/// A module with two buffers; `body` is handed pointers into them and writes the main function.
fn two_buffers(
    capabilities: &[Capability],
    body: impl Fn(&mut Raw, &Common, [u32; 2], [u32; 2]),
) -> EntryPoint {
    let mut raw = Raw::new(&[&[Capability::Shader], capabilities].concat(), LOGICAL, MAIN);
    let common = raw.common();
    let buffers = [raw.buffer(&common, 0), raw.buffer(&common, 1)];
    let zero = raw.constant(common.uint, 0);
    raw.begin(MAIN, common.void, common.procedure, &[]);
    let pointers = buffers.map(|buffer| raw.value(Op::AccessChain, common.to_float, &[buffer, zero, zero]));
    body(&mut raw, &common, buffers, pointers);
    raw.end();
    main(raw)
}

fn main(raw: Raw) -> EntryPoint {
    reflect(&raw.finish()).unwrap().entry_point("main", Stage::Compute).unwrap().clone()
}

fn direction(entry: &EntryPoint, binding: u32) -> Direction {
    entry.binding(0, binding).unwrap().direction
}

#[test]
fn an_unlisted_opcode_reads_and_writes_what_its_words_denote_and_nothing_else() {
    let entry = two_buffers(&[], |raw, _, _, [p, _]| raw.number(NAMELESS, &[77, p]));
    assert_eq!(
        render(&entry),
        [
            "0.0 StorageBuffer One both {0} stopped by opcode 60000",
            "0.1 StorageBuffer One none {}",
            "addresses none",
            // It might be a barrier and a spin in one.
            "synchronising yes",
        ]
    );
}

#[test]
fn an_opcode_of_the_grammar_that_is_not_listed_is_named() {
    let entry = two_buffers(&[], |raw, _, _, [_, q]| raw.op(Op::UntypedPrefetchKHR, &[q, 5]));
    assert_eq!(direction(&entry, 0), Direction::NONE);
    assert_eq!(entry.binding(0, 1).unwrap().stopped_by.as_deref(), Some("OpUntypedPrefetchKHR"));
}

#[test]
fn the_result_of_an_unlisted_opcode_is_followed() {
    let entry = two_buffers(&[], |raw, common, _, [p, q]| {
        let result = raw.id();
        raw.number(NAMELESS, &[common.to_float, result, p]);
        raw.op(Op::CopyMemory, &[q, result]);
    });
    assert_eq!(entry.unknown, None);
    assert_eq!((direction(&entry, 0), direction(&entry, 1)), (Direction::BOTH, Direction::WRITE));
}

#[test]
fn a_pointer_from_nowhere_makes_the_entry_point_unknown() {
    let entry = two_buffers(&[], |raw, common, _, _| raw.op(Op::Store, &[4000, common.zero]));
    let reason = entry.unknown.expect("unknown");
    assert!(reason.contains("OpStore through %4000"), "{reason}");
    assert_eq!(entry.addresses, Direction::BOTH);
}

#[test]
fn a_capability_without_a_name_makes_the_entry_point_unknown_and_one_from_the_list_does_not() {
    let with = |number: u32| {
        let mut raw = Raw::new(&[Capability::Shader], LOGICAL, MAIN);
        raw.op(Op::Capability, &[number]);
        let common = raw.common();
        raw.begin(MAIN, common.void, common.procedure, &[]);
        raw.end();
        main(raw).unknown
    };
    assert_eq!(with(59_999).as_deref(), Some("capability 59999"));
    assert_eq!(with(Capability::DescriptorHeapEXT as u32).as_deref(), Some("capability DescriptorHeapEXT"));
    assert_eq!(with(Capability::Float16 as u32), None);
    // DotProductFloat16AccFloat32VALVE, newer than the parser's grammar.
    assert_eq!(with(6912), None);
}

#[test]
fn a_function_that_an_unlisted_opcode_names_is_called_with_its_operands() {
    let build = |named: bool| {
        let mut raw = Raw::new(&[Capability::Shader], LOGICAL, MAIN);
        let common = raw.common();
        let [a, b] = [raw.buffer(&common, 0), raw.buffer(&common, 1)];
        let zero = raw.constant(common.uint, 0);
        let (callee, formal) = (raw.id(), raw.id());
        let ty = raw.declare(Op::TypeFunction, &[common.void, common.to_block]);
        raw.begin(MAIN, common.void, common.procedure, &[]);
        raw.number(NAMELESS, if named { &[] } else { &[5] });
        raw.number(NAMELESS, &[a, if named { callee } else { common.void }]);
        raw.end();
        raw.begin(callee, common.void, ty, &[(common.to_block, formal)]);
        let p = raw.value(Op::AccessChain, common.to_float, &[b, zero, zero]);
        raw.op(Op::Store, &[p, common.zero]);
        raw.end();
        main(raw)
    };
    assert_eq!(direction(&build(true), 1), Direction::WRITE);
    assert_eq!(direction(&build(false), 1), Direction::NONE);
}

#[test]
fn untyped_pointers_are_followed_and_pick_no_single_element() {
    let storage = StorageClass::StorageBuffer as u32;
    let mut raw = Raw::new(&[Capability::Shader, Capability::UntypedPointersKHR], LOGICAL, MAIN);
    let common = raw.common();
    let untyped = raw.declare(Op::TypeUntypedPointerKHR, &[storage]);
    let [zero, three] = [raw.constant(common.uint, 0), raw.constant(common.uint, 3)];
    let blocks = raw.declare(Op::TypeArray, &[common.block, three]);
    let [a, b] = [0, 1].map(|binding| {
        let variable = raw.value(Op::UntypedVariableKHR, untyped, &[storage, common.block]);
        raw.bind(variable, 0, binding);
        variable
    });
    let many = raw.value(Op::UntypedVariableKHR, untyped, &[storage, blocks]);
    raw.bind(many, 0, 2);
    raw.begin(MAIN, common.void, common.procedure, &[]);
    let p = raw.value(Op::UntypedAccessChainKHR, untyped, &[common.block, a, zero, zero]);
    let x = raw.value(Op::Load, common.float, &[p]);
    let q = raw.value(Op::UntypedPtrAccessChainKHR, untyped, &[blocks, many, zero, zero]);
    raw.op(Op::Store, &[q, x]);
    raw.value(Op::UntypedArrayLengthKHR, common.uint, &[common.block, b, 0]);
    raw.end();
    assert_eq!(
        render(&main(raw)),
        [
            "0.0 StorageBuffer One read {0}",
            "0.1 StorageBuffer One none {}",
            "0.2 StorageBuffer Array(3) write all",
            "addresses none",
            "synchronising no",
        ]
    );
}

#[test]
fn an_address_that_was_memory_is_an_address_and_a_pointer_to_it_stays_one() {
    let physical = StorageClass::PhysicalStorageBuffer as u32;
    let capabilities = [Capability::Shader, Capability::PhysicalStorageBufferAddresses, Capability::Int64];
    let mut raw = Raw::new(&capabilities, PHYSICAL, MAIN);
    let common = raw.common();
    let wide = raw.declare(Op::TypeInt, &[64, 0]);
    let number = raw.value(Op::Constant, wide, &[64, 0]);
    let address = raw.declare(Op::TypePointer, &[physical, common.float]);
    let slot_type = raw.declare(Op::TypePointer, &[StorageClass::Function as u32, address]);
    let a = raw.buffer(&common, 0);
    raw.begin(MAIN, common.void, common.procedure, &[]);
    let slot = raw.value(Op::Variable, slot_type, &[StorageClass::Function as u32]);
    let made = raw.value(Op::ConvertUToPtr, address, &[number]);
    raw.op(Op::Store, &[slot, made]);
    let back = raw.value(Op::Load, address, &[slot]);
    raw.op(Op::Store, &[back, common.zero, 2, 4]);
    raw.end();
    let entry = main(raw);
    assert_eq!((entry.addresses, direction(&entry, 0)), (Direction::WRITE, Direction::NONE), "{a}");
}

/// A cooperative matrix module: a tensor load with a decode function, and a function per element that stores.
fn cooperative(decodes: bool, per_element: bool) -> EntryPoint {
    let physical = StorageClass::PhysicalStorageBuffer as u32;
    let capabilities = [
        Capability::Shader,
        Capability::VulkanMemoryModel,
        Capability::PhysicalStorageBufferAddresses,
        Capability::CooperativeMatrixKHR,
        Capability::CooperativeMatrixTensorAddressingNV,
        Capability::CooperativeMatrixBlockLoadsNV,
        Capability::CooperativeMatrixPerElementOperationsNV,
        Capability::TensorAddressingNV,
    ];
    let mut raw = Raw::new(&capabilities, PHYSICAL, MAIN);
    let common = raw.common();
    let [zero, sixteen] = [raw.constant(common.uint, 0), raw.constant(common.uint, 16)];
    let matrix = raw.declare(Op::TypeCooperativeMatrixKHR, &[common.float, zero, sixteen, sixteen, zero]);
    let layout_type = raw.declare(Op::TypeTensorLayoutNV, &[zero, zero]);
    let coded = raw.declare(Op::TypePointer, &[physical, common.float]);
    let slot_type = raw.declare(Op::TypePointer, &[StorageClass::Function as u32, coded]);
    let decode_type = raw.declare(Op::TypeFunction, &[common.float, coded]);
    let element_type = raw.declare(Op::TypeFunction, &[common.float, common.uint, common.uint, common.float]);
    let buffers = [0, 1, 2].map(|binding| raw.buffer(&common, binding));
    let blank = raw.value(Op::ConstantNull, matrix, &[]);
    let [decode, pointer, each, row, column, element] = [0; 6].map(|_| raw.id());

    raw.begin(MAIN, common.void, common.procedure, &[]);
    let [p, q, _] = buffers.map(|buffer| raw.value(Op::AccessChain, common.to_float, &[buffer, zero, zero]));
    let layout = raw.value(Op::CreateTensorLayoutNV, layout_type, &[]);
    let addressing: &[u32] = if decodes { &[2, decode] } else { &[0] };
    let loaded =
        raw.value(Op::CooperativeMatrixLoadTensorNV, matrix, &[&[p, blank, layout, 0], addressing].concat());
    if per_element {
        raw.value(Op::CooperativeMatrixPerElementOpNV, matrix, &[loaded, each]);
    }
    raw.op(Op::CooperativeMatrixStoreKHR, &[q, loaded, zero, sixteen]);
    raw.end();

    raw.begin(decode, common.float, decode_type, &[(coded, pointer)]);
    // As compilers write it: the parameter waits in a local variable, seen through another type.
    let slot = raw.value(Op::Variable, slot_type, &[StorageClass::Function as u32]);
    let cast = raw.value(Op::Bitcast, coded, &[pointer]);
    raw.op(Op::Store, &[slot, cast]);
    let back = raw.value(Op::Load, coded, &[slot]);
    let x = raw.value(Op::Load, common.float, &[back, 2, 4]);
    raw.op(Op::ReturnValue, &[x]);
    raw.op(Op::FunctionEnd, &[]);
    let parameters = [(common.uint, row), (common.uint, column), (common.float, element)];
    raw.begin(each, common.float, element_type, &parameters);
    let to = raw.value(Op::AccessChain, common.to_float, &[buffers[2], zero, row]);
    raw.op(Op::Store, &[to, element]);
    raw.op(Op::ReturnValue, &[element]);
    raw.op(Op::FunctionEnd, &[]);
    main(raw)
}

#[test]
fn a_decode_function_reads_what_its_load_reads_and_no_address() {
    for decodes in [false, true] {
        let entry = cooperative(decodes, false);
        assert_eq!(entry.unknown, None);
        assert_eq!(entry.addresses, Direction::NONE);
        let directions = [0, 1, 2].map(|binding| direction(&entry, binding));
        assert_eq!(directions, [Direction::READ, Direction::WRITE, Direction::NONE], "decodes: {decodes}");
    }
}

#[test]
fn a_function_called_for_each_element_counts() {
    assert_eq!(direction(&cooperative(true, true), 2), Direction::WRITE);
}

#[test]
fn a_descriptor_without_a_binding_makes_its_user_unknown() {
    let build = |touched: bool| {
        let mut raw = Raw::new(&[Capability::Shader], LOGICAL, MAIN);
        let common = raw.common();
        let zero = raw.constant(common.uint, 0);
        let lost = raw.value(Op::Variable, common.to_block, &[StorageClass::StorageBuffer as u32]);
        raw.begin(MAIN, common.void, common.procedure, &[]);
        let p = raw.value(Op::AccessChain, common.to_float, &[lost, zero, zero]);
        if touched {
            raw.op(Op::Store, &[p, common.zero]);
        }
        raw.end();
        main(raw).unknown
    };
    assert!(build(true).is_some_and(|reason| reason.contains("no set or binding")));
    assert_eq!(build(false), None);
}

/// A store through a chain of copies written backwards, which no compiler does: each round settles one link.
fn backwards(links: usize) -> EntryPoint {
    two_buffers(&[], |raw, common, _, [p, _]| {
        let ids: Vec<u32> = (0..links).map(|_| raw.id()).collect();
        for (link, id) in ids.iter().enumerate() {
            raw.op(Op::CopyObject, &[common.to_float, *id, ids.get(link + 1).copied().unwrap_or(p)]);
        }
        raw.op(Op::Store, &[ids[0], common.zero]);
    })
}

#[test]
fn pointers_that_need_too_many_rounds_are_given_up_on() {
    let short = backwards(30);
    assert_eq!((short.unknown.as_deref(), direction(&short, 0)), (None, Direction::WRITE));
    let long = backwards(300);
    assert!(
        long.unknown.as_ref().is_some_and(|reason| reason.contains("don't settle")),
        "{:?}",
        long.unknown
    );
    assert_eq!(direction(&long, 0), Direction::BOTH);
}

/// A store through a pointer that may be any of the first `elements` descriptors of an array.
fn any_of(elements: u32) -> EntryPoint {
    let mut raw = Raw::new(&[Capability::Shader, Capability::VariablePointers], LOGICAL, MAIN);
    let common = raw.common();
    let bool_type = raw.declare(Op::TypeBool, &[]);
    let yes = raw.value(Op::ConstantTrue, bool_type, &[]);
    let indices: Vec<u32> = (0..=elements).map(|value| raw.constant(common.uint, value)).collect();
    let blocks = raw.declare(Op::TypeArray, &[common.block, indices[elements as usize]]);
    let storage = StorageClass::StorageBuffer as u32;
    let to_blocks = raw.declare(Op::TypePointer, &[storage, blocks]);
    let array = raw.value(Op::Variable, to_blocks, &[storage]);
    raw.bind(array, 0, 0);
    raw.begin(MAIN, common.void, common.procedure, &[]);
    let mut pointer = 0;
    for index in &indices[..elements as usize] {
        let next = raw.value(Op::AccessChain, common.to_float, &[array, *index, indices[0], indices[0]]);
        pointer = match pointer {
            0 => next,
            before => raw.value(Op::Select, common.to_float, &[yes, before, next]),
        };
    }
    raw.op(Op::Store, &[pointer, common.zero]);
    raw.end();
    main(raw)
}

#[test]
fn a_pointer_that_could_be_anywhere_is_given_up_on() {
    let some = any_of(200);
    assert_eq!((some.unknown.as_deref(), direction(&some, 0)), (None, Direction::WRITE));
    let many = any_of(300);
    assert!(
        many.unknown.as_ref().is_some_and(|reason| reason.contains("more than 256")),
        "{:?}",
        many.unknown
    );
}

#[test]
fn an_atomic_load_may_wait_for_somebody_and_a_relaxed_atomic_that_writes_does_not() {
    let synchronising = |op: Op, scope: Scope| {
        let mut raw = Raw::new(&[Capability::Shader], LOGICAL, MAIN);
        let common = raw.common();
        let buffer = raw.buffer(&common, 0);
        let zero = raw.constant(common.uint, 0);
        let scope = raw.constant(common.uint, scope as u32);
        raw.begin(MAIN, common.void, common.procedure, &[]);
        let p = raw.value(Op::AccessChain, common.to_float, &[buffer, zero, zero]);
        let operands = [p, scope, zero, zero];
        match op {
            Op::AtomicLoad => raw.value(op, common.float, &operands[..3]),
            _ => raw.value(op, common.float, &operands),
        };
        raw.end();
        main(raw).synchronising
    };
    assert!(synchronising(Op::AtomicLoad, Scope::Device));
    assert!(synchronising(Op::AtomicLoad, Scope::QueueFamily));
    assert!(!synchronising(Op::AtomicLoad, Scope::Workgroup));
    assert!(!synchronising(Op::AtomicExchange, Scope::Device));
}
