//! What people read is true of the report, and cannot be made to lie by a device's name.

use std::collections::BTreeMap;

use super::*;
use crate::report::{
    ArmGate, CacheReport, DeviceReport, DriverPackets, GateReport, Host, Perplexity, Rate, Ratio,
    SCHEMA_VERSION, Settings,
};
use crate::verdict::{Mutation, Status};

fn ratio(ratio: f64, lo: f64, hi: f64, answer: Answer) -> Ratio {
    Ratio { ratio, lo, hi, answer: Some(answer), smallest_difference: Some(0.034) }
}

fn arm(policy: Option<&str>, role: ArmRole, verdict: Verdict) -> Arm {
    Arm {
        driver: "lavapipe".into(),
        device: DeviceReport {
            name: "a|b*c".into(),
            driver: "llvmpipe".into(),
            driver_version: "1".into(),
            api_version: "1.3.0".into(),
            kind: "cpu".into(),
        },
        executes: true,
        model: "embedded".into(),
        policy: policy.map(Into::into),
        shuffle: "off".into(),
        measured: None,
        knobs: BTreeMap::new(),
        part: None,
        role,
        runs: 3,
        dispatches_per_token: Some(100.0),
        barriers_asked_per_token: Some(100.0),
        barriers_emitted_per_token: Some(62.5),
        driver_flushes_per_token: None,
        driver_packets: None,
        tok_s: Some(Rate { median: 10.0, lo: 9.0, hi: 11.0, n: 3, coverage: 0.75 }),
        tok_s_by_round: vec![Some(9.0), None, Some(11.0)],
        vs_stock: Some(ratio(1.02, 0.98, 1.05, Answer::NoDifference)),
        cpu_us_per_token: None,
        cpu_us_interval: None,
        wall_us_per_token: None,
        costs: vec![],
        gpu_us_per_token: None,
        perplexity: Some(Perplexity { value: 4.25, stderr: Some(0.1) }),
        logits_digest: Some("0123456789abcdef".into()),
        gates: BTreeMap::from([("bits".into(), ArmGate { status: Status::Pass, mutation: None })]),
        verdict,
        reason: None,
        failing: vec![],
    }
}

fn report(arms: Vec<Arm>) -> Report {
    Report {
        schema: SCHEMA_VERSION,
        sweep_version: "0.1.0".into(),
        complete: true,
        began_unix_s: None,
        plan: None,
        parts: vec![],
        prediction: None,
        host: Host { cpu: "cpu".into(), cores: 2, os: "os".into() },
        git: None,
        blake3: BTreeMap::new(),
        settings: Settings {
            policies: vec![],
            reps: 3,
            tokens: 32,
            ctx: 32,
            drops: 12,
            seed: 1,
            record: vec![],
            busy: vec![],
            precision: None,
            application: None,
            check: None,
        },
        arms,
        gates: vec![GateReport {
            gate: "bits".into(),
            driver: "lavapipe".into(),
            device: "a|b*c".into(),
            model: "embedded".into(),
            policy: "alias-only".into(),
            knobs: BTreeMap::new(),
            status: Status::Pass,
            control_caught: Some(true),
            mutation: Some(Mutation { caught: 11, tried: 12, survivors: vec![0], failed: vec![] }),
            reason: None,
        }],
        soaks: vec![],
        notes: vec!["a note".into()],
        timeline: vec![],
    }
}

fn sound() -> Report {
    let mut control = arm(Some("none"), ArmRole::Control, Verdict::Refuted);
    control.shuffle = "reverse".into();
    report(vec![
        arm(Some("stock"), ArmRole::Reference, Verdict::Reference),
        arm(Some("alias-only"), ArmRole::Policy, Verdict::Verified),
        control,
    ])
}

#[test]
fn the_answer_comes_first_and_the_limits_last() {
    let text = render(&sound());
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("'{needle}' is not in:\n{text}"));
    assert!(at("is verified") < at("| arm"));
    assert!(at("| arm") < at("It is evidence and no proof"));
    for needle in ["11 of 12; missed: 0", "refuted, as it must be", "75%", "a note"] {
        at(needle);
    }
}

