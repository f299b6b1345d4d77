//! The main job as the README gives it: the sweep on lavapipe with the embedded model, through its real command.

use std::fs;

use serde_json::Value;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, artefacts, vulkan};

/// The arms of a report for a policy.
fn arms<'a>(report: &'a Value, policy: &str) -> Vec<&'a Value> {
    let all = report["arms"].as_array().expect("a report has arms");
    all.iter().filter(|arm| arm["policy"] == policy).collect()
}

#[test]
fn alias_only_is_verified_and_none_is_caught() {
    let folder = scratch();
    let out = folder.path().join("report");
    let sweep = Child::new(artefacts::sweep())
        .envs(&vulkan::environment(folder.path()))
        .in_folder(folder.path())
        .args([
            "--policy",
            "alias-only",
            "--tokens",
            "16",
            "--ctx",
            "16",
            "--reps",
            "1",
            "--drops",
            "3",
            "--out",
        ])
        .arg(&out)
        .limit(600)
        .run()
        .succeeded();
    assert!(
        sweep.stdout.contains("alias-only") && sweep.stdout.contains("verified"),
        "{}",
        sweep.transcript()
    );

    let text = fs::read_to_string(out.join("report.json")).expect("report.json is written");
    let report: Value = serde_json::from_str(&text).expect("report.json is JSON");
    assert_eq!(report["complete"], true);
    let reference =
        arms(&report, "stock").into_iter().find(|arm| arm["role"] == "reference").expect("a reference");
    let asked = reference["barriers_asked_per_token"].as_f64().expect("counted");
    assert_eq!(reference["barriers_emitted_per_token"].as_f64(), Some(asked));

    let policy = arms(&report, "alias-only");
    let timed = policy.iter().find(|arm| arm["role"] == "policy").expect("the policy's own arm");
    assert_eq!(timed["verdict"], "verified", "{timed}");
    assert!(
        timed["barriers_emitted_per_token"].as_f64().expect("counted") < asked,
        "nothing is elided: {timed}"
    );
    let shuffled: Vec<_> = policy.iter().filter(|arm| arm["role"] == "shuffled").collect();
    assert!(shuffled.len() >= 4, "reverse and three seeds: {policy:?}");
    for arm in [&timed].into_iter().chain(&shuffled) {
        assert_eq!(arm["logits_digest"], reference["logits_digest"], "{arm}");
        assert_eq!(arm["dispatches_per_token"], reference["dispatches_per_token"], "{arm}");
    }

    let control = arms(&report, "none");
    assert!(!control.is_empty(), "no control");
    let caught =
        |arm: &&&Value| arm["gates"].as_object().is_some_and(|g| g.values().any(|g| g["status"] == "fail"));
    assert!(control.iter().any(|arm| caught(&arm)), "nothing notices that no barrier is left: {control:?}");
    let gates = report["gates"].as_array().expect("a report has gates");
    let bits = gates.iter().find(|gate| gate["policy"] == "alias-only" && gate["mutation"].is_object());
    let mutation = &bits.expect("a mutation score for alias-only")["mutation"];
    assert!(mutation["caught"].as_u64().expect("a number") > 0, "no dropped barrier was noticed: {mutation}");

    let page = fs::read_to_string(out.join("report.md")).expect("report.md is written");
    assert!(page.contains("alias-only"), "{page}");
}

#[test]
fn the_engine_gives_the_same_bits_on_every_run() {
    let folder = scratch();
    let run = |record: &str| {
        let engine = Child::new(artefacts::engine()).envs(&vulkan::environment(folder.path()));
        let engine =
            engine.args(["perplexity", "--tokens", "24", "--ctx", "24", "--json", "--record", record]);
        engine.run().succeeded().json()
    };
    let (first, second, each) = (run("reuse"), run("reuse"), run("each"));
    assert_eq!(first["logits_digest"], second["logits_digest"]);
    assert_eq!(first["logits_digest"], each["logits_digest"], "how commands are recorded changes no bit");
}

#[test]
fn a_soak_of_the_engine_finds_no_bad_record_and_its_control_without_barriers_is_full_of_them() {
    let folder = scratch();
    let soaked = Child::new(artefacts::sweep())
        .envs(&vulkan::environment(folder.path()))
        .in_folder(folder.path())
        .args(["--policy", "alias-only", "--tokens", "32", "--ctx", "8", "--reps", "1", "--drops", "0"])
        .args(["--soak", "128", "--out", "out"])
        .limit(600)
        .run()
        .succeeded();
    let text = fs::read_to_string(folder.path().join("out/report.json")).expect("report.json is written");
    let report: Value = serde_json::from_str(&text).expect("report.json is JSON");
    let soaks = report["soaks"].as_array().expect("a report has soaks");
    assert_eq!(soaks.len(), 3, "{soaks:?}");
    for soak in soaks.iter().filter(|s| s["control"] == false) {
        // Four runs of four chunks each.
        assert_eq!((soak["tokens"].as_u64(), soak["records"].as_u64()), (Some(128), Some(16)), "{soak}");
        assert_eq!((soak["bad"].as_u64(), soak["bound"].as_f64()), (Some(0), Some(3.0 / 16.0)), "{soak}");
    }
    let control = soaks.iter().find(|s| s["control"] == true).expect("a control");
    assert_eq!((&control["policy"], &control["shuffle"]), (&"none".into(), &"reverse".into()));
    assert_eq!((control["records"].as_u64(), control["bad"].as_u64()), (Some(4), Some(4)), "{control}");
    assert!(soaked.stdout.contains("Control of the soak"), "{}", soaked.transcript());
}
