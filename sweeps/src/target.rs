//! One device with one model: what is to be run there, what was observed, and what the observations say a token.

use std::collections::BTreeMap;
use std::time::Duration;

use zinc_hazard::Policy;
use zinc_report::Counts;

use crate::drivers::Chosen;
use crate::gate::{Gate, Probe};
use crate::gates::Evidence;
use crate::knobs::Masked;
use crate::outcome::{Measured, Observation, Process};
use crate::packets::{self, Count};
use crate::plan::{Role, RunSpec};
use crate::report::{self, CacheReport, DriverPackets};
use crate::stats::Spread;
use crate::variables::Setting;

/// One device with one model, and all that was observed there.
#[derive(Debug, Clone)]
pub struct Target {
    /// The device.
    pub chosen: Chosen,
    /// `embedded`, the model's file name, or the application's.
    pub model: String,
    /// Of an application that executes: what it is measured by.
    pub measure: Option<report::Measured>,
    /// What was set for all runs here: when the engine records, how many busy neighbours there are.
    pub knobs: BTreeMap<String, String>,
    /// Variables of the owner's that are an axis: the settings of a run, by [`RunSpec::knob`]; the first sets nothing.
    pub settings: Vec<Setting>,
    /// Masks among them of which one bit at a time is cleared.
    pub masks: Vec<Masked>,
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

    /// The programs whose runs the gates look at, each once, the one that is swept first.
    pub fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![Probe::Main];
        for probe in self.gates.iter().map(|gate| gate.probe()) {
            if !probes.contains(&probe) {
                probes.push(probe);
            }
        }
        probes
    }

    /// The observations as evidence.
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            observations: &self.observations,
            complete: self.complete,
            executes: self.executes,
            gates: &self.gates,
            settings: &self.settings,
        }
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
    pub fn driver_packets(&self, spec: &RunSpec) -> Option<DriverPackets> {
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
    pub fn cost(
        &self,
        spec: &RunSpec,
        own: impl Fn(&Measured) -> f64,
        whole: impl Fn(&Process) -> Duration,
    ) -> Option<Spread> {
        let own_runs = self.observations.iter().filter(|o| o.spec.same_arm(spec));
        let values: Vec<f64> = own_runs.filter_map(|o| self.cost_of(o, &own, &whole)).collect();
        // Where a shorter run took longer, noise was measured and no cost; the other rounds alone would make it look dearer.
        Spread::of(&values).filter(|_| values.iter().all(|value| *value > 0.0))
    }

    /// The same of one run.
    fn cost_of(
        &self,
        o: &Observation,
        own: &impl Fn(&Measured) -> f64,
        whole: &impl Fn(&Process) -> Duration,
    ) -> Option<f64> {
        let long = o.outcome.as_ref().ok()?;
        let Some(process) = &long.process else { return Some(own(long)) };
        if long.tokens == 1 {
            return Some(whole(process).as_secs_f64() * 1e6);
        }
        // Where an application executes, the run that sets up is its short one.
        let beside = RunSpec { role: Role::Short, ..o.spec };
        let set_up = |other: &&Observation| other.spec.role == Role::Setup && other.spec.same_side(&o.spec);
        let short = self.observations.iter().find(|o| o.spec == beside);
        let short = short.or_else(|| self.observations.iter().find(set_up))?.outcome.as_ref().ok()?;
        let more = whole(process).as_secs_f64() - whole(short.process.as_ref()?).as_secs_f64();
        Some(more * 1e6 / long.tokens.checked_sub(short.tokens).filter(|n| *n > 0)? as f64)
    }

    /// By how many microseconds of this machine's time a token of one arm takes less than one of another, by rounds.
    pub fn cpu_differences(&self, spec: &RunSpec, other: &RunSpec) -> Vec<f64> {
        self.paired(spec, other, |o| self.cost_of(o, &|m| m.cpu_us_per_token, &|p| p.cpu))
    }

    /// What `of` tells of the runs of `other`, less what it tells of those of `spec`, round by round.
    pub fn paired(
        &self,
        spec: &RunSpec,
        other: &RunSpec,
        of: impl Fn(&Observation) -> Option<f64>,
    ) -> Vec<f64> {
        let own = self.observations.iter().filter(|o| o.spec.same_arm(spec));
        let partner = |o: &Observation| {
            let wanted = RunSpec { round: o.spec.round, ..*other };
            self.observations.iter().find(|p| p.spec == wanted)
        };
        own.filter_map(|o| Some(of(partner(o)?)? - of(o)?)).collect()
    }
}
