//! What a pipeline sees of a module: pairs of modules that differ in one thing, one in which an access must be reported and
//! one in which it may go.
//!
//! Each pair was a fault or stands next to one: a terminator taken wrongly, a decoration that came through a group, a
//! constant of another width, a value of `VkSpecializationInfo` that doesn't fit its constant.

use std::path::Path;

use zinc_reflect::{Direction, Dispatch, Extent, Footprint, Specialization, Stage, reflect_specialized};

use crate::tools::assemble;

/// A module with the buffers `%a` at 0.0 and `%b` at 0.1, blocks of one runtime array of words. `before` holds debug
/// information and decorations, `declared` types and constants, `body` the functions. `%la` and `%lb` are no pointers yet.
fn module(before: &str, declared: &str, body: &str) -> Vec<u32> {
    let text = format!(
        "{comment}
OpCapability Shader
OpCapability Int64
OpCapability Int16
OpExtension \"SPV_KHR_storage_buffer_storage_class\"
OpExtension \"SPV_KHR_non_semantic_info\"
%debug = OpExtInstImport \"NonSemantic.Test\"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main \"main\"
OpExecutionMode %main LocalSize 4 1 1
%file = OpString \"file\"
OpDecorate %words ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %a DescriptorSet 0
OpDecorate %a Binding 0
OpDecorate %b DescriptorSet 0
OpDecorate %b Binding 1
{before}
%void = OpTypeVoid
%nothing = OpTypeFunction %void
%bool = OpTypeBool
%uint = OpTypeInt 32 0
%int = OpTypeInt 32 1
%ulong = OpTypeInt 64 0
%short = OpTypeInt 16 1
%0 = OpConstant %uint 0
%1 = OpConstant %uint 1
%2 = OpConstant %uint 2
%words = OpTypeRuntimeArray %uint
%block = OpTypeStruct %words
%p_block = OpTypePointer StorageBuffer %block
%p_uint = OpTypePointer StorageBuffer %uint
%a = OpVariable %p_block StorageBuffer
%b = OpVariable %p_block StorageBuffer
{declared}
{body}
",
        comment = if before.contains("; unvalidated") { "; unvalidated" } else { "" }
    );
    assemble(&text, Path::new("a module of this test"))
}

/// `main` in assembly: at `%top` pointers to the first words of both buffers, then `rest`.
fn main_with(rest: &str) -> String {
    format!(
        "%main = OpFunction %void None %nothing
%top = OpLabel
%pa = OpAccessChain %p_uint %a %0 %0
%pb = OpAccessChain %p_uint %b %0 %0
{rest}
OpFunctionEnd"
    )
}

/// A branch on `%flag`: `%a` is written where it is true, `%b` where it is false.
const BRANCH: &str = "OpSelectionMerge %end None
OpBranchConditional %flag %yes %no
%yes = OpLabel
OpStore %pa %1
OpBranch %end
%no = OpLabel
OpStore %pb %1
OpBranch %end
%end = OpLabel
OpReturn";

/// What is written to `%a` and `%b` by direction and by extent; both must say the same. Nothing for a module of which nothing
/// is known.
fn written(words: &[u32], specialization: &Specialization) -> Option<[bool; 2]> {
    let module = reflect_specialized(words, specialization).expect("a well-formed module");
    let entry = module.entry_point("main", Stage::Compute).expect("an entry point main");
    let footprint = Footprint::compile(words, "main", specialization).expect("a well-formed module");
    let dispatch = Dispatch { push_constants: &[], groups: [1; 3], base: [0; 3] };
    let extents = footprint.evaluate(&dispatch);
    let found = [0, 1].map(|at| {
        let direction = entry.binding(0, at).is_some_and(|binding| binding.direction.write);
        let extent = extents.binding(0, at).is_some_and(|binding| binding.write != Extent::Nothing);
        assert_eq!(direction, extent, "binding {at}: the direction, and whether there is an extent");
        direction
    });
    if entry.unknown.is_some() {
        assert!(entry.bindings.iter().all(|binding| binding.direction == Direction::BOTH));
        assert!(footprint.entry_point().unknown.is_some(), "unknown to one, known to the other");
        assert!(footprint.not_followed().is_some(), "unknown, and yet followed");
    }
    entry.unknown.is_none().then_some(found)
}