#[test]
fn a_rate_on_a_cpu_device_is_no_part_of_the_answer() {
    let mut report = sound();
    assert!(!conclusion(&report).contains("rate"));
    for arm in &mut report.arms {
        arm.device.kind = "discrete-gpu".into();
    }
    assert!(conclusion(&report).contains("rate 1.020 of stock's [0.980, 1.050], no difference; one of 3.4%"));
}

#[test]
fn a_rate_of_a_permuted_or_wrong_run_is_not_shown() {
    let mut report = sound();
    report.arms[2].tok_s = Some(Rate { median: 777.5, lo: 777.5, hi: 777.5, n: 1, coverage: 0.0 });
    report.arms[2].vs_stock = Some(ratio(88.25, 88.25, 88.25, Answer::TooFewRuns));
    for text in [render(&report), crate::table::render(&report)] {
        assert!(!text.contains("777.5") && !text.contains("88.25"), "{text}");
    }
}

/// A driver on a shim beside one that executes, or alone.
fn with_shim(alone: bool) -> Report {
    let mut report = sound();
    if alone {
        report.arms.clear();
        report.gates.clear();
    }
    for (policy, role) in [
        (None, ArmRole::WithoutLayer),
        (Some("stock"), ArmRole::Reference),
        (Some("alias-only"), ArmRole::Policy),
    ] {
        let mut arm = arm(policy, role, Verdict::CountedOnly);
        arm.driver = "radv-shim:navi31".into();
        arm.executes = false;
        arm.device.kind = "discrete-gpu".into();
        arm.cpu_us_per_token = Some(12.345);
        report.arms.push(arm);
        let mut gate = sound().gates[0].clone();
        gate.driver = "radv-shim:navi31".into();
        gate.status = Status::NotRun;
        gate.reason = Some("the device records without executing".into());
        report.gates.push(gate);
    }
    report
}

#[test]
fn a_driver_that_only_records_shows_counts_and_no_rate_or_result() {
    // The arms hold a rate and a digest here, which assembly never puts there; not even then are they shown.
    let report = with_shim(true);
    assert_eq!(report.exit_code(), 0);
    for text in [render(&report), crate::table::render(&report)] {
        for needle in ["NOTHING EXECUTED", "counted only, not executed", "CPU us", "12.3", "62.50"] {
            assert!(text.contains(needle), "'{needle}' is not in:\n{text}");
        }
        for word in ["tok/s", "vs stock", "1.020", "4.2500", "01234567", "perplexity", "verified"] {
            assert!(!text.contains(word), "'{word}' is in:\n{text}");
        }
    }
    let said = conclusion(&report);
    assert!(said.contains("Nothing was executed and no gate was run"), "{said}");
    assert!(said.contains("100 barriers a token are asked for, 62 under `alias-only`"), "{said}");
    let text = render(&report);
    assert!(text.contains("no gate was run") && !text.contains("It is evidence and no proof"), "{text}");
}

#[test]
fn the_gates_of_a_driver_that_executes_are_not_lent_to_one_that_records() {
    let text = render(&with_shim(false));
    assert_eq!(text.matches("11 of 12; missed: 0").count(), 1, "{text}");
    assert!(text.contains("what was only recorded passed none"), "{text}");
    assert!(text.contains("It is evidence and no proof") && text.contains("tok/s"), "{text}");
}

#[test]
fn driver_flushes_are_shown_where_somebody_counted_them() {
    let mut report = with_shim(true);
    assert!(!render(&report).contains("driver flushes"));
    report.arms[1].driver_flushes_per_token = Some(139.0);
    let text = render(&report);
    assert!(text.contains("driver flushes") && text.contains("139"), "{text}");
    assert!(!text.contains("| links"), "what the hardware has not has no column:\n{text}");
}

