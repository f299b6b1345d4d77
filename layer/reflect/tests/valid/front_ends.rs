//! Compilers: from random sources to SPIR-V, each in the ways in which it is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;

use crate::generate::{Choices, Language, shader_in};
use crate::gpu::Constant;

/// A compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrontEnd {
    Glslang,
    Shaderc,
    /// WGSL.
    Naga,
    Slang,
    /// The same compiler, with HLSL as its input language.
    Hlsl,
}

impl FrontEnd {
    pub const ALL: [FrontEnd; 5] =
        [FrontEnd::Glslang, FrontEnd::Shaderc, FrontEnd::Naga, FrontEnd::Slang, FrontEnd::Hlsl];

    fn language(self) -> Language {
        match self {
            FrontEnd::Glslang | FrontEnd::Shaderc => Language::Glsl,
            FrontEnd::Naga => Language::Wgsl,
            FrontEnd::Slang | FrontEnd::Hlsl => Language::Slang,
        }
    }
}

/// Where Slang's compiler is, once `tests/front-ends` has fetched it.
fn slangc() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let program = cache.join("zinc-barrier/front-ends/slang/slangtorch/bin/slangc");
    program.exists().then_some(program)
}

/// The front ends that are there, and why the others are not.
pub fn available() -> (Vec<FrontEnd>, Vec<String>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    let starts = |program: &str| Command::new(program).arg("--version").output().is_ok();
    for front_end in FrontEnd::ALL {
        let why = match front_end {
            FrontEnd::Naga => None,
            FrontEnd::Glslang => {
                (!starts("glslangValidator")).then_some("glslangValidator can't be started: run tests/setup")
            }
            FrontEnd::Shaderc => (!starts("glslc")).then_some("glslc can't be started: run tests/setup"),
            FrontEnd::Slang | FrontEnd::Hlsl => {
                slangc().is_none().then_some("slangc is not fetched: run tests/front-ends")
            }
        };
        match why {
            None => there.push(front_end),
            Some(why) => missing.push(format!("{front_end:?}: {why}")),
        }
    }
    (there, missing)
}

/// A module, and what was asked to get it.
pub struct Compiled {
    pub words: Vec<u32>,
    pub text: String,
    pub how: String,
    /// Specialization constants that its source has and others don't.
    pub constants: Vec<Constant>,
}

/// Runs a program in a folder; what it says where it fails.
pub fn run(folder: &Path, program: &Path, arguments: &[&str]) -> Result<(), String> {
    let shown = format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!("{shown}: {}{}", said(&output.stdout), said(&output.stderr)))
}

fn read(file: &Path) -> Result<Vec<u32>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(0..from.len())]
}

