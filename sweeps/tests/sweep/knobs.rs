//! Knobs of a driver: taken only where the driver itself knows them.

use std::fs;

use crate::bench::Bench;

const ANNOUNCED: &str = r#"{"driver":"lavapipe","mesa":"25.0.7","knobs":[{"name":"LP_LATE_COMPUTE","kind":"number","help":"late","default":0,"max":4294967295}]}
"#;

fn patched() -> Bench {
    Bench::new().with("knobs", ANNOUNCED)
}

#[test]
fn each_value_of_a_knob_is_an_arm_that_runs_with_it() {
    let bench = patched();
    let swept = bench.sweep(&["--policy", "alias-only", "--knob", "LP_LATE_COMPUTE=0,7"]).expect(0);
    let values: Vec<_> =
        swept.report().arms.iter().filter_map(|arm| arm.knobs.get("LP_LATE_COMPUTE")).collect();
    assert!(values.iter().any(|v| *v == "0") && values.iter().any(|v| *v == "7"), "{values:?}");
    let log = fs::read_to_string(bench.path("log")).unwrap();
    let with = |value: &str| log.lines().filter(|line| line.ends_with(value)).count();
    assert!(
        with(" LP_LATE_COMPUTE=7") > 0 && with(" LP_LATE_COMPUTE=7") == with(" LP_LATE_COMPUTE=0"),
        "{log}"
    );
    assert!(log.lines().all(|line| line.contains(" LP_LATE_COMPUTE=")), "an arm ran without: {log}");
}

#[test]
fn a_knob_that_the_driver_does_not_announce_is_an_error_before_the_first_run() {
    for (bench, knob, words) in [
        (patched(), "LP_LATE_COMPUT=1", ["no such knob", "LP_LATE_COMPUTE"]),
        (patched(), "LP_LATE_COMPUTE=late", ["LP_LATE_COMPUTE=late", "4294967295"]),
        (Bench::new(), "LP_LATE_COMPUTE=1", ["announces no knobs", "mesa-patches"]),
    ] {
        let swept = bench.sweep(&["--knob", knob]).expect(2);
        for word in words {
            assert!(swept.stderr.contains(word), "'{word}' is missing: {}", swept.stderr);
        }
        assert!(!bench.path("out").exists() && bench.runs().is_empty());
    }
}

#[test]
fn the_knobs_of_a_driver_are_listed_with_their_legal_values() {
    let swept = patched().sweep(&["--knobs"]).expect(0);
    for word in ["LP_LATE_COMPUTE", "late", "0 to 4294967295", "default 0x0"] {
        assert!(swept.stdout.contains(word), "'{word}' is missing: {}", swept.stdout);
    }
    assert!(Bench::new().sweep(&["--knobs"]).expect(0).stdout.contains("no driver here"));
}

#[test]
fn a_patched_driver_that_is_not_built_is_missing() {
    let bench = Bench::new();
    let output =
        bench.command().args(["--driver", "patched:radv"]).env("XDG_CACHE_HOME", bench.path("none")).output();
    let swept = bench.swept(output.unwrap()).expect(3);
    assert!(swept.stderr.contains("mesa-patches/build --drivers radv"), "{}", swept.stderr);
    let swept = bench.sweep(&["--driver", "icd:no/such.json"]).expect(3);
    assert!(swept.stderr.contains("no/such.json"), "{}", swept.stderr);
    bench.sweep(&["--driver", "patched:anv"]).expect(2);
}

#[test]
fn a_driver_named_by_its_manifest_is_used_and_named_so() {
    let bench = Bench::new();
    fs::write(bench.path("icd.json"), "{}").unwrap();
    let swept = bench.sweep(&["--driver", "icd:icd.json", "--policy", "alias-only"]).expect(0);
    assert!(swept.report().arms.iter().all(|arm| arm.driver == "icd:icd.json"));
}
