//! An application in the engine's place.
//!
//! What a driver makes of barriers, what they cost and whether they are right can be asked of any program. Nothing is
//! known of such a program but what its owner says: which number is its rate, and what must not change (`measure`). On a
//! driver that records without executing there are no results to compare and no rates; there everything per token is a
//! difference between two runs of different length: counts, CPU time, wall time. What the program does once, such as
//! loading a model, cancels out.

use std::ffi::OsString;

use crate::command_line::CommandLine;
use crate::measure::Measure;

/// An application in the engine's place.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Its command.
    pub line: CommandLine,
    /// What it is called in the report, where that is not the program's name.
    pub called: Option<String>,
    /// What is read off its output, where it executes.
    pub measure: Measure,
}

impl Application {
    /// An application of which nothing is known but its command.
    pub fn new(line: CommandLine) -> Application {
        Application { line, called: None, measure: Measure::default() }
    }

    /// Its arguments for a run of so many tokens.
    pub fn arguments(&self, tokens: u64) -> Vec<OsString> {
        self.line.arguments(tokens)
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.called.clone().unwrap_or_else(|| self.line.name())
    }

    /// The whole command for a report that is passed on: of paths, only the last part.
    pub fn shown(&self) -> String {
        self.line.shown()
    }
}
