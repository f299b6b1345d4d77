//! From observations to the report: a pure function, called again after every run.
//!
//! Nothing is updated in place. The report after the tenth run is computed from ten observations exactly as the last
//! one is from all of them, so an interrupted sweep leaves a document that is true as far as it goes.

use std::collections::BTreeMap;
use std::time::Duration;

use zinc_engine::results::DeviceKind;
use zinc_hazard::Policy;
use zinc_report::Counts;

use crate::drivers::Chosen;
use crate::gates::{Evidence, Gate, Probe, Status};
use crate::outcome::{Measured, Observation, Process};
use crate::packets::{self, Count};
use crate::plan::{Role, RunSpec, Shuffle};
use crate::report::{
    Arm, ArmGate, ArmRole, CacheReport, DeviceReport, DriverPackets, GateReport, Perplexity, Rate,
};
use crate::stats::comparison::Comparison;
use crate::stats::drift::Drift;
use crate::stats::{NOISE, Spread, paired_ratio};

/// What every report says of rates on a CPU device.
pub const CPU_DEVICE: &str = "CPU device: rates are not GPU speed and order of execution proves nothing by itself; \
                              the shuffled arms do.";

/// What every report says of a driver on a shim, behind the device's name.
pub const RECORDS_ONLY: &str = "is played by a shim that records without executing. The counts are of what the real \
                                driver was handed, CPU time is this machine's processor's, and whether a policy is \
                                correct or fast cannot be seen here.";

/// Variables and the values that they are given.
pub type Setting = Vec<(String, String)>;

/// One device with one model, and all that was observed there.
#[derive(Debug, Clone)]
pub struct Target {
    /// The device.
    pub chosen: Chosen,
    /// `embedded`, the model's file name, or the application's.
    pub model: String,
    /// What was set for all runs here: when the engine records, how many busy neighbours there are.
    pub knobs: BTreeMap<String, String>,
    /// Variables of the owner's that are an axis: the settings of a run, by [`RunSpec::knob`]; the first sets nothing.
    pub settings: Vec<Setting>,
    /// Whether the device executes.
    pub executes: bool,
    /// The policies measured beside `stock`.
    pub policies: Vec<Policy>,
    /// What every correct policy has to pass.
    pub gates: Vec<Gate>,
    /// What was found on the way, in sentences.
    pub findings: Vec<String>,
    /// The runs so far.
    pub observations: Vec<Observation>,
    /// Whether all planned runs were made.
    pub complete: bool,
}

impl Target {
    /// All that was set for a run: the target's own axes, and the owner's variables.
    pub fn knobs_of(&self, knob: u16) -> BTreeMap<String, String> {
        let own = self.settings.get(usize::from(knob)).into_iter().flatten().cloned();
        self.knobs.clone().into_iter().chain(own).collect()
    }

