//! What stands in the report of a driver that is not here.
//!
//! A driver that was asked for and cannot be had must not just be missing from the report: whoever reads only the table
//! would take the rest for all there was to see. So each arm that would have been run has its line, with the verdict
//! `not-run` and the reason, and nothing else is claimed of it.

use std::collections::BTreeMap;

use zinc_engine::results::DeviceKind;
use zinc_hazard::Policy;

use crate::gate::Gate;
use crate::report::{Arm, ArmGate, ArmRole, DeviceReport};
use crate::shims::ShimDriver;
use crate::verdict::{Status, Verdict};

/// The arms of a driver that is not here: what would have been run, and why it was not.
pub fn not_run(driver: ShimDriver, why: &str, model: &str, policies: &[Policy]) -> Vec<Arm> {
    let gates = || {
        let none = |gate: Gate| (gate.name().into(), ArmGate { status: Status::NotRun, mutation: None });
        Gate::OF_DECODING.into_iter().map(none).collect()
    };
    let unknown = || String::from("unknown");
    let arm = |policy: Policy| Arm {
        driver: driver.to_string(),
        device: DeviceReport {
            name: driver.device_name(),
            driver: unknown(),
            driver_version: unknown(),
            api_version: unknown(),
            kind: DeviceKind::Other.to_string(),
        },
        executes: false,
        model: model.into(),
        policy: Some(policy.to_string()),
        shuffle: "off".into(),
        knobs: BTreeMap::new(),
        part: None,
        measured: None,
        role: if policy == Policy::Stock { ArmRole::Reference } else { ArmRole::Policy },
        runs: 0,
        dispatches_per_token: None,
        barriers_asked_per_token: None,
        barriers_emitted_per_token: None,
        driver_flushes_per_token: None,
        driver_packets: None,
        tok_s: None,
        tok_s_by_round: Vec::new(),
        vs_stock: None,
        cpu_us_per_token: None,
        cpu_us_interval: None,
        wall_us_per_token: None,
        costs: Vec::new(),
        gpu_us_per_token: None,
        perplexity: None,
        logits_digest: None,
        gates: gates(),
        verdict: Verdict::NotRun,
        reason: Some(why.into()),
        failing: Vec::new(),
    };
    std::iter::once(Policy::Stock).chain(policies.iter().copied()).map(arm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_here_has_an_arm_for_each_policy_that_was_not_run() {
        let driver = "radv-shim:navi31".parse().unwrap();
        let arms = not_run(driver, "run `sweep setup-shims`", "embedded", &[Policy::AliasOnly, Policy::None]);
        let policies: Vec<&str> = arms.iter().filter_map(|a| a.policy.as_deref()).collect();
        assert_eq!(policies, ["stock", "alias-only", "none"]);
        for arm in arms {
            assert_eq!((arm.verdict, arm.executes, arm.runs), (Verdict::NotRun, false, 0));
            assert!(arm.reason.unwrap().contains("setup-shims"));
            assert!(arm.gates.values().all(|g| g.status == Status::NotRun) && !arm.gates.is_empty());
        }
    }
}