fn with(values: &[(u32, u64)]) -> Specialization {
    values.iter().copied().collect()
}

/// The written extent of `%a` in bytes; nothing where it is the whole binding.
fn extent(words: &[u32], specialization: &Specialization) -> Option<(u64, u64)> {
    let footprint = Footprint::compile(words, "main", specialization).expect("a well-formed module");
    let dispatch = Dispatch { push_constants: &[], groups: [1; 3], base: [0; 3] };
    match footprint.evaluate(&dispatch).binding(0, 0).expect("it is there").write {
        Extent::Bytes { start, end, .. } => Some((start, end)),
        Extent::Whole { .. } => None,
        Extent::Nothing => panic!("nothing is written"),
    }
}

const BOTH: Option<[bool; 2]> = Some([true, true]);
const ONLY_A: Option<[bool; 2]> = Some([true, false]);
const ONLY_B: Option<[bool; 2]> = Some([false, true]);

#[test]
fn debug_information_between_a_terminator_and_the_next_label_hides_no_successor() {
    for between in ["OpLine %file 1 1", "OpNoLine", "OpLine %file 1 1\nOpNoLine\nOpLine %file 2 2"] {
        let body = main_with(&format!(
            "OpBranch %next
{between}
%next = OpLabel
{}",
            BRANCH.replace("%no = OpLabel", &format!("{between}\n%no = OpLabel"))
        ));
        let flag = "OpDecorate %flag SpecId 7";
        let words = module(flag, "%flag = OpSpecConstantTrue %bool", &body);
        assert_eq!(written(&words, &with(&[])), ONLY_A, "{between}");
        assert_eq!(written(&words, &with(&[(7, 1)])), ONLY_A, "{between}");
        assert_eq!(written(&words, &with(&[(7, 0)])), ONLY_B, "{between}");
    }
}

#[test]
fn what_has_no_meaning_may_stand_behind_a_terminator_and_nothing_else_may() {
    let words = |between: &str| {
        let body =
            main_with(&format!("OpBranch %next\n{between}\n%next = OpLabel\nOpStore %pa %1\nOpReturn"));
        module("; unvalidated", "", &body)
    };
    assert_eq!(written(&words("%x = OpExtInst %void %debug 1"), &with(&[])), ONLY_A);
    assert_eq!(written(&words("OpStore %pb %1"), &with(&[])), None);
    assert_eq!(written(&words("OpReturn"), &with(&[])), None);
    assert_eq!(written(&words("OpNop"), &with(&[])), None);
}

#[test]
fn a_block_without_one_known_terminator_makes_the_module_unknown() {
    let words = |last: &str| {
        let rest = format!(
            "OpSelectionMerge %next None\nOpBranchConditional %true %aside %next
%aside = OpLabel
OpStore %pb %1
{last}
%next = OpLabel
OpStore %pa %1
OpReturn"
        );
        let body = main_with(&rest);
        let true_ = "%true = OpUndef %bool";
        module("; unvalidated", true_, &body)
    };
    for known in ["OpReturn", "OpKill", "OpUnreachable", "OpBranch %next", "OpTerminateInvocation"] {
        assert_eq!(written(&words(known), &with(&[])), BOTH, "{known}");
    }
    for unknown in
        ["", "OpNop", "OpIgnoreIntersectionKHR", "OpEmitMeshTasksEXT %1 %1 %1", "OpBranch %nowhere"]
    {
        assert_eq!(written(&words(unknown), &with(&[])), None, "{unknown:?}");
    }
}

#[test]
fn a_jump_to_the_first_block_and_instructions_before_it_make_the_module_unknown() {
    let body = main_with("OpStore %pa %1\nOpBranch %top");
    assert_eq!(written(&module("; unvalidated", "", &body), &with(&[])), None);
    let body = main_with("OpStore %pa %1\nOpReturn");
    assert_eq!(written(&module("; unvalidated", "", &body), &with(&[])), ONLY_A);
    let early = body.replace("%top = OpLabel", "OpStore %pb %1\n%top = OpLabel");
    assert_eq!(written(&module("; unvalidated", "", &early), &with(&[])), None);
}