    /// The observations as evidence.
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            observations: &self.observations,
            complete: self.complete,
            executes: self.executes,
            gates: &self.gates,
        }
    }

    /// The arms, in the order of their first runs; single drops are no arms.
    pub fn arms(&self) -> Vec<Arm> {
        let mut firsts: Vec<RunSpec> = Vec::new();
        for o in self
            .observations
            .iter()
            .filter(|o| !matches!(o.spec.role, Role::Drop | Role::Setup | Role::Packets | Role::Short))
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
        let runs: Vec<&Measured> = self
            .observations
            .iter()
            .filter(|o| o.spec.same_arm(spec))
            .filter_map(|o| o.outcome.as_ref().ok())
            .collect();
        // Where runs of one arm differ, the one that differs from the reference is the one to show.
        let shown = runs.iter().find(|m| evidence.difference(spec, m).is_some()).or(runs.first()).copied();
        let per_token = |count| self.per_token(spec, runs.first()?, count);
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
            role: match spec.role {
                _ if spec.is_reference() => ArmRole::Reference,
                Role::Timed | Role::InOrder | Role::Drop | Role::Setup | Role::Packets | Role::Short => {
                    ArmRole::Policy
                }
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
            gpu_us_per_token: Spread::of(&gpu).map(|s| s.median).filter(|_| self.executes),
            perplexity: shown.filter(|m| m.perplexity.is_finite()).map(|m| Perplexity {
                value: m.perplexity,
                stderr: Some(m.perplexity_stderr).filter(|e| e.is_finite()),
            }),
            logits_digest: shown.map(|m| m.digest.clone()),
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
        let own = own.filter(|o| matches!(o.spec.role, Role::Timed | Role::InOrder | Role::Shuffled));
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

    /// What the layer counted for one token of `measured`, a run of `spec`'s policy: the difference to the set-up run,
    /// in which loading the model cancels out. Without a set-up run to compare with, loading is part of it.
    pub fn per_token(&self, spec: &RunSpec, measured: &Measured, count: fn(&Counts) -> u64) -> Option<f64> {
        self.less_set_up(spec, measured, |m| m.counts.as_ref().map(count))
    }

    /// The same for any number that grows by as much with each token.
    fn less_set_up(
        &self,
        spec: &RunSpec,
        measured: &Measured,
        number: impl Fn(&Measured) -> Option<u64>,
    ) -> Option<f64> {
        let (before, tokens) = self
            .observations
            .iter()
            .filter(|o| o.spec.role == Role::Setup && o.spec.same_side(spec))
            .filter_map(|o| o.outcome.as_ref().ok())
            .filter(|set_up| set_up.tokens < measured.tokens)
            .find_map(|set_up| Some((number(set_up)?, set_up.tokens)))
            .unwrap_or((0, 0));
        Some(number(measured)?.checked_sub(before)? as f64 / (measured.tokens - tokens) as f64)
    }

    /// What stands in the driver's stream for one token of the arm's policy, where it was counted.
    fn driver_packets(&self, spec: &RunSpec) -> Option<DriverPackets> {
        let of_policy = |o: &&Observation| o.spec.role == Role::Packets && o.spec.same_side(spec);
        let measured = self.observations.iter().filter(of_policy).find_map(|o| o.outcome.as_ref().ok())?;
        let counted = measured.packets.as_ref()?.as_ref().ok()?;
        let per_token = |count: &Count| {
            let of = |counts: &packets::Counts| counts.get(count).copied();
            // A sort of packet that loading the model does not need is absent from the set-up run, not uncounted.
            self.less_set_up(spec, measured, |m| Some(of(m.packets.as_ref()?.as_ref().ok()?).unwrap_or(0)))
        };
        let number = |count: Count| counted.contains_key(&count).then(|| per_token(&count)).flatten();
        let caches = counted.keys().filter_map(|count| {
            let Count::Cache(cache) = count else { return None };
            Some(CacheReport {
                packet: cache.packet.clone(),
                field: cache.field.clone(),
                value: cache.value.clone(),
                bits: cache.bits.clone(),
                per_token: per_token(count).filter(|n| *n > 0.0)?,
            })
        });
        Some(DriverPackets {
            submits: number(Count::Submits),
            dispatches: number(Count::Dispatches),
            flushes: number(Count::Flushes),
            acquires: number(Count::Acquires),
            releases: number(Count::Releases),
            links: number(Count::Links),
            streams: number(Count::Streams),
            caches: caches.collect(),
        })
    }

    /// What one token of the arm costs this machine, microseconds, over the rounds: as the engine says of its tokens, or
    /// else from what the process took, less what the short run of its round took.
    fn cost(
        &self,
        spec: &RunSpec,
        own: impl Fn(&Measured) -> f64,
        whole: impl Fn(&Process) -> Duration,
    ) -> Option<Spread> {
        let of = |o: &Observation| -> Option<f64> {
            let long = o.outcome.as_ref().ok()?;
            let Some(process) = &long.process else { return Some(own(long)) };
            let beside = RunSpec { role: Role::Short, ..o.spec };
            let short = self.observations.iter().find(|o| o.spec == beside)?.outcome.as_ref().ok()?;
            let more = whole(process).as_secs_f64() - whole(short.process.as_ref()?).as_secs_f64();
            Some(more * 1e6 / long.tokens.checked_sub(short.tokens).filter(|n| *n > 0)? as f64)
        };
        let values: Vec<f64> =
            self.observations.iter().filter(|o| o.spec.same_arm(spec)).filter_map(of).collect();
        Spread::of(&values)
    }

    /// A policy's gate speaks for its timed arm. For the others it is their own comparison, since a permutation that
    /// was right did not fail, whatever another one did.
    fn arm_gate(&self, gate: Gate, spec: &RunSpec, runs: &[&Measured]) -> ArmGate {
        let evidence = self.evidence();
        let own = match evidence.reference() {
            Some(reference) if self.executes && !runs.is_empty() && gate.probe() == Probe::Main => {
                if runs.iter().any(|m| gate.difference(reference, m).is_some()) {
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

    /// What a reader must know before believing the numbers of this target.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.findings.clone();
        notes.extend(self.alike());
        if self.chosen.device.kind == DeviceKind::Cpu && self.executes {
            notes.push(CPU_DEVICE.to_string());
        }
        if !self.executes {
            notes.push(format!(
                "Nothing was executed by {}: {} {RECORDS_ONLY}",
                self.chosen.driver, self.chosen.device.name
            ));
        }
        let rated = self.arms().into_iter().filter(|_| self.executes);
        for arm in rated.filter(|a| matches!(a.role, ArmRole::Reference | ArmRole::Policy)) {
            let rates: Vec<f64> = arm.tok_s_by_round.iter().flatten().copied().collect();
            if let Some(spread) = Spread::of(&rates).filter(Spread::is_noisy) {
                notes.push(format!(
                    "Noisy: the rates of {} on {} lie {:.0}% apart (more than {:.0}%); another program may have been \
                     at work. More --reps, longer --tokens or a quieter machine would help.",
                    arm.policy.as_deref().unwrap_or("the engine"),
                    self.chosen.device.name,
                    100.0 * spread.range,
                    100.0 * NOISE,
                ));
            }
        }
        notes.extend(self.drift());
        for o in self.observations.iter().filter(|o| o.spec.role == Role::Setup) {
            if let Err(failure) = &o.outcome {
                notes.push(format!(
                    "{}: {failure}. What loading the model takes is part of the counts.",
                    o.spec
                ));
            }
        }
        for o in self.observations.iter().filter(|o| o.spec.role == Role::Packets) {
            let why = match &o.outcome {
                Err(failure) => failure.to_string(),
                Ok(Measured { packets: Some(Err(why)), .. }) => why.clone(),
                Ok(_) => continue,
            };
            notes.push(format!("{}: the packet counter has no number: {why}.", o.spec));
        }
        for o in self.observations.iter().filter(|o| o.spec.role == Role::Timed && o.spec.round == 0) {
            let Ok(m) = &o.outcome else { continue };
            // That an unshuffled CPU device proves little is said above, and answered by the shuffled arms.
            let said_above = |note: &&String| note.starts_with("An in-order CPU device");
            if o.spec.policy.is_some_and(Policy::is_correct) {
                notes.extend(
                    m.layer_notes.iter().filter(|n| !said_above(n)).map(|n| format!("The layer says: {n}")),
                );
            }
            let Some(counts) = &m.counts else { continue };
            let recorded = m.dispatches_per_token.saturating_mul(m.tokens);
            if counts.dispatches != recorded && m.process.is_none() {
                notes.push(format!(
                    "{}: the layer saw {} dispatches where the engine says that it recorded {recorded}.",
                    o.spec, counts.dispatches
                ));
            }
            if counts.unknown_operations > 0 {
                notes.push(format!(
                    "{}: the layer took {} operations to read and write everything, since it does not know what they \
                     touch.",
                    o.spec, counts.unknown_operations
                ));
            }
        }
        notes
    }

    /// Which settings fail in the same cases.
    fn alike(&self) -> Vec<String> {
        let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
        for arm in self.arms().into_iter().filter(|a| a.role == ArmRole::Policy && !a.failing.is_empty()) {
            // What a policy does wrong whatever is set is no matter of settings.
            let own: Vec<String> = arm
                .knobs
                .iter()
                .filter(|(n, _)| !self.knobs.contains_key(*n))
                .map(|(n, v)| format!("{n}={v}"))
                .collect();
            if own.is_empty() || arm.policy.as_deref() != Some(Policy::Stock.name()) {
                continue;
            }
            let name = own.join(" ");
            match groups.iter_mut().find(|(cases, _)| *cases == arm.failing) {
                Some((_, names)) => names.push(name),
                None => groups.push((arm.failing, vec![name])),
            }
        }
        let said = |(cases, names): &(Vec<String>, Vec<String>)| {
            format!(
                "Under stock these fail {}: {}. Failing: {}.",
                if names.len() > 1 { "alike" } else { "so" },
                names.join(", "),
                cases.join("; ")
            )
        };
        groups.iter().map(said).collect()
    }

    /// Whether the machine changed while it was measured, as the reference's rates tell.
    fn drift(&self) -> Option<String> {
        let reference = self.observations.iter().filter(|o| o.spec.is_reference() && self.executes);
        let rates: Vec<f64> = reference.filter_map(|o| Some(o.outcome.as_ref().ok()?.tok_s)).collect();
        let drift = Drift::of(&rates)?;
        Some(format!(
            "Drift: the rate of stock on {} changed by {:+.1}% from the first round to the last, which chance would make once \
             in {:.0} times. Ratios are formed within rounds, where most of it cancels; rates of different arms should not \
             be compared across rounds.",
            self.chosen.device.name,
            100.0 * drift.change,
            1.0 / drift.p
        ))
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
    let differ = evidence.gates_of(o.spec.probe).filter(|g| g.difference(reference, measured).is_some());
    let cases = differ.flat_map(|gate| match gate.differing(reference, measured) {
        cases if cases.is_empty() => vec![gate.name().to_string()],
        cases => cases.iter().map(|case| format!("{} {case}", gate.name())).collect(),
    });
    cases.map(|case| format!("{case}, {order}")).collect()
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
