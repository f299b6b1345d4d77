//! Compiles every `*.comp` in this folder to SPIR-V and writes a table of kernels for `src/lib.rs`; those in `measure` go
//! into a table of their own, since they compute nothing that the engine could use.
//!
//! The compiler is the system's glslangValidator: the reference front end for GLSL, a small package everywhere, and
//! the only thing that this workspace needs beside Rust and a C compiler. What a kernel does with each of its
//! bindings is read back from the SPIR-V (decorations NonWritable and NonReadable, which glslang emits for `readonly`
//! and `writeonly`), so that the engine's plan cannot disagree with the shader.

mod cooperative;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

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

    let mut text = table(&compiler, ".", &out, ("Every kernel of the engine, by name.", "KERNELS"));
    text += &table(
        &compiler,
        "measure",
        &out,
        ("Kernels that only stand around a barrier that is timed.", "MEASURING"),
    );
    std::fs::write(out.join("kernels.rs"), text).unwrap_or_else(|e| fail(&format!("cannot write: {e}")));
}

/// Statics for the kernels of one folder, and one with the list of them.
fn table(compiler: &str, folder: &str, out: &Path, (about, list_name): (&str, &str)) -> String {
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| fail(&format!("cannot list the shaders folder {folder}: {e}")))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "comp"))
        .collect();
    sources.sort();

    let mut consts = String::new();
    let mut list = String::new();
    let mut count = 0;
    for source in &sources {
        let text = std::fs::read_to_string(source)
            .unwrap_or_else(|e| fail(&format!("cannot read {}: {e}", source.display())));
        let doc = first_comment(&text);
        let stem = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_else(|| fail("odd file name"));
        for (name, defines) in builds(stem, &text) {
            let words = compile(compiler, source, &defines, &out.join(format!("{name}.spv")));
            let words =
                cooperative::translate(words).unwrap_or_else(|e| fail(&format!("{}: {e}", source.display())));
            let module = reflect(&words).unwrap_or_else(|e| fail(&format!("{}: {e}", source.display())));
            let constant = name.to_uppercase();
            write!(
                consts,
                "/// {doc}\npub static {constant}: Kernel = Kernel {{\n    name: {name:?},\n    bindings: &[{}],\n    \
                 push_bytes: {},\n    capabilities: &{:?},\n    spirv: &{words:?},\n}};\n",
                module.bindings.join(", "),
                module.push_bytes,
                module.capabilities,
            )
            .expect("writing to a string");
            write!(list, "&{constant}, ").expect("writing to a string");
            count += 1;
        }
    }
    write!(consts, "/// {about}\npub static {list_name}: [&Kernel; {count}] = [{list}];\n")
        .expect("writing to a string");
    consts
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
        .filter(|line| !line.starts_with("// variants: "))
        .skip_while(|line| !line.starts_with("// "))
        .take_while(|line| line.starts_with("// "))
        .map(|line| line[3..].trim())
        .collect();
    // Shapes in brackets would otherwise be read as links.
    lines.join(" ").replace('[', "\\[").replace(']', "\\]")
}

struct Module {
    /// `Direction` expressions, by binding number.
    bindings: Vec<&'static str>,
    push_bytes: u32,
    capabilities: Vec<u32>,
}

/// Reads just what the table needs; the numbers are those of the SPIR-V specification, sections 3.20 and 3.49.
fn reflect(words: &[u32]) -> Result<Module, String> {
    const OP_CAPABILITY: u32 = 17;
    const OP_TYPE_STRUCT: u32 = 30;
    const OP_TYPE_POINTER: u32 = 32;
    const OP_VARIABLE: u32 = 59;
    const OP_DECORATE: u32 = 71;
    const OP_MEMBER_DECORATE: u32 = 72;
    const DECORATION_NON_WRITABLE: u32 = 24;
    const DECORATION_NON_READABLE: u32 = 25;
    const DECORATION_BINDING: u32 = 33;
    const DECORATION_OFFSET: u32 = 35;
    const STORAGE_PUSH_CONSTANT: u32 = 9;

    let mut binding_of = std::collections::BTreeMap::new(); // variable -> binding
    let mut pointee = std::collections::BTreeMap::new(); // pointer type -> type
    let mut variables = Vec::new(); // (id, pointer type, storage class)
    let mut members = std::collections::BTreeMap::new(); // struct -> number of members
    let mut marks = std::collections::BTreeSet::new(); // (struct, decoration) on member 0
    let mut offsets = std::collections::BTreeMap::new(); // (struct, member) -> offset
    let mut capabilities = Vec::new();
    let mut at = 5;
    while at < words.len() {
        let (count, opcode) = ((words[at] >> 16) as usize, words[at] & 0xffff);
        let operands = words.get(at + 1..at + count.max(1)).ok_or("truncated SPIR-V")?;
        match (opcode, operands) {
            (OP_CAPABILITY, [capability]) => capabilities.push(*capability),
            (OP_TYPE_STRUCT, [id, fields @ ..]) => drop(members.insert(*id, fields.len() as u32)),
            (OP_TYPE_POINTER, [id, _, ty]) => drop(pointee.insert(*id, *ty)),
            (OP_VARIABLE, [ty, id, class, ..]) => variables.push((*id, *ty, *class)),
            (OP_DECORATE, [id, DECORATION_BINDING, binding]) => drop(binding_of.insert(*id, *binding)),
            (OP_MEMBER_DECORATE, [ty, 0, mark @ (DECORATION_NON_WRITABLE | DECORATION_NON_READABLE)]) => {
                marks.insert((*ty, *mark));
            }
            (OP_MEMBER_DECORATE, [ty, member, DECORATION_OFFSET, offset]) => {
                offsets.insert((*ty, *member), *offset);
            }
            _ => {}
        }
        at += count.max(1);
    }

    let mut bindings = std::collections::BTreeMap::new();
    let mut push_bytes = 0;
    for (id, pointer, class) in variables {
        let ty = pointee.get(&pointer).copied().unwrap_or(0);
        if class == STORAGE_PUSH_CONSTANT {
            // Every push constant of these kernels is one 32-bit value.
            let last = members.get(&ty).copied().unwrap_or(0).saturating_sub(1);
            push_bytes = offsets.get(&(ty, last)).copied().ok_or("push constants without offsets")? + 4;
        } else if let Some(&binding) = binding_of.get(&id) {
            let read_only = marks.contains(&(ty, DECORATION_NON_WRITABLE));
            let write_only = marks.contains(&(ty, DECORATION_NON_READABLE));
            let direction = match (read_only, write_only) {
                (true, false) => "Direction::Read",
                (false, true) => "Direction::Write",
                (false, false) => "Direction::ReadWrite",
                (true, true) => return Err(format!("binding {binding} is neither read nor written")),
            };
            if bindings.insert(binding, direction).is_some() {
                return Err(format!("two variables share binding {binding}"));
            }
        }
    }
    if !bindings.keys().copied().eq(0..bindings.len() as u32) {
        return Err("bindings must be numbered from 0 without gaps".to_owned());
    }
    Ok(Module { bindings: bindings.into_values().collect(), push_bytes, capabilities })
}
