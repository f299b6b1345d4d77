//! What the sweep concludes, and the exit status that goes with it.

use crate::bench::Bench;

const MAIN_JOB: [&str; 2] = ["--policy", "alias-only"];

#[test]
fn the_main_job_verifies_a_policy_that_is_right() {
    let bench = Bench::new();
    let swept = bench.sweep(&MAIN_JOB).expect(0);
    for shuffle in ["off", "reverse", "1", "2", "3"] {
        assert_eq!(swept.verdict("alias-only", shuffle).0, "verified", "{shuffle}");
    }
    assert_eq!(swept.verdict("stock", "off").0, "reference");
    assert_eq!(swept.verdict("none", "reverse").0, "refuted");
    for gate in ["bits", "perplexity"] {
        assert_eq!(swept.gate(gate, "alias-only").0, "pass");
    }
    let report = swept.report();
    assert!(report.complete);
    let arm = report.arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert_eq!(arm.barriers_asked_per_token, Some(100.0));
    assert_eq!(arm.barriers_emitted_per_token, Some(60.0));
    assert_eq!((arm.driver.as_str(), arm.model.as_str()), ("lavapipe", "embedded"));
    assert_eq!(arm.gates["bits"].mutation.unwrap().tried, 3);
    assert_eq!(arm.tok_s.unwrap().n, 2);
    assert_eq!(arm.vs_stock.unwrap().ratio, 1.0);
    assert!(report.notes.iter().any(|n| n.contains("CPU device: rates are not GPU speed")));
    assert!(swept.stdout.contains("3 of 3"), "the mutation score is printed:\n{}", swept.stdout);
    let markdown = std::fs::read_to_string(bench.path("out/report.md")).unwrap();
    assert!(markdown.contains("is verified") && markdown.contains("3 of 3"), "{markdown}");
}

#[test]
fn every_run_is_of_the_layer_and_setting_that_the_plan_names() {
    let bench = Bench::new();
    bench.sweep(&MAIN_JOB).expect(0);
    let runs = bench.runs();
    let fixed = [
        "without",
        "stock,setup",
        "alias-only,setup",
        "none,setup",
        "stock",
        "alias-only",
        "alias-only",
        "stock",
        "stock,shuffle=reverse",
        "alias-only,shuffle=reverse",
        "alias-only,shuffle=1",
        "alias-only,shuffle=2",
        "alias-only,shuffle=3",
        "none,shuffle=reverse",
    ];
    assert_eq!(runs[..fixed.len()], fixed);
    let drops = &runs[fixed.len()..];
    assert_eq!(drops.len(), 3, "noticed under the first order, so not tried again: {drops:?}");
    assert!(drops.iter().all(|r| r.starts_with("alias-only,shuffle=reverse,drop=")), "{drops:?}");
}

#[test]
fn the_same_seed_makes_the_same_runs_and_another_seed_others() {
    let runs = |seed: &str| {
        let bench = Bench::new();
        bench.sweep(&["--policy", "alias-only", "--seed", seed]).expect(0);
        bench.runs()
    };
    let first = runs("5");
    assert_eq!(first, runs("5"));
    assert_ne!(first, runs("6"));
}

#[test]
fn without_a_policy_all_of_them_are_arms() {
    let swept = Bench::new().sweep(&[]).expect(0);
    assert_eq!(swept.verdict("every", "off").0, "verified");
    assert_eq!(swept.verdict("alias-only", "off").0, "verified");
    assert_eq!(swept.verdict("none", "off").0, "incorrect-by-design");
}

#[test]
fn without_a_set_up_run_to_compare_with_the_counts_say_what_is_in_them() {
    let swept = Bench::new().with("alias-only,setup", "exit").sweep(&MAIN_JOB).expect(0);
    let arm = swept.report().arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert_eq!(arm.barriers_emitted_per_token, Some(60.0 + 50.0 / 32.0));
    assert!(
        swept.report().notes.iter().any(|n| n.contains("loading the model")),
        "{:?}",
        swept.report().notes
    );
}

#[test]
fn a_single_wrong_permutation_refutes_the_policy() {
    let swept = Bench::new().with("alias-only,shuffle=2", "wrong").sweep(&MAIN_JOB).expect(1);
    let (word, reason) = swept.verdict("alias-only", "off");
    assert_eq!(word, "refuted");
    assert!(reason.contains("shuffle 2"), "{reason}");
    assert_eq!(swept.verdict("alias-only", "2").0, "refuted");
    assert_eq!(swept.gate("bits", "alias-only").0, "fail");
}

#[test]
fn no_time_is_spent_on_drops_of_a_policy_that_is_refuted() {
    let bench = Bench::new().with("alias-only,shuffle=2", "wrong");
    bench.sweep(&MAIN_JOB).expect(1);
    assert!(bench.runs().iter().all(|r| !r.contains("drop=")));
}

#[test]
fn a_control_that_nothing_notices_makes_the_gates_blind() {
    let swept = Bench::new().with("none,shuffle=reverse", "right").sweep(&MAIN_JOB).expect(1);
    assert_eq!(swept.gate("bits", "alias-only").0, "blind");
    assert_eq!(swept.verdict("none", "reverse").0, "incorrect-by-design");
    assert_eq!(swept.verdict("alias-only", "off").0, "unproven");
    assert!(swept.stdout.contains("BLIND"), "{}", swept.stdout);
}

