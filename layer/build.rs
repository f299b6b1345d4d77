//! Compiles the shaders that the layer has of its own, for `replay`, and says how its library is linked. The compiler is the
//! one that the kernels are built with: glslangValidator, or what `ZINC_BARRIER_GLSLANG` names.

use std::path::Path;
use std::process::{Command, exit};

const NAMES: [&str; 3] = ["masks", "bases", "line"];

fn main() {
    println!("cargo::rerun-if-env-changed=ZINC_BARRIER_GLSLANG");
    let Some(out) = std::env::var_os("OUT_DIR") else { fail("cargo does not say where to put the shaders") };
    NAMES.iter().for_each(|name| compile(name, Path::new(&out)));
    stay_loaded();
}

/// Has the library stay in the process once it is there. The loader unloads a layer with the last instance and loads it again
/// for the next one. Rust's runtime takes a key for thread-local storage each time and can't give it back, and a process has
/// some thousand of them: then the host would be aborted. Device numbers would begin again, too, and reports replace each
/// other.
fn stay_loaded() {
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(os.as_str(), "linux" | "android" | "freebsd") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}

fn compile(name: &str, out: &Path) {
    let source = format!("src/replay/{name}.comp");
    println!("cargo::rerun-if-changed={source}");
    let out = out.join(format!("{name}.spv"));
    let compiler = std::env::var("ZINC_BARRIER_GLSLANG").unwrap_or_else(|_| "glslangValidator".into());
    let made =
        Command::new(&compiler).args(["--target-env", "vulkan1.0", "-o"]).arg(&out).arg(&source).output();
    match made {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            fail(&format!("{source}: {}", String::from_utf8_lossy(&output.stdout).replace('\n', "; ")))
        }
        Err(why) => fail(&format!(
            "cannot start {compiler} ({why}): install glslang (glslang-tools on Debian), or name it in \
             ZINC_BARRIER_GLSLANG"
        )),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1)
}
