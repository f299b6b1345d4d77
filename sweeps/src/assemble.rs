//! From observations to the report: a pure function, called again after every run.
//!
//! Nothing is updated in place. The report after the tenth run is computed from ten observations exactly as the last
//! one is from all of them, so an interrupted sweep leaves a document that is true as far as it goes.

use zinc_hazard::Policy;
use zinc_report::Counts;

use crate::costs;
use crate::gate::{Gate, Probe};
use crate::gates::Evidence;
use crate::outcome::{Measured, Observation};
use crate::plan::{Role, RunSpec, Shuffle};
use crate::report::{Arm, ArmGate, ArmRole, DeviceReport, GateReport, Perplexity, Rate, SoakReport};
use crate::soak;
use crate::stats::comparison::Comparison;
use crate::stats::{Spread, paired_ratio};
use crate::target::Target;
use crate::verdict::{Status, Verdict};

impl Target {
    /// The arms, in the order of their first runs; single drops are no arms.
    pub fn arms(&self) -> Vec<Arm> {
        let mut firsts: Vec<RunSpec> = Vec::new();
        for o in self
            .observations
            .iter()
            .filter(|o| {
                !matches!(
                    o.spec.role,
                    Role::Drop | Role::Setup | Role::Packets | Role::Short | Role::Soak | Role::Traced
                )
            })
            .filter(|o| o.spec.probe == Probe::Main)
        {
            if !firsts.iter().any(|f| f.same_arm(&o.spec)) {
                firsts.push(o.spec);
            }
        }
        firsts.iter().map(|spec| self.arm(spec)).collect()
    }

    fn arm(&self, spec: &RunSpec) -> Arm {
        let evidence = self.evidence();
        let (verdict, reason) = evidence.judge_arm(spec);
        let reason = reason.or_else(|| costs::effect(self, spec).filter(|_| verdict == Verdict::CountedOnly));
        let runs: Vec<&Measured> = self
            .observations
            .iter()
            .filter(|o| o.spec.same_arm(spec))
            .filter_map(|o| o.outcome.as_ref().ok())
            .collect();
        // Where runs of one arm differ, the one that differs from the reference is the one to show.
        let shown = runs.iter().find(|m| evidence.difference(spec, m).is_some()).or(runs.first()).copied();
        // A run that only compared, with another command, has that one's counts.
        let own = runs.iter().find(|m| self.measure.is_none() || m.process.is_some());
        let per_token = |count| self.per_token(spec, own?, count);
        let gpu: Vec<f64> = runs.iter().filter_map(|m| m.gpu_us_per_token).collect();
        let cpu = self.cost(spec, |m| m.cpu_us_per_token, |p| p.cpu);
        let wall = self.cost(spec, |m| 1e6 / m.tok_s, |p| p.wall).filter(|_| !self.executes);
        let driver_packets = self.driver_packets(spec);
        // What comes out of a driver that only records is no result, and how fast it comes no rate: neither may stand
        // where someone could take it for one.
        let shown = shown.filter(|_| self.executes);
        let timed = spec.role == Role::Timed && self.executes;
        let own: Vec<f64> = self.rates(spec).into_iter().flatten().filter(|_| self.executes).collect();
        Arm {
            driver: self.chosen.driver.clone(),
            device: self.device(),
            executes: self.executes,
            model: self.model.clone(),
            policy: spec.policy.map(|p| p.to_string()),
            shuffle: spec.shuffle.to_string(),
            knobs: self.knobs_of(spec.knob),
            part: None,
            measured: self.measure.clone(),
            role: match spec.role {
                _ if spec.is_reference() => ArmRole::Reference,
                Role::Timed
                | Role::InOrder
                | Role::Soak
                | Role::Traced
                | Role::Drop
                | Role::Setup
                | Role::Packets
                | Role::Short => ArmRole::Policy,
                Role::WithoutLayer => ArmRole::WithoutLayer,
                Role::Shuffled => ArmRole::Shuffled,
                Role::Control => ArmRole::Control,
            },
            runs: runs.len() as u32,
            dispatches_per_token: per_token(|c: &Counts| c.dispatches),
            barriers_asked_per_token: per_token(|c| c.barriers_asked),
            barriers_emitted_per_token: per_token(|c| c.barriers_emitted),
            driver_flushes_per_token: driver_packets.as_ref().and_then(|p| p.flushes),
            driver_packets,
            tok_s: Spread::of(&own).map(Rate::from),
            tok_s_by_round: if self.executes { self.rates(spec) } else { Vec::new() },
            vs_stock: self.ratio(spec).filter(|_| timed).map(Into::into),
            cpu_us_per_token: cpu.map(|s| s.median),
            cpu_us_interval: cpu.map(Rate::from),
            wall_us_per_token: wall.map(Rate::from),
            costs: costs::of(self, spec),
            gpu_us_per_token: Spread::of(&gpu).map(|s| s.median).filter(|_| self.executes),
            perplexity: shown.filter(|m| m.perplexity.is_finite()).map(|m| Perplexity {
                value: m.perplexity,
                stderr: Some(m.perplexity_stderr).filter(|e| e.is_finite()),
            }),
            logits_digest: shown.map(|m| m.digest.clone()).filter(|digest| !digest.is_empty()),
            gates: self
                .gates
                .iter()
                .filter(|gate| gate.probe() == Probe::Main || spec.role == Role::Timed)
                .map(|gate| (gate.name().to_string(), self.arm_gate(*gate, spec, &runs)))
                .collect(),
            verdict,
            reason,
            failing: self.failing(spec),
        }
    }

