//! A decode token of the engine and of llama.cpp, stock beside patched.
//!
//! Counts per token are differences between a longer and a shorter run, divided by the tokens between them, so that
//! loading and the first token are out of the way.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::checks::{Checks, SWITCHES};
use crate::counts::Counts;
use crate::play::{Knobs, Prefix};
use zinc_tests::artefacts;

/// Chips for these tables: one of each generation whose barriers differ.
const CHIPS: [&str; 4] = ["polaris10", "vega10", "navi21", "gfx1201"];
/// Tokens of the shorter and of the longer run.
const SHORT: u64 = 4;
const LONG: u64 = 20;

/// The command line for so many tokens.
type Program<'a> = &'a dyn Fn(u64) -> Vec<OsString>;

fn table(
    checks: &mut Checks,
    stock: &Prefix,
    patched: &Prefix,
    what: &str,
    program: Program,
) -> Result<String> {
    let mut page = format!("\n## A decode token: {what}\n\n| chip | stock |");
    for (name, ..) in SWITCHES {
        let _ = write!(page, " {name} |");
    }
    page += "\n| --- | --- |";
    page += &" --- |".repeat(SWITCHES.len());
    page.push('\n');
    for chip in CHIPS {
        let per_token = |prefix: &Prefix, knobs: Knobs| -> Result<Counts> {
            let short = prefix.play(chip, &program(SHORT), knobs, false)?;
            let long = prefix.play(chip, &program(LONG), knobs, false)?;
            ensure!(long.pm4.dispatches > short.pm4.dispatches, "{what} on {chip}: no dispatch per token");
            Ok(Counts::of(&long.pm4).since(Counts::of(&short.pm4), LONG - SHORT))
        };
        let off = per_token(patched, &[])?;
        let reference = if chip == "gfx1201" { off } else { per_token(stock, &[])? };
        checks.check(
            off == reference,
            &format!("{what} on {chip}: with all switches off the counts are not stock's"),
        );
        let _ = write!(page, "| {chip} | {reference} |");
        for (name, knobs, _) in SWITCHES {
            let on = per_token(patched, knobs)?;
            checks.check(
                on.idle <= reference.idle && on.l2 <= reference.l2 + 1,
                &format!("{what} on {chip}: '{name}' adds flushes: {on} instead of {reference}"),
            );
            let _ = write!(page, " {} |", if on == reference { "=".into() } else { on.to_string() });
        }
        page.push('\n');
    }
    Ok(page)
}

/// The engine with the embedded model. Its warm-up is as long whatever the run is.
pub fn engine(checks: &mut Checks, stock: &Prefix, patched: &Prefix) -> Result<String> {
    let program = |tokens: u64| {
        let mut words: Vec<OsString> = vec![artefacts::engine().into()];
        words.extend(["bench", "--tokens", &tokens.to_string(), "--reps", "1"].map(OsString::from));
        words
    };
    table(checks, stock, patched, "the engine, embedded model", &program)
}

/// llama.cpp of Debian sid, which `tests/oracles` fetched. Its warm-up is one token, whatever the run is.
pub fn llama(checks: &mut Checks, stock: &Prefix, patched: &Prefix, model: &Path) -> Result<String> {
    let output = Command::new(artefacts::repository().join("tests/oracles")).arg("--where").output()?;
    ensure!(output.status.success(), "run tests/oracles first: {}", String::from_utf8_lossy(&output.stderr));
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let model = model.canonicalize().with_context(|| format!("cannot open {}", model.display()))?;
    let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let program = |tokens: u64| {
        let n = tokens.to_string();
        let mut words: Vec<OsString> = vec![format!("{folder}/run").into(), "llama-bench".into()];
        words.extend(["-p", "0", "-n", &n, "-r", "1", "-ngl", "99", "-m"].map(OsString::from));
        words.push(model.clone().into());
        words
    };
    table(checks, stock, patched, &format!("llama.cpp, {name}"), &program)
}
