//! What the runs of one device and model prove: pure functions from outcomes to verdicts.
//!
//! A *gate* compares a run with the reference. It is worth what it would notice, so its answer for a policy is one
//! of four, and three of them end the sweep with a failure:
//!
//! - `fail`: some run of the policy differed;
//! - `blind`: none differed, but the gate would not have noticed either: the control passed it, or every dropped
//!   barrier did;
//! - `not-run`: there is nothing to compare (yet);
//! - `pass`: none differed, and the gate noticed both the control and at least one dropped barrier.
//!
//! A *verdict* is what an arm may be called given the gates. The strong word, `verified`, needs every gate of its
//! policy to pass. `unproven` is for numbers that are right where nothing shows that wrong ones would have been
//! noticed.

use zinc_hazard::Policy;

pub use crate::gate::{Gate, Probe};
use crate::outcome::{Measured, Observation};
use crate::plan::{Role, RunSpec, Shuffle, takes_drops};
use crate::variables;
use crate::variables::Setting;
use crate::verdict::{Mutation, Status, Verdict};

/// What is said of a policy that is not meant to be correct where nothing could show it.
const INCORRECT_ANYWAY: &str =
    "this is not meant to be correct, on any driver: a ceiling of what could be won";

/// Why nothing is called verified of an application of which nothing is compared.
const NOTHING_COMPARED: &str = "nothing is compared: give --same-output, or a command with --check";

/// Why a setting has no effect on a driver that records.
const SAME_PACKETS: &str =
    "every packet that the driver submits, with its mask, is there as often as without the setting";

/// A gate's answer for one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateResult {
    /// The gate.
    pub gate: Gate,
    /// The policy whose runs it looked at.
    pub policy: Policy,
    /// Its answer.
    pub status: Status,
    /// Whether it noticed the control; `None` while there is no control to notice.
    pub control_caught: Option<bool>,
    /// The single drops; `None` where none were tried.
    pub mutation: Option<Mutation>,
    /// Why the answer is not `pass`.
    pub reason: Option<String>,
}

/// Everything that was observed on one device with one model.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The runs, in the order in which they were made.
    pub observations: &'a [Observation],
    /// Whether all runs of the plan were made.
    pub complete: bool,
    /// Whether the device executes what it is given.
    pub executes: bool,
    /// The gates that every correct policy has to pass.
    pub gates: &'a [Gate],
    /// The settings of the owner's variables, by [`RunSpec::knob`].
    pub settings: &'a [Setting],
}

