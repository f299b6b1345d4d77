//! Every verdict and every gate status is reachable, and by the right cause.

use std::time::Duration;

use proptest::prelude::*;
use zinc_report::Counts;

use super::*;
use crate::outcome::{Failure, Outcome};
use crate::plan::{drop_orders, fixed_runs};

/// A run that gave `digest` and a perplexity that goes with it, with the counts that such an arm has.
fn run(policy: Option<Policy>, digest: &str) -> Outcome {
    let counts = policy.map(|policy| {
        let (emitted, elided, added) = match policy {
            Policy::Stock => (100, 0, 0),
            Policy::Every => (150, 0, 50),
            Policy::AliasOnly | Policy::Narrow => (60, 40, 0),
            Policy::Reorder => (50, 50, 0),
            Policy::None => (0, 100, 0),
        };
        Counts {
            dispatches: 100,
            barriers_asked: 100,
            barriers_emitted: emitted,
            barriers_elided: elided,
            barriers_added: added,
            ..Counts::default()
        }
    });
    Ok(Measured {
        digest: digest.into(),
        perplexity: if digest == "right" { 4.0 } else { 250.0 },
        perplexity_stderr: 0.1,
        tokens: 32,
        tok_s: 10.0,
        cpu_us_per_token: 5.0,
        gpu_us_per_token: None,
        dispatches_per_token: 100,
        submits_per_token: 1,
        counts,
        packets: None,
        process: None,
        layer_notes: vec![],
        notes: vec![],
        cases: Default::default(),
        forced: Vec::new(),
    })
}

fn crash() -> Outcome {
    Err(Failure::Signal { signal: "SIGSEGV (11)".into(), stderr: String::new() })
}

/// A whole sweep of `policy` with `drops`, in which all is as it should be except what `change` says.
fn sweep(policy: Policy, drops: &[u64], change: impl Fn(&RunSpec) -> Option<Outcome>) -> Vec<Observation> {
    let mut specs = fixed_runs(&[policy], 0, 2, 1);
    if takes_drops(policy) {
        specs.extend(drops.iter().map(|k| RunSpec::dropping(policy, *k, Shuffle::Reverse)));
    }
    let observe = |spec: RunSpec| {
        let wrong = matches!(spec.role, Role::Control | Role::Drop);
        let outcome =
            change(&spec).unwrap_or_else(|| run(spec.policy, if wrong { "wrong" } else { "right" }));
        Observation { spec, outcome, wall: Duration::from_secs(1) }
    };
    specs.into_iter().map(observe).collect()
}

fn evidence(observations: &[Observation]) -> Evidence<'_> {
    Evidence { observations, complete: true, executes: true, gates: &Gate::OF_DECODING, settings: &[] }
}

fn timed(policy: Policy) -> RunSpec {
    let timed = |r: &&RunSpec| r.role == Role::Timed && r.policy == Some(policy);
    *fixed_runs(&[policy], 0, 1, 1).iter().find(timed).unwrap()
}

fn control() -> RunSpec {
    *fixed_runs(&[], 0, 1, 1).last().unwrap()
}

fn verdict(observations: &[Observation], spec: RunSpec) -> Verdict {
    evidence(observations).judge_arm(&spec).0
}

fn bits(observations: &[Observation], policy: Policy) -> GateResult {
    evidence(observations).judge_gate(Gate::Bits, policy)
}

#[test]
fn a_policy_whose_runs_all_agree_is_verified_once_control_and_drops_were_noticed() {
    let all = sweep(Policy::AliasOnly, &[3, 9], |_| None);
    for gate in Gate::OF_DECODING {
        let result = evidence(&all).judge_gate(gate, Policy::AliasOnly);
        assert_eq!(result.status, Status::Pass, "{result:?}");
        assert_eq!(result.control_caught, Some(true));
        assert_eq!(
            result.mutation,
            Some(Mutation { caught: 2, tried: 2, survivors: vec![], failed: vec![] })
        );
    }
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Verified);
    assert_eq!(verdict(&all, timed(Policy::Stock)), Verdict::Reference);
    assert_eq!(verdict(&all, RunSpec::WITHOUT_LAYER), Verdict::Verified);
    assert_eq!(verdict(&all, control()), Verdict::Refuted);
    for shuffled in all.iter().filter(|o| o.spec.role == Role::Shuffled) {
        assert_eq!(verdict(&all, shuffled.spec), Verdict::Verified);
    }
}

