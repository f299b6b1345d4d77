//! Compiles the tests' shaders from GLSL and writes the tables of them that programs include: the stream player's
//! kernels, and the shaders of the pictures.
//!
//! The kernels are small on purpose and exist only to touch memory in known ways, so they are compiled without
//! optimisation: what stands in the GLSL is what reflection sees.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

fn main() {
    let made = compile("kernels", &["comp"], false)
        .and_then(|()| compile("pictures", &["vert", "frag", "comp"], true));
    if let Err(message) = made {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

/// Compiles the files of a folder whose names end in one of `stages`, and writes `FOLDER.rs`, a table of name and
/// SPIR-V. Names keep their ending where `ending` says so: then one name may stand for several stages.
fn compile(folder: &str, stages: &[&str], ending: bool) -> Result<(), String> {
    let table_path = format!("{folder}.rs");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).join(folder);
    let out = PathBuf::from(env::var("OUT_DIR").map_err(|e| e.to_string())?);
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut sources: Vec<(PathBuf, String)> = fs::read_dir(&folder)
        .map_err(|e| format!("cannot read {}: {e}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter_map(|path| {
            let stage = path.extension()?.to_string_lossy().into_owned();
            stages.contains(&stage.as_str()).then_some((path, stage))
        })
        .collect();
    sources.sort();
    let mut table = String::from("&[\n");
    for (source, stage) in &sources {
        let name = if ending { source.file_name() } else { source.file_stem() };
        let name = name.unwrap_or_default().to_string_lossy();
        let binary = out.join(format!("{name}.spv"));
        let output = Command::new("glslangValidator")
            .args(["--target-env", "vulkan1.1", "-S", stage, "-o"])
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
    fs::write(out.join(table_path), table).map_err(|e| e.to_string())
}
