//! Compiles the stream player's kernels from GLSL, and writes the table of them that the player includes.
//!
//! The kernels are small on purpose and exist only to touch memory in known ways, so they are compiled without
//! optimisation: what stands in the GLSL is what reflection sees.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

fn main() {
    if let Err(message) = compile() {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

fn compile() -> Result<(), String> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).join("kernels");
    let out = PathBuf::from(env::var("OUT_DIR").map_err(|e| e.to_string())?);
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut sources: Vec<PathBuf> = fs::read_dir(&folder)
        .map_err(|e| format!("cannot read {}: {e}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "comp"))
        .collect();
    sources.sort();
    let mut table = String::from("&[\n");
    for source in &sources {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let binary = out.join(format!("{name}.spv"));
        let output = Command::new("glslangValidator")
            .args(["--target-env", "vulkan1.1", "-S", "comp", "-o"])
            .arg(&binary)
            .arg(source)
            .output()
            .map_err(|e| {
                format!("cannot start glslangValidator ({e}): run tests/setup, which installs it")
            })?;
        if !output.status.success() {
            return Err(format!("{}:\n{}", source.display(), String::from_utf8_lossy(&output.stdout)));
        }
        table += &format!("    ({name:?}, include_bytes!({:?})),\n", binary.display().to_string());
    }
    table += "]\n";
    fs::write(out.join("kernels.rs"), table).map_err(|e| e.to_string())
}