#[test]
fn what_belongs_outside_functions_or_inside_makes_the_module_unknown_elsewhere() {
    let body = main_with("OpStore %pa %1\nOpReturn");
    let inside =
        |inst: &str| module("; unvalidated", "", &main_with(&format!("{inst}\nOpStore %pa %1\nOpReturn")));
    let outside = |inst: &str| module("; unvalidated", inst, &body);
    assert_eq!(written(&outside("%x = OpUndef %uint"), &with(&[])), ONLY_A);
    assert_eq!(written(&inside("%x = OpUndef %uint"), &with(&[])), ONLY_A);
    assert_eq!(written(&outside("OpStore %b %1"), &with(&[])), None);
    assert_eq!(written(&outside("OpReturn"), &with(&[])), None);
    assert_eq!(written(&inside("OpDecorate %b Binding 1"), &with(&[])), None);
    assert_eq!(written(&inside("%three = OpConstant %uint 3"), &with(&[])), None);
    assert_eq!(written(&inside("%three = OpTypeInt 8 0"), &with(&[])), None);
}

#[test]
fn a_specialization_constant_is_found_through_a_group() {
    let group = "OpDecorate %group SpecId 7\n%group = OpDecorationGroup\nOpGroupDecorate %group %flag";
    let words = module(group, "%flag = OpSpecConstantFalse %bool", &main_with(BRANCH));
    assert_eq!(written(&words, &with(&[(7, 1)])), ONLY_A);
    assert_eq!(written(&words, &with(&[(7, 0)])), ONLY_B);
    assert_eq!(written(&words, &with(&[])), ONLY_B);
    assert_eq!(written(&words, &with(&[(8, 1)])), ONLY_B, "an id that no constant has");
}

#[test]
fn one_group_may_name_several_constants_and_nested_groups_make_the_module_unknown() {
    let declared = "%other = OpSpecConstantFalse %bool\n%flag = OpSpecConstantFalse %bool";
    let shared =
        "OpDecorate %group SpecId 7\n%group = OpDecorationGroup\nOpGroupDecorate %group %other %flag";
    let words = module(shared, declared, &main_with(BRANCH));
    assert_eq!(written(&words, &with(&[(7, 1)])), ONLY_A);
    let nested = "; unvalidated
OpDecorate %outer SpecId 7
%outer = OpDecorationGroup
%group = OpDecorationGroup
OpGroupDecorate %outer %group
OpGroupDecorate %group %flag";
    let words = module(nested, declared, &main_with(BRANCH));
    assert_eq!(written(&words, &with(&[(7, 1)])), None);
    // As OpDecorateId, which takes ids.
    let mut words = module("OpDecorate %flag SpecId 7", declared, &main_with(BRANCH));
    assert_eq!(written(&words, &with(&[(7, 1)])), ONLY_A);
    let at = words.windows(4).position(|w| w[0] == 4 << 16 | 71 && w[2] == 1).expect("the decoration");
    words[at] = 4 << 16 | 332;
    assert_eq!(written(&words, &with(&[(7, 1)])), None);
    for odd in ["OpDecorate %flag SpecId 7\nOpDecorate %flag SpecId 8", "OpGroupDecorate %flag %other"] {
        let words = module(&format!("; unvalidated\n{odd}"), declared, &main_with(BRANCH));
        let known = reflect_specialized(&words, &with(&[(7, 1)])).map(|_| written(&words, &with(&[(7, 1)])));
        assert!(!matches!(known, Ok(Some(_))), "{odd}: {known:?}");
    }
}

