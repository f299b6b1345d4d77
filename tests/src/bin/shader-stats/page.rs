//! The page: for each kernel, what each driver's compiler made of it.
//!
//! Drivers name their numbers differently; a column takes the first name that a driver knows. Chips of which a compiler
//! makes the same share a line, so that the page covers all chips and stays readable.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

/// A column and the names that drivers have for it; several names at once are a sum.
struct Column {
    title: &'static str,
    names: &'static [&'static [&'static str]],
}

const COLUMNS: [Column; 8] = [
    Column { title: "vector registers", names: &[&["VGPRs"], &["GPRs"], &["Registers"]] },
    Column { title: "scalar registers, uniforms", names: &[&["SGPRs"], &["Uniforms"]] },
    Column { title: "spills", names: &[&["Spilled SGPRs", "Spilled VGPRs"], &["Spills", "Fills"]] },
    Column { title: "scratch bytes", names: &[&["Scratch size"], &["Scratch"], &["Scratch memory size"]] },
    Column { title: "shared bytes", names: &[&["LDS size"], &["Shared memory"], &["Local memory"]] },
    Column { title: "occupancy", names: &[&["Subgroups per SIMD"], &["Threads"], &["Occupancy"]] },
    Column { title: "instructions", names: &[&["Instructions"], &["Instruction count"]] },
    Column { title: "code bytes", names: &[&["Code size"], &["Code Size"], &["Binary size"]] },
];

impl Column {
    fn value(&self, statistics: &Value) -> Option<u64> {
        let sum = |names: &&[&str]| names.iter().map(|name| statistics[name].as_u64()).sum::<Option<u64>>();
        self.names.iter().find_map(sum)
    }
}

/// One line of the table.
struct Row {
    name: String,
    shape: String,
    cells: String,
    drivers: Vec<String>,
}

/// The table out of what the probe printed on each driver.
pub fn table(accounts: &[(String, Value)]) -> Result<String> {
    let mut rows: Vec<Row> = Vec::new();
    for (driver, account) in accounts {
        for kernel in account["kernels"].as_array().context("no kernels in the probe's account")? {
            let name = kernel["name"].as_str().unwrap_or("?").to_string();
            let shape = format!("{} x {}", kernel["workgroup"], kernel["rows"]);
            let cells = match kernel["refused"].as_str() {
                Some(why) => format!("refused: {why} |{}", " - |".repeat(COLUMNS.len() - 1)),
                None => COLUMNS.iter().fold(String::new(), |cells, column| {
                    let value = column.value(&kernel["statistics"]);
                    cells + &value.map_or_else(|| " - |".into(), |n| format!(" {n} |"))
                }),
            };
            match rows.iter_mut().find(|r| (&r.name, &r.cells) == (&name, &cells)) {
                Some(row) => row.drivers.push(driver.clone()),
                None => rows.push(Row { name, shape, cells, drivers: vec![driver.clone()] }),
            }
        }
    }
    // Stable, so the drivers of one kernel stay in their order.
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let titles: Vec<&str> = COLUMNS.iter().map(|c| c.title).collect();
    let mut text = format!(
        "| kernel | workgroup x rows | {} | drivers |\n|{}\n",
        titles.join(" | "),
        " --- |".repeat(COLUMNS.len() + 3)
    );
    for row in rows {
        let drivers: Vec<&str> = row.drivers.iter().map(|d| d.trim_start_matches("radv-shim:")).collect();
        let _ = writeln!(text, "| `{}` | {} |{} {} |", row.name, row.shape, row.cells, drivers.join(", "));
    }
    Ok(text)
}
