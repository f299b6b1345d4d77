//! What stands in the report is what was observed, and says where it cannot be trusted.

use std::time::Duration;

use zinc_engine::results::Device;

use zinc_engine::results::DeviceKind;

use std::collections::BTreeMap;

use super::*;
use crate::drivers::Chosen;
use crate::notes::CPU_DEVICE;
use crate::outcome::Process;
use crate::outcome::{Failure, Outcome};
use crate::packets::{self, Count};
use crate::plan::fixed_runs;
use crate::verdict::Verdict;

fn measured(spec: &RunSpec, tok_s: f64) -> Measured {
    let tokens = if spec.role == Role::Setup { 5 } else { 32 };
    Measured {
        digest: "right".into(),
        perplexity: 4.0,
        perplexity_stderr: 0.1,
        tokens,
        tok_s,
        cpu_us_per_token: 5.0,
        gpu_us_per_token: None,
        dispatches_per_token: 10,
        submits_per_token: 1,
        counts: spec.policy.map(|_| Counts {
            dispatches: 10 * tokens,
            barriers_asked: 10 * tokens + 7,
            barriers_emitted: 10 * tokens + 7,
            ..Counts::default()
        }),
        packets: None,
        process: None,
        layer_notes: vec![],
        notes: vec![],
        cases: Default::default(),
        forced: Vec::new(),
    }
}

/// A sweep of `alias-only` in three rounds; `change` says what came of a run where it is not as planned.
fn target(change: impl Fn(&RunSpec, Measured) -> Outcome) -> Target {
    let observations = fixed_runs(&[Policy::AliasOnly], 0, 3, 1)
        .into_iter()
        .map(|spec| Observation {
            spec,
            outcome: change(&spec, measured(&spec, 10.0)),
            wall: Duration::from_secs(1),
        })
        .collect();
    Target {
        chosen: Chosen {
            device: Device {
                index: 0,
                name: "dev".into(),
                driver: "llvmpipe".into(),
                driver_version: "1".into(),
                api_version: "1.3.0".into(),
                kind: DeviceKind::DiscreteGpu,
            },
            driver: "lavapipe".into(),
            selector: "dev".into(),
        },
        model: "embedded".into(),
        measure: None,
        knobs: BTreeMap::new(),
        settings: vec![vec![]],
        masks: vec![],
        findings: vec![],
        executes: true,
        gates: Gate::OF_DECODING.to_vec(),
        policies: vec![Policy::AliasOnly],
        observations,
        complete: true,
    }
}

/// So many flushes, each with an acquire of one sort, and a release of another sort beside the tokens.
fn submitted(flushes: u64) -> packets::Counts {
    let sort = |packet: &str, value: &str| {
        let (packet, field, value) = (packet.into(), "GCR_CNTL".into(), value.into());
        Count::Cache(packets::Cache { packet, field, value, bits: vec!["GL2_WB".into()] })
    };
    let counts = [
        (Count::Flushes, flushes),
        (sort("ACQUIRE_MEM", "0xc180"), flushes),
        (sort("RELEASE_MEM", "0x0"), 4),
    ];
    counts.into()
}

fn is_timed(spec: &RunSpec, policy: Policy, round: u32) -> bool {
    spec.role == Role::Timed && spec.policy == Some(policy) && spec.round == round
}

fn alias_only(target: &Target) -> Arm {
    let found = target.arms().into_iter().find(|a| a.policy.as_deref() == Some("alias-only"));
    found.unwrap()
}

