//! Whether a driver gives the same numbers under every setting that the sweep ran it with.
//!
//! Each setting of `--record` or `--busy` has a reference of its own, `stock` under that setting, because rates are only
//! comparable with something that ran beside them. That leaves a hole: a way to record that breaks results breaks them
//! under `stock` just as well, every policy then agrees with a reference that is itself wrong, and all would be called
//! verified. (A `--knob` is compared with nothing set, so it has no such hole.) So the references are held against each other here, and where one differs from the first
//! setting's, nothing under it may keep a good name.
//!
//! The control is policy `none` under the setting: if even that gave the first reference's numbers, then these numbers
//! would have come out whatever the setting does to barriers, and the gate is blind.

use std::collections::BTreeMap;

use zinc_hazard::Policy;

use crate::gate::Probe;
use crate::outcome::Measured;
use crate::plan::Role;
use crate::report::{Arm, GateReport};
use crate::target::Target;
use crate::verdict::{Status, Verdict};

/// The gate's name in reports.
pub const NAME: &str = "settings";

/// One answer for each setting beside the first of its driver, device and model; none for drivers that execute nothing.
pub fn gates<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Vec<GateReport> {
    let mut firsts: Vec<&Target> = Vec::new();
    let mut found = Vec::new();
    for target in
        targets.into_iter().filter(|t| t.executes && t.gates.iter().any(|g| g.probe() == Probe::Main))
    {
        let side = |t: &Target| (t.chosen.driver.clone(), t.chosen.device.index, t.model.clone());
        match firsts.iter().find(|first| side(first) == side(target)) {
            None => firsts.push(target),
            Some(first) => found.push(gate(first, target)),
        }
    }
    found
}

/// Takes the good name from every arm under a setting whose gate failed.
pub fn refute(arms: &mut [Arm], gates: &[GateReport]) {
    for gate in gates.iter().filter(|g| g.status == Status::Fail && g.gate == NAME) {
        let under = |arm: &&mut Arm| {
            (&arm.driver, &arm.device.name, &arm.model) == (&gate.driver, &gate.device, &gate.model)
                && gate.knobs.iter().all(|(name, value)| arm.knobs.get(name) == Some(value))
        };
        for arm in arms.iter_mut().filter(under) {
            if matches!(
                arm.verdict,
                Verdict::Reference | Verdict::Verified | Verdict::Unproven | Verdict::NoEffect
            ) {
                arm.verdict = Verdict::Refuted;
                arm.reason.clone_from(&gate.reason);
                arm.failing.push(NAME.into());
            }
        }
    }
}

fn gate(first: &Target, target: &Target) -> GateReport {
    let control_caught = control_caught(first, target);
    let (status, reason) = answer(first, target, control_caught);
    GateReport {
        gate: NAME.into(),
        driver: target.chosen.driver.clone(),
        device: target.chosen.device.name.clone(),
        model: target.model.clone(),
        policy: Policy::Stock.to_string(),
        knobs: target.knobs.clone(),
        status,
        control_caught,
        mutation: None,
        reason,
    }
}

fn answer(first: &Target, target: &Target, control_caught: Option<bool>) -> (Status, Option<String>) {
    let (here, there) = (said(&target.knobs), said(&first.knobs));
    let (Some(wanted), Some(_)) = (first.evidence().reference(), target.evidence().reference()) else {
        return (Status::NotRun, Some(format!("there is no reference under {here} or {there}")));
    };
    if references(first).any(|run| difference(first, wanted, run).is_some()) {
        return (Status::Blind, Some(format!("the reference under {there} is not repeatable")));
    }
    if let Some(difference) = references(target).find_map(|run| difference(first, wanted, run)) {
        return (Status::Fail, Some(format!("stock under {here} against stock under {there}: {difference}")));
    }
    match control_caught {
        None => (Status::NotRun, Some(format!("there is no run without barriers under {here}"))),
        Some(false) => {
            let why = format!("without any barrier, too, {here} gives the numbers of {there}");
            (Status::Blind, Some(why))
        }
        Some(true) => (Status::Pass, None),
    }
}

/// Whether a run without barriers under the target's setting shows; `None` while there is none.
fn control_caught(first: &Target, target: &Target) -> Option<bool> {
    let wanted = first.evidence().reference()?;
    // A set-up run is of another length, so its numbers are others anyway.
    let without = target.observations.iter().filter(|o| {
        (o.spec.policy, o.spec.knob, o.spec.probe) == (Some(Policy::None), 0, Probe::Main)
            && o.spec.role != Role::Setup
    });
    let caught = without.filter_map(|o| o.outcome.as_ref().ok());
    caught.map(|run| difference(first, wanted, run).is_some()).reduce(|one, other| one || other)
}

/// Why a run differs, by the first gate of the swept program that sees it.
fn difference(first: &Target, wanted: &Measured, run: &Measured) -> Option<String> {
    let gates = first.gates.iter().filter(|gate| gate.probe() == Probe::Main);
    gates.filter_map(|gate| gate.difference(wanted, run)).next()
}

fn references(target: &Target) -> impl Iterator<Item = &Measured> {
    target.observations.iter().filter(|o| o.spec.is_reference()).filter_map(|o| o.outcome.as_ref().ok())
}

fn said(knobs: &BTreeMap<String, String>) -> String {
    knobs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "agree_tests.rs"]
mod tests;