/// Makes a random module.
///
/// # Errors
///
/// What the compiler says. The text of a failing one is part of it.
pub fn compile(
    folder: &Path,
    front_end: FrontEnd,
    rng: &mut Rng,
    choices: &[u16],
) -> Result<Compiled, String> {
    let mut choices = Choices::new(choices);
    let addresses = rng.bool();
    let (text, constants) = by_id(shader_in(front_end.language(), &mut choices, addresses), rng);
    let out = folder.join("out.spv");
    let mut how = format!("{front_end:?}");
    let words = match front_end {
        FrontEnd::Glslang => {
            let target =
                pick(rng, &["vulkan1.1", "vulkan1.2", "vulkan1.3", "spirv1.3", "spirv1.4", "spirv1.6"]);
            let mut arguments = vec!["-V", "--quiet", "--target-env", target];
            let flag = pick(rng, &["", "-g", "-gVS", "-gVS", "-Os"]);
            // glslang 12's debug information of references is not valid.
            let flag = if flag == "-gVS" && text.contains("buffer_reference") { "-g" } else { flag };
            arguments.extend(flag.split_whitespace());
            arguments.extend(["-S", "comp", "-o", "out.spv", "in.comp"]);
            compile_with(folder, Path::new("glslangValidator"), &text, "in.comp", &arguments, &mut how)?;
            read(&out)?
        }
        FrontEnd::Shaderc => {
            let target = format!("--target-env={}", pick(rng, &["vulkan1.1", "vulkan1.2", "vulkan1.3"]));
            let mut arguments = vec![target.as_str(), "-fshader-stage=comp"];
            arguments.extend(pick(rng, &["", "-g"]).split_whitespace());
            arguments.extend(pick(rng, &["", "-O", "-Os", "-O0"]).split_whitespace());
            arguments.extend(["-o", "out.spv", "in.comp"]);
            compile_with(folder, Path::new("glslc"), &text, "in.comp", &arguments, &mut how)?;
            read(&out)?
        }
        FrontEnd::Slang | FrontEnd::Hlsl => {
            let slangc = slangc().ok_or("slangc is not fetched: run tests/front-ends")?;
            let (language, file) =
                if front_end == FrontEnd::Hlsl { ("hlsl", "in.hlsl") } else { ("slang", "in.slang") };
            // Its optimiser is a library that the package lacks; spirv-opt stands in below.
            let mut arguments =
                vec!["-lang", language, "-target", "spirv", "-entry", "main", "-stage", "compute", "-O0"];
            arguments.extend(pick(rng, &["", "-g", "-g1", "-g3"]).split_whitespace());
            arguments.extend(pick(rng, &["", "-profile spirv_1_3", "-profile spirv_1_6"]).split_whitespace());
            arguments.extend(["-fvk-use-entrypoint-name", "-o", "out.spv", file]);
            compile_with(folder, &slangc, &text, file, &arguments, &mut how)?;
            named(read(&out)?)
        }
        FrontEnd::Naga => naga(&text, rng, &mut how)?,
    };
    let words = if rng.u32(0..3) == 0 { passes(folder, &words, rng, &mut how)? } else { words };
    Ok(Compiled { words, text, how, constants })
}

/// Makes the width of a workgroup a specialization constant in every other shader in GLSL; its value is what it was.
fn by_id(text: String, rng: &mut Rng) -> (String, Vec<Constant>) {
    let plain = "local_size_x = ";
    let Some(at) = text.find(plain).filter(|_| rng.bool()) else { return (text, Vec::new()) };
    let digits: String = text[at + plain.len()..].chars().take_while(char::is_ascii_digit).collect();
    let width = digits.parse().expect("a number of invocations");
    (text.replacen(&format!("{plain}{digits}"), "local_size_x_id = 7", 1), vec![(7, width, 4)])
}

fn compile_with(
    folder: &Path,
    program: &Path,
    text: &str,
    file: &str,
    arguments: &[&str],
    how: &mut String,
) -> Result<(), String> {
    std::fs::write(folder.join(file), text).map_err(|error| error.to_string())?;
    how.push_str(&format!(": {}", arguments.join(" ")));
    run(folder, program, arguments).map_err(|error| format!("{error}\n{text}"))
}

/// Gives the source a language that the installed spirv-val knows: it refuses Slang's number, which is newer.
fn named(mut words: Vec<u32>) -> Vec<u32> {
    let mut at = 5;
    while at < words.len() {
        if words[at] & 0xffff == 3 {
            words[at + 1] = 0;
        }
        at += ((words[at] >> 16) as usize).max(1);
    }
    words
}

