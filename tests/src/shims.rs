//! Real drivers that record without executing, where `sweep setup-shims` has fetched them.
//!
//! Tests never fetch: half a gigabyte is the owner's decision. What is not there is `not-run`, never passed.

use std::path::Path;
use std::process::Command;

use crate::oracle::not_run;

/// Whether these drivers (or, without a name, all of them) are there; if not, it is said that the test was not run.
///
/// # Panics
///
/// When `sweep` cannot be started.
pub fn are_here(sweep: &Path, test: &str, drivers: &[&str]) -> bool {
    if std::env::var_os("ZINC_BARRIER_ORACLES").is_some_and(|value| value == "skip") {
        not_run(test, "ZINC_BARRIER_ORACLES=skip");
        return false;
    }
    let (there, _, said) = ask(sweep, "--where", drivers);
    if !there {
        not_run(test, &said.trim().replace('\n', "; "));
    }
    there
}

/// The names of all drivers that are there.
///
/// # Panics
///
/// When `sweep` cannot be started.
pub fn list(sweep: &Path) -> Vec<String> {
    ask(sweep, "--list", &[]).1.lines().map(String::from).collect()
}

/// The versions of the packages that the drivers come from, a line each: folder, package, version.
///
/// # Panics
///
/// When `sweep` cannot be started.
pub fn versions(sweep: &Path) -> Vec<String> {
    let (_, said, _) = ask(sweep, "--versions", &[]);
    let lines = said.lines().filter(|line| line.contains(" mesa-"));
    lines.map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect()
}

/// `sweep setup-shims` with a question: whether it succeeded, and what it printed and said.
fn ask(sweep: &Path, question: &str, drivers: &[&str]) -> (bool, String, String) {
    let output = Command::new(sweep).args(["setup-shims", question]).args(drivers).output();
    let output = output.unwrap_or_else(|e| panic!("cannot start {}: {e}", sweep.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}