#[test]
fn a_driver_that_only_records_has_counts_and_nothing_that_looks_like_a_result() {
    let mut recorded = target(|_, m| Ok(m));
    recorded.executes = false;
    // Runs that could pass for good ones, noisy ones among them: all of it must be left out.
    for o in recorded.observations.iter_mut().filter(|o| o.spec.round == 1) {
        o.outcome.as_mut().unwrap().tok_s *= 3.0;
        o.outcome.as_mut().unwrap().gpu_us_per_token = Some(1.0);
    }
    for arm in recorded.arms() {
        assert_eq!(arm.verdict, Verdict::CountedOnly);
        assert!(!arm.executes);
        assert_eq!((arm.tok_s, arm.vs_stock, arm.perplexity), (None, None, None));
        assert_eq!((arm.logits_digest, arm.gpu_us_per_token), (None, None));
        assert!(
            arm.gates.values().all(|g| g.status == crate::verdict::Status::NotRun && g.mutation.is_none())
        );
        assert_eq!(arm.cpu_us_per_token, Some(5.0));
    }
    assert_eq!(
        alias_only(&recorded).barriers_asked_per_token,
        Some(10.0),
        "the set-up is taken off here too"
    );
    assert!(recorded.gates().iter().all(|g| g.status == crate::verdict::Status::NotRun));
    let notes = recorded.notes();
    assert!(notes.iter().any(|n| n.contains("Nothing was executed")), "{notes:?}");
    assert!(notes.iter().all(|n| !n.contains("Noisy")), "{notes:?}");
}

#[test]
fn flushes_of_the_driver_are_per_token_and_a_count_that_was_missed_is_none() {
    let counted = |count: fn(u64) -> Result<u64, String>| {
        let mut recorded = target(|_, m| Ok(m));
        recorded.executes = false;
        recorded.observations = crate::plan::recorded_runs(&[Policy::AliasOnly], 0, 2, true, false)
            .into_iter()
            .map(|spec| {
                let mut m = measured(&spec, 10.0);
                m.packets = spec.counts_packets().then(|| count(m.tokens).map(submitted));
                m.cpu_us_per_token = if spec.counts_packets() { 500.0 } else { 5.0 };
                Observation { spec, outcome: Ok(m), wall: Duration::from_secs(1) }
            })
            .collect();
        recorded
    };
    let recorded = counted(|tokens| Ok(11 * tokens + 90));
    assert_eq!(recorded.arms().len(), 3, "the counter's runs are no arms of their own");
    for arm in recorded.arms() {
        assert_eq!(arm.driver_flushes_per_token, Some(11.0), "{:?}", arm.policy);
        let packets = arm.driver_packets.unwrap();
        assert_eq!((packets.flushes, packets.links, packets.submits), (Some(11.0), None, None));
        let sorts: Vec<(&str, f64)> =
            packets.caches.iter().map(|c| (c.value.as_str(), c.per_token)).collect();
        assert_eq!(sorts, [("0xc180", 11.0)], "what loading asked of caches is no part of a token");
        assert_eq!(arm.cpu_us_per_token, Some(5.0), "the counter's own time is not the driver's");
    }
    let missed = counted(|_| Err("it was not loaded".into()));
    assert!(missed.arms().iter().all(|a| a.driver_flushes_per_token.is_none()));
    assert!(missed.notes().iter().any(|n| n.contains("it was not loaded")), "{:?}", missed.notes());
}

#[test]
fn an_application_costs_what_a_long_run_takes_more_than_the_short_one_beside_it() {
    let mut recorded = target(|_, m| Ok(m));
    recorded.executes = false;
    recorded.observations = crate::plan::recorded_runs(&[Policy::AliasOnly], 0, 3, false, true)
        .into_iter()
        .map(|spec| {
            let mut m = measured(&spec, f64::NAN);
            m.tokens = if matches!(spec.role, Role::Setup | Role::Short) { 5 } else { 32 };
            // Loading takes longer in each round, and 27 tokens take 27 times 100 us more, under alias-only 200.
            let each = if spec.policy == Some(Policy::AliasOnly) { 200 } else { 100 };
            let cpu = Duration::from_micros(5_000_000 * u64::from(spec.round + 1) + each * m.tokens);
            (m.cpu_us_per_token, m.process) = (f64::NAN, Some(Process { cpu, wall: 2 * cpu }));
            Observation { spec, outcome: Ok(m), wall: Duration::from_secs(1) }
        })
        .collect();
    let arms = recorded.arms();
    assert_eq!(arms.len(), 3, "short runs are no arms");
    for arm in arms {
        let each = if arm.policy.as_deref() == Some("alias-only") { 200.0 } else { 100.0 };
        let (cpu, wall) = (arm.cpu_us_interval.unwrap(), arm.wall_us_per_token.unwrap());
        assert_eq!((cpu.n, arm.cpu_us_per_token), (3, Some(cpu.median)));
        assert!((cpu.lo - each).abs() < 0.1 && (cpu.hi - each).abs() < 0.1, "{cpu:?}");
        assert!((wall.median - 2.0 * each).abs() < 0.2, "{wall:?}");
        assert_eq!(arm.tok_s, None);
    }
}

