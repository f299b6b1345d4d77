//! Plays batches of programs under each setting of the layer, and judges what comes out.

use std::path::Path;

use anyhow::{Context, Result};
use zinc_report::Report;

use crate::generate::{Abilities, program};
use crate::gpu::{Gpu, Opening, complaints};
use crate::play::play;
use crate::predict::{Counts, counts};
use crate::program::Program;

/// A setting, and what is expected of it.
pub struct Setting {
    /// For tables.
    pub name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// What the count of barriers emitted is held against.
    emits: Emits,
    /// Results must be right; of the control, some must be wrong.
    pub correct: bool,
    /// How many programs of a batch are played, from the first on.
    most: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Emits {
    /// Exactly what is worked out from what the programs bind.
    Predicted,
    /// No more than that.
    AtMost,
    /// Something else.
    Whatever,
}

const fn right(
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    emits: Emits,
) -> Setting {
    Setting { name, settings, emits, correct: true, most: usize::MAX }
}

/// With the layer's audit, a search that takes as long as a hundred programs without it.
const fn audited(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Setting {
    Setting { most: 2, ..right(name, settings, AtMost) }
}

use Emits::{AtMost, Predicted, Whatever};

/// All settings; the last one is the control.
pub const SETTINGS: [Setting; 18] = [
    right("stock", &[("policy", "stock")], Whatever),
    right("alias-only", &[("policy", "alias-only")], Predicted),
    right("alias-only, reversed", &[("policy", "alias-only"), ("shuffle", "reverse")], Predicted),
    right("alias-only, shuffled", &[("policy", "alias-only"), ("shuffle", "7")], Predicted),
    right("narrow", &[("policy", "narrow")], AtMost),
    right("narrow, reversed", &[("policy", "narrow"), ("shuffle", "reverse")], AtMost),
    right("reorder", &[("policy", "reorder")], AtMost),
    right("reorder, shuffled", &[("policy", "reorder"), ("shuffle", "5")], AtMost),
    right("every", &[("policy", "every")], Whatever),
    audited("alias-only, audited", &[("policy", "alias-only"), ("audit", "1")]),
    audited("narrow, audited", &[("policy", "narrow"), ("audit", "1")]),
    audited("reorder, audited", &[("policy", "reorder"), ("audit", "1")]),
    right("alias-only, delayed", &[("policy", "alias-only"), ("delay", "1")], Predicted),
    right(
        "narrow, delayed, cut",
        &[("policy", "narrow"), ("delay", "1"), ("slice", "1"), ("shuffle", "3")],
        AtMost,
    ),
    right("reorder, delayed", &[("policy", "reorder"), ("delay", "1")], AtMost),
    right(
        "alias-only, tight, reversed",
        &[("policy", "alias-only"), ("ranges", "tight"), ("shuffle", "reverse")],
        AtMost,
    ),
    right("reorder, tight", &[("policy", "reorder"), ("ranges", "tight"), ("shuffle", "2")], AtMost),
    Setting {
        name: "none, reversed (control)",
        settings: &[("policy", "none"), ("shuffle", "reverse")],
        emits: Whatever,
        correct: false,
        most: usize::MAX,
    },
];

/// What came of a setting.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Programs that were played.
    pub programs: u64,
    /// Programs that the device could not have.
    pub skipped: u64,
    /// Programs whose memory was not what it should be.
    pub wrong: u64,
    /// Complaints of validation.
    pub complaints: u64,
    /// As the layer counted.
    pub asked: u64,
    pub emitted: u64,
    /// Batches whose counts were not what they should be.
    pub miscounted: u64,
    /// What was found, the first few.
    pub findings: Vec<String>,
}

impl Tally {
    fn find(&mut self, what: String) {
        if self.findings.len() < 5 {
            self.findings.push(what);
        }
    }
}

/// Where validation stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// Nowhere.
    None,
    /// Between the program and the layer: the programs are valid.
    Above,
    /// Between the layer and the driver: so is what the layer makes of them.
    Below,
}

/// The name of Khronos validation's layer.
const VALIDATION: &str = "VK_LAYER_KHRONOS_validation";

/// The batch: its programs, what memory must hold after each, and what they count for.
pub struct Batch {
    programs: Vec<(Program, Vec<Vec<u32>>)>,
}

impl Batch {
    /// The programs with these seeds, for devices with these abilities.
    pub fn new(seeds: std::ops::Range<u64>, abilities: Abilities) -> Batch {
        let programs: Vec<_> = seeds
            .map(|seed| program(seed, abilities))
            .map(|program| {
                let truth = program.truth();
                (program, truth)
            })
            .collect();
        Batch { programs }
    }

