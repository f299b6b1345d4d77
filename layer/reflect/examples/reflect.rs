//! Prints what the entry points of SPIR-V files read and write.
//!
//! `cargo run -p zinc-reflect --example reflect -- [--summary] FILE.spv ...`; with `--summary` one line of totals and
//! the reasons for which something is unknown. Exits with 1 when a file can't be read.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use zinc_reflect::{Direction, EntryPoint, Module, reflect};

fn main() -> ExitCode {
    let (options, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let summary = options.iter().any(|option| option == "--summary");
    if files.is_empty() || options.iter().any(|option| option != "--summary") {
        eprintln!("usage: reflect [--summary] FILE.spv ...");
        return ExitCode::from(2);
    }
    let mut totals = Totals::default();
    let mut failed = false;
    for file in &files {
        match load(file) {
            Ok(module) => {
                for entry in &module.entry_points {
                    totals.add(entry);
                    if !summary {
                        print(file, entry);
                    }
                }
            }
            Err(error) => {
                eprintln!("{file}: {error}");
                failed = true;
            }
        }
    }
    if summary {
        totals.print();
    }
    ExitCode::from(u8::from(failed))
}

fn load(file: &str) -> Result<Module, String> {
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    if bytes.len() % 4 != 0 {
        return Err(format!("{} bytes are no whole number of words", bytes.len()));
    }
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    reflect(&words).map_err(|error| error.to_string())
}

fn print(file: &str, entry: &EntryPoint) {
    println!("{file}: {} ({:?})", entry.name, entry.stage);
    if let Some(reason) = &entry.unknown {
        println!("  unknown because of {reason}");
    }
    for b in &entry.bindings {
        let stopped = b.stopped_by.as_deref().map(|by| format!("  stopped by {by}")).unwrap_or_default();
        let place = format!("{}.{}", b.set, b.binding);
        let (class, count, elements) =
            (format!("{:?}", b.class), format!("{:?}", b.count), format!("{:?}", b.elements));
        println!("  {place:<6} {class:<22} {count:<10} {:<6} {elements}{stopped}", b.direction);
    }
    println!("  addresses {}, synchronising {}", entry.addresses, entry.synchronising);
}

#[derive(Default)]
struct Totals {
    entry_points: usize,
    bindings: usize,
    unresolved: usize,
    synchronising: usize,
    directions: BTreeMap<&'static str, usize>,
    addresses: BTreeMap<String, usize>,
    reasons: BTreeMap<String, usize>,
}

impl Totals {
    fn add(&mut self, entry: &EntryPoint) {
        self.entry_points += 1;
        self.synchronising += usize::from(entry.synchronising);
        *self.addresses.entry(entry.addresses.to_string()).or_default() += 1;
        for binding in &entry.bindings {
            self.bindings += 1;
            if let Some(reason) = &binding.stopped_by {
                self.unresolved += 1;
                *self.reasons.entry(reason.clone()).or_default() += 1;
                continue;
            }
            let direction = match binding.direction {
                Direction::NONE => "none",
                Direction::READ => "read",
                Direction::WRITE => "write",
                _ => "both",
            };
            *self.directions.entry(direction).or_default() += 1;
        }
    }

    fn print(&self) {
        let share = 100.0 * (self.bindings - self.unresolved) as f64 / self.bindings.max(1) as f64;
        println!("{} entry points, {} bindings, {share:.2}% resolved", self.entry_points, self.bindings);
        println!("directions {:?}, addresses {:?}", self.directions, self.addresses);
        println!("synchronising {}, unresolved because of {:?}", self.synchronising, self.reasons);
    }
}