#[test]
fn one_wrong_permutation_refutes_the_policy_and_names_itself() {
    let all = sweep(Policy::AliasOnly, &[3], |s| {
        (s.role == Role::Shuffled && s.shuffle == Shuffle::Seed(2)).then(|| run(s.policy, "wrong"))
    });
    let (word, reason) = evidence(&all).judge_arm(&timed(Policy::AliasOnly));
    assert_eq!(word, Verdict::Refuted);
    assert!(reason.unwrap().contains("shuffle 2"));
    assert_eq!(bits(&all, Policy::AliasOnly).status, Status::Fail);
    let other = RunSpec { shuffle: Shuffle::Seed(3), role: Role::Shuffled, ..timed(Policy::AliasOnly) };
    assert_eq!(verdict(&all, other), Verdict::Verified, "the order that was right stays right");
}

#[test]
fn numbers_that_are_wrong_in_a_later_round_only_refute_too() {
    let all = sweep(Policy::AliasOnly, &[3], |s| {
        (s.role == Role::Timed && s.round == 1 && s.policy == Some(Policy::AliasOnly))
            .then(|| run(s.policy, "wrong"))
    });
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Refuted);
}

#[test]
fn a_control_that_is_not_noticed_makes_the_gates_blind() {
    let all = sweep(Policy::AliasOnly, &[3], |s| (s.role == Role::Control).then(|| run(s.policy, "right")));
    assert_eq!(bits(&all, Policy::AliasOnly).status, Status::Blind);
    assert_eq!(verdict(&all, control()), Verdict::IncorrectByDesign);
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Unproven);
}

#[test]
fn a_control_that_crashes_has_noticed_nothing() {
    let all = sweep(Policy::AliasOnly, &[3], |s| (s.role == Role::Control).then(crash));
    let result = bits(&all, Policy::AliasOnly);
    assert_eq!(result.status, Status::Blind);
    assert!(result.reason.unwrap().contains("SIGSEGV"));
    assert_eq!(verdict(&all, control()), Verdict::IncorrectByDesign);
}

#[test]
fn a_gate_that_notices_no_single_drop_is_blind_though_it_notices_the_control() {
    let all = sweep(Policy::AliasOnly, &[3, 9], |s| (s.role == Role::Drop).then(|| run(s.policy, "right")));
    let result = bits(&all, Policy::AliasOnly);
    assert_eq!(result.status, Status::Blind);
    assert_eq!(result.mutation.unwrap().survivors, [3, 9]);
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Unproven);
}

#[test]
fn a_survivor_is_named_and_the_gate_still_passes() {
    let all =
        sweep(Policy::AliasOnly, &[3, 9, 20], |s| (s.mutate == Some(9)).then(|| run(s.policy, "right")));
    let result = bits(&all, Policy::AliasOnly);
    assert_eq!(result.status, Status::Pass);
    assert_eq!(
        result.mutation.unwrap(),
        Mutation { caught: 2, tried: 3, survivors: vec![9], failed: vec![] }
    );
}

#[test]
fn a_drop_that_only_a_second_order_shows_is_caught_once() {
    let mut all = sweep(Policy::AliasOnly, &[], |_| None);
    for (order, digest) in drop_orders(Probe::Main, 1).into_iter().zip(["right", "wrong"]) {
        let spec = RunSpec::dropping(Policy::AliasOnly, 5, order);
        all.push(Observation { spec, outcome: run(spec.policy, digest), wall: Duration::ZERO });
    }
    let mutation = bits(&all, Policy::AliasOnly).mutation.unwrap();
    assert_eq!((mutation.caught, mutation.tried), (1, 1));
}

#[test]
fn drops_that_crash_are_neither_caught_nor_survivors() {
    let all = sweep(Policy::AliasOnly, &[3, 9], |s| (s.mutate == Some(3)).then(crash));
    let mutation = bits(&all, Policy::AliasOnly).mutation.unwrap();
    assert_eq!(mutation, Mutation { caught: 1, tried: 1, survivors: vec![], failed: vec![3] });
    let all = sweep(Policy::AliasOnly, &[3, 9], |s| (s.role == Role::Drop).then(crash));
    assert_eq!(bits(&all, Policy::AliasOnly).status, Status::Blind);
}

#[test]
fn the_gates_have_scores_of_their_own() {
    // Other bits and the same perplexity: only one of the gates can notice that.
    let subtle = |s: &RunSpec| {
        (s.role == Role::Drop).then(|| {
            let mut outcome = run(s.policy, "wrong");
            outcome.as_mut().unwrap().perplexity = 4.001;
            outcome
        })
    };
    let all = sweep(Policy::AliasOnly, &[3], subtle);
    assert_eq!(bits(&all, Policy::AliasOnly).status, Status::Pass);
    assert_eq!(evidence(&all).judge_gate(Gate::Perplexity, Policy::AliasOnly).status, Status::Blind);
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Unproven);
}

