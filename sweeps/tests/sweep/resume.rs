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

#[test]
fn what_an_earlier_sweep_left_is_replaced_only_where_that_is_asked() {
    let bench = Bench::new();
    let files = || ["out/runs.jsonl", "out/report.json"].map(|name| fs::read(bench.path(name)).unwrap());
    killed_in(&bench, "alias-only,shuffle=2");
    let (before, runs) = (files(), bench.runs().len());
    let swept = bench.sweep(&OPTIONS).expect(2);
    for option in ["interrupted", "--resume", "--force", "--out"] {
        assert!(swept.stderr.contains(option), "{option}: {}", swept.stderr);
    }
    assert_eq!((files(), bench.runs().len()), (before, runs));

    bench.sweep(&[&OPTIONS[..], &["--resume"]].concat()).expect(0);
    let (before, runs) = (files(), bench.runs().len());
    let swept = bench.sweep(&OPTIONS).expect(2);
    assert!(swept.stderr.contains("finished") && swept.stderr.contains("--force"), "{}", swept.stderr);
    assert_eq!((files(), bench.runs().len()), (before, runs));

    fs::write(bench.path("out/mine.txt"), "mine").unwrap();
    let swept = bench.sweep(&[&OPTIONS[..], &["--force"]].concat()).expect(0);
    assert!(bench.runs().len() > runs && swept.report().complete);
    assert!(!swept.report().notes.iter().any(|n| n.contains("interrupted")));
    assert!(bench.path("out/mine.txt").is_file(), "what is no report's stays");
}

#[test]
fn two_sweeps_at_a_time_do_not_share_a_folder() {
    let bench = Bench::new().with("alias-only", "hang");
    let mut first =
        bench.command().args(OPTIONS).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !bench.runs().iter().any(|run| run == "alias-only") {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", bench.runs());
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = fs::read(bench.path("out/runs.jsonl")).unwrap();
    for option in ["--resume", "--force"] {
        let args = [&OPTIONS[..], &["--timeout", "1", option]].concat();
        let swept = bench.sweep(&args).expect(2);
        let holder = format!("process {}", first.id());
        assert!(swept.stderr.contains("another sweep") && swept.stderr.contains(&holder), "{}", swept.stderr);
    }
    assert_eq!(fs::read(bench.path("out/runs.jsonl")).unwrap(), before);
    first.kill().unwrap();
    first.wait().unwrap();
}
