//! The compiler and the assembler behind the fixtures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the fixtures are.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Compiles a GLSL compute shader for a Vulkan version such as `vulkan1.1`.
pub fn compile(shader: &Path, target: &str) -> Vec<u32> {
    compile_with(shader, target, None)
}

/// The same with one macro defined.
pub fn compile_with(shader: &Path, target: &str, define: Option<&str>) -> Vec<u32> {
    let out = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut command = Command::new("glslangValidator");
    command.args(define.map(|define| format!("-D{define}")));
    command.args(["-V", "--quiet", "--target-env", target, "-o"]).arg(out.path()).arg(shader);
    run(command, "glslang-tools", shader);
    words(out.path())
}

/// Assembles SPIR-V 1.3, the version of Vulkan 1.1, and validates it unless a comment says why not.
pub fn assemble(text: &str, name: &Path) -> Vec<u32> {
    let source = tempfile::NamedTempFile::new().expect("a temporary file");
    let out = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(source.path(), text).expect("the temporary file can be written");
    let mut command = Command::new("spirv-as");
    command.args(["--target-env", "spv1.3", "-o"]).arg(out.path()).arg(source.path());
    run(command, "spirv-tools", name);
    if !text.contains("; unvalidated") {
        let mut command = Command::new("spirv-val");
        command.args(["--target-env", "spv1.3"]).arg(out.path());
        run(command, "spirv-tools", name);
    }
    words(out.path())
}

/// Assembles a fixture; one without capabilities of its own gets the prelude.
pub fn assemble_fixture(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).expect("the fixture can be read");
    let prelude = if text.contains("OpCapability") {
        String::new()
    } else {
        fs::read_to_string(folder("fixtures").join("prelude.spvasm")).expect("the prelude can be read")
    };
    assemble(&format!("{prelude}{text}"), file)
}

fn run(mut command: Command, package: &str, file: &Path) {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!("{program} can't be run ({error}): install the Debian package {package}")
    });
    assert!(
        output.status.success(),
        "{program} refuses {}:\n{}{}",
        file.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn words(file: &Path) -> Vec<u32> {
    let bytes = fs::read(file).expect("the tool's output can be read");
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
