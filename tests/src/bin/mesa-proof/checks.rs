//! What the patches claim, as checks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use crate::counts::Counts;
use crate::play::{Knobs, Played, Prefix};
use crate::streams::{CASES, Case, DISPATCHES};
use zinc_tests::artefacts;

/// The bits of RADV's flush flags that the mask is tried with, as in `enum radv_cmd_flush_bits`.
const INV_L2: u32 = 1 << 3;
const ALL: u32 = (1 << 17) - 1;
const _: () = assert!(ALL & !INV_L2 == 131_063);

/// The switches: a name for tables, settings, and what they do.
pub const SWITCHES: [(&str, Knobs, &str); 4] = [
    (
        "no INV_L2",
        &[("RADV_COMPUTE_BARRIER_MASK", "131063")],
        "compute-to-compute barriers without one bit, for ablation; results may be wrong",
    ),
    ("skip", &[("RADV_SKIP_COMPUTE_BARRIERS", "1")], "no compute-to-compute barriers; results are wrong"),
    (
        "defer L2",
        &[("RADV_DEFER_L2_FLUSH", "1")],
        "where the L2 is coherent for buffers, it is flushed when something looks behind it, not at each barrier",
    ),
    (
        "drop repeated",
        &[("RADV_DROP_REPEATED_FLUSHES", "1")],
        "a flush that repeats the one before, with nothing run in between, is left out",
    ),
];

/// Chips on which deferring the L2 must change nothing: their L2 is not coherent for every client of buffers.
/// GFX6 to GFX8 by generation; navi31 as the shim's table describes it, with an RB that does not go through the L2.
const L2_NOT_COHERENT: [&str; 6] = ["pitcairn", "bonaire", "stoney", "polaris10", "polaris12", "navi31"];

/// Streams in which no compute-to-compute barrier stands, for which the switches must do nothing.
const OTHERS: [&str; 4] = ["none", "all-commands", "host", "to-indirect"];

/// Counts what passed and prints what failed.
#[derive(Default)]
pub struct Checks {
    pub passed: u32,
    pub failed: u32,
}

impl Checks {
    pub fn check(&mut self, holds: bool, what: &str) {
        if holds {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("FAILED: {what}");
        }
    }

    /// All checks on one chip; its table.
    pub fn chip(&mut self, stock: &Prefix, patched: &Prefix, chip: &str) -> Result<String> {
        let before = (self.passed, self.failed);
        // The stock shim has no such chip; the patched one only answers the driver's calls.
        let shimless = chip == "gfx1201";
        let mut table = format!("\n## {chip}\n\n| stream | stock |");
        for (name, ..) in SWITCHES {
            let _ = write!(table, " {name} |");
        }
        table += "\n| --- | --- |";
        table += &" --- |".repeat(SWITCHES.len());
        table.push('\n');

        let mut stocks = BTreeMap::new();
        let mut moved = [false; SWITCHES.len()];
        for case in &CASES {
            let off = stream(patched, chip, case, &[])?;
            let reference =
                if shimless { stream(patched, chip, case, &[])? } else { stream(stock, chip, case, &[])? };
            let what = format!("{chip}, {}", case.name);
            self.check(readable(&off.words), &format!("{what}: a command buffer could not be read"));
            self.check(
                off.words == reference.words,
                &format!("{what}: with all switches off it is not stock's stream"),
            );
            let counts = Counts::of(&reference.pm4);
            // On GFX6 the queue adds one wait to each submission, which belongs to no command buffer.
            let around = stocks.get("none").map_or(counts, |none: &(Counts, Vec<Counts>)| none.0).idle;
            self.counters(&what, &off, around)?;
            let _ = write!(table, "| {} | {counts} |", case.name);
            let mut on = Vec::new();
            for (i, (name, knobs, _)) in SWITCHES.iter().enumerate() {
                let played = stream(patched, chip, case, knobs)?;
                let same = played.words == reference.words;
                moved[i] |= Counts::of(&played.pm4) != counts;
                let cell = if same { "=".into() } else { Counts::of(&played.pm4).to_string() };
                let _ = write!(table, " {cell} |");
                if OTHERS.contains(&case.name) {
                    self.check(
                        same,
                        &format!("{what}: '{name}' changes a stream that is none of its business"),
                    );
                }
                on.push(Counts::of(&played.pm4));
            }
            table.push('\n');
            stocks.insert(case.name, (counts, on));
        }
        self.claims(chip, &stocks);
        // The control: comparing words can tell two streams apart.
        self.check(
            stocks["none"].0 != stocks["memory"].0,
            &format!("{chip}: the stream with barriers counts as the one without"),
        );
        for (i, (name, ..)) in SWITCHES.iter().enumerate() {
            let expected = !(*name == "defer L2" && L2_NOT_COHERENT.contains(&chip));
            let verb = if expected {
                "moves no count on any stream"
            } else {
                "moves a count where the L2 is not coherent"
            };
            self.check(moved[i] == expected, &format!("{chip}: '{name}' {verb}"));
        }
        println!("{chip}: {} passed, {} failed", self.passed - before.0, self.failed - before.1);
        if shimless {
            table += "\nStock Mesa 25.0.7 has no entry for this chip in its shim: the column `stock` is the patched driver \
                      with all switches off.\n";
        }
        Ok(table)
    }

