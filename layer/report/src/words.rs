//! The report in sentences: what the policy did, and what a reader must know before believing it.
//!
//! A count is easily taken for more than it is. "Half of the barriers went away and the output is the same" proves
//! nothing on a device that runs everything in order, and less when the policy is wrong by design. So the words
//! come from the same data as the numbers, and travel with them.

use crate::table::printable;
use crate::{DeviceType, Report, WrittenAt};
use std::collections::BTreeMap;

impl Report {
    /// One line that says what the policy means for the barriers counted.
    pub fn meaning(&self) -> String {
        let t = &self.totals;
        let asked = plural(t.barriers_asked, "asked barrier");
        match self.policy.as_str() {
            "stock" => format!("stock: all {asked} reached the driver as the application wrote them."),
            "every" => format!(
                "every: {asked} reached the driver, and {} more so that one follows every dispatch.",
                t.barriers_added
            ),
            policy @ ("alias-only" | "narrow" | "reorder") => format!(
                "{policy}: {asked}, of which {} ({}) were merged, superseded, or needed by no two accesses to \
                 the same bytes{}.",
                t.barriers_elided,
                percent(t.barriers_elided, t.barriers_asked.saturating_add(t.barriers_added)),
                self.kept()
            ),
            "none" => format!(
                "none: {} of {asked} withheld. INCORRECT BY DESIGN: results may be wrong, and a rate is only the \
                 ceiling of what could be won.",
                t.barriers_elided
            ),
            other => format!("{other}: {asked}, {} emitted.", t.barriers_emitted),
        }
    }

    /// What was emitted though no two accesses are known to need it, as the end of a sentence.
    fn kept(&self) -> String {
        match self.totals.hazards.unmodelled {
            0 => String::new(),
            kept => format!(
                "; {kept} more {} emitted only because a command came next of which the layer has no model",
                if kept == 1 { "was" } else { "were" }
            ),
        }
    }

    /// Sets `notes` to the sentences that this report's own fields call for, before those already there.
    ///
    /// Calling it twice changes nothing.
    pub fn add_standard_notes(&mut self) {
        let mut notes = self.standard_notes();
        let own = std::mem::take(&mut self.notes);
        notes.extend(own.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>());
        self.notes = notes;
    }

    fn standard_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.layer_failed {
            notes.push(
                "The layer failed in this process and passed the rest through: the counts are incomplete."
                    .into(),
            );
        }
        // A mutation alone makes a run incorrect too, and has a note of its own.
        if !self.policy_is_correct && (self.mutate.is_none() || self.policy == "none") {
            notes.push(format!(
                "Policy {} is incorrect by design: results may be wrong even where they look right.",
                self.policy
            ));
        }
        if let Some(k) = self.mutate {
            notes.push(match self.totals.barriers_mutated {
                0 => format!(
                    "Emitted barrier {k} was to be withheld, but no submission sequence had that many."
                ),
                n => format!(
                    "Emitted barrier {k} of a submission sequence was withheld on purpose, {n} in all."
                ),
            });
        }
        if self.shuffle != "off" {
            notes.push(format!(
                "Operations were issued in another order (shuffle {}) wherever the emitted barriers left it free: \
                 this run is for finding missing barriers, and its rate is not comparable.",
                self.shuffle
            ));
        } else if self.device.device_type == DeviceType::Cpu {
            notes.push(
                "An in-order CPU device cannot show a missing barrier by itself: use ZINC_BARRIER_SHUFFLE or \
                 synchronization validation. Its rates say nothing about a GPU."
                    .into(),
            );
        }
        if self.totals.unknown_operations > 0 {
            notes.push(format!(
                "{} counted as reading and writing everything, because the layer does not know what they touch.",
                plural(self.totals.unknown_operations, "operation")
            ));
        }
        if !self.kept_by.is_empty() {
            notes.push(format!(
                "Commands without a model that barriers were emitted for, with the number of barriers as recorded: {}.",
                counted(&self.kept_by)
            ));
        }
        if !self.unknown_because.is_empty() {
            notes.push(format!(
                "Dispatches of unknown accesses, as recorded: {}.",
                counted(&self.unknown_because)
            ));
        }
        match self.written_at {
            WrittenAt::DeviceDestruction => {}
            WrittenAt::ProcessExit => notes.push(
                "The process ended without destroying the device; work still in flight is counted.".into(),
            ),
            WrittenAt::Running => notes.push(
                "Written while the process ran. Where it has ended since, a signal, _exit or abort ended it before the \
                 layer could count its last submissions."
                    .into(),
            ),
        }
        if self.totals.submits == 0 {
            notes.push("Nothing was submitted on this device.".into());
        }
        notes
    }
}

