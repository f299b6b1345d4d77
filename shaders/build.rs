//! Compiles every `*.comp` in this folder to SPIR-V and writes the Rust side of it for `src/lib.rs`: a static for each kernel and,
//! for each family of kernels, a module of types for what they take. Those in `measure` are in no list, since they compute
//! nothing that the engine could use: they only stand around a barrier that is timed.
//!
//! The compiler is the system's glslangValidator: the reference front end for GLSL, a small package everywhere, and
//! the only thing that this workspace needs beside Rust and a C compiler. What a kernel takes, and what it does with each of
//! its bindings, is read back from the SPIR-V (`build/`), so that the engine's plan cannot disagree with the shader.

#[path = "build/mod.rs"]
mod build;
mod cooperative;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use build::interface::{self, Kernel};
use build::{emit, reflect};

const COMPILER_VARIABLE: &str = "ZINC_BARRIER_GLSLANG";
const TARGET: &str = "vulkan1.1";

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    exit(1)
}

fn main() {
    println!("cargo::rerun-if-env-changed={COMPILER_VARIABLE}");
    println!("cargo::rerun-if-changed=.");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let compiler = std::env::var(COMPILER_VARIABLE).unwrap_or_else(|_| "glslangValidator".to_owned());

    let plain = kernels(&compiler, ".", &out);
    let measuring = kernels(&compiler, "measure", &out);
    let list = emit::list(&plain);
    let all = [plain, measuring].concat();
    interface::one_meaning(&all).unwrap_or_else(|e| fail(&e));
    let mut families: BTreeMap<&str, Vec<&Kernel>> = BTreeMap::new();
    // One that binds nothing is not dispatched by itself.
    for kernel in all.iter().filter(|kernel| !kernel.module.bindings.is_empty()) {
        families.entry(&kernel.family).or_default().push(kernel);
    }
    let mut text = all.iter().map(emit::kernel).collect::<String>() + &list;
    for members in families.values() {
        let family = interface::family(members).unwrap_or_else(|e| fail(&e));
        text += &emit::family(&family, members);
    }
    std::fs::write(out.join("kernels.rs"), text).unwrap_or_else(|e| fail(&format!("cannot write: {e}")));
}

/// The kernels of one folder, in the order of their files.
fn kernels(compiler: &str, folder: &str, out: &Path) -> Vec<Kernel> {
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| fail(&format!("cannot list the shaders folder {folder}: {e}")))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "comp"))
        .collect();
    sources.sort();

    let mut kernels = Vec::new();
    for source in &sources {
        let file = source.display().to_string();
        let text =
            std::fs::read_to_string(source).unwrap_or_else(|e| fail(&format!("cannot read {file}: {e}")));
        let stem = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_else(|| fail("odd file name"));
        let family = text.lines().find_map(|line| line.strip_prefix("// family: ")).unwrap_or(stem);
        for (name, defines) in builds(stem, &text) {
            let words = compile(compiler, source, &defines, &out.join(format!("{name}.spv")));
            let spirv = cooperative::translate(words).unwrap_or_else(|e| fail(&format!("{file}: {e}")));
            let module = reflect::reflect(&file, &spirv).unwrap_or_else(|e| fail(&e));
            let (file, family, doc) = (file.clone(), family.to_owned(), first_comment(&text));
            kernels.push(Kernel { name, file, family, doc, module, spirv });
        }
    }
    kernels
}

/// The kernels that a file gives, with the macros that each defines. A line `// variants: A B C-` asks for one kernel a
/// word, named after file and word, with the word defined; and where no hyphen follows it, for two, of which one uses the
/// device's own dot product of bytes (NATIVE_DOT) and the other, `..._plain`, does not.
fn builds(stem: &str, text: &str) -> Vec<(String, Vec<String>)> {
    let Some(variants) = text.lines().find_map(|line| line.strip_prefix("// variants: ")) else {
        return vec![(stem.to_owned(), Vec::new())];
    };
    let mut builds = Vec::new();
    for word in variants.split_whitespace() {
        let variant = word.trim_end_matches('-');
        let name = format!("{stem}_{}", variant.to_lowercase());
        if word == variant {
            builds.push((format!("{name}_plain"), vec![variant.to_owned()]));
            builds.push((name, vec![variant.to_owned(), "NATIVE_DOT".to_owned()]));
        } else {
            builds.push((name, vec![variant.to_owned()]));
        }
    }
    builds
}

fn compile(compiler: &str, source: &Path, defines: &[String], spv: &Path) -> Vec<u32> {
    let output = Command::new(compiler)
        .args(["-V", "--quiet", "--target-env", TARGET, "-I."])
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg("-o")
        .arg(spv)
        .arg(source)
        .output()
        .unwrap_or_else(|e| {
            fail(&format!(
                "cannot run the GLSL compiler {compiler}: {e}\ninstall it (Debian and Ubuntu: apt-get install \
                 glslang-tools), or name another glslangValidator in {COMPILER_VARIABLE}"
            ))
        });
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        fail(&format!("{} does not compile:\n{}", source.display(), String::from_utf8_lossy(&text)));
    }
    let bytes =
        std::fs::read(spv).unwrap_or_else(|e| fail(&format!("{compiler} left no {}: {e}", spv.display())));
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The first comment of the file body, as one line of documentation.
fn first_comment(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("// variants: ") && !line.starts_with("// family: "))
        .skip_while(|line| !line.starts_with("// "))
        .take_while(|line| line.starts_with("// "))
        .map(|line| line[3..].trim())
        .collect();
    // Shapes in brackets would otherwise be read as links.
    lines.join(" ").replace('[', "\\[").replace(']', "\\]")
}