#[test]
fn a_perplexity_that_is_not_a_number_refutes() {
    let nan = |s: &RunSpec| {
        (s.role == Role::Shuffled && s.policy == Some(Policy::AliasOnly)).then(|| {
            let mut outcome = run(s.policy, "right");
            outcome.as_mut().unwrap().perplexity = f64::NAN;
            outcome
        })
    };
    let all = sweep(Policy::AliasOnly, &[3], nan);
    let (word, reason) = evidence(&all).judge_arm(&timed(Policy::AliasOnly));
    assert_eq!(word, Verdict::Refuted);
    assert!(reason.unwrap().contains("not a finite number"));
}

#[test]
fn a_reference_that_is_not_a_number_lets_nothing_pass() {
    let Ok(mut reference) = run(Some(Policy::Stock), "right") else { unreachable!() };
    reference.perplexity = f64::NAN;
    assert!(Gate::Perplexity.difference(&reference, &reference).is_some());
}

#[test]
fn an_arm_that_crashes_is_failed_and_so_is_not_verified() {
    for role in [Role::Timed, Role::Shuffled] {
        let all = sweep(Policy::AliasOnly, &[3], |s| {
            (s.role == role && s.policy == Some(Policy::AliasOnly)).then(crash)
        });
        let spec = RunSpec {
            role,
            shuffle: if role == Role::Timed { Shuffle::Off } else { Shuffle::Reverse },
            ..timed(Policy::AliasOnly)
        };
        assert_eq!(verdict(&all, spec), Verdict::Failed);
        assert_ne!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Verified);
        assert_eq!(bits(&all, Policy::AliasOnly).status, Status::NotRun);
    }
}

#[test]
fn numbers_that_the_layer_changes_under_stock_are_refuted() {
    let all = sweep(Policy::AliasOnly, &[3], |s| (s.role == Role::WithoutLayer).then(|| run(None, "wrong")));
    let (word, reason) = evidence(&all).judge_arm(&RunSpec::WITHOUT_LAYER);
    assert_eq!(word, Verdict::Refuted);
    assert!(reason.unwrap().contains("the layer under stock"));
}

#[test]
fn an_application_that_lacks_a_barrier_is_blamed_itself() {
    let all = sweep(Policy::AliasOnly, &[3], |s| {
        (s.role == Role::Shuffled && s.shuffle == Shuffle::Reverse).then(|| run(s.policy, "wrong"))
    });
    let spec = RunSpec { role: Role::Shuffled, shuffle: Shuffle::Reverse, ..timed(Policy::AliasOnly) };
    let (word, reason) = evidence(&all).judge_arm(&spec);
    assert_eq!(word, Verdict::Refuted);
    assert!(reason.unwrap().contains("the application itself lacks a barrier"));
}

#[test]
fn a_reference_that_is_not_repeatable_makes_the_gates_blind() {
    let all = sweep(Policy::AliasOnly, &[3], |s| {
        (s.is_reference() && s.round == 1).then(|| run(s.policy, "noise"))
    });
    let result = bits(&all, Policy::AliasOnly);
    assert_eq!(result.status, Status::Blind);
    assert!(result.reason.unwrap().contains("not repeatable"));
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Unproven);
}

#[test]
fn a_policy_that_changed_nothing_has_no_effect_whatever_its_rate() {
    let same = |s: &RunSpec| {
        (s.policy == Some(Policy::AliasOnly) && s.role == Role::Timed).then(|| {
            let mut outcome = run(Some(Policy::Stock), "right");
            outcome.as_mut().unwrap().tok_s = 1000.0;
            outcome
        })
    };
    let all = sweep(Policy::AliasOnly, &[3], same);
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::NoEffect);
}

#[test]
fn a_policy_that_adds_barriers_is_not_without_effect_and_needs_no_drops() {
    let all = sweep(Policy::Every, &[3], |_| None);
    let result = bits(&all, Policy::Every);
    assert_eq!((result.status, result.mutation), (Status::Pass, None));
    assert_eq!(verdict(&all, timed(Policy::Every)), Verdict::Verified);
}

#[test]
fn an_incorrect_policy_is_labelled_so_whether_its_numbers_are_right_or_wrong_or_missing() {
    for outcome in [run(Some(Policy::None), "right"), run(Some(Policy::None), "wrong"), crash()] {
        let all = sweep(Policy::None, &[], |s| {
            (*s == RunSpec { round: s.round, ..timed(Policy::None) }).then(|| outcome.clone())
        });
        assert_eq!(verdict(&all, timed(Policy::None)), Verdict::IncorrectByDesign);
        assert_eq!(bits(&all, Policy::None).status, Status::NotRun);
    }
}

