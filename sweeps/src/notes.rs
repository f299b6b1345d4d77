//! What a reader must know before believing the numbers of one device, in sentences.
//!
//! A report is passed on without the person who made it, so whatever would make a careful person hesitate stands in it:
//! noise, drift, counts that do not agree, what a driver or a layer said of itself, and which settings fail together.

use zinc_engine::results::DeviceKind;
use zinc_hazard::Policy;

use crate::outcome::Measured;
use crate::plan::Role;
use crate::report::ArmRole;
use crate::stats::drift::Drift;
use crate::stats::{NOISE, Spread};
use crate::target::Target;

/// What every report says of rates on a CPU device.
pub const CPU_DEVICE: &str = "CPU device: rates are not GPU speed and order of execution proves nothing by itself; \
                              the shuffled arms do.";

/// What every report says of a driver on a shim, behind the device's name.
pub const RECORDS_ONLY: &str = "is played by a shim that records without executing. The counts are of what the real \
                                driver was handed, CPU time is this machine's processor's, and whether a policy is \
                                correct or fast cannot be seen here.";

impl Target {
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
            notes.extend(m.notes.iter().cloned());
            if o.spec.policy.is_some_and(Policy::is_correct) {
                notes.extend(
                    m.layer_notes.iter().filter(|n| !said_above(n)).map(|n| format!("The layer says: {n}")),
                );
            }
            let Some(counts) = &m.counts else { continue };
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
                .map(|(n, v)| {
                    self.masks.iter().find_map(|m| m.say(n, v)).unwrap_or_else(|| format!("{n}={v}"))
                })
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
                names.join("; "),
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
}