#[test]
fn the_size_of_a_workgroup_is_found_through_a_group() {
    let direct = "OpDecorate %size BuiltIn WorkgroupSize";
    let grouped =
        "OpDecorate %group BuiltIn WorkgroupSize\n%group = OpDecorationGroup\nOpGroupDecorate %group %size";
    let declared = "%three = OpTypeVector %uint 3
%64 = OpConstant %uint 64
%size = OpConstantComposite %three %64 %1 %1
%p_three = OpTypePointer Input %three
%p_input = OpTypePointer Input %uint
%local = OpVariable %p_three Input";
    let body = "%main = OpFunction %void None %nothing
%top = OpLabel
%px = OpAccessChain %p_input %local %0
%x = OpLoad %uint %px
%pa = OpAccessChain %p_uint %a %0 %x
OpStore %pa %1
OpReturn
OpFunctionEnd";
    let local = "OpDecorate %local BuiltIn LocalInvocationId";
    for (size, end) in [("", 16), (direct, 256), (grouped, 256)] {
        let comment = "; unvalidated";
        let words = module(&format!("{comment}\n{local}\n{size}"), declared, body);
        assert_eq!(extent(&words, &with(&[])), Some((0, end)), "{size}");
    }
    // The built-in input itself through a group.
    let grouped = "; unvalidated\nOpDecorate %group BuiltIn LocalInvocationId\n%group = OpDecorationGroup\nOpGroupDecorate %group %local";
    assert_eq!(extent(&module(grouped, declared, body), &with(&[])), Some((0, 16)));
}

/// A block with a matrix of two columns of three words behind 64 bytes, and a write of row 1 of column 1.
fn matrix(decorations: &str) -> Option<(u64, u64)> {
    let before = format!(
        "OpDecorate %mblock Block\n{decorations}\nOpDecorate %m DescriptorSet 0\nOpDecorate %m Binding 0"
    );
    let declared = "%float = OpTypeFloat 32
%f1 = OpConstant %float 1
%column = OpTypeVector %float 3
%matrix = OpTypeMatrix %column 2
%mblock = OpTypeStruct %uint %matrix
%p_mblock = OpTypePointer StorageBuffer %mblock
%p_float = OpTypePointer StorageBuffer %float
%m = OpVariable %p_mblock StorageBuffer";
    let body = "%main = OpFunction %void None %nothing
%top = OpLabel
%p = OpAccessChain %p_float %m %1 %1 %2
OpStore %p %f1
OpReturn
OpFunctionEnd";
    extent(&module(&format!("; unvalidated\n{before}"), declared, body), &with(&[]))
}

#[test]
fn the_layout_of_a_block_is_found_through_groups_of_members() {
    let offsets = "OpMemberDecorate %mblock 0 Offset 0\nOpMemberDecorate %mblock 1 Offset 64";
    let by_rows = "OpMemberDecorate %mblock 1 RowMajor\nOpMemberDecorate %mblock 1 MatrixStride 16";
    let by_columns = "OpMemberDecorate %mblock 1 ColMajor\nOpMemberDecorate %mblock 1 MatrixStride 16";
    assert_eq!(matrix(&format!("{offsets}\n{by_columns}")), Some((64 + 16 + 8, 64 + 16 + 12)));
    assert_eq!(matrix(&format!("{offsets}\n{by_rows}")), Some((64 + 2 * 16 + 4, 64 + 2 * 16 + 8)));
    let group = |decorations: &[&str]| {
        let each: Vec<String> = decorations.iter().map(|d| format!("OpDecorate %group {d}")).collect();
        format!("{}\n%group = OpDecorationGroup\nOpGroupMemberDecorate %group %mblock 1", each.join("\n"))
    };
    let first = "OpMemberDecorate %mblock 0 Offset 0";
    let rows = group(&["Offset 64", "RowMajor", "MatrixStride 16"]);
    assert_eq!(matrix(&format!("{first}\n{rows}")), Some((64 + 2 * 16 + 4, 64 + 2 * 16 + 8)));
    let columns = group(&["Offset 64", "ColMajor", "MatrixStride 16"]);
    assert_eq!(matrix(&format!("{first}\n{columns}")), Some((64 + 16 + 8, 64 + 16 + 12)));
    let rows_alone = group(&["RowMajor"]);
    let stride = "OpMemberDecorate %mblock 1 MatrixStride 16";
    assert_eq!(matrix(&format!("{offsets}\n{stride}\n{rows_alone}")), Some((64 + 36, 64 + 40)));
    // A matrix that doesn't say how it lies may lie anyhow.
    assert_eq!(matrix(offsets), None);
    assert_eq!(matrix(&format!("{offsets}\n{stride}")), None);
    assert_eq!(matrix(&format!("{offsets}\n{by_columns}\n{by_rows}")), None);
}