    /// What failed for the arm's policy under its setting, case by case: settings that fail alike can be told so.
    fn failing(&self, spec: &RunSpec) -> Vec<String> {
        if !self.executes {
            return Vec::new();
        }
        let evidence = self.evidence();
        let own = self.observations.iter().filter(|o| o.spec.same_side(spec));
        let own =
            own.filter(|o| matches!(o.spec.role, Role::Timed | Role::InOrder | Role::Shuffled | Role::Soak));
        let mut cases: Vec<String> = own.flat_map(|o| failing(&evidence, o)).collect();
        cases.sort();
        cases.dedup();
        cases
    }

    /// The rates of an arm by round, so that a round that failed on either side drops out of a ratio.
    fn rates(&self, spec: &RunSpec) -> Vec<Option<f64>> {
        let mut by_round = Vec::new();
        for o in self.observations.iter().filter(|o| o.spec.same_arm(spec)) {
            let round = o.spec.round as usize;
            if by_round.len() <= round {
                by_round.resize(round + 1, None);
            }
            by_round[round] = o.outcome.as_ref().ok().map(|m| m.tok_s);
        }
        by_round
    }

    /// The arm's rate against the reference's, formed within each round.
    fn ratio(&self, spec: &RunSpec) -> Option<Comparison> {
        paired_ratio(&self.rates(spec), &self.rates(&self.reference_spec()?))
    }

    /// The ratios of all timed arms that have rates, but the reference's to itself.
    pub fn ratios(&self) -> impl Iterator<Item = Comparison> {
        let first = |o: &&Observation| o.spec.role == Role::Timed && o.spec.round == 0;
        let arms = self.observations.iter().filter(first).filter(|o| !o.spec.is_reference());
        arms.filter_map(|o| self.ratio(&o.spec))
    }

