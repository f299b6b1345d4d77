//! SPIR-V into `zinc-reflect`: valid modules and damaged ones, specialised, reflected, compiled to footprints and
//! evaluated for dispatches of any size.
//!
//! The seeds are the shaders and hand-written modules of `zinc-reflect`'s own tests, and random shaders of the same
//! generator that its tests of extents use, as glslangValidator makes them. One execution takes a seed, leaves it as it
//! is (one in eight) or damages it, and asks everything that the layer would ask.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use zinc_reflect::{Dispatch, Footprint, Specialization, reflect_specialized};

use crate::generate::{Choices, shader};
use crate::mutate::mutate;
use crate::{Outcome, Target};

/// The modules that executions start from.
pub struct Spirv {
    seeds: Vec<Vec<u32>>,
}

fn words(path: &Path) -> Result<Vec<u32>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn ran(command: &mut Command, package: &str) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {program}: install {package}, or see that it is in PATH"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).replace('\n', "; ");
        bail!("{program} failed: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}

fn compile(source: &Path, out: &Path) -> Result<Vec<u32>> {
    let glslang = std::env::var("ZINC_BARRIER_GLSLANG").unwrap_or_else(|_| "glslangValidator".into());
    let mut command = Command::new(glslang);
    command.args(["-V", "--quiet", "--target-env", "vulkan1.2", "-o"]).arg(out).arg(source);
    ran(&mut command, "glslang (glslang-tools on Debian)")?;
    words(out)
}

/// The files of a folder with this ending, sorted, so that a seed means the same everywhere.
fn files(folder: &Path, ending: &str) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

impl Spirv {
    /// Compiles the seeds: all that `tests` (the folder of `zinc-reflect`'s tests) has, and `generated` random ones.
    ///
    /// # Errors
    ///
    /// Without glslangValidator or spirv-as, or when a folder can't be read or a seed not be made.
    pub fn new(tests: &Path, generated: usize, seed: u64) -> Result<Spirv> {
        let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
        let out = scratch.path().join("out.spv");
        let mut seeds = Vec::new();
        for shader in files(&tests.join("shaders"), "comp")? {
            seeds.push(compile(&shader, &out)?);
        }
        let prelude = std::fs::read_to_string(tests.join("fixtures/prelude.spvasm"))
            .context("the fixtures have no prelude")?;
        for fixture in files(&tests.join("fixtures"), "spvasm")? {
            let text = std::fs::read_to_string(&fixture)?;
            let whole = scratch.path().join("whole.spvasm");
            let prelude = if text.contains("OpCapability") { "" } else { &prelude };
            std::fs::write(&whole, format!("{prelude}{text}"))?;
            let mut command = Command::new("spirv-as");
            command.args(["--target-env", "spv1.3", "-o"]).arg(&out).arg(&whole);
            ran(&mut command, "spirv-tools")?;
            seeds.push(words(&out)?);
        }
        let mut rng = Rng::with_seed(seed);
        for nth in 0..generated {
            let choices: Vec<u16> = (0..300).map(|_| rng.u16(..)).collect();
            let source = scratch.path().join("generated.comp");
            std::fs::write(&source, shader(&mut Choices::new(&choices), nth % 2 == 1))?;
            seeds.push(compile(&source, &out)?);
        }
        Ok(Spirv { seeds })
    }
}

fn dispatch_size(rng: &mut Rng) -> [u32; 3] {
    std::array::from_fn(|_| match rng.u32(0..6) {
        0 => rng.u32(..),
        1 => [0, u32::MAX, 65535][rng.usize(0..3)],
        _ => rng.u32(1..40),
    })
}

impl Target for Spirv {
    fn describe(&self) -> String {
        let words: usize = self.seeds.iter().map(Vec::len).sum();
        format!("{} seeds of {} words on average", self.seeds.len(), words / self.seeds.len().max(1))
    }

    fn execute(&mut self, _: u64, rng: &mut Rng) -> Outcome {
        let mut words = self.seeds[rng.usize(0..self.seeds.len())].clone();
        if rng.u32(0..8) != 0 {
            let donor = &self.seeds[rng.usize(0..self.seeds.len())];
            mutate(&mut words, donor, rng);
        }
        let mut specialization = Specialization::none();
        for _ in 0..rng.u32(0..3) {
            let bits = if rng.bool() { rng.u64(..) } else { rng.u64(0..64) };
            specialization.set(rng.u32(0..6), bits);
        }
        let Ok(module) = reflect_specialized(&words, &specialization) else { return Outcome::Refused };
        for entry in &module.entry_points {
            let Ok(footprint) = Footprint::compile(&words, &entry.name, &specialization) else { continue };
            footprint.address_sources();
            for _ in 0..2 {
                let push: Vec<u8> = (0..rng.usize(0..40)).map(|_| rng.u8(..)).collect();
                let base = if rng.u32(0..4) == 0 { dispatch_size(rng) } else { [0; 3] };
                let dispatch = Dispatch { push_constants: &push, groups: dispatch_size(rng), base };
                let extents = footprint.evaluate(&dispatch);
                for one in &extents.bindings {
                    extents.binding(one.set, one.binding);
                }
            }
        }
        Outcome::Accepted
    }
}
