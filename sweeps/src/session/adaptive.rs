//! The runs that nobody can plan, since whether they are needed shows on the way: further rounds until a ratio is known
//! well enough, the search for the narrowest mask, single drops.
//!
//! None of them looks at which answer it would like to have: rounds go on by the width of an interval and never by where
//! it lies, and a drop is repeated under another order only while nothing noticed it.

use zinc_hazard::Policy;

use crate::child::Job;
use crate::error::SweepError;
use crate::gate::Probe;
use crate::outcome::Observation;
use crate::plan::{Role, RunSpec, drop_orders, narrow_runs, round, sample};
use crate::stats::comparison::{BOOTSTRAP_FROM, Comparison};
use crate::target::Target;
use crate::variables::Setting;
use crate::variables::narrowest;
use crate::verdict::Status;

use super::Sweep;

impl Sweep<'_> {
    /// Further rounds, where a precision was asked for, until every ratio's interval is narrow enough or there were
    /// enough rounds. The rule looks at the width of the intervals and never at where they lie, so it favours no answer.
    pub(super) fn make_precise(&mut self, targets: &mut [(Target, Job)], i: usize) -> Result<(), SweepError> {
        let Some(precision) = self.cli.precision else { return Ok(()) };
        let first = self.cli.reps;
        for r in first..self.cli.max_reps.max(first) {
            let target = &targets[i].0;
            let settings = target.settings.len().saturating_sub(1) as u16;
            let ratios: Vec<Comparison> = target.ratios().collect();
            let narrow = |c: &Comparison| c.n >= BOOTSTRAP_FROM && c.half_width() <= precision;
            // An arm that gives no rates will give none in the next round either.
            if ratios.iter().all(narrow) {
                break;
            }
            let round = round(&target.policies, settings, r);
            self.progress.expect(round.len() as i64);
            for spec in round {
                self.make(targets, i, &spec)?;
            }
        }
        Ok(())
    }

    /// The search for the smallest mask that passes, under `stock`: each candidate is run once in order and once
    /// reversed, and becomes a setting of its own in the report.
    pub(super) fn make_narrowest(
        &mut self,
        targets: &mut [(Target, Job)],
        i: usize,
    ) -> Result<(), SweepError> {
        let Some(ablation) =
            self.cli.ablations.iter().find(|a| Some(&a.name) == self.cli.narrowest.as_ref()).cloned()
        else {
            return Ok(());
        };
        let probes = targets[i].0.probes();
        let found = narrowest(ablation.mask, |mask| -> Result<bool, SweepError> {
            let setting: Setting = vec![(ablation.name.clone(), mask.to_string())];
            let known = targets[i].0.settings.iter().position(|s| *s == setting);
            let knob = match known {
                Some(knob) => knob as u16,
                None => {
                    let (target, job) = &mut targets[i];
                    target.settings.push(setting.clone());
                    job.settings.push(setting);
                    (target.settings.len() - 1) as u16
                }
            };
            for spec in narrow_runs(knob, &probes) {
                if !targets[i].0.observations.iter().any(|o| o.spec == spec) {
                    self.progress.expect(1);
                    self.make(targets, i, &spec)?;
                }
            }
            let evidence = targets[i].0.evidence();
            Ok(narrow_runs(knob, &probes).iter().all(|spec| {
                let run = evidence.observations.iter().find(|o| o.spec == *spec);
                run.is_some_and(|o| o.outcome.as_ref().is_ok_and(|m| evidence.difference(spec, m).is_none()))
            }))
        })?;
        let name = &ablation.name;
        targets[i].0.findings.push(match found {
            Some(mask) => format!(
                "Narrowest: {name}={mask} gave the reference's numbers in order and reversed, and with any one bit of it \
                 less something failed."
            ),
            None => format!("Narrowest: not even {name}={} gave the reference's numbers.", ablation.mask),
        });
        Ok(())
    }

    /// The repetitions of `stock` and every correct policy, until each has decoded as many tokens as were asked for. Those
    /// of a run that gave nothing are counted too: a policy that only crashes comes to its end.
    pub(super) fn make_soaks(&mut self, targets: &mut [(Target, Job)], i: usize) -> Result<(), SweepError> {
        let Some(wanted) = self.cli.soak else { return Ok(()) };
        let tokens = targets[i].1.tokens.max(1);
        let rounds = u32::try_from(wanted.div_ceil(tokens)).unwrap_or(u32::MAX);
        let correct = targets[i].0.policies.iter().copied().filter(|p| p.is_correct());
        let policies: Vec<Policy> = std::iter::once(Policy::Stock).chain(correct).collect();
        self.progress.expect(i64::from(rounds) * policies.len() as i64 + 1);
        for policy in policies {
            for n in 0..rounds {
                self.make(targets, i, &RunSpec::soaking(policy, n))?;
            }
        }
        self.make(targets, i, &RunSpec::soaking_control())
    }

    /// Which barriers to withhold under `policy`. Of another program than the one that is swept, only some have to be there:
    /// a traced run tells which a pair within one recording forces, and the drops are drawn from those.
    fn drops(
        &mut self,
        targets: &mut [(Target, Job)],
        i: usize,
        policy: Policy,
        probe: Probe,
    ) -> Result<Vec<u64>, SweepError> {
        let (count, seed) = (self.cli.drops, self.cli.seed);
        if probe == Probe::Main {
            let emitted = emitted_per_submission(&targets[i].0, policy);
            return Ok(emitted.map_or_else(Vec::new, |emitted| sample(emitted, count, seed)));
        }
        self.progress.expect(1);
        self.make(targets, i, &RunSpec::traced(policy, probe))?;
        let forced = match targets[i].0.observations.last().map(|o| &o.outcome) {
            Some(Ok(traced)) => &traced.forced[..],
            _ => &[],
        };
        Ok(sample(forced.len() as u64, count, seed).into_iter().map(|n| forced[n as usize]).collect())
    }

    /// Single drops, each tried under one order after the other until the strictest gate notices. A policy that has
    /// already been refuted, or whose runs fail, gets none: the question is then settled.
    pub(super) fn make_drops(
        &mut self,
        targets: &mut [(Target, Job)],
        i: usize,
        policy: Policy,
        probe: Probe,
    ) -> Result<(), SweepError> {
        let wanted = i64::from(self.cli.drops);
        let ks = match sound(&targets[i].0, policy, probe) && self.cli.drops > 0 {
            true => self.drops(targets, i, policy, probe)?,
            false => Vec::new(),
        };
        self.progress.expect(ks.len() as i64 - wanted);
        for k in ks {
            for (n, order) in drop_orders(probe, self.cli.seed).into_iter().enumerate() {
                if n > 0 {
                    self.progress.expect(1);
                }
                self.make(targets, i, &RunSpec { probe, ..RunSpec::dropping(policy, k, order) })?;
                if targets[i].0.observations.last().is_none_or(|o| differs(&targets[i].0, o)) {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn differs(target: &Target, o: &Observation) -> bool {
    o.outcome.as_ref().is_ok_and(|m| target.evidence().difference(&o.spec, m).is_some())
}

/// Whether all runs of the policy so far gave the answers of `probe`'s reference.
fn sound(target: &Target, policy: Policy, probe: Probe) -> bool {
    let failed = target
        .observations
        .iter()
        .filter(|o| matches!(o.spec.role, Role::Timed | Role::InOrder | Role::Shuffled))
        .any(|o| {
            (o.spec.policy, o.spec.knob, o.spec.probe) == (Some(policy), 0, probe) && o.outcome.is_err()
        });
    let evidence = target.evidence();
    let fails = |gate| evidence.judge_gate(gate, policy).status == Status::Fail;
    !failed && evidence.reference_of(probe).is_some() && !evidence.gates_of(probe).any(fails)
}

/// Barriers that the policy emits for one submission of the program that is swept: the layer counts the barrier to withhold anew after each of them.
/// The engine says how many submissions a token takes. Of an application there is the mean, in the runs by which it is
/// compared: a barrier beyond the end of a short submission is withheld from the longer ones.
fn emitted_per_submission(target: &Target, policy: Policy) -> Option<u64> {
    let tells = target.measure.is_none();
    let role = if tells { Role::Timed } else { Role::Shuffled };
    let of_policy = |o: &&Observation| {
        (o.spec.policy, o.spec.role, o.spec.knob, o.spec.probe) == (Some(policy), role, 0, Probe::Main)
    };
    let (spec, m) = target
        .observations
        .iter()
        .filter(of_policy)
        .find_map(|o| Some((o.spec, o.outcome.as_ref().ok()?)))?;
    if !tells {
        // Several submissions are uneven, so twice the mean is sampled; what none has is neither caught nor missed.
        let counts = m.counts?;
        let reach = if counts.submits > 1 { 2 } else { 1 };
        return Some((reach * counts.barriers_emitted).div_ceil(counts.submits.max(1))).filter(|n| *n > 0);
    }
    let per_token = target.per_token(&spec, m, |counts| counts.barriers_emitted)?;
    (per_token.round() as u64).checked_div(m.submits_per_token)
}
