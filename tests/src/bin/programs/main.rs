//! Random valid Vulkan programs over the edges of the API, under every policy of the layer.
//!
//! A seed decides a program: its memory (buffers that share bytes, imports of host memory and of what is mapped, memory that is
//! freed before its buffers), how its sets are bound (pushed in parts with layouts of other handles, bound in odd orders,
//! arrays in part, dynamic offsets, templates), and what it records (dispatches, direct and indirect, copies, fills, updates,
//! barriers of many kinds, events, timestamps, secondaries; with garbage where the specification ignores a pointer).
//!
//! Judged are: memory at the end, against the host's own computation; the number of barriers emitted, against what follows from
//! what was bound; the layer's audit; and, where Khronos validation is put above or below the layer, its complaints. The
//! control, no barriers in reversed order, must give wrong results.

mod barriers;
mod generate;
mod gpu;
mod judge;
mod play;
mod predict;
mod program;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};

use gpu::{Gpu, Opening};
use judge::{Batch, SETTINGS, Tally, Validation};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Where {
    /// No validation.
    #[default]
    Off,
    /// Khronos validation between the program and the layer.
    Above,
    /// Khronos validation between the layer and the driver.
    Below,
}

/// Random valid programs under every policy of the layer; needs the layer's manifest where the loader looks.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The first program.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many programs. Without it, as many as the time allows.
    #[arg(long)]
    programs: Option<u64>,
    /// How long, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Programs on one device: each setting opens one for a batch.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Only settings whose names contain this.
    #[arg(long)]
    only: Option<String>,
    /// Where Khronos validation stands.
    #[arg(long, value_enum, default_value_t)]
    validation: Where,
    /// Print the programs.
    #[arg(long)]
    print: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("programs: error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let validation = match arguments.validation {
        Where::Off => Validation::None,
        Where::Above => Validation::Above,
        Where::Below => Validation::Below,
    };
    // What the layer makes new in between, replays and shuffled orders, is not what validation is asked about.
    let wanted = |setting: &judge::Setting| {
        let plain = matches!(setting.name, "stock" | "alias-only" | "narrow" | "reorder");
        let control = !setting.correct && validation == Validation::Below;
        (validation == Validation::None || plain || control)
            && arguments.only.as_ref().is_none_or(|only| setting.name.contains(only))
    };
    let settings: Vec<_> = SETTINGS.iter().filter(|setting| wanted(setting)).collect();
    if settings.is_empty() {
        bail!("no setting is called like {:?}", arguments.only);
    }
    let scratch = tempfile::tempdir()?;
    let bare = Gpu::open(&Opening::default())?;
    eprintln!("programs: {}, from seed {}, {:?}", bare.name, arguments.seed, bare.abilities);
    let mut tallies = vec![Tally::default(); settings.len()];
    let (began, mut next) = (Instant::now(), arguments.seed);
    let end = arguments.programs.map(|programs| arguments.seed.saturating_add(programs));
    while end.is_none_or(|end| next < end) {
        let last = end.unwrap_or(u64::MAX).min(next.saturating_add(arguments.batch));
        let garbage = validation == Validation::None;
        let abilities = generate::Abilities { garbage, ..bare.abilities };
        let batch = Batch::new(next..last, abilities);
        let control = Batch::new(next..last, generate::Abilities { indirect: false, ..abilities });
        if arguments.print {
            batch.programs().for_each(|program| println!("{program:#?}"));
        }
        batch.bare(&bare)?;
        for (setting, tally) in settings.iter().zip(&mut tallies) {
            let batch = if setting.correct { &batch } else { &control };
            batch.under(setting, validation, scratch.path(), tally)?;
        }
        next = last;
        let found: u64 = tallies.iter().map(|t| t.findings.len() as u64).sum();
        eprintln!("programs: up to seed {next} in {} s, {found} findings", began.elapsed().as_secs());
        if end.is_none() && began.elapsed() >= Duration::from_secs(arguments.seconds) {
            break;
        }
    }
    report(&bare.name, &settings, &tallies)
}

/// Prints the table. Says whether all is as it must be.
fn report(device: &str, settings: &[&judge::Setting], tallies: &[Tally]) -> Result<bool> {
    let mut out = std::io::stdout();
    let mut good = true;
    writeln!(
        out,
        "| setting, on {device} | programs | not possible | wrong | complaints | asked | emitted | |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    for (setting, tally) in settings.iter().zip(tallies) {
        let fine = match setting.correct {
            true => tally.wrong + tally.complaints + tally.miscounted == 0 && tally.programs > 0,
            // Programs without a conflict, and those in which the order happens to matter nothing, come out right.
            false => tally.wrong + tally.complaints > tally.programs / 2,
        };
        good &= fine;
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            setting.name,
            tally.programs,
            tally.skipped,
            tally.wrong,
            tally.complaints,
            tally.asked,
            tally.emitted,
            if fine { "good" } else { "BAD" },
        )?;
    }
    for finding in tallies.iter().flat_map(|tally| &tally.findings) {
        writeln!(out, "{finding}")?;
    }
    Ok(good)
}
