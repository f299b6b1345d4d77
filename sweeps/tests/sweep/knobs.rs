//! Knobs of a driver: taken only where the driver itself knows them.

use std::fs;

use zinc_sweeps::gates::{Status, Verdict};
use zinc_sweeps::report::ArmRole;

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
fn settings_that_give_the_same_numbers_pass_their_gate_and_its_control_is_noticed() {
    let swept = patched()
        .sweep(&["--policy", "alias-only", "--policy", "none", "--knob", "LP_LATE_COMPUTE=0,7"])
        .expect(0);
    let report = swept.report();
    let settings: Vec<_> = report.gates.iter().filter(|gate| gate.gate == "settings").collect();
    let [gate] = &settings[..] else { panic!("one answer beside the first setting: {settings:?}") };
    assert_eq!((gate.status, gate.control_caught), (Status::Pass, Some(true)));
    assert_eq!(gate.knobs["LP_LATE_COMPUTE"], "7");
    // Without barriers the late driver shows it in the application's own order, the other one does not.
    let digest = |late: &str| {
        let mut arms = report.arms.iter().filter(|arm| arm.knobs["LP_LATE_COMPUTE"] == late);
        let none = arms.find(|a| a.policy.as_deref() == Some("none") && a.shuffle == "off").unwrap();
        none.logits_digest.clone().unwrap()
    };
    assert_eq!((digest("0").as_str(), digest("7").as_str()), ("right", "wrong"));
    assert!(swept.stdout.contains("settings"), "{}", swept.stdout);
}

#[test]
fn a_setting_under_which_stock_itself_gives_other_numbers_is_refuted_with_all_its_policies() {
    let swept = patched().sweep(&["--policy", "alias-only", "--knob", "LP_LATE_COMPUTE=0,13,7"]).expect(1);
    let report = swept.report();
    let said = |late: &str| {
        let gate = report.gates.iter().find(|g| g.gate == "settings" && g.knobs["LP_LATE_COMPUTE"] == late);
        gate.map(|gate| (gate.status, gate.reason.clone()))
    };
    assert_eq!(said("0"), None);
    assert_eq!(said("7"), Some((Status::Pass, None)));
    let (status, reason) = said("13").unwrap();
    assert_eq!(status, Status::Fail);
    let reason = reason.unwrap();
    assert!(reason.contains("LP_LATE_COMPUTE=13") && reason.contains("LP_LATE_COMPUTE=0"), "{reason}");
    for arm in report.arms.iter().filter(|arm| arm.role != ArmRole::Control) {
        let refuted = arm.verdict == Verdict::Refuted;
        assert_eq!(refuted, arm.knobs["LP_LATE_COMPUTE"] == "13", "{:?} {:?}", arm.policy, arm.knobs);
    }
    // Within its setting each of them agrees with the reference: without this gate nobody would notice.
    let own = report.gates.iter().filter(|g| g.gate != "settings" && g.knobs["LP_LATE_COMPUTE"] == "13");
    assert!(own.clone().count() > 0 && own.into_iter().all(|g| g.status == Status::Pass));
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