#[test]
fn what_the_driver_asked_of_caches_stands_below_the_table_once_for_arms_that_agree() {
    let mut report = with_shim(true);
    let packets = |per_token, value: &str| DriverPackets {
        dispatches: Some(136.0),
        links: Some(7.5),
        caches: vec![CacheReport {
            packet: "ACQUIRE_MEM".into(),
            field: "GCR_CNTL".into(),
            value: value.into(),
            bits: vec!["GL2_INV".into(), "GL2_WB".into()],
            per_token,
        }],
        ..DriverPackets::default()
    };
    report.arms[0].driver_packets = Some(packets(137.0, "0xc180"));
    report.arms[1].driver_packets = Some(packets(137.0, "0xc180"));
    report.arms[2].driver_packets = Some(packets(107.0, "0xc180"));
    let text = crate::table::render(&report);
    let line = "driver under without the layer; driver under stock (reference): 137 ACQUIRE_MEM GCR_CNTL 0xc180 (GL2_INV GL2_WB)";
    assert!(text.contains(line) && text.contains("driver under alias-only: 107 ACQUIRE_MEM"), "{text}");
    assert!(text.contains("driver dispatches") && text.contains("links") && text.contains("7.50"), "{text}");
    assert!(render(&report).contains("ACQUIRE\\_MEM"));
}

#[test]
fn an_interval_and_the_knobs_are_shown_where_they_are() {
    let mut report = with_shim(true);
    report.arms[1].cpu_us_interval = Some(Rate { median: 12.3, lo: 11.5, hi: 14.25, n: 3, coverage: 0.75 });
    report.arms[1].wall_us_per_token = Some(Rate { median: 25.0, lo: 25.0, hi: 25.0, n: 1, coverage: 0.0 });
    for arm in &mut report.arms {
        arm.knobs = BTreeMap::from([("record".into(), "each".into()), ("busy".into(), "2".into())]);
    }
    let text = crate::table::render(&report);
    for needle in ["12.3 [11.5, 14.2]", " 25.0 ", "model embedded, busy 2, record each (recorded only"] {
        assert!(text.contains(needle), "'{needle}' is not in:\n{text}");
    }
}

#[test]
fn a_driver_that_is_not_here_stands_in_the_report_with_its_reason_and_ends_the_sweep_with_3() {
    let mut report = sound();
    let driver = "honeykrisp-shim".parse().unwrap();
    report.arms.extend(crate::absent::not_run(driver, "not-run: no shim", "embedded", &[]));
    assert_eq!(report.exit_code(), 3);
    for text in [render(&report), crate::table::render(&report)] {
        assert!(text.contains("(NOT RUN)") && text.contains("not-run: no shim"), "{text}");
        assert!(!text.contains("NOTHING EXECUTED"), "{text}");
    }
    assert!(conclusion(&report).contains("A driver is missing"), "{}", conclusion(&report));
    report.arms[1].verdict = Verdict::Refuted;
    assert_eq!(report.exit_code(), 1, "what went wrong weighs more than what was not run");
}

#[test]
fn names_of_devices_cannot_break_the_document() {
    let text = render(&sound());
    assert!(text.contains("## lavapipe on a\\|b\\*c"), "{text}");
    assert_eq!(escape("x\ny<b>"), "x y\\<b>");
}

#[test]
fn the_exit_status_is_that_of_the_worst_thing_in_the_report() {
    assert_eq!(sound().exit_code(), 0);
    for verdict in [Verdict::Refuted, Verdict::Failed, Verdict::Unproven] {
        let mut broken = sound();
        broken.arms[1].verdict = verdict;
        assert_eq!(broken.exit_code(), 1, "{verdict:?}");
        assert!(conclusion(&broken).contains("failed"), "{}", conclusion(&broken));
    }
    for verdict in [Verdict::NoEffect, Verdict::CountedOnly, Verdict::IncorrectByDesign] {
        let mut fine = sound();
        fine.arms[1].verdict = verdict;
        assert_eq!(fine.exit_code(), 0, "{verdict:?}");
    }
    for (status, code) in [(Status::Fail, 1), (Status::Blind, 1), (Status::NotRun, 0)] {
        let mut broken = sound();
        broken.gates[0].status = status;
        assert_eq!(broken.exit_code(), code, "{status:?}");
    }
}

#[test]
fn an_unfinished_sweep_says_so_and_never_exits_well() {
    let mut half = sound();
    half.complete = false;
    assert_eq!(half.exit_code(), 1);
    assert!(render(&half).contains("did not come to its end"));
}

#[test]
fn digests_that_differ_from_the_reference_are_marked() {
    let mut report = sound();
    report.arms[1].logits_digest = Some("fedcba9876543210".into());
    let text = crate::table::render(&report);
    assert!(text.contains("fedcba98 DIFFER") && text.contains("01234567 ="), "{text}");
}