#[test]
fn the_stride_of_an_array_is_found_through_a_group() {
    let before = |stride: &str| {
        format!(
            "; unvalidated
OpDecorate %wide Block
OpMemberDecorate %wide 0 Offset 0
{stride}
OpDecorate %w DescriptorSet 0
OpDecorate %w Binding 0"
        )
    };
    let declared = "%sparse = OpTypeRuntimeArray %uint
%wide = OpTypeStruct %sparse
%p_wide = OpTypePointer StorageBuffer %wide
%w = OpVariable %p_wide StorageBuffer";
    let body = "%main = OpFunction %void None %nothing
%top = OpLabel
%p = OpAccessChain %p_uint %w %0 %2
OpStore %p %1
OpReturn
OpFunctionEnd";
    let extent = |stride: &str| extent(&module(&before(stride), declared, body), &with(&[]));
    assert_eq!(extent("OpDecorate %sparse ArrayStride 16"), Some((32, 36)));
    let grouped =
        "OpDecorate %group ArrayStride 16\n%group = OpDecorationGroup\nOpGroupDecorate %group %sparse";
    assert_eq!(extent(grouped), Some((32, 36)));
    assert_eq!(extent(""), None);
}

/// A switch of `ty` on `%selector`: `%a` is written for the literal `case`, `%b` otherwise.
fn switch(case: &str) -> String {
    main_with(&format!(
        "OpSelectionMerge %end None
OpSwitch %selector %no {case} %yes
%yes = OpLabel
OpStore %pa %1
OpBranch %end
%no = OpLabel
OpStore %pb %1
OpBranch %end
%end = OpLabel
OpReturn"
    ))
}

#[test]
fn a_switch_goes_by_all_bits_of_its_selector() {
    let spec = "OpDecorate %selector SpecId 7";
    let wide = 0x5_0000_0001u64;
    let words = module(spec, "%selector = OpSpecConstant %ulong 1", &switch("21474836481"));
    assert_eq!(written(&words, &with(&[(7, wide)])), ONLY_A);
    assert_eq!(written(&words, &with(&[(7, 1)])), ONLY_B);
    assert_eq!(written(&words, &with(&[])), ONLY_B);
    // Not known: both, and followed.
    let loaded = switch("21474836481").replace("OpSelectionMerge", "%x = OpLoad %uint %pb\n%w = OpUConvert %ulong %x\n%selector = OpIAdd %ulong %w %big\nOpSelectionMerge");
    assert_eq!(written(&module("", "%big = OpConstant %ulong 21474836480", &loaded), &with(&[])), BOTH);
    // Negative and narrow: the literal is sign-extended to a word, the value given is not.
    let words = module(spec, "%selector = OpSpecConstant %short 1", &switch("-2"));
    assert_eq!(written(&words, &with(&[(7, 0xfffe)])), ONLY_A);
    assert_eq!(written(&words, &with(&[(7, 2)])), ONLY_B);
    let words = module(spec, "%selector = OpSpecConstant %short -2", &switch("-2"));
    assert_eq!(written(&words, &with(&[])), ONLY_A);
}

#[test]
fn weights_of_a_branch_are_no_labels() {
    let spec = "OpDecorate %flag SpecId 7";
    let body = main_with(BRANCH).replace("%flag %yes %no", "%flag %yes %no 3 1");
    let words = module(spec, "%flag = OpSpecConstantTrue %bool", &body);
    assert_eq!(written(&words, &with(&[])), ONLY_A);
    assert_eq!(written(&words, &with(&[(7, 0)])), ONLY_B);
}

