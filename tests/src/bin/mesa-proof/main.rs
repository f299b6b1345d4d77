//! `mesa-proof [--chips A,B] [--page FILE] [--engine] [--llama MODEL.gguf]`: what the patches for RADV do, without hardware.
//!
//! It plays the streams of `streams` on stock and on patched RADV under Mesa's drm-shim, for each chip and each switch,
//! reads what was submitted, and checks what the patches claim: with all switches off the same words, with a switch on
//! what its message says and nothing else. Each check has one beside it that must come out the other way, so that a
//! check which cannot fail would be noticed. Nothing executes: this shows what is emitted, never that it is right.
#![allow(missing_docs, reason = "the modules are private")]

mod checks;
mod counts;
mod play;
mod streams;
mod workloads;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use checks::{Checks, SWITCHES};
use play::Prefix;

/// All chips of the shim, oldest first; the last one's entry is one of the patches.
const CHIPS: [&str; 16] = [
    "pitcairn",
    "bonaire",
    "stoney",
    "polaris10",
    "polaris12",
    "vega10",
    "raven",
    "raven2",
    "renoir",
    "navi10",
    "navi21",
    "vangogh",
    "raphael_mendocino",
    "navi31",
    "gfx1150",
    "gfx1201",
];

struct Arguments {
    chips: Vec<String>,
    page: Option<PathBuf>,
    engine: bool,
    llama: Option<PathBuf>,
}

fn arguments() -> Result<Arguments> {
    let mut found =
        Arguments { chips: CHIPS.map(String::from).into(), page: None, engine: false, llama: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} wants a value"));
        match word.as_str() {
            "--chips" => found.chips = value()?.split(',').map(String::from).collect(),
            "--page" => found.page = Some(value()?.into()),
            "--engine" => found.engine = true,
            "--llama" => found.llama = Some(value()?.into()),
            _ => bail!("unknown argument '{word}'; there are --chips, --page, --engine and --llama"),
        }
    }
    for chip in &found.chips {
        ensure!(CHIPS.contains(&chip.as_str()), "unknown chip '{chip}'; the shim knows {}", CHIPS.join(", "));
    }
    Ok(found)
}

fn run() -> Result<bool> {
    let arguments = arguments()?;
    let (stock, patched) = (Prefix::find(true)?, Prefix::find(false)?);
    let mut checks = Checks::default();
    let mut page = String::from(
        "# What patched RADV emits\n\n\
         Made by `mesa-patches/proof/run --page`. Do not edit.\n\n\
         Mesa 25.0.7, stock and with the series, under its drm-shim: nothing executes, so this shows what is emitted, never \
         that it is right or fast. Each stream has eight dispatches and, between each two, what its name says. A cell holds \
         CS_PARTIAL_FLUSH, acquires (ACQUIRE_MEM or SURFACE_SYNC), releases (RELEASE_MEM or EVENT_WRITE_EOP), how many of \
         the last two touch the L2, and PFP_SYNC_ME; `=` is word for word what stock emits.\n\n",
    );
    for (name, knobs, what) in SWITCHES {
        let _ = writeln!(
            page,
            "- **{name}** ({}): {what}",
            knobs.iter().map(|(k, v)| format!("`{k}={v}`")).collect::<Vec<_>>().join(" ")
        );
    }
    for chip in &arguments.chips {
        page += &checks.chip(&stock, &patched, chip)?;
    }
    if arguments.engine {
        page += &workloads::engine(&mut checks, &stock, &patched)?;
    }
    if let Some(model) = &arguments.llama {
        page += &workloads::llama(&mut checks, &stock, &patched, model)?;
    }
    if let Some(path) = &arguments.page {
        std::fs::write(path, &page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{} passed, {} failed", checks.passed, checks.failed);
    Ok(checks.failed == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mesa-proof: {error:#}");
            ExitCode::from(3)
        }
    }
}
