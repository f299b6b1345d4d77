//! Knobs of a driver: taken only where the driver itself knows them.

use std::fs;

use zinc_sweeps::report::{Arm, ArmRole};
use zinc_sweeps::verdict::{Status, Verdict};

use crate::bench::Bench;

const ANNOUNCED: &str = r#"{"driver":"lavapipe","mesa":"25.0.7","knobs":[{"name":"LP_LATE_COMPUTE","kind":"number","help":"late","default":0,"max":4294967295}]}
"#;

fn patched() -> Bench {
    Bench::new().with("knobs", ANNOUNCED)
}

#[test]
fn each_value_of_a_knob_is_an_arm_that_runs_with_it_and_is_compared_with_nothing_set() {
    let bench = patched();
    let swept = bench.sweep(&["--policy", "alias-only", "--knob", "LP_LATE_COMPUTE=0,7"]).expect(0);
    for value in ["0", "7"] {
        let own = |arm: &&Arm| arm.knobs.get("LP_LATE_COMPUTE").is_some_and(|v| v == value);
        let arms: Vec<&Arm> = swept.report().arms.iter().filter(own).collect();
        assert!(
            arms.iter().any(|arm| arm.policy.as_deref() == Some("stock") && arm.verdict == Verdict::Verified)
        );
        assert!(arms.iter().any(|arm| arm.policy.as_deref() == Some("alias-only")));
    }
    let log = fs::read_to_string(bench.path("log")).unwrap();
    let with = |value: &str| log.lines().filter(|line| line.ends_with(value)).count();
    assert!(
        with(" LP_LATE_COMPUTE=7") > 0 && with(" LP_LATE_COMPUTE=7") == with(" LP_LATE_COMPUTE=0"),
        "{log}"
    );
    assert!(log.lines().any(|line| !line.contains(" LP_LATE_COMPUTE=")), "there is no reference: {log}");
    let references = swept.report().arms.iter().filter(|arm| arm.role == ArmRole::Reference);
    assert!(references.into_iter().all(|arm| arm.knobs.is_empty()));
}

#[test]
fn settings_of_the_engine_that_give_the_same_numbers_pass_their_gate_and_its_control_is_noticed() {
    let swept =
        Bench::new().sweep(&["--policy", "alias-only", "--record", "each", "--record", "reuse"]).expect(0);
    let settings: Vec<_> = swept.report().gates.iter().filter(|gate| gate.gate == "settings").collect();
    let [gate] = &settings[..] else { panic!("one answer beside the first setting: {settings:?}") };
    assert_eq!((gate.status, gate.control_caught), (Status::Pass, Some(true)));
    assert_eq!(gate.knobs["record"], "reuse");
    assert!(swept.stdout.contains("settings"), "{}", swept.stdout);
}

#[test]
fn a_knob_that_breaks_results_refutes_stock_and_every_policy_under_it() {
    let args = ["--policy", "alias-only", "--policy", "none", "--knob", "LP_LATE_COMPUTE=0,13,7"];
    let swept = patched().sweep(&args).expect(1);
    let report = swept.report();
    for arm in report.arms.iter().filter(|a| a.role == ArmRole::Policy && a.policy.as_deref() != Some("none"))
    {
        let Some(late) = arm.knobs.get("LP_LATE_COMPUTE") else { continue };
        let refuted = arm.verdict == Verdict::Refuted;
        assert_eq!(refuted, late == "13", "{:?} {:?} {:?}", arm.policy, arm.knobs, arm.reason);
    }
    // Without barriers the late driver shows it in the application's own order, the other one does not.
    let digest = |late: &str| {
        let mut arms =
            report.arms.iter().filter(|a| a.knobs.get("LP_LATE_COMPUTE").is_some_and(|v| v == late));
        let none = arms.find(|a| a.policy.as_deref() == Some("none") && a.shuffle == "off").unwrap();
        none.logits_digest.clone().unwrap()
    };
    assert_eq!((digest("0").as_str(), digest("7").as_str()), ("right", "wrong"));
}

#[test]
fn a_slip_of_an_announced_name_or_a_value_that_the_driver_would_not_take_is_an_error_before_the_first_run() {
    for (knob, words) in [
        ("LP_LATE_COMPUT=1", ["no such knob", "LP_LATE_COMPUTE"]),
        ("LP_LATE_COMPUTE=late", ["LP_LATE_COMPUTE=late", "4294967295"]),
    ] {
        let bench = patched();
        let swept = bench.sweep(&["--knob", knob]).expect(2);
        for word in words {
            assert!(swept.stderr.contains(word), "'{word}' is missing: {}", swept.stderr);
        }
        assert!(!bench.path("out").exists() && bench.runs().is_empty());
    }
}

#[test]
fn a_variable_that_nobody_announces_is_taken_and_the_report_says_that_nobody_vouches_for_it() {
    for option in ["--knob", "--set"] {
        let bench = Bench::new();
        let swept = bench.sweep(&["--policy", "alias-only", option, "LP_LATE_COMPUTE=1"]).expect(0);
        let notes = &swept.report().notes;
        assert!(notes.iter().any(|n| n.contains("No driver here announces LP_LATE_COMPUTE")), "{notes:?}");
        assert!(fs::read_to_string(bench.path("log")).unwrap().contains(" LP_LATE_COMPUTE=1"));
    }
}

#[test]
fn an_application_is_swept_under_knobs_too() {
    let bench = Bench::new().with("knobs", ANNOUNCED);
    let app = bench.application();
    let args = ["--policy", "alias-only", "--app", &app, "--same-output", "--ignore", "^started"];
    let swept = bench.sweep(&[&args[..], &["--knob", "LP_LATE_COMPUTE=3"]].concat()).expect(0);
    assert!(swept.report().arms.iter().any(|arm| arm.knobs.contains_key("LP_LATE_COMPUTE")));
    assert!(
        swept.report().notes.iter().all(|n| !n.contains("announces")),
        "it was asked: {:?}",
        swept.report().notes
    );
    bench.sweep(&[&args[..], &["--knob", "LP_LATE_COMPUTE=x"]].concat()).expect(2);
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