#[test]
fn loading_the_model_is_no_part_of_a_token() {
    let arm = alias_only(&target(|_, m| Ok(m)));
    assert_eq!(arm.barriers_asked_per_token, Some(10.0));
    assert_eq!(arm.dispatches_per_token, Some(10.0));
}

#[test]
fn set_up_runs_and_drops_are_no_arms() {
    let arms = target(|_, m| Ok(m)).arms();
    assert_eq!(arms.len(), 9, "{arms:#?}");
    assert_eq!(arms.iter().filter(|a| a.role == ArmRole::Policy).count(), 1);
}

#[test]
fn a_round_that_failed_on_one_side_is_no_part_of_the_ratio() {
    // Rounds differ tenfold in rate; only a ratio within rounds comes out as 1.
    let target = target(|spec, mut m| {
        m.tok_s = 10f64.powi(spec.round as i32 + 1);
        match is_timed(spec, Policy::AliasOnly, 1) {
            true => Err(Failure::LayerNotLoaded),
            false => Ok(m),
        }
    });
    let arm = alias_only(&target);
    let ratio = arm.vs_stock.unwrap();
    assert_eq!((ratio.ratio, ratio.lo, ratio.hi, arm.runs), (1.0, 1.0, 1.0, 2));
    assert_eq!(arm.verdict, Verdict::Failed);
}

#[test]
fn of_runs_that_differ_the_wrong_one_is_shown() {
    let target = target(|spec, mut m| {
        if is_timed(spec, Policy::AliasOnly, 2) {
            m.digest = "wrong".into();
            m.perplexity = f64::NAN;
        }
        Ok(m)
    });
    let arm = alias_only(&target);
    assert_eq!((arm.logits_digest.as_deref(), arm.perplexity), (Some("wrong"), None));
    assert_eq!(arm.gates["bits"].status, Status::Fail);
}

#[test]
fn the_control_never_passes_a_gate() {
    let target = target(|_, m| Ok(m));
    let control = target.arms().into_iter().find(|a| a.role == ArmRole::Control).unwrap();
    assert_eq!(control.gates["bits"].status, Status::Blind);
    assert!(target.gates().iter().all(|g| g.status == Status::Blind && g.control_caught == Some(false)));
}

#[test]
fn what_weakens_the_numbers_is_noted_and_nothing_else() {
    let notes = |change: fn(&RunSpec, &mut Measured)| {
        let target = target(|spec, mut m| {
            change(spec, &mut m);
            Ok(m)
        });
        target.notes().join("\n")
    };
    assert_eq!(notes(|_, _| ()), "");
    let noisy = notes(|spec, m| m.tok_s = if spec.round == 0 { 10.0 } else { 15.0 });
    assert!(noisy.contains("Noisy: the rates of stock"), "{noisy}");
    let unknown = notes(|_, m| {
        if let Some(counts) = &mut m.counts {
            counts.unknown_operations = 3;
        }
    });
    assert!(unknown.contains("3 operations to read and write everything"), "{unknown}");
    let said =
        notes(|_, m| m.layer_notes = vec!["Writes were trusted.".into(), "An in-order CPU device x".into()]);
    assert!(said.contains("The layer says: Writes were trusted.") && !said.contains("in-order"), "{said}");
    let mut cpu = target(|_, m| Ok(m));
    cpu.chosen.device.kind = DeviceKind::Cpu;
    assert_eq!(cpu.notes(), [CPU_DEVICE]);
}