#[test]
fn a_value_that_does_not_fit_its_constant_leaves_it_undecided() {
    let spec = "OpDecorate %flag SpecId 7";
    let words = module(spec, "%flag = OpSpecConstantTrue %bool", &main_with(BRANCH));
    let given = |entries: &[(u32, usize, usize)], data: &[u8]| {
        written(&words, &Specialization::from_entries(entries.iter().copied(), data))
    };
    assert_eq!(given(&[(7, 0, 4)], &[0, 0, 0, 0]), ONLY_B);
    assert_eq!(given(&[(7, 0, 4)], &[1, 0, 0, 0]), ONLY_A);
    // VkBool32 has four bytes, and is 0 or 1.
    assert_eq!(given(&[(7, 0, 1)], &[0, 0, 0, 0]), BOTH);
    assert_eq!(given(&[(7, 0, 8)], &[0; 8]), BOTH);
    assert_eq!(given(&[(7, 0, 4)], &[0, 1, 0, 0]), BOTH);
    // Past the data, longer than anything, empty.
    assert_eq!(given(&[(7, 1, 4)], &[0, 0, 0, 0]), BOTH);
    assert_eq!(given(&[(7, 0, 16)], &[0; 16]), BOTH);
    assert_eq!(given(&[(7, 0, 0)], &[0; 4]), BOTH);
    // The same id twice.
    assert_eq!(given(&[(7, 0, 4), (7, 4, 4)], &[0, 0, 0, 0, 1, 0, 0, 0]), BOTH);
    assert_eq!(given(&[(7, 0, 4), (7, 4, 4)], &[0; 8]), ONLY_B);
    // Ids that no constant has.
    assert_eq!(given(&[(9, 0, 1), (7, 4, 4)], &[0; 8]), ONLY_B);
}

