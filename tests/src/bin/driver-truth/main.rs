//! `driver-truth [FILE]` writes down what real drivers make of each kind of barrier, read from their command streams.
//!
//! It plays the streams of `cases` on every driver that `sweep setup-shims` unpacked, with the packet counter in the
//! process, and prints the page docs/driver-truth.md. Nothing executes on those drivers, so the page says what is
//! emitted and nothing about what it costs.
#![allow(missing_docs, reason = "the modules are private")]

mod cases;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use cases::{CASES, Case, DISPATCHES};
use zinc_packets_core::report::{Packets, Pm4, Report};
use zinc_tests::artefacts;

/// AMD chips, oldest first, and the folder of packages with the driver for each.
const CHIPS: [&str; 6] = ["polaris10", "vega10", "navi10", "navi21", "navi31", "gfx1201"];

fn main() -> ExitCode {
    match page().and_then(deliver) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("driver-truth: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the page to the file that was named, or to standard output.
fn deliver(page: String) -> Result<()> {
    match std::env::args_os().nth(1).map(PathBuf::from) {
        None => print!("{page}"),
        Some(path) => {
            std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?
        }
    }
    Ok(())
}

/// Plays one case on one driver and returns all that was submitted.
fn play(driver: &str, case: &Case, folder: &Path) -> Result<Packets> {
    let (stream, counted) = (folder.join("stream"), folder.join("packets.json"));
    std::fs::write(&stream, case.stream()).context("scratch folder")?;
    let _ = std::fs::remove_file(&counted);
    let output = Command::new(artefacts::sweep())
        .args(["on", driver, "--"])
        .arg(artefacts::stream())
        .arg(&stream)
        .env("ZINC_BARRIER_PACKETS", &counted)
        .output()
        .context("cannot start sweep")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "'{}' on {driver} ended with {}: {said}", case.name, output.status);
    let text = std::fs::read_to_string(&counted).with_context(|| {
        format!("the packet counter wrote nothing for '{}' on {driver}: {said}", case.name)
    })?;
    let report: Report = serde_json::from_str(&text).context("the packet counter's report")?;
    let [device] = &report.devices[..] else {
        bail!("'{}' on {driver}: {} devices got submissions, not one", case.name, report.devices.len());
    };
    ensure!(device.unreadable_submits == 0, "'{}' on {driver}: a submission could not be read", case.name);
    Ok(device.total.clone())
}

/// The counts of a PM4 stream that barriers move, by name.
fn pm4_counts(p: &Pm4) -> BTreeMap<&'static str, i64> {
    let counts = [
        ("CS_PARTIAL_FLUSH", p.cs_partial_flushes),
        ("acquire", p.acquires),
        ("RELEASE_MEM", p.releases),
        ("PFP_SYNC_ME", p.pfp_sync_me),
        ("WAIT_REG_MEM", p.wait_reg_mem),
    ];
    counts.into_iter().map(|(name, n)| (name, n as i64)).collect()
}

/// Acquires by register value and names of its bits.
fn acquires(p: &Pm4) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for op in &p.cache_ops {
        if op.event.is_none() {
            let words = if op.bits.is_empty() { "no bit".into() } else { op.bits.join(" ") };
            *found.entry(format!("{} ({words})", op.value)).or_insert(0) += op.count as i64;
        }
    }
    found
}

/// What `b` has more than `a`, in words: `7 CS_PARTIAL_FLUSH, 7 acquire`.
fn more<K: Ord + std::fmt::Display>(a: &BTreeMap<K, i64>, b: &BTreeMap<K, i64>) -> String {
    let mut parts = Vec::new();
    for (name, n) in b {
        let difference = n - a.get(name).copied().unwrap_or(0);
        if difference != 0 {
            parts.push(format!("{difference} {name}"));
        }
    }
    if parts.is_empty() { "nothing".into() } else { parts.join(", ") }
}

fn amd(driver: &str, folder: &Path) -> Result<String> {
    let pm4 = |case: &Case| -> Result<Pm4> {
        let p = play(driver, case, folder)?.pm4.context("no PM4 stream")?;
        ensure!(
            p.dispatches == DISPATCHES as u64,
            "{driver}: {} dispatches instead of {DISPATCHES}",
            p.dispatches
        );
        Ok(p)
    };
    let baseline = pm4(&CASES[0])?;
    let mut table = format!(
        "\n## `{driver}`\n\n| between two dispatches | packets more than none | caches, per acquire |\n| --- | --- | --- |\n"
    );
    for case in &CASES[1..] {
        let p = pm4(case)?;
        let packets = more(&pm4_counts(&baseline), &pm4_counts(&p));
        let _ =
            writeln!(table, "| {} | {packets} | {} |", case.name, more(&acquires(&baseline), &acquires(&p)));
    }
    Ok(table)
}

fn apple(driver: &str, folder: &Path) -> Result<String> {
    let mut table = format!(
        "\n## `{driver}`\n\n| between two dispatches | launches | barriers, with their masks | links |\n| --- | --- | --- | --- |\n"
    );
    for case in &CASES {
        let cdm = play(driver, case, folder)?.cdm.context("no CDM stream")?;
        let masks: Vec<String> =
            cdm.barrier_masks.iter().map(|b| format!("{} x {}", b.count, b.mask)).collect();
        let barriers = format!("{} ({})", cdm.barriers, masks.join(", "));
        let _ = writeln!(table, "| {} | {} | {barriers} | {} |", case.name, cdm.launches, cdm.links);
    }
    Ok(table)
}

/// The versions of the drivers, as `sweep setup-shims` recorded them.
fn versions() -> Result<String> {
    let output = Command::new(artefacts::sweep()).args(["setup-shims", "--versions"]).output()?;
    ensure!(output.status.success(), "the drivers are not there: run 'sweep setup-shims' first");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|l| l.contains("mesa-")).map(|l| {
        let words: Vec<&str> = l.split_whitespace().filter(|w| w.len() < 60).collect();
        format!("- {}\n", words.join(" "))
    });
    Ok(lines.collect())
}

fn page() -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut page = String::from(
        "# What drivers make of a barrier\n\n\
         Made by `cargo run --release -p zinc-tests --bin driver-truth -- docs/driver-truth.md`, after `sweep setup-shims`. \
         Do not edit, but for the section on L2, which stands in `tests/src/bin/driver-truth/reading.md`.\n\n\
         Each stream has eight dispatches and, between each two, one of the things in the first column: seven in all. \
         The drivers are unmodified; nothing executes. AMD: packets in the submitted command streams beyond those of the \
         stream with nothing in between; an *acquire* is ACQUIRE_MEM, or SURFACE_SYNC on older chips, with its \
         CP_COHER_CNTL or GCR_CNTL. Apple: packets of the compute data master, all of them. \
         What a flush costs is not visible here.\n\n",
    );
    page += &versions()?;
    page += include_str!("reading.md");
    for chip in CHIPS {
        page += &amd(&format!("radv-shim:{chip}"), folder.path())?;
    }
    page += &apple("honeykrisp-shim", folder.path())?;
    Ok(page)
}