#[test]
fn a_device_that_only_records_gives_counts_and_no_proof() {
    let all = sweep(Policy::AliasOnly, &[], |_| None);
    let recorded = Evidence { executes: false, ..evidence(&all) };
    assert_eq!(recorded.judge_arm(&timed(Policy::AliasOnly)).0, Verdict::CountedOnly);
    assert_eq!(
        recorded.judge_arm(&timed(Policy::Stock)).0,
        Verdict::CountedOnly,
        "nothing is compared with it"
    );
    assert_eq!(recorded.judge_gate(Gate::Bits, Policy::AliasOnly).status, Status::NotRun);
}

#[test]
fn without_a_reference_nothing_is_proven() {
    let all = sweep(Policy::AliasOnly, &[3], |s| s.is_reference().then(crash));
    assert_eq!(verdict(&all, timed(Policy::AliasOnly)), Verdict::Unproven);
    assert_eq!(bits(&all, Policy::AliasOnly).status, Status::NotRun);
}

#[test]
fn half_a_sweep_verifies_nothing() {
    let all = sweep(Policy::AliasOnly, &[3], |_| None);
    for n in 0..all.len() {
        let so_far = Evidence { complete: false, ..evidence(&all[..n]) };
        assert_ne!(so_far.judge_arm(&timed(Policy::AliasOnly)).0, Verdict::Verified, "after {n} runs");
        assert_ne!(so_far.judge_gate(Gate::Bits, Policy::AliasOnly).status, Status::Pass, "after {n} runs");
    }
}

proptest! {
    /// However the runs of a policy come out, the strong word is used only if every one of them was right, the
    /// control was noticed and a drop was.
    #[test]
    fn verified_is_never_said_of_anything_less(
        outcomes in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => Just(1), 1 => Just(2)], 32)
    ) {
        let mut all = sweep(Policy::AliasOnly, &[3, 9], |_| None);
        let originals: Vec<bool> = all.iter().map(|o| o.outcome.as_ref().unwrap().digest == "right").collect();
        let mut sound = true;
        let mut drops_caught = 0;
        for ((o, as_planned), how) in all.iter_mut().zip(&originals).zip(&outcomes) {
            match how {
                0 => {}
                1 => o.outcome = run(o.spec.policy, if *as_planned { "wrong" } else { "right" }),
                _ => o.outcome = crash(),
            }
            match o.spec.role {
                Role::Drop => drops_caught += u32::from(*how == 0),
                Role::WithoutLayer | Role::Setup | Role::Short => {}
                Role::Shuffled if o.spec.policy == Some(Policy::Stock) => {}
                _ => sound &= *how == 0,
            }
        }
        let is_verified = verdict(&all, timed(Policy::AliasOnly)) == Verdict::Verified;
        if is_verified {
            // A reference run that crashed leaves the others to compare with: not unsound by itself.
            let reference_only = all.iter().zip(&outcomes).all(|(o, how)| {
                *how == 0 || o.spec.is_reference() && *how == 2 || o.spec.role == Role::Drop
                    || matches!(o.spec.role, Role::WithoutLayer | Role::Setup) || o.spec.policy == Some(Policy::Stock)
            });
            prop_assert!((sound || reference_only) && drops_caught > 0);
        }
        if sound && drops_caught > 0 {
            prop_assert!(is_verified);
        }
    }
}

#[test]
fn a_setting_that_skips_barriers_is_a_ceiling_whatever_numbers_it_gives() {
    let skips = vec![("RADV_SKIP_COMPUTE_BARRIERS".to_string(), "1".to_string())];
    let settings = [vec![], skips];
    let specs = fixed_runs(&[Policy::AliasOnly], 1, 1, 1);
    let observe = |spec: RunSpec| {
        let wrong = matches!(spec.role, Role::Control);
        let outcome = run(spec.policy, if wrong { "wrong" } else { "right" });
        Observation { spec, outcome, wall: Duration::from_secs(1) }
    };
    let all: Vec<Observation> = specs.into_iter().map(observe).collect();
    for executes in [true, false] {
        let evidence = Evidence { executes, settings: &settings, ..evidence(&all) };
        let (verdict, reason) = evidence.judge_arm(&RunSpec { knob: 1, ..timed(Policy::Stock) });
        match executes {
            true => assert_eq!(verdict, Verdict::IncorrectByDesign),
            false => assert!(reason.unwrap().contains("not meant to be correct")),
        }
        assert_eq!(evidence.judge_gate_under(Gate::Bits, Policy::Stock, 1).status, Status::NotRun);
    }
    let plain = Evidence { settings: &settings, ..evidence(&all) };
    assert_ne!(plain.judge_arm(&timed(Policy::AliasOnly)).0, Verdict::IncorrectByDesign);
}
