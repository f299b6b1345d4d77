//! What does the layer cost an application that records?
//!
//! One process makes two devices on the same driver, one with the layer in its instance and one without, records the
//! same commands on both in turn, and takes the difference within each round: whatever slows a round slows both. Time
//! is the recording thread's own processor time, so that a busy machine does not count. The driver is whatever the
//! Vulkan loader finds: the mock, which does nothing, shows the layer alone; a real one shows what a user would see.

mod measure;
mod table;
mod world;

use anyhow::{Context, Result, bail};
use clap::Parser;
use measure::{Case, Stream};
use std::path::PathBuf;
use world::World;

/// Measures what the layer costs an application that records.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
layer/bench/run builds everything and runs this on the mock driver and, where they are set up, on real RADV and \
Honeykrisp through their shims.

Exit status: 0 measured, 1 something failed, 2 usage."
)]
struct Args {
    /// The layer's library
    #[arg(long, value_name = "PATH")]
    layer: PathBuf,

    /// The policy in force
    #[arg(long, value_name = "POLICY", default_value = "alias-only")]
    policy: String,

    /// The driver's library, for the mock; without it the Vulkan loader decides
    #[arg(long, value_name = "PATH")]
    driver: Option<PathBuf>,

    /// Rounds for each row
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(3..))]
    rounds: u32,

    /// Dispatches in a recording
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(2..=4096))]
    dispatches: u32,

    /// The most descriptor sets and buffers that are alive in a row
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    most: u32,

    /// Only the rows that vary nothing
    #[arg(long)]
    short: bool,

    /// Only the rows of this stream, for a profiler
    #[arg(long, value_name = "STREAM", value_enum)]
    only: Option<Stream>,

    /// Where the JSON goes
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("layer-bench: error: {error:#}");
            std::process::ExitCode::from(1)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if !args.layer.is_file() {
        bail!(
            "the layer's library {} is not there: cargo build --release -p zinc-barrier",
            args.layer.display()
        );
    }
    let folder = tempfile::tempdir().context("cannot make a folder for manifests")?;
    world::prepare(folder.path(), &args.layer, args.driver.as_deref(), &args.policy)?;
    // SAFETY: the loader is the system's.
    let entry = unsafe { ash::Entry::load() }.context("no Vulkan loader: tests/setup installs one")?;
    let (name, most_bindings) = {
        let world = World::new(&entry, false)?;
        (world.name.clone(), world.most_bindings)
    };
    let mut rows = Vec::new();
    let mut cases = Case::all(args.dispatches, args.most, args.short);
    cases.retain(|case| args.only.is_none_or(|only| case.stream == only));
    for case in cases {
        if case.bindings > most_bindings {
            eprintln!(
                "layer-bench: {case}: left out, the device has {most_bindings} storage buffers at most"
            );
            continue;
        }
        // New devices for each row: what the layer counted on its one then belongs to the row.
        let timed = {
            let plain = World::new(&entry, false).context("without the layer")?;
            let layered = World::new(&entry, true).context("with the layer")?;
            measure::measure(&plain, &layered, case, args.rounds).with_context(|| case.to_string())?
        };
        let path = folder.path().join(world::REPORT);
        let text = std::fs::read_to_string(&path).context("the layer wrote no report: was it inserted?")?;
        let counted = zinc_report::Report::from_json(&text).context("the layer's report")?;
        let row = timed.with_counts(&counted);
        eprintln!("layer-bench: {case}: {:.0} ns", row.own_ns.median);
        rows.push(row);
    }
    let report = table::Report::new(name, &args.policy, rows);
    println!("{}", report.text());
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