#[test]
fn the_size_of_a_value_is_that_of_its_constants_type() {
    let spec = "OpDecorate %n SpecId 7";
    for (ty, size) in [("short", 2), ("int", 4), ("ulong", 8)] {
        let declared = format!(
            "%n = OpSpecConstant %{ty} 1\n%three = OpConstant %{ty} 3\n%flag = OpSpecConstantOp %bool IEqual %n %three"
        );
        let words = module(&format!("; unvalidated\n{spec}"), &declared, &main_with(BRANCH));
        for given in [1, 2, 4, 8] {
            let constants = Specialization::from_entries([(7, 0, given)], &[3, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(
                written(&words, &constants),
                if given == size { ONLY_A } else { BOTH },
                "{ty} {given}"
            );
        }
    }
}

#[test]
fn arithmetic_on_constants_keeps_to_their_width() {
    // 300 · 300 is 24464 in 16 bits.
    let spec = "OpDecorate %n SpecId 7";
    let compared = |to: i32| {
        let declared = format!(
            "%n = OpSpecConstant %short 300
%square = OpSpecConstantOp %short IMul %n %n
%to = OpConstant %short {to}
%flag = OpSpecConstantOp %bool IEqual %square %to"
        );
        let words = module(&format!("; unvalidated\n{spec}"), &declared, &main_with(BRANCH));
        [written(&words, &with(&[])), written(&words, &with(&[(7, 200)]))]
    };
    assert_eq!(compared(24464), [ONLY_A, ONLY_B]);
    // 200 · 200 is −25536 in 16 bits.
    assert_eq!(compared(-25536), [ONLY_B, ONLY_A]);
}

#[test]
fn operations_whose_result_is_not_defined_leave_it_undecided() {
    let compared = |operation: &str| {
        let declared = format!(
            "%least = OpConstant %int -2147483648
%minus = OpConstant %int -1
%none = OpConstant %int 0
%32 = OpConstant %uint 32
%made = OpSpecConstantOp %int {operation}
%flag = OpSpecConstantOp %bool IEqual %made %none"
        );
        written(&module("; unvalidated", &declared, &main_with(BRANCH)), &with(&[]))
    };
    for undefined in [
        "SDiv %least %minus",
        "SRem %least %minus",
        "SDiv %minus %none",
        "SMod %minus %none",
        "ShiftLeftLogical %minus %32",
    ] {
        assert_eq!(compared(undefined), BOTH, "{undefined}");
    }
    assert_eq!(compared("SDiv %none %minus"), ONLY_A);
    assert_eq!(compared("SDiv %minus %minus"), ONLY_B);
}

#[test]
fn composites_of_constants_are_taken_apart_or_any_value() {
    let spec = "OpDecorate %n SpecId 7";
    let common = "%v2 = OpTypeVector %uint 2
%n = OpSpecConstant %uint 1
%pair = OpSpecConstantComposite %v2 %n %2";
    let flag = |rest: &str| {
        let declared = format!("{common}\n{rest}");
        let words = module(&format!("; unvalidated\n{spec}"), &declared, &main_with(BRANCH));
        [written(&words, &with(&[])), written(&words, &with(&[(7, 5)]))]
    };
    let extract =
        "%x = OpSpecConstantOp %uint CompositeExtract %pair 0\n%flag = OpSpecConstantOp %bool IEqual %x %1";
    assert_eq!(flag(extract), [ONLY_A, ONLY_B]);
    let shuffled = "%turned = OpSpecConstantOp %v2 VectorShuffle %pair %pair 1 0
%x = OpSpecConstantOp %uint CompositeExtract %turned 0\n%flag = OpSpecConstantOp %bool IEqual %x %1";
    assert_eq!(flag(shuffled), [BOTH, BOTH]);
    let inserted = "%turned = OpSpecConstantOp %v2 CompositeInsert %2 %pair 0
%x = OpSpecConstantOp %uint CompositeExtract %turned 0\n%flag = OpSpecConstantOp %bool IEqual %x %1";
    assert_eq!(flag(inserted), [BOTH, BOTH]);
}

#[test]
fn phis_forget_what_comes_from_pruned_blocks_and_keep_the_rest() {
    let spec = "OpDecorate %flag SpecId 7";
    let rest = "OpSelectionMerge %end None
OpBranchConditional %flag %yes %no
OpLine %file 3 3
%yes = OpLabel
OpBranch %end
%no = OpLabel
OpBranch %end
OpNoLine
%end = OpLabel
%at = OpPhi %uint %1 %yes %2 %no
%p = OpAccessChain %p_uint %a %0 %at
OpStore %p %1
OpReturn";
    let words = module(spec, "%flag = OpSpecConstantTrue %bool", &main_with(rest));
    assert_eq!(extent(&words, &with(&[])), Some((4, 8)));
    assert_eq!(extent(&words, &with(&[(7, 0)])), Some((8, 12)));
    let words = module("", "%flag = OpUndef %bool", &main_with(rest));
    assert_eq!(extent(&words, &with(&[])), Some((4, 12)));
}

#[test]
fn the_size_of_a_workgroup_by_ids_is_taken_from_their_constants() {
    let spec = "OpDecorate %n SpecId 7\nOpDecorate %local BuiltIn LocalInvocationId";
    let declared = "%n = OpSpecConstant %uint 8
%three = OpTypeVector %uint 3
%p_three = OpTypePointer Input %three
%p_input = OpTypePointer Input %uint
%local = OpVariable %p_three Input";
    let body = "%main = OpFunction %void None %nothing
%top = OpLabel
%px = OpAccessChain %p_input %local %0
%x = OpLoad %uint %px
%pa = OpAccessChain %p_uint %a %0 %x
OpStore %pa %1
OpReturn
OpFunctionEnd";
    let words = |mode: &str| {
        let mut words = module(&format!("; unvalidated\n{spec}"), declared, body);
        let at = words.windows(2).position(|w| w[0] == (6 << 16 | 16) && w[1] != 0).expect("a LocalSize");
        let (main, n, one) = (words[at + 1], id_of_spec(&words), id_of_one(&words));
        match mode {
            "ids" => drop(words.splice(at..at + 6, [6 << 16 | 331, main, 38, n, one, one])),
            "both" => drop(words.splice(at..at, [6 << 16 | 331, main, 38, n, one, one])),
            _ => {}
        }
        words
    };
    assert_eq!(extent(&words("ids"), &with(&[])), Some((0, 32)));
    assert_eq!(extent(&words("ids"), &with(&[(7, 64)])), Some((0, 256)));
    // Two that contradict each other, and one whose constant isn't known.
    assert_eq!(extent(&words("both"), &with(&[])), None);
    let unknown = Specialization::from_entries([(7, 0, 2)], &[64, 0]);
    assert_eq!(extent(&words("ids"), &unknown), None);
}

/// The result of the first OpSpecConstant.
fn id_of_spec(words: &[u32]) -> u32 {
    let at = words.iter().position(|word| *word == 4 << 16 | 50).expect("an OpSpecConstant");
    words[at + 2]
}

/// The result of an OpConstant that is 1.
fn id_of_one(words: &[u32]) -> u32 {
    let at = words.windows(4).position(|w| w[0] == 4 << 16 | 43 && w[3] == 1).expect("an OpConstant 1");
    words[at + 2]
}
