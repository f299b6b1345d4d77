//! Any application that executes: its own rate, its own output, a second command, and a control that must be noticed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

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
    assert!(reason.contains("not repeatable") && reason.contains("--ignore"), "{reason}");
    // It says as little against the policy as for it, and so does the run without the layer.
    for (policy, shuffle) in [("alias-only", "off"), ("alias-only", "reverse")] {
        let (word, reason) = swept.verdict(policy, shuffle);
        assert!(word == "unproven" && reason.contains("--ignore"), "{policy} {shuffle}: {word}: {reason}");
    }
    let without = swept.report().arms.iter().find(|a| a.policy.is_none()).unwrap();
    assert_eq!(serde_json::to_value(without.verdict).unwrap(), "unproven");
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

/// A script that runs the stand-in, and prints what `body` makes of its standard output, which is in `$said`.
fn script(bench: &Bench, body: &str) -> String {
    let app = bench.application();
    let path = bench.path("other.sh");
    fs::write(&path, format!("#!/usr/bin/env bash\nsaid=$({app} \"$@\" 2>/dev/null) || exit $?\n{body}\n"))
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// What the application prints where its answer is right, and where it is not.
fn either(right: &str, wrong: &str) -> String {
    format!("[[ $said == *'answer is right'* ]] && {right} || {wrong}")
}

#[test]
fn outputs_that_differ_only_in_bytes_that_are_no_text_differ() {
    let body = either(r"printf 'x \xff\n'", r"printf 'x \xfe\n'");
    for same in ["--same-output", "--check"] {
        let bench = Bench::new();
        let app = script(&bench, &body);
        let check = if same == "--check" { vec![same, &app] } else { vec![same] };
        let swept = bench.sweep(&[&["--policy", "alias-only", "--app", &app][..], &check].concat()).expect(0);
        assert_eq!(swept.verdict("none", "reverse").0, "refuted", "{same}");
        assert_eq!(swept.verdict("alias-only", "off").0, "verified", "{same}");

        let bench = Bench::new().with("alias-only,shuffle=reverse", "wrong");
        script(&bench, &body);
        let app = bench.path("other.sh").display().to_string();
        let check = if same == "--check" { vec![same, &app] } else { vec![same] };
        let swept = bench.sweep(&[&["--policy", "alias-only", "--app", &app][..], &check].concat()).expect(1);
        assert_eq!(swept.verdict("alias-only", "off").0, "refuted", "{same}");
    }
}

#[test]
fn what_comes_after_the_part_of_an_output_that_is_kept_is_compared_too() {
    let bench = Bench::new();
    let body = format!("echo 'rate 16.5'; head -c 9000000 /dev/zero; {}", either("echo right", "echo wrong"));
    let app = script(&bench, &body);
    let args = ["--policy", "alias-only", "--same-output", "--metric", r"rate ([\d.]+)", "--app", &app];
    let swept = bench.sweep(&args).expect(0);
    assert_eq!(swept.verdict("none", "reverse").0, "refuted");
    assert_eq!(swept.verdict("alias-only", "off").0, "verified");
    let notes = &swept.report().notes;
    assert!(notes.iter().any(|n| n.contains("9000016 bytes") && n.contains("first 8 MiB")), "{notes:?}");
}

#[test]
fn a_metric_that_finds_two_numbers_is_refused() {
    let bench = Bench::new();
    let args = ["--same-output", "--ignore", "^started", "--metric", r"([\d.]+) (t/s|\+/-)"];
    let swept = sweep(&bench, &args).expect(1);
    let said = &swept.stderr;
    assert!(said.contains("2 times") && said.contains("16.5") && said.contains("4.25"), "{said}");
    // The run that finds a device, and one without the layer, which is not repeated for the sake of another number.
    assert_eq!(bench.runs().len(), 2, "{:?}", bench.runs());
}

#[test]
fn a_rate_that_is_none_is_refused() {
    for rate in ["NaN", "-3", "0", "inf"] {
        let bench = Bench::new();
        let app = script(&bench, &format!("echo 'rate {rate}'"));
        let args = ["--policy", "alias-only", "--same-output", "--metric", "rate (.*)", "--app", &app];
        let swept = bench.sweep(&args).expect(1);
        assert!(swept.stderr.contains("no rate"), "{rate}: {}", swept.stderr);
    }
}

#[test]
fn a_reference_value_that_is_no_number_ends_the_sweep() {
    let bench = Bench::new();
    let app = script(&bench, "echo 'PPL = NaN'");
    let swept = sweep(&bench, &["--check", &app, "--check-value", "PPL = (.*)"]).expect(1);
    assert!(swept.stderr.contains("not a finite number"), "{}", swept.stderr);
}