impl<'a> Evidence<'a> {
    /// The first run of the reference that gave numbers.
    pub fn reference(&self) -> Option<&'a Measured> {
        self.reference_of(Probe::Main)
    }

    /// The same for another program than the one that is swept.
    pub fn reference_of(&self, probe: Probe) -> Option<&'a Measured> {
        self.measured(|spec| spec.is_reference_of(probe)).map(|(_, m)| m).next()
    }

    /// Why a run differs from the reference of its own program, by the first gate that sees it.
    pub fn difference(&self, spec: &RunSpec, run: &Measured) -> Option<String> {
        let reference = self.reference_of(spec.probe)?;
        self.gates_of(spec.probe).find_map(|gate| gate.difference(reference, run))
    }

    /// Where two runs of the reference differ for `gate`: the later one, and how.
    fn unrepeatable(&self, gate: Gate) -> Option<(&'a RunSpec, String)> {
        let reference = self.reference_of(gate.probe())?;
        self.measured(|s| s.is_reference_of(gate.probe()))
            .find_map(|(spec, m)| Some((spec, gate.difference(reference, m)?)))
    }

    /// Returns true if all runs of the reference are equal for `gate`, so that a difference from it says something.
    pub fn is_repeatable(&self, gate: Gate) -> bool {
        self.unrepeatable(gate).is_none()
    }

    /// Why a run differs from the reference, by the first gate for which the reference does not differ from itself.
    fn telling_difference(&self, spec: &RunSpec, run: &Measured) -> Option<String> {
        let reference = self.reference_of(spec.probe)?;
        let telling = self.gates_of(spec.probe).filter(|gate| self.is_repeatable(*gate));
        telling.into_iter().find_map(|gate| gate.difference(reference, run))
    }

    /// Whether a policy under a setting is wrong by design: a ceiling of what could be won, and never a result.
    fn is_ceiling(&self, policy: Policy, knob: u16) -> bool {
        !policy.is_correct() || self.settings.get(usize::from(knob)).is_some_and(variables::is_ceiling)
    }

    /// The gates that look at one program.
    pub fn gates_of(&self, probe: Probe) -> impl Iterator<Item = Gate> + use<'a> {
        self.gates.iter().copied().filter(move |gate| gate.probe() == probe)
    }

    fn measured(
        &self,
        which: impl Fn(&RunSpec) -> bool,
    ) -> impl Iterator<Item = (&'a RunSpec, &'a Measured)> {
        self.observations
            .iter()
            .filter(move |o| which(&o.spec))
            .filter_map(|o| Some((&o.spec, o.outcome.as_ref().ok()?)))
    }

    fn control(&self, probe: Probe) -> Option<&'a Observation> {
        self.observations.iter().find(|o| o.spec.role == Role::Control && o.spec.probe == probe)
    }

    /// The answer of `gate` for `policy`, with nothing set.
    pub fn judge_gate(&self, gate: Gate, policy: Policy) -> GateResult {
        self.judge_gate_under(gate, policy, 0)
    }

    /// The answer of `gate` for `policy` under a setting. How sharp the gate is, its control and the policy's drops tell,
    /// which are made with nothing set.
    pub fn judge_gate_under(&self, gate: Gate, policy: Policy, knob: u16) -> GateResult {
        let mut result = GateResult {
            gate,
            policy,
            status: Status::NotRun,
            control_caught: None,
            mutation: self.mutation(gate, policy),
            reason: None,
        };
        let (status, reason) = self.gate_status(&mut result, knob);
        result.status = status;
        result.reason = reason;
        result
    }

    fn gate_status(&self, result: &mut GateResult, knob: u16) -> (Status, Option<String>) {
        let (gate, policy) = (result.gate, result.policy);
        let knob = if gate.probe().sees_settings() { knob } else { 0 };
        let because = |status, reason: &str| (status, Some(reason.to_string()));
        if !self.executes {
            return because(Status::NotRun, "the device records without executing");
        }
        if self.is_ceiling(policy, knob) {
            return because(Status::NotRun, "incorrect by design: there is nothing to prove");
        }
        let probe = gate.probe();
        let Some(reference) = self.reference_of(probe) else {
            return (Status::NotRun, Some(self.why_no_reference(probe)));
        };
        result.control_caught = self
            .control(probe)
            .map(|c| c.outcome.as_ref().is_ok_and(|measured| gate.difference(reference, measured).is_some()));
        if let Some((spec, difference)) = self.unrepeatable(gate) {
            return (Status::Blind, Some(not_repeatable(gate, spec, &difference)));
        }
        let of_policy = |s: &RunSpec| {
            (s.policy, s.knob, s.probe) == (Some(policy), knob, probe)
                && matches!(s.role, Role::Timed | Role::InOrder | Role::Shuffled | Role::Soak)
        };
        if let Some((spec, difference)) =
            self.measured(of_policy).find_map(|(spec, m)| Some((spec, gate.difference(reference, m)?)))
        {
            return (Status::Fail, Some(format!("{}: {difference}", spec.words(self.settings))));
        }
        if let Some((spec, failure)) = self
            .observations
            .iter()
            .filter(|o| of_policy(&o.spec))
            .find_map(|o| Some((o.spec, o.outcome.as_ref().err()?)))
        {
            return (Status::NotRun, Some(format!("{}: {failure}", spec.words(self.settings))));
        }
        let deciding = |s: &RunSpec| of_policy(s) && (s.role == Role::Shuffled || !probe.sees_order());
        if !self.complete || self.measured(deciding).next().is_none() {
            return because(Status::NotRun, "not all runs were made");
        }
        match self.control(probe).map(|c| &c.outcome) {
            None => return because(Status::NotRun, "the control was not run"),
            Some(Err(failure)) => {
                return (Status::Blind, Some(format!("the control gave no numbers: {failure}")));
            }
            Some(Ok(_)) if result.control_caught == Some(false) => {
                return because(
                    Status::Blind,
                    "the control, without any barrier and reversed, was not noticed",
                );
            }
            Some(Ok(_)) => {}
        }
        match &result.mutation {
            Some(m) if m.tried == 0 => because(Status::Blind, "no single dropped barrier could be tried"),
            Some(m) if m.caught == 0 => because(Status::Blind, "not one single dropped barrier was noticed"),
            _ => (Status::Pass, None),
        }
    }

    /// Why a program has no reference: it failed under `stock` too, or was not run there.
    fn why_no_reference(&self, probe: Probe) -> String {
        let failed = self.observations.iter().filter(|o| o.spec.is_reference_of(probe));
        match failed.filter_map(|o| o.outcome.as_ref().err()).next() {
            Some(failure) => format!("there is no reference: under stock, {failure}"),
            None => "there is no reference".into(),
        }
    }

    /// What became of the drops under `policy`, by `gate`. Each barrier counts once, however many orders it was
    /// tried under: it is caught if one of them shows it.
    fn mutation(&self, gate: Gate, policy: Policy) -> Option<Mutation> {
        let reference = self.reference_of(gate.probe())?;
        let mut tried: Vec<(u64, Option<bool>)> = Vec::new();
        for o in self.observations {
            let (Role::Drop, Some(k), Some(p)) = (o.spec.role, o.spec.mutate, o.spec.policy) else {
                continue;
            };
            if p != policy || !takes_drops(p) || o.spec.probe != gate.probe() {
                continue;
            }
            let caught = o.outcome.as_ref().ok().map(|m| gate.difference(reference, m).is_some());
            match tried.iter_mut().find(|(seen, _)| *seen == k) {
                Some((_, known)) => *known = (*known).max(caught),
                None => tried.push((k, caught)),
            }
        }
        if tried.is_empty() {
            return None;
        }
        let ks = |which: Option<bool>| {
            tried.iter().filter(|(_, c)| *c == which).map(|(k, _)| *k).collect::<Vec<_>>()
        };
        let (caught, survivors, failed) = (ks(Some(true)).len() as u64, ks(Some(false)), ks(None));
        Some(Mutation { caught, tried: caught + survivors.len() as u64, survivors, failed })
    }

    /// The verdict on the arm that `spec` belongs to (not on a single drop), and the reason where one is needed.
    pub fn judge_arm(&self, spec: &RunSpec) -> (Verdict, Option<String>) {
        let runs = || self.observations.iter().filter(|o| o.spec.same_arm(spec));
        let failure = runs().find_map(|o| o.outcome.as_ref().err()).map(ToString::to_string);
        let ceiling = spec.policy.is_some_and(|policy| self.is_ceiling(policy, spec.knob));
        if !self.executes {
            let by_design = ceiling.then_some(INCORRECT_ANYWAY);
            return match failure {
                Some(reason) => (Verdict::Failed, Some(reason)),
                None if self.same_packets(spec) => (Verdict::NoEffect, Some(SAME_PACKETS.into())),
                None => (Verdict::CountedOnly, by_design.map(Into::into)),
            };
        }
        if spec.is_reference() {
            return (Verdict::Reference, failure);
        }
        let Some(reference) = self.reference() else {
            return (Verdict::Unproven, Some("there is no reference to compare it with".into()));
        };
        let difference = self.measured(|s| s.same_arm(spec)).find_map(|(s, m)| self.telling_difference(s, m));
        match (spec.role, difference, failure) {
            (Role::Control, Some(difference), None) => {
                (Verdict::Refuted, Some(format!("{difference}, as it must be")))
            }
            (Role::Control, None, None) => {
                let why = match self.gates_of(spec.probe).next() {
                    Some(_) => "not noticed: the gates are blind",
                    None => "no gate that was asked for looks at these runs",
                };
                (Verdict::IncorrectByDesign, Some(why.into()))
            }
            (_, _, failure) if ceiling => (Verdict::IncorrectByDesign, failure),
            (Role::WithoutLayer, Some(difference), _) => {
                (Verdict::Refuted, Some(format!("{difference}: the layer under stock changes the numbers")))
            }
            (_, Some(difference), _) => (Verdict::Refuted, Some(self.explain(spec, difference))),
            (_, None, Some(failure)) => (Verdict::Failed, Some(failure)),
            (Role::WithoutLayer, None, None) if self.gates.is_empty() => {
                (Verdict::Unproven, Some(NOTHING_COMPARED.into()))
            }
            (Role::WithoutLayer, None, None) => {
                let main = self.gates_of(Probe::Main);
                let mut noisy = main.filter_map(|gate| Some((gate, self.unrepeatable(gate)?)));
                match noisy.next() {
                    Some((gate, (of, difference))) => {
                        (Verdict::Unproven, Some(of_gate(gate, &not_repeatable(gate, of, &difference))))
                    }
                    None => (Verdict::Verified, None),
                }
            }
            (_, None, None) => self.judge_equal_arm(spec, reference),
        }
    }

    /// The verdict on an arm of a correct policy all of whose runs gave the reference's numbers.
    fn judge_equal_arm(&self, spec: &RunSpec, reference: &Measured) -> (Verdict, Option<String>) {
        let Some(policy) = spec.policy else { return (Verdict::Verified, None) };
        let gates: Vec<GateResult> =
            self.gates.iter().map(|gate| self.judge_gate_under(*gate, policy, spec.knob)).collect();
        let with = |status| gates.iter().find(|g| g.status == status);
        // A timed arm answers for its policy; one permutation that was right stays right when another was wrong.
        if spec.role == Role::Timed
            && let Some(gate) = with(Status::Fail)
        {
            return (Verdict::Refuted, gate.reason.clone());
        }
        // A policy that cuts masks or moves operations changes the stream even where it changes no count, and what a setting
        // does to the driver is behind the layer, which would see no difference.
        if spec.shuffle == Shuffle::Off
            && policy.freedom().is_none()
            && spec.knob == 0
            && self.measured(|s| s.same_arm(spec)).all(|(_, m)| same_stream(reference, m))
        {
            return (Verdict::NoEffect, Some("what was executed is the reference's own stream".into()));
        }
        if self.gates.is_empty() {
            return (Verdict::Unproven, Some(NOTHING_COMPARED.into()));
        }
        if let Some(gate) = with(Status::Blind).or(with(Status::NotRun)) {
            let reason = gate.reason.as_deref().unwrap_or("nothing to compare");
            return (Verdict::Unproven, Some(of_gate(gate.gate, reason)));
        }
        (Verdict::Verified, None)
    }

    /// Whether a setting left the driver's own stream as it was: every sort of packet, with its mask, as often as without
    /// it. Where nobody counted packets nothing can be said.
    fn same_packets(&self, spec: &RunSpec) -> bool {
        let counted = |knob: u16| {
            let packets = |s: &RunSpec| s.role == Role::Packets && (s.policy, s.knob) == (spec.policy, knob);
            self.measured(packets).find_map(|(_, m)| m.packets.as_ref()?.as_ref().ok())
        };
        spec.knob != 0 && counted(0).is_some_and(|without| counted(spec.knob) == Some(without))
    }

    fn explain(&self, spec: &RunSpec, difference: String) -> String {
        let application_is_wrong = self
            .measured(|s| s.role == Role::Shuffled && s.policy == Some(Policy::Stock))
            .any(|(s, m)| self.telling_difference(s, m).is_some());
        if application_is_wrong && spec.shuffle != Shuffle::Off {
            format!("{difference}; so they do under stock: the application itself lacks a barrier")
        } else {
            difference
        }
    }
}