    /// The driver's own counters agree with the packets, apart from what the queue puts around every submission.
    fn counters(&mut self, what: &str, played: &Played, around: u64) -> Result<()> {
        let mut idle = around;
        for line in played.counters.lines() {
            let line: serde_json::Value =
                serde_json::from_str(line).with_context(|| format!("{what}: {line}"))?;
            idle += line["emitted"]["bits"]["CS_PARTIAL_FLUSH"].as_u64().unwrap_or(0);
        }
        self.check(!played.counters.is_empty(), &format!("{what}: RADV_BARRIER_COUNTERS wrote nothing"));
        self.check(
            idle == played.pm4.cs_partial_flushes,
            &format!(
                "{what}: the driver counts {idle} waits, and {} are in the stream",
                played.pm4.cs_partial_flushes
            ),
        );
        Ok(())
    }

    /// What the messages of the patches say of each switch.
    fn claims(&mut self, chip: &str, found: &BTreeMap<&str, (Counts, Vec<Counts>)>) {
        let of = |case: &str, switch: usize| found[case].1[switch];
        let stock = |case: &str| found[case].0;
        let none = stock("none");

        for case in ["memory", "execution-only", "source-only", "buffer", "transfer", "barrier-after-barrier"]
        {
            self.check(
                of(case, 1) == none,
                &format!("{chip}, {case}: 'skip' leaves more than no barrier at all"),
            );
            self.check(
                stock(case) != none,
                &format!("{chip}, {case}: stock emits nothing for it, so skipping shows nothing"),
            );
        }
        // Waiting is no matter of caches: neither the mask nor deferring may cost a wait.
        for case in ["memory", "source-only", "buffer", "transfer"] {
            self.check(
                of(case, 0).idle == stock(case).idle,
                &format!("{chip}, {case}: 'no INV_L2' loses a wait"),
            );
            self.check(
                of(case, 2).idle == stock(case).idle,
                &format!("{chip}, {case}: 'defer L2' loses a wait"),
            );
        }
        if !L2_NOT_COHERENT.contains(&chip) {
            // One flush is left, at the end of the command buffer, for what comes behind it.
            let at_most = none.l2 + 1;
            self.check(
                of("memory", 2).l2 <= at_most,
                &format!("{chip}: 'defer L2' leaves {} L2 flushes", of("memory", 2).l2),
            );
            self.check(
                of("memory", 2).l2 > none.l2,
                &format!("{chip}: 'defer L2' never makes up for what it put off"),
            );
        }
        // Nothing runs between the two barriers: the second must be free, and was not. Where there are queries, the end
        // of the command buffer flushes for them once more; stock has by then done so by accident.
        for (case, at_the_end) in [("barrier-timestamp-barrier", 1), ("barrier-event-barrier", 0)] {
            let left = of(case, 3).idle;
            self.check(
                left == DISPATCHES - 1 + at_the_end + none.idle,
                &format!("{chip}, {case}: 'drop repeated' leaves {left} waits"),
            );
            self.check(
                stock(case).idle == 2 * (DISPATCHES - 1) + none.idle,
                &format!("{chip}, {case}: stock repeats nothing"),
            );
        }
        self.check(
            of("barrier-after-barrier", 3) == stock("memory"),
            &format!("{chip}: a barrier after a barrier costs something"),
        );
    }
}

/// Whether every command buffer could be read.
fn readable(words: &[u8]) -> bool {
    let text = String::from_utf8_lossy(words);
    text.contains("submit ") && !text.contains("UNREADABLE")
}

fn stream(prefix: &Prefix, chip: &str, case: &Case, knobs: Knobs) -> Result<Played> {
    let file = tempfile::NamedTempFile::new().context("scratch file")?;
    std::fs::write(file.path(), case.stream()).context("scratch file")?;
    let program: [OsString; 2] = [artefacts::stream().into(), file.path().into()];
    let played =
        prefix.play(chip, &program, knobs, true).with_context(|| format!("stream '{}'", case.name))?;
    let dispatches = played.pm4.dispatches + played.pm4.dispatches_indirect;
    // Copies and fills may be dispatches, too.
    ensure!(dispatches >= DISPATCHES, "{chip}, {}: only {dispatches} dispatches", case.name);
    Ok(played)
}
