//! Applications that we did not write, through the script that strangers would use.
//!
//! The script compares all of them, which takes minutes and a download; what runs here is its cheapest one, where the
//! script has been run before. Its table must say that the output stayed and that the control did not.

use zinc_tests::Child;
use zinc_tests::artefacts::{self, repository};
use zinc_tests::oracle::not_run;

fn script() -> Child {
    let script = Child::new(repository().join("tests/applications"));
    match std::env::var_os("HOME") {
        Some(home) => script.env("HOME", home),
        None => script,
    }
}

#[test]
fn a_sort_on_wgpu_stays_sorted_under_each_correct_policy_and_not_under_the_control() {
    let name = "a_sort_on_wgpu_stays_sorted_under_each_correct_policy_and_not_under_the_control";
    if !script().arg("--where").run().status.success() {
        return not_run(name, "the applications are not fetched: run tests/applications --fetch");
    }
    let ended =
        script().args(["--only", "wgpu"]).env("ZINC_BARRIER_LAYER", artefacts::layer()).limit(300).run();
    let ended = ended.succeeded();
    let row = ended.stdout.lines().find(|line| line.starts_with("| wgpu |"));
    let row = row.unwrap_or_else(|| panic!("no row of wgpu: {}", ended.transcript()));
    assert!(row.contains("| all ") && row.ends_with(" arms | yes |"), "{}", ended.transcript());
}

#[test]
fn the_script_refuses_what_it_does_not_know() {
    script().arg("--everything").run().refused(2, &["--everything", "--only"]);
    script().arg("--only").run().refused(2, &["--only", "value"]);
    script()
        .arg("--where")
        .env("XDG_CACHE_HOME", "/nowhere")
        .run()
        .refused(1, &["tests/applications --fetch"]);
}
