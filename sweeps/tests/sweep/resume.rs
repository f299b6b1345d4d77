//! A sweep that is killed as hard as a process can be killed, and goes on.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::bench::Bench;

const OPTIONS: [&str; 8] = ["--policy", "alias-only", "--reps", "2", "--drops", "3", "--out", "out"];

/// Starts a sweep, kills it with SIGKILL once it hangs in `hanging`, and returns the number of runs that had ended.
fn killed_in(bench: &Bench, hanging: &str) -> usize {
    let behaviour = bench.path("behaviour").join(hanging);
    fs::write(&behaviour, "hang").unwrap();
    let mut sweep =
        bench.command().args(OPTIONS).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !bench.runs().iter().any(|run| run == hanging) {
        assert!(started.elapsed() < Duration::from_secs(60), "{hanging} was never run: {:?}", bench.runs());
        std::thread::sleep(Duration::from_millis(20));
    }
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    fs::remove_file(behaviour).unwrap();
    bench.runs().len() - 1
}

#[test]
fn after_a_kill_only_the_run_in_flight_is_made_again_and_the_report_says_so() {
    let whole = Bench::new();
    whole.sweep(&OPTIONS).expect(0);

    let bench = Bench::new();
    let ended = killed_in(&bench, "alias-only,shuffle=2");
    assert!(ended > 8, "{ended}");
    let half = bench.path("out/report.json");
    let half: zinc_sweeps::report::Report = serde_json::from_str(&fs::read_to_string(half).unwrap()).unwrap();
    assert!(!half.complete);

    let swept = bench.sweep(&[&OPTIONS[..], &["--resume"]].concat()).expect(0);
    let (all, runs) = (whole.runs(), bench.runs());
    // The run that was killed stands in the log twice.
    assert_eq!(runs.len(), all.len() + 1, "{runs:?}");
    assert_eq!(runs[ended], runs[ended + 1]);
    let report = swept.report();
    assert!(report.complete && report.notes.iter().any(|n| n.contains("interrupted and went on")));
    assert_eq!(report.timeline.len(), all.len());
    assert!(report.timeline.windows(2).all(|w| w[0].start_s <= w[1].start_s));
    let verdicts = |r: &zinc_sweeps::report::Report| r.arms.iter().map(|a| a.verdict).collect::<Vec<_>>();
    let uninterrupted = fs::read_to_string(whole.path("out/report.json")).unwrap();
    assert_eq!(verdicts(report), verdicts(&serde_json::from_str(&uninterrupted).unwrap()));
}

#[test]
fn a_child_does_not_outlive_its_killed_sweep() {
    let bench = Bench::new();
    killed_in(&bench, "alias-only");
    let folder = bench.path("engine.sh").canonicalize().unwrap();
    let alive = || {
        fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(folder.to_str().unwrap()))
        })
    };
    let started = Instant::now();
    while alive() {
        assert!(started.elapsed() < Duration::from_secs(10), "the engine is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_finished_sweep_that_is_resumed_runs_nothing_and_another_one_is_refused() {
    let bench = Bench::new();
    bench.sweep(&OPTIONS).expect(0);
    let runs = bench.runs().len();
    bench.sweep(&[&OPTIONS[..], &["--resume"]].concat()).expect(0);
    assert_eq!(bench.runs().len(), runs);
    let swept = bench.sweep(&[&OPTIONS[..], &["--resume", "--seed", "7"]].concat()).expect(2);
    assert!(swept.stderr.contains("other arguments"), "{}", swept.stderr);
    fs::write(bench.path("libzinc_barrier.so"), "another layer").unwrap();
    let swept = bench.sweep(&[&OPTIONS[..], &["--resume"]].concat()).expect(2);
    assert!(swept.stderr.contains("other programs"), "{}", swept.stderr);
    assert_eq!(bench.runs().len(), runs);
}
