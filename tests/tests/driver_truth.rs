//! docs/driver-truth.md is what the drivers do now, or were last seen doing in another version.

use std::process::Command;

use zinc_tests::artefacts::{driver_truth, repository, sweep};
use zinc_tests::oracle::not_run;
use zinc_tests::shims;

/// The lines that name the drivers' versions.
fn versions(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("- ") && line.contains("mesa-")).collect()
}

#[test]
fn the_page_on_drivers_is_what_their_command_streams_say() {
    let test = "the_page_on_drivers_is_what_their_command_streams_say";
    if !shims::are_here(&sweep(), test, &[]) {
        return;
    }
    let written = std::fs::read_to_string(repository().join("docs/driver-truth.md")).unwrap();
    let output = Command::new(driver_truth()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(!versions(&page).is_empty(), "the page names no version:\n{page}");
    if versions(&page) != versions(&written) {
        let why = format!("the page was written of other versions; here are {}", versions(&page).join(", "));
        return not_run(test, &why);
    }
    assert_eq!(
        page, written,
        "run: cargo run --release -p zinc-tests --bin driver-truth -- docs/driver-truth.md"
    );
}