#[test]
fn a_gate_that_notices_no_drop_is_blind_and_both_orders_were_tried() {
    let bench = Bench::new().with("drop", "right");
    let swept = bench.sweep(&MAIN_JOB).expect(1);
    assert_eq!(swept.gate("bits", "alias-only").0, "blind");
    let gate = &swept.report().gates.iter().find(|g| g.policy == "alias-only").unwrap();
    assert_eq!(gate.mutation.as_ref().unwrap().survivors.len(), 3);
    let drops: Vec<String> = bench.runs().into_iter().filter(|r| r.contains("drop=")).collect();
    assert_eq!(drops.len(), 6);
    assert_eq!(drops.iter().filter(|r| r.contains("shuffle=1,")).count(), 3);
}

#[test]
fn drops_that_dropped_nothing_prove_nothing() {
    let swept = Bench::new().with("drop", "nodrop").sweep(&MAIN_JOB).expect(1);
    let (word, reason) = swept.gate("bits", "alias-only");
    assert_eq!(word, "blind");
    assert!(reason.contains("could be tried"), "{reason}");
}

#[test]
fn without_drops_the_control_alone_carries_the_gates() {
    let swept = Bench::new().sweep(&["--policy", "alias-only", "--drops", "0"]).expect(0);
    assert_eq!(swept.gate("bits", "alias-only").0, "pass");
    assert!(swept.report().gates.iter().all(|g| g.mutation.is_none()));
}

#[test]
fn a_policy_that_changes_nothing_has_no_effect() {
    let mut bench = Bench::new();
    for run in ["alias-only", "alias-only,shuffle=reverse", "alias-only,shuffle=1"] {
        bench = bench.with(run, "stock-stream");
    }
    let swept = bench.sweep(&MAIN_JOB).expect(0);
    assert_eq!(swept.verdict("alias-only", "off").0, "no-effect");
}

#[test]
fn a_layer_that_changes_the_numbers_under_stock_is_found() {
    let swept = Bench::new().with("without", "wrong").sweep(&MAIN_JOB).expect(1);
    let arm = swept.report().arms.iter().find(|a| a.policy.is_none()).unwrap();
    assert!(arm.reason.as_ref().unwrap().contains("layer under stock"));
}

#[test]
fn a_perplexity_that_is_not_a_number_refutes() {
    let swept = Bench::new().with("alias-only", "nan").sweep(&MAIN_JOB).expect(1);
    let (word, reason) = swept.verdict("alias-only", "off");
    assert_eq!(word, "refuted", "{reason}");
    let arm = swept.report().arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert_eq!(arm.perplexity, None);
}

#[test]
fn an_engine_that_is_not_repeatable_proves_nothing() {
    let swept = Bench::new().with("stock", "noise").sweep(&MAIN_JOB).expect(1);
    let (word, reason) = swept.gate("bits", "stock");
    assert_eq!(word, "blind");
    assert!(reason.contains("not repeatable"), "{reason}");
}

#[test]
fn every_device_that_was_asked_for_is_swept() {
    let bench = Bench::new().with_devices(&[
        ("Fake CPU", "llvmpipe Mesa 22.3.6", "cpu"),
        ("Fake GPU", "NVIDIA 580.159", "discrete-gpu"),
    ]);
    // The stand-in always runs on its CPU: for the other device that is the wrong device, and is not believed.
    let swept = bench.sweep(&["--policy", "alias-only", "--driver", "nvidia"]).expect(1);
    assert!(swept.stderr.contains("ran on Fake CPU instead of Fake GPU"), "{}", swept.stderr);
    bench.sweep(&["--policy", "alias-only", "--driver", "lavapipe", "--force"]).expect(0);
}

/// A mask of which the stand-in needs bits 2 and 0: without bit 2 the numbers are wrong, without bit 0 it crashes.
const MASK: [&str; 4] = ["--policy", "none", "--ablate", "STAND_IN_MASK=0x7"];

#[test]
fn each_bit_of_a_mask_is_cleared_once_and_what_breaks_is_an_outcome_of_its_arm() {
    let swept = Bench::new().sweep(&MASK).expect(1);
    let verdict = |mask: &str| {
        let own = |a: &&zinc_sweeps::report::Arm| {
            a.policy.as_deref() == Some("stock")
                && a.shuffle == "off"
                && a.knobs.get("STAND_IN_MASK").is_some_and(|m| m == mask)
        };
        let arm = swept.report().arms.iter().find(own).unwrap_or_else(|| panic!("no arm {mask}"));
        (serde_json::to_value(arm.verdict).unwrap().as_str().unwrap().to_string(), arm.failing.clone())
    };
    assert_eq!(verdict("0x7"), ("verified".into(), vec![]));
    assert_eq!(verdict("0x5"), ("verified".into(), vec![]));
    let (word, failing) = verdict("0x3");
    assert_eq!(word, "refuted");
    assert!(failing.contains(&"bits, in order".to_string()), "{failing:?}");
    let (word, failing) = verdict("0x6");
    assert_eq!(word, "failed");
    assert!(failing.iter().all(|f| f.contains("SIGSEGV")), "{failing:?}");
    assert!(swept.report().complete, "the sweep went on");
    assert!(
        swept.report().notes.iter().any(|n| n.contains("STAND_IN_MASK without bit 2")),
        "{:?}",
        swept.report().notes
    );
}

#[test]
fn the_narrowest_mask_is_found() {
    let swept =
        Bench::new().sweep(&[&MASK[..], &["--narrowest", "STAND_IN_MASK", "--reps", "1"]].concat()).expect(1);
    let notes = &swept.report().notes;
    assert!(notes.iter().any(|n| n.contains("Narrowest: STAND_IN_MASK=0x5 ")), "{notes:?}");
}

#[test]
fn a_variable_of_the_sweeps_own_or_a_mask_that_is_none_is_a_usage_error() {
    for args in [["--set", "ZINC_BARRIER_POLICY=none"], ["--ablate", "M=7"], ["--narrowest", "M"]] {
        assert_eq!(Bench::new().sweep(&args).code, 2, "{args:?}");
    }
}
