//! The table for people, on stderr after a run or from `zinc-barrier report FILE`.
//!
//! Plain ASCII in the shape of a Markdown table: it survives log files, terminals without UTF-8, and being pasted
//! into an issue. Averages stand beside the totals because an application is understood by its rhythm ("306 barriers
//! and 10 submits a token"), and the recordings beside the executions because a command buffer that is reused is
//! paid for once there.

use crate::grid::Grid;
use crate::words::percent;
use crate::{Counts, Report};

impl Report {
    /// The report as text: a heading, the table, what the policy means, and the notes. Ends with a newline.
    pub fn table(&self) -> String {
        let mut text = format!("zinc_barrier {}: {}\n", self.layer_version, self.heading());
        text += &format!("{}\n\n{}\n\n{}\n", self.device_line(), self.counts_table(), self.meaning());
        if let Some(would) = &self.would_emit {
            text += &format!("\n{}\n", would_table(would.iter().map(|(p, c)| (p.as_str(), c))));
        }
        if self.witnesses.as_ref().is_some_and(|w| !w.is_empty()) {
            text += &format!("\n{}\n", self.witness_table());
        }
        if let Some(audit) = &self.audit {
            text += &format!(
                "\naudit: {} of the {} pairs that the application ordered are not ordered by what was issued\n",
                audit.violations, audit.required
            );
        }
        if let Some(r) = &self.replayed {
            text += &format!(
                "\nreplayed: {} of {} command buffers; {} writes delayed, {} not; {} dispatches cut, {} whole\n",
                r.replayed,
                r.replayed + r.passed_through,
                r.delayed,
                r.not_delayed,
                r.cut,
                r.whole
            );
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }

    fn heading(&self) -> String {
        let mut parts = vec![format!("policy {}", self.policy), format!("shuffle {}", self.shuffle)];
        parts.extend(self.mutate.map(|k| format!("mutate {k}")));
        parts.push(format!("out of bounds {}", self.out_of_bounds.name()));
        parts.push(format!("ranges {}", self.ranges.name()));
        parts.push(format!("granule {} bytes", self.granule));
        parts.extend(self.process.as_ref().map(|name| format!("process {}", printable(name))));
        parts.join(", ")
    }

    fn device_line(&self) -> String {
        let d = &self.device;
        let driver = [&d.driver, &d.driver_version].map(|s| printable(s)).join(" ");
        format!(
            "device {}: {} ({}), {}, Vulkan {}",
            d.number,
            printable(&d.name),
            d.device_type.name(),
            driver.trim(),
            printable(&d.api_version)
        )
    }

    fn counts_table(&self) -> Grid {
        let mut table = Grid::new(&["", "executed", "share", "per submit", "per command buffer", "recorded"]);
        let (t, r) = (&self.totals, &self.recorded);
        let mut row = |name: &str, of: &dyn Fn(&Counts) -> u64, share: Option<u64>| {
            table.add_row([
                name.to_string(),
                of(t).to_string(),
                share.map_or(String::new(), |whole| percent(of(t), whole)),
                average(of(t), t.submits),
                average(of(t), t.command_buffers),
                of(r).to_string(),
            ]);
        };
        row("submits", &|c| c.submits, None);
        row("command buffers", &|c| c.command_buffers, None);
        row("dispatches", &|c| c.dispatches, None);
        row("transfers", &|c| c.transfers, None);
        row("barriers asked", &|c| c.barriers_asked, None);
        row("barriers added", &|c| c.barriers_added, None);
        // Shares are of all barriers that there would be without elision.
        let all = t.barriers_asked.saturating_add(t.barriers_added);
        row("barriers emitted", &|c| c.barriers_emitted, Some(all));
        row("barriers elided", &|c| c.barriers_elided, Some(all));
        row("barriers passed through", &|c| c.barriers_passed_through, Some(all));
        if self.mutate.is_some() {
            row("barriers withheld on purpose", &|c| c.barriers_mutated, Some(all));
        }
        if t.hazards.total() > 0 || r.hazards.total() > 0 {
            for (i, (name, _)) in t.hazards.named().into_iter().enumerate() {
                row(&format!("forced by {name}"), &|c| c.hazards.named()[i].1, Some(t.barriers_emitted));
            }
        }
        row("unknown operations", &|c| c.unknown_operations, None);
        table
    }

    fn witness_table(&self) -> Grid {
        let mut table = Grid::new(&["forced most often", "times", "between", "and", "bytes"]);
        for w in self.witnesses.iter().flatten() {
            let bytes = w
                .range
                .map_or("unknown".into(), |r| format!("memory {}, {} + {}", r.memory, r.offset, r.size));
            let kind = format!("{:?}", w.kind).to_lowercase();
            table.add_row([kind, w.count.to_string(), printable(&w.first), printable(&w.second), bytes]);
        }
        table
    }
}

fn would_table<'a>(rows: impl Iterator<Item = (&'a str, &'a Counts)>) -> Grid {
    let mut table = Grid::new(&["the same stream under", "emitted", "elided", "added", "emitted per submit"]);
    for (policy, c) in rows {
        table.add_row([
            printable(policy),
            c.barriers_emitted.to_string(),
            c.barriers_elided.to_string(),
            c.barriers_added.to_string(),
            average(c.barriers_emitted, c.submits),
        ]);
    }
    table
}

fn average(n: u64, of: u64) -> String {
    match of {
        0 => "-".into(),
        _ => format!("{:.1}", n as f64 / of as f64),
    }
}

/// Text from a driver, an application or a file without the characters that could steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use crate::schema::samples;

    fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
        let line = table.lines().find(|l| l.trim_start_matches("| ").starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no row {name} in\n{table}"));
        line.trim_matches('|').split('|').skip(1).map(str::trim).collect()
    }

    #[test]
    fn rows_hold_executed_share_averages_and_recorded() {
        let table = samples()[1].table();
        assert_eq!(row(&table, "barriers asked"), ["306", "", "30.6", "30.6", "153"]);
        assert_eq!(row(&table, "barriers elided"), ["186", "60.8%", "18.6", "18.6", "93"]);
        assert_eq!(row(&table, "forced by read after write"), ["90", "75.0%", "9.0", "9.0", "45"]);
    }

    #[test]
    fn an_empty_report_has_dashes_instead_of_divisions_by_zero() {
        let table = samples()[0].table();
        assert_eq!(row(&table, "barriers emitted"), ["0", "-", "-", "-", "0"]);
        assert!(!table.contains("NaN") && !table.contains("inf"), "{table}");
    }

    #[test]
    fn what_was_not_asked_for_takes_no_room() {
        let plain = samples()[0].table();
        assert!(!plain.contains("forced") && !plain.contains("on purpose") && !plain.contains("same stream"));
        let full = samples()[1].table();
        assert!(full.contains("the same stream under") && full.contains("forced most often"), "{full}");
        assert!(full.contains("barriers withheld on purpose") && full.contains("mutate 3"), "{full}");
    }

    #[test]
    fn the_meaning_and_every_note_follow_the_table() {
        let mut report = samples().remove(1);
        report.notes = vec!["First.".into(), "Second.".into()];
        let text = report.table();
        assert!(text.contains(&report.meaning()));
        assert!(text.ends_with("note: First.\nnote: Second.\n"), "{text}");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        let mut report = samples().remove(0);
        report.device.name = "evil\u{1b}[2Jname\n".into();
        let text = report.table();
        assert!(!text.contains('\u{1b}') && text.contains("evil?[2Jname?"), "{text}");
    }
}
