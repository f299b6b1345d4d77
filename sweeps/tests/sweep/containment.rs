//! What goes wrong in an arm is an outcome of that arm; what goes wrong in the reference ends the sweep.

use std::time::{Duration, Instant};

use zinc_sweeps::stats::comparison::Answer;

use crate::bench::Bench;

const MAIN_JOB: [&str; 2] = ["--policy", "alias-only"];

/// A run of `alias-only` misbehaves: the arm fails with `named` as the reason, and every other run is still made.
fn is_contained(how: &str, named: &str) {
    let bench = Bench::new().with("alias-only,shuffle=1", how);
    let swept = bench.sweep(&["--policy", "alias-only", "--timeout", "5"]).expect(1);
    let (word, reason) = swept.verdict("alias-only", "1");
    assert_eq!(word, "failed", "{how}: {reason}");
    assert!(reason.contains(named), "{how}: {reason}");
    assert_ne!(swept.verdict("alias-only", "off").0, "verified", "{how}");
    assert_eq!(swept.verdict("none", "reverse").0, "refuted", "{how}: the runs after it were made");
    assert!(swept.report().complete);
}

#[test]
fn a_child_that_exits_with_an_error() {
    is_contained("exit", "exit status 1: error: the device was lost");
}

#[test]
fn a_child_that_crashes() {
    is_contained("segv", "SIGSEGV");
}

#[test]
fn a_child_that_prints_garbage() {
    is_contained("garbage", "not a result");
}

#[test]
fn a_child_that_cannot_write_any_more() {
    is_contained("full", "no space left");
}

#[test]
fn a_device_that_is_lost_is_named_as_what_it_is() {
    let swept = Bench::new().with("alias-only,shuffle=1", "exit").sweep(&MAIN_JOB).expect(1);
    let arm = swept.report().arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert_eq!(arm.failing, ["device lost, shuffle 1"]);
}

#[test]
fn numbers_that_are_none_are_named_as_what_they_are() {
    let swept = Bench::new().with("alias-only,shuffle=1", "nan").sweep(&MAIN_JOB).expect(1);
    let arm = swept.report().arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert!(arm.failing.contains(&"not a number, shuffle 1".to_string()), "{:?}", arm.failing);
}

#[test]
fn a_machine_that_is_noisy_shows_no_difference_and_the_report_says_why() {
    let bench = Bench::new().with("noisy", "");
    let swept = bench.sweep(&["--policy", "alias-only", "--reps", "8", "--drops", "0"]).expect(0);
    let report = swept.report();
    assert!(report.notes.iter().any(|n| n.starts_with("Noisy: the rates of")), "{:?}", report.notes);
    let arm = report.arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    let ratio = arm.vs_stock.unwrap();
    assert_eq!(ratio.answer, Some(Answer::NoDifference), "{ratio:?}");
    assert!(ratio.smallest_difference.unwrap() > 0.1, "{ratio:?}");
    // Noise is no failure: the numbers are right.
    assert_eq!(swept.verdict("alias-only", "off").0, "verified");
}

#[test]
fn a_layer_that_is_not_loaded() {
    is_contained("noreport", "zinc-barrier doctor");
}

#[test]
fn a_layer_that_did_something_else() {
    is_contained("otherpolicy", "policy stock instead of alias-only");
}

#[test]
fn a_child_that_hangs_is_killed_with_what_it_started() {
    let started = Instant::now();
    is_contained("hang", "still running after 5.0 s");
    assert!(started.elapsed() < Duration::from_secs(300));
}

#[test]
fn a_control_that_crashes_is_no_control() {
    let swept = Bench::new().with("none,shuffle=reverse", "segv").sweep(&MAIN_JOB).expect(1);
    assert_eq!(swept.gate("bits", "alias-only").0, "blind");
}

#[test]
fn drops_that_crash_do_not_count_as_noticed() {
    let swept = Bench::new().with("drop", "segv").sweep(&MAIN_JOB).expect(1);
    assert_eq!(swept.gate("bits", "alias-only").0, "blind");
    let gate = swept.report().gates.iter().find(|g| g.policy == "alias-only").unwrap();
    let mutation = gate.mutation.as_ref().unwrap();
    assert_eq!((mutation.caught, mutation.tried, mutation.failed.len()), (0, 0, 3));
}

#[test]
fn a_reference_that_fails_ends_the_sweep_with_its_reason() {
    for (run, how, named) in [
        ("stock", "exit", "the device was lost"),
        ("stock", "noreport", "zinc-barrier doctor"),
        ("stock", "nan", "not a finite number"),
        ("without", "segv", "the run without the layer"),
    ] {
        let bench = Bench::new().with(run, how);
        let swept = bench.sweep(&MAIN_JOB).expect(1);
        assert!(swept.stderr.contains(named), "{run} {how}: {}", swept.stderr);
        assert!(!swept.report().complete, "what is known is written, and says that it is not all");
        assert!(bench.runs().len() <= 5, "{:?}", bench.runs());
    }
}

#[test]
fn an_interrupted_sweep_kills_its_child_and_keeps_what_it_has() {
    let bench = Bench::new().with("alias-only", "hang");
    let mut child = bench
        .command()
        .args(["--policy", "alias-only", "--out"])
        .arg(bench.path("out"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !bench.runs().iter().any(|r| r == "alias-only") {
        assert!(started.elapsed() < Duration::from_secs(120), "the hanging run never began");
        assert!(child.try_wait().unwrap().is_none(), "the sweep ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    let swept = bench.swept(child.wait_with_output().unwrap()).expect(130);
    assert!(started.elapsed() < Duration::from_secs(120));
    assert!(swept.stderr.contains("interrupted"), "{}", swept.stderr);
    assert_eq!(swept.verdict("stock", "off").0, "reference");
    assert!(!swept.report().complete);
}

#[test]
fn how_long_a_submission_may_take_reaches_the_engine_where_it_is_said() {
    let log = |args: &[&str]| {
        let bench = Bench::new();
        bench.sweep(args).expect(0);
        let log = std::fs::read_to_string(bench.path("log")).unwrap();
        log.lines().filter(|line| line.contains("--tokens")).map(String::from).collect::<Vec<_>>()
    };
    let plain = ["--policy", "alias-only", "--reps", "1", "--drops", "1"];
    let said = log(&[&plain[..], &["--submit-timeout", "7"]].concat());
    assert!(!said.is_empty() && said.iter().all(|line| line.contains("--submit-timeout 7")), "{said:?}");
    let unsaid = log(&plain);
    assert!(unsaid.iter().all(|line| !line.contains("--submit-timeout")), "{unsaid:?}");
}