    /// The programs.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().map(|(program, _)| program)
    }

    /// Plays all of it without the layer: the host's idea of what programs compute must be the driver's.
    ///
    /// # Errors
    ///
    /// The driver's, and the first difference.
    pub fn bare(&self, gpu: &Gpu) -> Result<()> {
        for (program, truth) in &self.programs {
            let found =
                play(gpu, program).with_context(|| format!("seed {}, without the layer", program.seed))?;
            if let Some(difference) = found.as_ref().and_then(|found| difference(found, truth)) {
                anyhow::bail!("seed {}, without the layer: {difference}", program.seed);
            }
        }
        Ok(())
    }

    /// Plays all of it under a setting; files go into `scratch`.
    ///
    /// # Errors
    ///
    /// The driver's, or the layer's where it changes what a call returns.
    pub fn under(
        &self,
        setting: &Setting,
        validation: Validation,
        scratch: &Path,
        tally: &mut Tally,
    ) -> Result<()> {
        let report = scratch.join("report.json");
        let _ = std::fs::remove_file(&report);
        let mut settings: Vec<_> =
            setting.settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        settings.push(("report".into(), report.display().to_string()));
        let own = "zinc_barrier".to_string();
        let layers = match validation {
            Validation::None => vec![own],
            Validation::Above => vec![VALIDATION.into(), own],
            Validation::Below => vec![own, VALIDATION.into()],
        };
        let gpu = Gpu::open(&Opening { layers, settings })?;
        let (mut complete, mut heard, mut predicted) = (true, Vec::new(), Counts::default());
        for (program, truth) in self.programs.iter().take(setting.most) {
            predicted += counts(program);
            let found = play(&gpu, program)
                .with_context(|| format!("seed {} under {}", program.seed, setting.name))?;
            let said = complaints();
            if let Some(first) = said.first() {
                heard.push(format!("seed {} under {}: {first}", program.seed, setting.name));
            }
            tally.complaints += said.len() as u64;
            let Some(found) = found else {
                tally.skipped += 1;
                complete = false;
                continue;
            };
            tally.programs += 1;
            if let Some(difference) = difference(&found, truth) {
                tally.wrong += 1;
                if setting.correct {
                    tally.find(format!("seed {} under {}: {difference}", program.seed, setting.name));
                }
            }
        }
        drop(gpu);
        if setting.correct {
            heard.into_iter().for_each(|what| tally.find(what));
        }
        let text = std::fs::read_to_string(&report)
            .with_context(|| format!("the layer wrote no report under {}", setting.name))?;
        let report = Report::from_json(&text).map_err(|why| anyhow::anyhow!("{why}"))?;
        self.count(setting, &report, (predicted, complete), tally);
        Ok(())
    }

    fn count(
        &self,
        setting: &Setting,
        report: &Report,
        (predicted, complete): (Counts, bool),
        tally: &mut Tally,
    ) {
        let (asked, emitted) = (report.totals.barriers_asked, report.totals.barriers_emitted);
        tally.asked += asked;
        tally.emitted += emitted;
        let right = match setting.emits {
            Emits::Predicted => (asked, emitted) == (predicted.asked, predicted.emitted),
            Emits::AtMost => asked == predicted.asked && emitted <= predicted.emitted,
            Emits::Whatever => asked == predicted.asked,
        };
        let audited = report.audit.is_none_or(|found| found.violations == 0);
        if (complete && !right) || !audited || report.layer_failed {
            tally.miscounted += 1;
            let seed = self.programs.first().map_or(0, |(program, _)| program.seed);
            tally.find(format!(
                "seeds from {seed} on, under {}: {asked} barriers asked and {emitted} emitted, worked out were {} and {}; \
                 audit {:?}, layer failed: {}",
                setting.name, predicted.asked, predicted.emitted, report.audit, report.layer_failed
            ));
        }
    }
}

/// The first difference, in words.
fn difference(found: &[Vec<u32>], truth: &[Vec<u32>]) -> Option<String> {
    for (store, (found, truth)) in found.iter().zip(truth).enumerate() {
        if let Some(at) = (0..truth.len()).find(|at| found.get(*at) != truth.get(*at)) {
            let block = at / crate::program::WORDS;
            return Some(format!(
                "store {store}, block {block}, word {}: {:?} in place of {:?}",
                at % crate::program::WORDS,
                found.get(at),
                truth.get(at)
            ));
        }
    }
    None
}
