//! docs/shader-stats.md is what the real compilers make of the kernels as they are now, and no kernel spills.
//!
//! But for the resident kernels, which hold every step of a layer: far too much for Honeykrisp's 256 registers, and
//! too much for RADV's too in the larger formats, Q6_K's most. They stay for the GPUs on which they are faster (docs/runs), the
//! page shows what they cost there, and `--fusion all` is the way on these. Should they fit one day, the test asks for this
//! exception to go.

use std::process::Command;

use zinc_tests::artefacts::{engine, repository, shader_stats, sweep};
use zinc_tests::oracle::not_run;
use zinc_tests::shims;

const RENEW: &str = "cargo run --release -p zinc-tests --bin shader-stats -- docs/shader-stats.md";

/// The cells of the table's lines: kernel and drivers, and the number of spills and scratch bytes.
fn spills(page: &str) -> Vec<(String, u64)> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let number = |cell: &str| cell.parse().unwrap_or(0);
        (format!("{} on {}", cells[1], cells[11]), number(cells[5]) + number(cells[6]))
    })
    .collect()
}

/// Whether a kernel is known to be too large for a compiler's registers, and is kept for the other GPUs.
fn known_to_spill(row: &str) -> bool {
    row.starts_with("`persistent_")
}

/// The lines that name versions of drivers and compilers.
fn versions(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("- ")).collect()
}

/// The lines of `new` that `old` lacks.
fn differing<'a>(old: &str, new: &'a str) -> Vec<&'a str> {
    new.lines().filter(|line| !old.lines().any(|known| known == *line)).collect()
}

#[test]
fn the_page_on_kernels_is_what_the_compilers_make_of_them_and_none_spills() {
    let test = "the_page_on_kernels_is_what_the_compilers_make_of_them_and_none_spills";
    if !shims::are_here(&sweep(), test, &[]) {
        return;
    }
    let written = std::fs::read_to_string(repository().join("docs/shader-stats.md")).unwrap();
    let output = Command::new(shader_stats()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = String::from_utf8(output.stdout).unwrap();
    let rows = spills(&page);
    assert!(rows.len() >= zinc_shaders::KERNELS.len(), "a kernel is missing:\n{page}");
    let (known, spilling): (Vec<_>, Vec<_>) =
        rows.iter().filter(|(_, n)| *n > 0).partition(|(row, _)| known_to_spill(row));
    assert!(spilling.is_empty(), "these kernels spill: they have become too large: {spilling:?}");
    assert!(
        !known.is_empty(),
        "the resident kernels spill nowhere any more: take the exception out of this test"
    );
    if versions(&page) != versions(&written) {
        let why = "none spills that did not before, but the page was written of other versions; here are";
        return not_run(test, &format!("{why} {}", versions(&page).join(", ")));
    }
    let differing = differing(&written, &page);
    assert!(
        page == written,
        "the kernels have changed; if what became of them is as you want it, run: {RENEW}\nlines that differ:\n{}",
        differing.join("\n")
    );
}

#[test]
fn a_spill_in_the_table_is_seen() {
    let row = |spills: &str| format!("| `k` | 64 x 1 | 8 | 8 | {spills} | 0 | 0 | 16 | 9 | 99 | navi31 |\n");
    assert_eq!(spills(&row("0")), [("`k` on navi31".to_string(), 0)]);
    assert_eq!(spills(&row("3"))[0].1, 3);
    assert_eq!(differing(&row("0"), &row("3")), [row("3").trim_end()]);
    assert!(known_to_spill("`persistent_q4_0` on honeykrisp-shim"));
    assert!(!known_to_spill("`fused_matvec_q4_0` on honeykrisp-shim"));
}

/// The rows of `engine micro`, run by `program` with `arguments` before.
fn micro(program: &std::path::Path, arguments: &[&std::ffi::OsStr]) -> Vec<serde_json::Value> {
    let mut command = Command::new(program);
    let output = command.args(arguments).args(["micro", "--json", "--reps", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    result["tunings"][0]["rows"].as_array().unwrap().clone()
}

#[test]
fn micro_shows_registers_and_spills_where_the_driver_tells_and_says_so_where_it_does_not() {
    let test = "micro_shows_registers_and_spills_where_the_driver_tells_and_says_so_where_it_does_not";
    let silent = micro(&engine(), &[]);
    assert!(silent.len() > 5 && silent.iter().all(|row| row["driver"].is_null()), "{silent:?}");
    if !shims::are_here(&sweep(), test, &["radv-shim:gfx1201", "honeykrisp-shim"]) {
        return;
    }
    for (driver, registers, spills) in
        [("radv-shim:gfx1201", "VGPRs", "Spilled VGPRs"), ("honeykrisp-shim", "GPRs", "Spills")]
    {
        let engine = engine();
        let rows = micro(&sweep(), &["on".as_ref(), driver.as_ref(), "--".as_ref(), engine.as_os_str()]);
        assert_eq!(rows.len(), silent.len(), "on {driver}");
        for row in &rows {
            assert!(row["driver"][registers].as_u64().is_some_and(|n| n > 0), "on {driver}: {row}");
            assert_eq!(row["driver"][spills].as_u64(), Some(0), "on {driver}: {row}");
        }
        let of = |step: &str| {
            let row = rows.iter().find(|row| row["step"] == step).unwrap();
            row["driver"][registers].as_u64().unwrap()
        };
        assert!(of("attention") > of("token_embd"), "on {driver}: the numbers of two kernels are told apart");
    }
}
