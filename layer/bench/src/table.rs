//! The result as JSON and as a table.

use crate::measure::{Row, Spread};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

/// All that was measured in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    driver: String,
    policy: String,
    cpu: String,
    rows: Vec<Row>,
}

impl Report {
    /// The report of `rows`.
    pub fn new(driver: String, policy: &str, rows: Vec<Row>) -> Report {
        Report { schema: 1, driver, policy: policy.into(), cpu: cpu(), rows }
    }

    /// A Markdown table under a line that says what was measured where.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(ASCII_MARKDOWN);
        table.set_header([
            "stream",
            "without, ns",
            "with, ns",
            "own cost, ns",
            "with / without",
            "asked",
            "emitted",
        ]);
        for row in &self.rows {
            table.add_row([
                row.case.to_string(),
                format!("{:.0}", row.without_ns.median),
                format!("{:.0}", row.with_ns.median),
                spread(&row.own_ns, 0),
                spread(&row.ratio, 2),
                format!("{:.0}", row.asked),
                format!("{:.0}", row.emitted),
            ]);
        }
        table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
        format!(
            "{}, `{}`, on {}; a dispatch with its binds and its barrier\n\n{table}",
            self.driver, self.policy, self.cpu
        )
    }
}

fn spread(s: &Spread, digits: usize) -> String {
    format!("{:.digits$} [{:.digits$}, {:.digits$}]", s.median, s.lo, s.hi)
}

/// What the processor calls itself.
fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|(_, n)| n.trim()));
    name.unwrap_or("an unnamed processor").into()
}
