//! What was run so far, kept such that a crash of the machine loses at most the run in flight.
//!
//! A report is a summary and cannot be continued; this is the record behind it. Each run that ends appends one line to
//! `runs.jsonl`, which is then forced to the disk. The first line says of which sweep the runs are: everything that
//! decides which runs there are and what they give. `--resume` takes a run from the record instead of making it only
//! where that agrees, and the decisions that depend on results (further rounds, drops) come out as they did.
//!
//! A line that was cut off, by a full disk or a power cut, is no run.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::SweepError;
use crate::outcome::{Observation, Outcome};
use crate::plan::RunSpec;

/// The file's name in the report's folder.
pub const NAME: &str = "runs.jsonl";

/// The version of the file; another one is not continued.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Line {
    /// Which run: the number of its target, and its specification.
    run: String,
    start_s: f64,
    wall: Duration,
    outcome: Outcome,
}

/// A run of the record.
#[derive(Debug)]
pub struct Kept {
    /// The run.
    pub observation: Observation,
    /// When it began: seconds since the sweep did.
    pub start_s: f64,
}

/// The record of a sweep.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    kept: HashMap<String, VecDeque<(f64, Duration, Outcome)>>,
    /// Runs that the record held when it was opened.
    pub resumed: usize,
    /// When the last of them ended: seconds since the sweep began.
    pub end_s: f64,
    /// When the sweep began, seconds since 1970.
    pub began_unix_s: u64,
}

impl Journal {
    /// Begins a record in `folder`, or with `resume` goes on with the one that is there. `sweep` is everything that
    /// decides what is run, by name.
    ///
    /// # Errors
    ///
    /// [`SweepError::Usage`] naming what differs, when the record is of another sweep; [`SweepError::Output`] when it
    /// cannot be read or written.
    pub fn open(
        folder: &Path,
        sweep: &Map<String, Value>,
        resume: bool,
        now: u64,
    ) -> Result<Journal, SweepError> {
        let path = folder.join(NAME);
        let failed = |source| SweepError::Output { path: path.clone(), source };
        let text = match std::fs::read(&path) {
            // What is not text begins where a write was cut off.
            Ok(bytes) if resume => {
                let good = std::str::from_utf8(&bytes).map_or_else(|e| e.valid_up_to(), |_| bytes.len());
                String::from_utf8_lossy(&bytes[..good]).into_owned()
            }
            Err(error) if resume && error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            Ok(_) | Err(_) => String::new(),
        };
        // What has no line feed was cut off.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let head = lines.next().and_then(|line| serde_json::from_str::<Value>(line).ok());
        let began_unix_s = head.as_ref().and_then(|h| h["began_unix_s"].as_u64()).unwrap_or(now);
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(&path).map_err(failed)?;
        if head.is_none() && whole > 0 {
            let why = "--resume: the first line is not of a record of runs; give another --out";
            return Err(SweepError::Usage(format!("'{}': {why}", path.display())));
        }
        if let Some(head) = &head {
            agrees(head, sweep).map_err(|why| {
                SweepError::Usage(format!("--resume: '{}' {why}; give another --out", path.display()))
            })?;
        }
        // What was cut off goes; without a first line that is all.
        let kept = if head.is_some() { whole as u64 } else { 0 };
        file.set_len(kept).map_err(failed)?;
        let mut journal =
            Journal { path: path.clone(), file, kept: HashMap::new(), resumed: 0, end_s: 0.0, began_unix_s };
        for line in lines {
            let Ok(line) = serde_json::from_str::<Line>(line) else { continue };
            journal.resumed += 1;
            journal.end_s = journal.end_s.max(line.start_s + line.wall.as_secs_f64());
            journal.kept.entry(line.run).or_default().push_back((line.start_s, line.wall, line.outcome));
        }
        journal.file.seek(SeekFrom::End(0)).map_err(failed)?;
        if kept == 0 {
            let head = json!({"runs": VERSION, "began_unix_s": began_unix_s, "sweep": sweep});
            journal.write(&format!("{head}\n"))?;
        }
        Ok(journal)
    }

    /// The run of the record, if it has it.
    pub fn take(&mut self, target: usize, spec: &RunSpec) -> Option<Kept> {
        let (start_s, wall, outcome) = self.kept.get_mut(&name(target, spec))?.pop_front()?;
        Some(Kept { observation: Observation { spec: *spec, outcome, wall }, start_s })
    }

    /// Keeps a run; when this returns it is on the disk.
    ///
    /// # Errors
    ///
    /// [`SweepError::Output`] naming the file.
    pub fn add(&mut self, target: usize, observation: &Observation, start_s: f64) -> Result<(), SweepError> {
        let line = Line {
            run: name(target, &observation.spec),
            start_s,
            wall: observation.wall,
            outcome: observation.outcome.clone(),
        };
        let text = serde_json::to_string(&line).map_err(|e| self.failed(e.into()))?;
        self.write(&format!("{text}\n"))
    }

    fn write(&mut self, text: &str) -> Result<(), SweepError> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|e| self.failed(e))
    }

    fn failed(&self, source: std::io::Error) -> SweepError {
        SweepError::Output { path: self.path.clone(), source }
    }
}

/// A specification in words that tell any two apart.
fn name(target: usize, spec: &RunSpec) -> String {
    format!("{target} {spec:?}")
}

/// Whether a record's first line is of `sweep`.
fn agrees(head: &Value, sweep: &Map<String, Value>) -> Result<(), String> {
    if head["runs"] != json!(VERSION) {
        return Err("is no record of runs that this program can continue".into());
    }
    let empty = Map::new();
    let known = head["sweep"].as_object().unwrap_or(&empty);
    let mut differing: Vec<&str> = known
        .keys()
        .chain(sweep.keys())
        .map(String::as_str)
        .filter(|key| known.get(*key) != sweep.get(*key))
        .collect();
    differing.sort_unstable();
    differing.dedup();
    match differing[..] {
        [] => Ok(()),
        _ => Err(format!("is of a sweep with other {}", differing.join(", "))),
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
