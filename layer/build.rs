//! Compiles the one shader that the layer has of its own, for `replay`. The compiler is the one that the kernels are
//! built with: glslangValidator, or what `ZINC_BARRIER_GLSLANG` names.

use std::path::Path;
use std::process::{Command, exit};

const SOURCE: &str = "src/replay/masks.comp";

fn main() {
    println!("cargo::rerun-if-env-changed=ZINC_BARRIER_GLSLANG");
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = std::env::var_os("OUT_DIR").map(|dir| Path::new(&dir).join("masks.spv"));
    let Some(out) = out else { fail("cargo does not say where to put the shader") };
    let compiler = std::env::var("ZINC_BARRIER_GLSLANG").unwrap_or_else(|_| "glslangValidator".into());
    let made =
        Command::new(&compiler).args(["--target-env", "vulkan1.0", "-o"]).arg(&out).arg(SOURCE).output();
    match made {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            fail(&format!("{SOURCE}: {}", String::from_utf8_lossy(&output.stdout).replace('\n', "; ")))
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
