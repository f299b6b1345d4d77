//! `shader-stats [FILE]` writes down what real compilers make of the engine's kernels: registers, spills, occupancy, size.
//!
//! It starts itself (`--probe`) on every driver that `sweep setup-shims` unpacked and prints the page
//! docs/shader-stats.md. Nothing executes on those drivers, and nothing has to: the compilers are the real ones.
//! `--json` prints all numbers by the drivers' own names instead.
#![allow(missing_docs, reason = "the modules are private")]

mod page;
mod probe;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use zinc_tests::artefacts;
use zinc_tests::shims;

fn main() -> ExitCode {
    match run(std::env::args_os().nth(1).map(PathBuf::from).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shader-stats: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(argument: Option<&Path>) -> Result<()> {
    if argument == Some(Path::new("--probe")) {
        println!("{}", probe::account()?);
        return Ok(());
    }
    let sweep = artefacts::sweep();
    let drivers = shims::list(&sweep);
    ensure!(!drivers.is_empty(), "no driver is there: run 'sweep setup-shims' first");
    let accounts = drivers
        .into_iter()
        .map(|driver| Ok((driver.clone(), on(&sweep, &driver)?)))
        .collect::<Result<Vec<(String, Value)>>>()?;
    if argument == Some(Path::new("--json")) {
        let all: serde_json::Map<String, Value> = accounts.into_iter().collect();
        println!("{}", json!({"versions": versions(&sweep)?, "drivers": all}));
        return Ok(());
    }
    let page = format!(
        "# What compilers make of the engine's kernels\n\n\
         Made by `cargo run --release -p zinc-tests --bin shader-stats -- docs/shader-stats.md`, after `sweep setup-shims`. \
         Do not edit.\n\n\
         The numbers are the drivers' own (`VK_KHR_pipeline_executable_properties`), of every kernel in the shapes that \
         the engine takes on a GPU. RADV's chips stand without `radv-shim:`. *Occupancy* is subgroups per SIMD on RADV \
         and threads on Honeykrisp. A kernel that spills, or that loses occupancy, has become too large. How fast it is \
         does not show here.\n\n{}\n{}",
        versions(&sweep)?.iter().map(|line| format!("- {line}\n")).collect::<String>(),
        page::table(&accounts)?
    );
    match argument {
        None => print!("{page}"),
        Some(path) => {
            std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?
        }
    }
    Ok(())
}

/// What decides the numbers beside the kernels' source: the drivers, and the compiler that made SPIR-V of the source.
fn versions(sweep: &Path) -> Result<Vec<String>> {
    let output = Command::new("glslangValidator").arg("--version").output().context("glslangValidator")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let glslang =
        said.lines().find(|line| line.starts_with("Glslang Version")).unwrap_or("Glslang Version: unknown");
    Ok(shims::versions(sweep).into_iter().chain([glslang.to_string()]).collect())
}

/// What the probe prints on a driver.
fn on(sweep: &Path, driver: &str) -> Result<Value> {
    let own = std::env::current_exe().context("where this program is")?;
    let output = Command::new(sweep)
        .args(["on", driver, "--"])
        .arg(own)
        .arg("--probe")
        .output()
        .context("cannot start sweep")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "on {driver} it ended with {}: {said}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("on {driver} it printed no JSON: {said}"))
}
