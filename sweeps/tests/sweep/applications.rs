//! Any application that executes: its own rate, its own output, a second command, and a control that must be noticed.

use std::fs;

use crate::bench::{Bench, Swept};

/// The application that stands in, as `--app` takes it, and what is read off it.
const RATE: [&str; 4] = ["--metric", r"tg32: (?<tok_s>[\d.]+) t/s", "--ignore", "^started"];

fn sweep(bench: &Bench, args: &[&str]) -> Swept {
    let app = bench.application();
    bench.sweep(&[&["--policy", "alias-only", "--app", &app], args].concat())
}

#[test]
fn an_application_whose_output_is_the_same_is_verified_and_its_rate_is_what_it_prints() {
    let bench = Bench::new();
    let swept = sweep(&bench, &[&RATE[..], &["--same-output"]].concat()).expect(0);
    assert_eq!(swept.verdict("alias-only", "off").0, "verified");
    assert_eq!(swept.verdict("none", "reverse").0, "refuted");
    assert_eq!(swept.gate("output", "alias-only").0, "pass");
    let report = swept.report();
    let arm = report.arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    let measured = arm.measured.as_ref().unwrap();
    assert_eq!((measured.metric.as_str(), measured.per.as_str()), ("tok_s", "run"));
    assert_eq!((arm.tok_s.unwrap().median, arm.tok_s.unwrap().n), (16.5, 2));
    // Of a whole run, loading included: 32 tokens of 100, and 50.
    assert_eq!(arm.barriers_asked_per_token, Some(3250.0));
    assert_eq!((arm.driver.as_str(), arm.model.as_str()), ("lavapipe", "app.sh"));
    assert!(arm.cpu_us_per_token.unwrap() > 0.0);
    assert_eq!(arm.gates["output"].mutation.unwrap().tried, 3);
    assert!(!report.blake3.contains_key("engine"), "the engine had no part in it");
    assert!(swept.stdout.contains("tok_s") && swept.stdout.contains("per run"), "{}", swept.stdout);
    let markdown = fs::read_to_string(bench.path("out/report.md")).unwrap();
    assert!(markdown.contains("Compared: its own output"), "{markdown}");
    let drawn = fs::read_to_string(bench.path("out/report.svg")).unwrap();
    assert!(
        drawn.contains("barriers emitted, a run") && drawn.contains("tok_s"),
        "the axes have the application's words"
    );
}

#[test]
fn a_line_that_changes_from_run_to_run_makes_the_output_useless_unless_it_is_ignored() {
    let swept = sweep(&Bench::new(), &["--same-output"]).expect(1);
    let (word, reason) = swept.gate("output", "alias-only");
    assert_eq!(word, "blind");
    assert!(reason.contains("not repeatable"), "{reason}");
}

#[test]
fn a_policy_that_changes_the_output_is_refuted() {
    let bench = Bench::new().with("alias-only,shuffle=reverse", "wrong");
    let swept = sweep(&bench, &["--same-output", "--ignore", "^started"]).expect(1);
    assert_eq!(swept.verdict("alias-only", "off").0, "refuted");
}

#[test]
fn a_control_that_prints_the_same_leaves_all_unproven() {
    let bench = Bench::new().with("none,shuffle=reverse", "right");
    let swept = sweep(&bench, &["--same-output", "--ignore", "^started"]).expect(1);
    assert_eq!(swept.verdict("alias-only", "off").0, "unproven");
}

#[test]
fn without_anything_to_compare_an_arm_is_unproven_and_nothing_is_run_to_compare() {
    let bench = Bench::new();
    let swept = sweep(&bench, &RATE).expect(1);
    let (word, reason) = swept.verdict("alias-only", "off");
    assert_eq!(word, "unproven");
    assert!(reason.contains("--same-output"), "{reason}");
    assert!(bench.runs().iter().all(|run| !run.contains("shuffle")), "{:?}", bench.runs());
}

#[test]
fn a_number_of_a_second_command_is_compared_within_its_tolerance() {
    let bench = Bench::new();
    let check = bench.application();
    let args = ["--check", &check, "--check-value", r"PPL = ([\d.]+)", "--tolerance", "1%"];
    let swept = sweep(&bench, &args).expect(0);
    assert_eq!(swept.verdict("alias-only", "off").0, "verified");
    assert_eq!(swept.gate("value", "alias-only").0, "pass");
    let arm = swept.report().arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert_eq!(arm.perplexity.unwrap().value, 4.25);
    assert_eq!(arm.measured.as_ref().unwrap().metric, "wall seconds");
    // A permuted order is not timed: there only the second command runs.
    let count = |name: &str| bench.runs().iter().filter(|run| *run == name).count();
    assert_eq!((count("alias-only"), count("alias-only,shuffle=reverse")), (4, 1));
    let markdown = fs::read_to_string(bench.path("out/report.md")).unwrap();
    assert!(markdown.contains("in the output of app.sh"), "{markdown}");
}

#[test]
fn a_second_command_that_hangs_is_an_outcome_of_its_arm() {
    let bench = Bench::new().with("alias-only,shuffle=1", "hang");
    let check = bench.application();
    let args = ["--check", &check, "--ignore", "^started", "--timeout", "5"];
    let swept = sweep(&bench, &args).expect(1);
    let (word, reason) = swept.verdict("alias-only", "1");
    assert!(word == "failed" && reason.contains("still running"), "{word}: {reason}");
    assert_eq!(swept.verdict("none", "reverse").0, "refuted", "the runs after it were made");
}

#[test]
fn a_metric_that_is_nowhere_ends_the_sweep_with_what_was_sought() {
    let swept = sweep(&Bench::new(), &["--metric", "frames: (.*)", "--same-output"]).expect(1);
    assert!(swept.stderr.contains("frames: (.*)") && swept.stderr.contains("nowhere"), "{}", swept.stderr);
}

#[test]
fn an_application_that_took_another_device_or_is_not_there_is_missing() {
    let swept = sweep(&Bench::new(), &["--driver", "nvidia", "--same-output"]).expect(3);
    assert!(swept.stderr.contains("Fake CPU") && swept.stderr.contains("nvidia"), "{}", swept.stderr);
    let swept = Bench::new().sweep(&["--app", "no/such-program", "--same-output"]).expect(3);
    assert!(swept.stderr.contains("no/such-program"), "{}", swept.stderr);
    let swept = sweep(&Bench::new(), &["--check", "no/such-check"]).expect(3);
    assert!(swept.stderr.contains("no/such-check"), "{}", swept.stderr);
}

#[test]
fn an_application_without_the_layer_in_its_process_cannot_be_swept() {
    let bench = Bench::new().with("stock", "noreport");
    let swept = sweep(&bench, &["--same-output"]).expect(1);
    assert!(swept.stderr.contains("zinc-barrier doctor"), "{}", swept.stderr);
    assert!(!bench.path("out").exists());
}

#[test]
fn the_number_of_tokens_takes_loading_off_the_counts() {
    let bench = Bench::new();
    let app = format!("{} --tokens {{tokens}}", bench.application());
    let swept = bench.sweep(&[
        "--policy",
        "alias-only",
        "--app",
        &app,
        "--same-output",
        "--ignore",
        "^started",
        "--tokens",
        "32",
    ]);
    let swept = swept.expect(0);
    let arm = swept.report().arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert_eq!(arm.barriers_asked_per_token, Some(100.0));
    assert_eq!(arm.measured.as_ref().unwrap().per, "token");
}