fn of_gate(gate: Gate, reason: &str) -> String {
    format!("gate {}: {reason}", gate.name())
}

/// What is said of a reference that differs from itself, with what may help.
fn not_repeatable(gate: Gate, spec: &RunSpec, difference: &str) -> String {
    let hint = match gate {
        Gate::Output => {
            "; --ignore REGEX leaves out lines that change in every run, such as those with times"
        }
        Gate::Value { .. } => "; --tolerance PERCENT allows for a value that changes a little in every run",
        _ => "",
    };
    let round = spec.round + 1;
    format!(
        "the reference is not repeatable ({difference} in round {round}), so that neither being equal to it nor being \
         different proves anything{hint}"
    )
}

/// Whether the layer handed on exactly what the reference's layer handed on: the same work and the same barriers,
/// none withheld, none added.
fn same_stream(reference: &Measured, run: &Measured) -> bool {
    let (Some(a), Some(b)) = (&reference.counts, &run.counts) else { return false };
    let untouched = |c: &zinc_report::Counts| {
        c.barriers_elided == 0 && c.barriers_added == 0 && c.barriers_asked == c.barriers_emitted
    };
    untouched(a)
        && untouched(b)
        && (a.dispatches, a.transfers, a.barriers_asked) == (b.dispatches, b.transfers, b.barriers_asked)
}

#[cfg(test)]
#[path = "gates_tests.rs"]
mod tests;
