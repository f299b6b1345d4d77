//! The generator's checks, on shaders that are compiled here as `build.rs` compiles them: each has a shader that must pass and one
//! that must not, with a message that names the file and the remedy.

#[path = "../build/mod.rs"]
mod build;

use std::path::Path;
use std::process::Command;

use build::interface::{self, Constant, Direction, Field, Kernel, Kind, Module};
use build::{emit, reflect};

/// The module of a shader with these declarations and statements, compiled with these further arguments.
fn compile(file: &str, declarations: &str, main: &str, arguments: &[&str]) -> Result<Module, String> {
    let text = format!(
        "#version 450\nlayout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;\n{declarations}\nvoid main() {{ {main} \
         }}\n"
    );
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(&source, text).unwrap();
    let spv = source.with_extension("spv");
    let compiler = std::env::var("ZINC_BARRIER_GLSLANG").unwrap_or_else(|_| "glslangValidator".to_owned());
    let output = Command::new(compiler)
        .args(["-V", "--quiet", "--target-env", "vulkan1.1"])
        .args(arguments)
        .args([Path::new("-o"), &spv, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let bytes = std::fs::read(spv).unwrap();
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
    reflect::reflect(file, &words)
}

const BUFFERS: &str = "layout(std430, binding = 0) readonly buffer X { float x[]; };
    layout(std430, binding = 1) writeonly buffer TheResult { float result[]; };";

/// A kernel of a family with a constant and a push constant declared so.
fn kernel(file: &str, family: &str, constant: &str, push: &str) -> Kernel {
    let declarations =
        format!("{BUFFERS}\n{constant}\nlayout(push_constant) uniform Push {{ {push} }} push;");
    let module = compile(file, &declarations, "result[0] = x[0];", &[]).unwrap();
    let name = file.trim_end_matches(".comp").to_owned();
    Kernel {
        name,
        file: file.to_owned(),
        family: family.to_owned(),
        doc: String::new(),
        module,
        spirv: Vec::new(),
    }
}

#[test]
fn what_a_shader_declares_is_found_by_name() {
    let constant =
        "layout(constant_id = 7) const bool DEEP = true;\nlayout(constant_id = 3) const uint UNITS = 4;";
    let Module { bindings, push, constants, .. } =
        kernel("found.comp", "found", constant, "uint count; float epsilon;").module;
    let bindings: Vec<_> = bindings.iter().map(|b| (b.name.as_str(), b.direction)).collect();
    assert_eq!(bindings, [("X", Direction::Read), ("TheResult", Direction::Write)]);
    let field = |name: &str, kind| Field { name: name.to_owned(), kind };
    assert_eq!(push, [field("count", Kind::Uint), field("epsilon", Kind::Float)]);
    let constant = |id, name: &str, kind, default| Constant { id, name: name.to_owned(), kind, default };
    let expected = [
        constant(0, reflect::WORKGROUP, Kind::Uint, 1),
        constant(3, "UNITS", Kind::Uint, 4),
        constant(7, "DEEP", Kind::Bool, 1),
    ];
    assert_eq!(constants, expected);
}

#[test]
fn a_constant_means_one_thing_in_all_kernels() {
    let kernel = |file, constant| kernel(file, "any", constant, "uint count;");
    let first = kernel("first.comp", "layout(constant_id = 1) const uint ROWS = 4;");
    let check = |file, constant| interface::one_meaning(&[first.clone(), kernel(file, constant)]);
    assert_eq!(check("same.comp", "layout(constant_id = 1) const uint ROWS = 8;"), Ok(()));
    assert_eq!(check("other.comp", "layout(constant_id = 2) const uint COLUMNS = 8;"), Ok(()));
    for (file, constant, parts) in [
        (
            "two_names.comp",
            "layout(constant_id = 1) const uint COLUMNS = 8;",
            ["two_names.comp: constant_id = 1 is COLUMNS here and ROWS in first.comp", "such as 2"],
        ),
        (
            "two_ids.comp",
            "layout(constant_id = 5) const uint ROWS = 4;",
            ["two_ids.comp: ROWS has constant_id = 5 here and 1 in first.comp", "use 1 in both"],
        ),
        (
            "two_types.comp",
            "layout(constant_id = 1) const bool ROWS = true;",
            ["two_types.comp: ROWS is a Bool here and a Uint in first.comp", "declare both alike"],
        ),
    ] {
        let message = check(file, constant).unwrap_err();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn what_rust_could_not_name_or_place_is_refused_with_a_remedy() {
    let refused = |file, declarations: &str, main, arguments: &[&str]| {
        assert!(compile("whole.comp", BUFFERS, "result[0] = x[0];", &[]).is_ok());
        compile(file, declarations, main, arguments).unwrap_err()
    };
    let pushed =
        |member| format!("{BUFFERS}\nlayout(push_constant) uniform Push {{ uint count; {member}; }} push;");
    for (message, parts) in [
        (
            // Without debug information there are no names.
            refused("unnamed.comp", BUFFERS, "result[0] = x[0];", &["-g0"]),
            ["unnamed.comp: binding ", "has no name: give its block one"],
        ),
        (
            refused("gap.comp", &BUFFERS.replace("binding = 1", "binding = 2"), "result[0] = x[0];", &[]),
            ["gap.comp: bindings have gaps", "number them from 0 on"],
        ),
        (
            refused("shared.comp", &BUFFERS.replace("binding = 1", "binding = 0"), "result[0] = x[0];", &[]),
            ["shared.comp: two variables share binding 0", "number bindings from 0 on"],
        ),
        (
            refused(
                "wide.comp",
                &pushed("layout(offset = 8) uvec2 sizes"),
                "result[push.sizes.x] = x[0];",
                &[],
            ),
            ["wide.comp: sizes is not of 32 bits", "make it a uint"],
        ),
        (
            refused("far.comp", &pushed("layout(offset = 16) uint far"), "result[push.far] = x[0];", &[]),
            ["far.comp: push constant far does not follow", "leave no gaps"],
        ),
    ] {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn a_kernel_is_a_static_with_all_that_a_pipeline_takes() {
    let one =
        kernel("one.comp", "one", "layout(constant_id = 1) const uint ROWS = 4;", "uint count; uint width;");
    let text = emit::kernel(&Kernel { doc: "Does it.".to_owned(), spirv: vec![7, 8], ..one.clone() });
    for part in [
        "/// Does it.\n",
        "pub static ONE: Kernel",
        "bindings: &[Direction::Read, Direction::Write]",
        "push_bytes: 8",
        "Constant { id: 1, name: \"ROWS\", default: 4 }",
        "capabilities: &[Capability::Shader]",
        "spirv: &[7, 8]",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(emit::list(&[one.clone(), one]).contains("[&Kernel; 2] = [&ONE, &ONE]"));
}

#[test]
fn a_family_has_one_module_with_options_for_what_only_some_of_it_take() {
    let constant = "layout(constant_id = 1) const uint ROWS = 4;";
    let plain = kernel("plain.comp", "both", "", "uint count;");
    let cut = kernel("cut.comp", "both", constant, "uint count;");
    let family = interface::family(&[&plain, &cut]).unwrap();
    let text = emit::family(&family, &[&plain, &cut]);
    for part in [
        "pub mod both",
        "pub workgroup: u32,",
        "pub rows: Option<u32>,",
        "pub count: u32,",
        "/// Read.\npub x: B,",
        "/// Written.\npub the_result: B,",
        "pub const PLAIN: Self = Self(&super::PLAIN);",
        "self.rows.map(|value| (1, value))",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let alone = emit::family(&interface::family(&[&cut]).unwrap(), &[&cut]);
    assert!(alone.contains("pub rows: u32,") && alone.contains("impl From<()> for Build"), "{alone}");
    assert!(!text.contains("impl From<()>") && !text.contains("impl From<u32>"), "{text}");
    let same = emit::family(&interface::family(&[&plain]).unwrap(), &[&plain]);
    assert!(same.contains("impl From<u32> for Constants"), "{same}");

    let pushed = kernel("pushed.comp", "both", "", "uint count; uint width;");
    let message = interface::family(&[&plain, &pushed]).unwrap_err();
    assert!(message.contains("other push constants") && message.contains("out of family both"), "{message}");
    let default =
        kernel("default.comp", "both", "layout(constant_id = 1) const uint ROWS = 8;", "uint count;");
    let message = interface::family(&[&cut, &default]).unwrap_err();
    assert!(message.contains("default.comp: ROWS has another value"), "{message}");
    let mut turned = plain.clone();
    turned.module.bindings.reverse();
    let message = interface::family(&[&plain, &turned]).unwrap_err();
    assert!(message.contains("plain.comp") && message.contains("order and direction"), "{message}");
}
