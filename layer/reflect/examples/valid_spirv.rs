//! Valid SPIR-V from several front ends, made odd, against what a logging copy of it touches on a CPU device.
//!
//! `tests/fuzz --valid-spirv --minutes 60` runs this. Prints a table, and exits with 1 when an access leaves what the crate
//! says, or spirv-val refuses a module that was changed. What a case is stands in `tests/valid/mod.rs`.

#[path = "../tests/ranges/escapes.rs"]
mod escapes;
#[path = "../tests/ranges/generate.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod generate;
#[path = "../tests/ranges/gpu.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod gpu;
#[path = "../tests/ranges/instrument.rs"]
mod instrument;
#[path = "../tests/valid/mod.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod valid;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// What the command line says.
struct Arguments {
    minutes: f64,
    seed: u64,
    first: u64,
    cases: u64,
    keep: Option<std::path::PathBuf>,
}

fn arguments() -> Option<Arguments> {
    let mut found = Arguments { minutes: 60.0, seed: 1, first: 0, cases: u64::MAX, keep: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--minutes" => found.minutes = value.parse().ok().filter(|minutes| *minutes > 0.0)?,
            "--seed" => found.seed = value.parse().ok()?,
            "--first" => found.first = value.parse().ok()?,
            "--keep" => found.keep = Some(value.into()),
            "--cases" => found.cases = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(found)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!(
            "usage: valid_spirv [--minutes N] [--seed S] [--first NUMBER] [--cases COUNT] [--keep FOLDER]"
        );
        return ExitCode::from(2);
    };
    let gpu = match gpu::Gpu::open() {
        Ok(gpu) => gpu,
        Err(error) => {
            eprintln!("valid_spirv: error: {error}; tests/setup installs lavapipe");
            return ExitCode::from(3);
        }
    };
    let (front_ends, missing) = valid::available();
    for missing in &missing {
        eprintln!("not-run: {missing}");
    }
    // What the log does not know ends in a panic there, is counted, and need not be shown.
    std::panic::set_hook(Box::new(|_| {}));
    let run = valid::Run {
        gpu: &gpu,
        front_ends: &front_ends,
        seed: arguments.seed,
        first: arguments.first,
        most: arguments.cases,
        time: Duration::from_secs_f64(arguments.minutes * 60.0),
        keep: arguments.keep.as_deref(),
    };
    let outcome = run.run(|finding| eprintln!("FOUND: {finding}"));
    let all = outcome.all();
    for (why, count) in &all.refusals {
        eprintln!("refused, {count} times: {why}");
    }
    for (why, count) in &all.unknown {
        eprintln!("unknown, {count} modules: {why}");
    }
    let missing =
        if missing.is_empty() { String::new() } else { format!("\nnot run: {}", missing.join("; ")) };
    let text = format!("seed {}, {}{missing}\n{}", arguments.seed, gpu.name, outcome.table());
    if std::io::stdout().write_all(text.as_bytes()).is_err() {
        return ExitCode::from(2);
    }
    if all.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