    /// A policy's gate speaks for its timed arm. For the others it is their own comparison, since a permutation that
    /// was right did not fail, whatever another one did.
    fn arm_gate(&self, gate: Gate, spec: &RunSpec, runs: &[&Measured]) -> ArmGate {
        let evidence = self.evidence();
        let own = match evidence.reference() {
            Some(reference) if self.executes && !runs.is_empty() && gate.probe() == Probe::Main => {
                if !evidence.is_repeatable(gate) {
                    Status::Blind
                } else if runs.iter().any(|m| gate.difference(reference, m).is_some()) {
                    Status::Fail
                } else {
                    Status::Pass
                }
            }
            _ => Status::NotRun,
        };
        let Some(policy) = spec.policy else { return ArmGate { status: own, mutation: None } };
        let result = evidence.judge_gate_under(gate, policy, spec.knob);
        let status = match (spec.role, own, result.status) {
            (Role::Timed, _, status) => status,
            // The control does not pass a gate: either it is noticed, or the gate is blind.
            (Role::Control, Status::Pass, _) => Status::Blind,
            (Role::Shuffled, Status::Pass, Status::Blind) => Status::Blind,
            (_, own, _) => own,
        };
        let mutation = result.mutation.as_ref().filter(|_| spec.role == Role::Timed).map(Into::into);
        ArmGate { status, mutation }
    }

    /// What many repetitions gave, for `stock` and each policy that has them, and for their control.
    pub fn soaks(&self) -> Vec<SoakReport> {
        let policies = std::iter::once(Policy::Stock).chain(self.policies.iter().copied());
        let specs = policies.map(|policy| RunSpec::soaking(policy, 0));
        specs
            .chain(std::iter::once(RunSpec::soaking_control()))
            .filter_map(|spec| soak::of(self, &spec))
            .collect()
    }

    /// Every gate for every policy that was run and claims to be correct.
    pub fn gates(&self) -> Vec<GateReport> {
        let evidence = self.evidence();
        let policies = std::iter::once(Policy::Stock)
            .chain(self.policies.iter().copied().filter(|p| p.is_correct() && *p != Policy::Stock));
        let policies: Vec<Policy> = policies.collect();
        (0..self.settings.len() as u16)
            .flat_map(|knob| policies.iter().map(move |policy| (knob, *policy)))
            .flat_map(|(knob, policy)| {
                self.gates.iter().map(move |gate| (knob, evidence.judge_gate_under(*gate, policy, knob)))
            })
            .map(|(knob, g)| GateReport {
                knobs: self.knobs_of(knob),
                gate: g.gate.name().into(),
                driver: self.chosen.driver.clone(),
                device: self.chosen.device.name.clone(),
                model: self.model.clone(),
                policy: g.policy.to_string(),
                status: g.status,
                control_caught: g.control_caught,
                mutation: g.mutation,
                reason: g.reason,
            })
            .collect()
    }

    fn reference_spec(&self) -> Option<RunSpec> {
        self.observations.iter().map(|o| o.spec).find(RunSpec::is_reference)
    }

    fn device(&self) -> DeviceReport {
        let device = &self.chosen.device;
        DeviceReport {
            name: device.name.clone(),
            driver: device.driver.clone(),
            driver_version: device.driver_version.clone(),
            api_version: device.api_version.clone(),
            kind: device.kind.to_string(),
        }
    }
}

/// What failed in one run: the run's own failure, or the cases in which a gate saw a difference.
fn failing(evidence: &Evidence<'_>, o: &Observation) -> Vec<String> {
    let order = match o.spec.shuffle {
        Shuffle::Off => "in order".to_string(),
        shuffle => format!("shuffle {shuffle}"),
    };
    let program = match o.spec.probe {
        Probe::Main => String::new(),
        other => format!("{}: ", other.name()),
    };
    let measured = match &o.outcome {
        Err(failure) => return vec![format!("{program}{}, {order}", failure.kind())],
        Ok(measured) => measured,
    };
    let Some(reference) = evidence.reference_of(o.spec.probe) else { return Vec::new() };
    let telling = evidence.gates_of(o.spec.probe).filter(|g| evidence.is_repeatable(*g));
    let differ = telling.filter(|g| g.difference(reference, measured).is_some());
    let cases = differ.flat_map(|gate| match gate.differing(reference, measured) {
        cases if cases.is_empty() => vec![gate.name().to_string()],
        cases if gate.probe() == Probe::Main => cases,
        cases => cases.iter().map(|case| format!("{} {case}", gate.name())).collect(),
    });
    cases.map(|case| format!("{case}, {order}")).collect()
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