fn naga(text: &str, rng: &mut Rng, how: &mut String) -> Result<Vec<u32>, String> {
    use naga::back::spv;
    use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
    let module = naga::front::wgsl::parse_str(text)
        .map_err(|error| format!("{}\n{text}", error.emit_to_string(text)))?;
    let flags = naga::valid::ValidationFlags::all();
    let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all())
        .validate(&module)
        .map_err(|error| format!("{}\n{text}", error.emit_to_string(text)))?;
    // Naga has no third policy for atomics, which all these shaders have.
    let policy = [BoundsCheckPolicy::Unchecked, BoundsCheckPolicy::Restrict][rng.usize(0..2)];
    let debug = rng.bool();
    let mut options = spv::Options {
        lang_version: [(1, 1), (1, 3), (1, 4), (1, 6)][rng.usize(0..4)],
        bounds_check_policies: BoundsCheckPolicies {
            index: policy,
            buffer: policy,
            image_load: policy,
            binding_array: policy,
        },
        force_loop_bounding: rng.bool(),
        emit_int_div_checks: rng.bool(),
        ..spv::Options::default()
    };
    options.flags.set(spv::WriterFlags::DEBUG, debug);
    if debug {
        let language = naga::back::spv::SourceLanguage::Unknown;
        options.debug_info = Some(spv::DebugInfo { source_code: text, file_name: "in.wgsl", language });
    }
    how.push_str(&format!(
        ": {:?}, {policy:?}, debug {debug}, loops {}, divisions {}",
        options.lang_version, options.force_loop_bounding, options.emit_int_div_checks
    ));
    let pipeline =
        spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: "main".to_owned() };
    spv::write_vec(&module, &info, &options, Some(&pipeline)).map_err(|error| format!("{error}\n{text}"))
}

/// Passes of spirv-opt that keep the meaning, whatever specialization constants are given. `--loop-invariant-code-motion` of
/// 2023.1 does not: it takes loads of a loop's own counter out of the loop, which then has no end, and lavapipe leaves it after
/// 65,535 rounds and goes on behind it.
const PASSES: [&str; 27] = [
    "-O",
    "-Os",
    "--ccp",
    "--cfg-cleanup",
    "--combine-access-chains",
    "--compact-ids",
    "--convert-local-access-chains",
    "--copy-propagate-arrays",
    "--eliminate-dead-branches",
    "--eliminate-dead-code-aggressive",
    "--eliminate-dead-inserts",
    "--eliminate-local-multi-store",
    "--eliminate-local-single-block",
    "--eliminate-local-single-store",
    "--fix-storage-class",
    "--if-conversion",
    "--inline-entry-points-exhaustive",
    "--local-redundancy-elimination",
    "--loop-peeling",
    "--loop-unroll",
    "--merge-blocks",
    "--merge-return",
    "--private-to-local",
    "--redundancy-elimination",
    "--scalar-replacement=0",
    "--simplify-instructions",
    "--ssa-rewrite",
];

fn passes(folder: &Path, words: &[u32], rng: &mut Rng, how: &mut String) -> Result<Vec<u32>, String> {
    let mut arguments: Vec<&str> = (0..rng.usize(1..6)).map(|_| PASSES[rng.usize(0..PASSES.len())]).collect();
    // What it needs to be there first.
    if arguments.contains(&"--merge-return") {
        arguments.insert(0, "--eliminate-dead-code-aggressive");
    }
    how.push_str(&format!(", spirv-opt {}", arguments.join(" ")));
    write(&folder.join("before.spv"), words)?;
    arguments.extend(["before.spv", "-o", "after.spv"]);
    run(folder, Path::new("spirv-opt"), &arguments)?;
    read(&folder.join("after.spv"))
}

pub fn write(file: &Path, words: &[u32]) -> Result<(), String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(file, bytes).map_err(|error| format!("{}: {error}", file.display()))
}

/// What spirv-val says against a module.
pub fn validate(folder: &Path, words: &[u32]) -> Result<(), String> {
    let target = match words.get(1).map(|version| version >> 8 & 0xff) {
        Some(0..=3) => "vulkan1.1",
        Some(4) => "vulkan1.1spv1.4",
        Some(5) => "vulkan1.2",
        _ => "vulkan1.3",
    };
    write(&folder.join("valid.spv"), words)?;
    run(folder, Path::new("spirv-val"), &["--target-env", target, "--scalar-block-layout", "valid.spv"])
}
