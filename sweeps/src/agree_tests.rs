//! When settings may be said to agree.

use std::time::Duration;

use zinc_engine::results::{Device, DeviceKind};

use super::*;
use crate::drivers::Chosen;
use crate::gate::Gate;
use crate::outcome::{Failure, Observation, Outcome};
use crate::plan::{RunSpec, fixed_runs};

/// A sweep under one value of a knob; `digest` says what came of each run.
fn target(value: &str, digest: impl Fn(&RunSpec) -> Outcome) -> Target {
    let observe = |spec: RunSpec| Observation { outcome: digest(&spec), spec, wall: Duration::from_secs(1) };
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
        masks: vec![],
        knobs: [("KNOB".to_string(), value.to_string())].into(),
        settings: vec![vec![]],
        findings: vec![],
        executes: true,
        gates: Gate::OF_DECODING.to_vec(),
        policies: vec![Policy::AliasOnly],
        observations: fixed_runs(&[Policy::AliasOnly], 0, 2, 1).into_iter().map(observe).collect(),
        complete: true,
    }
}

fn gave(digest: &str) -> Outcome {
    Ok(Measured { digest: digest.into(), perplexity: 4.0, ..Measured::nothing(32) })
}

/// As it should be: the same everywhere, and other numbers without barriers.
fn sound(spec: &RunSpec) -> Outcome {
    gave(if spec.role == Role::Control { "wrong" } else { "right" })
}

fn answer_of(targets: &[Target]) -> (Status, String) {
    let found = gates(targets);
    assert_eq!(found.len(), targets.len() - 1);
    let last = found.last().unwrap();
    (last.status, last.reason.clone().unwrap_or_default())
}

#[test]
fn settings_agree_where_the_references_do_and_the_control_does_not() {
    assert_eq!(answer_of(&[target("0", sound), target("1", sound)]), (Status::Pass, String::new()));
    let (status, reason) = answer_of(&[target("0", sound), target("1", |_| gave("other"))]);
    assert_eq!(status, Status::Fail);
    assert!(reason.contains("KNOB=1") && reason.contains("KNOB=0") && reason.contains("logits"), "{reason}");
}

#[test]
fn the_gate_is_blind_where_nothing_would_show() {
    // Without barriers the second setting gives the right numbers, too.
    let (status, reason) = answer_of(&[target("0", sound), target("1", |_| gave("right"))]);
    assert_eq!(status, Status::Blind);
    assert!(reason.contains("without any barrier"), "{reason}");
    // The first setting's reference differs from round to round.
    let shaky = |spec: &RunSpec| gave(&format!("{}", spec.round));
    assert_eq!(answer_of(&[target("0", shaky), target("1", sound)]).0, Status::Blind);
}

#[test]
fn nothing_is_said_while_a_reference_or_the_control_is_missing() {
    let mut early = target("1", sound);
    early.observations.retain(|o| o.spec.role != Role::Control);
    assert_eq!(answer_of(&[target("0", sound), early]).0, Status::NotRun);
    let crashed = |_: &RunSpec| Err(Failure::Timeout(Duration::from_secs(1)));
    assert_eq!(answer_of(&[target("0", sound), target("1", crashed)]).0, Status::NotRun);
}

#[test]
fn settings_of_different_devices_models_and_shims_are_not_compared() {
    let mut other = target("1", sound);
    other.chosen.driver = "radv".into();
    let mut model = target("1", sound);
    model.model = "other".into();
    let mut shim = target("1", sound);
    shim.executes = false;
    assert!(gates(&[target("0", sound), other, model, shim]).is_empty());
}