/// `part` of `whole` as a percentage with one decimal; a dash where there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{:.1}%", 100.0 * part as f64 / whole as f64),
    }
}

/// The most frequent entries, each with its number, most frequent first.
fn counted(entries: &BTreeMap<String, u64>) -> String {
    const SHOWN: usize = 12;
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(name, times)| (std::cmp::Reverse(**times), *name));
    let shown = sorted.iter().take(SHOWN).map(|(name, times)| format!("{} ({times})", printable(name)));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if sorted.len() > SHOWN {
        text += &format!(" and {} more, which the JSON names", sorted.len() - SHOWN);
    }
    text
}

fn plural(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::samples;

    fn notes(change: impl Fn(&mut Report)) -> String {
        let mut report = samples().remove(1);
        report.notes.clear();
        change(&mut report);
        report.add_standard_notes();
        report.notes.join("\n")
    }

    #[test]
    fn an_unshuffled_cpu_device_comes_with_its_caveat_and_a_gpu_without() {
        let caveat = "in-order CPU device";
        assert!(notes(|r| r.device.device_type = DeviceType::Cpu).contains(caveat));
        assert!(!notes(|r| r.device.device_type = DeviceType::DiscreteGpu).contains(caveat));
        let shuffled = notes(|r| {
            r.device.device_type = DeviceType::Cpu;
            r.shuffle = "reverse".into();
        });
        assert!(!shuffled.contains(caveat) && shuffled.contains("shuffle reverse"));
    }

    #[test]
    fn a_mutation_says_whether_it_struck() {
        let missed = notes(|r| r.mutate = Some(9));
        assert!(missed.contains("no submission sequence had that many"), "{missed}");
        let struck = notes(|r| {
            r.mutate = Some(9);
            r.totals.barriers_mutated = 2;
        });
        assert!(struck.contains("withheld on purpose, 2 in all"), "{struck}");
    }

    #[test]
    fn every_field_that_weakens_a_claim_is_spoken_of() {
        for (change, words) in [
            (
                (|r| {
                    r.policy_is_correct = false;
                    r.mutate = None;
                }) as fn(&mut Report),
                "incorrect by design",
            ),
            (|r| r.totals.unknown_operations = 1, "1 operation counted"),
            (|r| r.written_at = WrittenAt::ProcessExit, "without destroying"),
            (|r| r.written_at = WrittenAt::Running, "while the process ran"),
            (|r| r.kept_by = [("vkCmdX".into(), 3)].into(), "vkCmdX (3)"),
            (|r| r.unknown_because = [("no set is bound".into(), 7)].into(), "no set is bound (7)"),
            (|r| r.totals.submits = 0, "Nothing was submitted"),
        ] {
            assert!(notes(change).contains(words), "{words}");
            assert!(!notes(|_| ()).contains(words), "{words}");
        }
    }

    #[test]
    fn barriers_kept_for_a_command_without_a_model_are_not_said_to_be_needed() {
        let mut report = samples().remove(1);
        report.totals.hazards.unmodelled = 14;
        assert!(report.meaning().ends_with(
            "; 14 more were emitted only because a command came next of which the layer has no model."
        ));
        report.totals.hazards.unmodelled = 0;
        assert!(report.meaning().ends_with("the same bytes."));
    }

    #[test]
    fn a_long_list_names_the_most_frequent_first_and_says_how_many_it_leaves_out() {
        let many = (0..20u64).map(|n| (format!("vkCmd{n:02}"), n)).collect();
        let text = counted(&many);
        assert!(text.starts_with("vkCmd19 (19), vkCmd18 (18)"), "{text}");
        assert!(text.ends_with("vkCmd08 (8) and 8 more, which the JSON names"), "{text}");
    }

    #[test]
    fn adding_the_notes_twice_adds_them_once_and_keeps_the_layers_own() {
        let mut report = samples().remove(0);
        report.notes = vec!["Said by the layer.".into()];
        report.add_standard_notes();
        let once = report.notes.clone();
        report.add_standard_notes();
        assert_eq!(report.notes, once);
        assert!(once.len() > 1 && once.last().unwrap() == "Said by the layer.");
    }

    #[test]
    fn the_meaning_of_each_policy_names_it_and_none_is_labelled() {
        for policy in ["stock", "every", "alias-only", "none", "from-the-future"] {
            let mut report = samples().remove(1);
            report.policy = policy.into();
            let line = report.meaning();
            assert!(line.starts_with(&format!("{policy}: ")), "{line}");
            assert_eq!(line.contains("INCORRECT BY DESIGN"), policy == "none");
        }
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(0, 0), "-");
    }
}
