//! What is read off an application's output: a metric, and what must not change.
//!
//! An application prints for people. So the owner says with regular expressions which number is the rate, which lines
//! change from run to run whatever happens (times, dates, paths), and which number stands for the result where equality
//! is too much to ask. Programs that write their log from a thread of its own lose blanks and line ends as they exit, so
//! these are no part of what is compared.

use crate::command_line::CommandLine;
use crate::pattern::Pattern;

/// What is compared between runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Compare {
    /// Nothing: then nothing is proved either.
    Nothing,
    /// What the application itself prints.
    Output,
    /// What a second command prints, or a number in it.
    Check {
        /// The command.
        command: CommandLine,
        /// The number; `None` compares the whole output.
        value: Option<Pattern>,
    },
}

/// All that is read off an application's output.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// The metric; `None` is the wall time of the process.
    pub metric: Option<Pattern>,
    /// Lines that are left out before outputs are compared.
    pub ignore: Vec<Pattern>,
    /// What is compared.
    pub compare: Compare,
}

/// What a metric is called that was given no name.
const UNNAMED: &str = "metric";

/// What the metric is called where none was given.
const WALL: &str = "wall seconds";

impl Default for Measure {
    fn default() -> Measure {
        Measure { metric: None, ignore: Vec::new(), compare: Compare::Nothing }
    }
}

impl Measure {
    /// The metric's name: that of its pattern's group.
    pub fn name(&self) -> String {
        match &self.metric {
            None => WALL.into(),
            Some(pattern) => pattern.name().unwrap_or(UNNAMED).into(),
        }
    }

    /// What is compared, in words for a report; `None` where nothing is.
    pub fn shown(&self) -> Option<String> {
        match &self.compare {
            Compare::Nothing => None,
            Compare::Output => Some("its own output".into()),
            Compare::Check { command, value: None } => Some(format!("the output of {}", command.shown())),
            Compare::Check { command, value: Some(value) } => {
                Some(format!("what '{value}' finds in the output of {}", command.shown()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_called_as_its_group_is() {
        let named = |pattern: &str| Measure { metric: Some(pattern.parse().unwrap()), ..Measure::default() };
        assert_eq!(named(r"(?<tok_s>\d+)").name(), "tok_s");
        assert_eq!(named(r"(\d+)").name(), "metric");
        assert_eq!(Measure::default().name(), "wall seconds");
    }
}
