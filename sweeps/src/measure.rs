//! What is read off an application's output: a metric, and what must not change.
//!
//! An application prints for people. So the owner says with regular expressions which number is the rate, which lines
//! change from run to run whatever happens (times, dates, paths), and which number stands for the result where equality
//! is too much to ask. Programs that write their log from a thread of its own lose blanks and line ends as they exit, so
//! these are no part of what is compared.

use std::fmt;
use std::str::FromStr;

use regex::Regex;

use crate::application::Application;

/// A regular expression of the owner's.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        // A line is what people mean by ^ and $.
        let regex = regex::RegexBuilder::new(text).multi_line(true).build();
        let regex = regex.map_err(|e| format!("'{text}' is not a regular expression: {e}"))?;
        Ok(Pattern(regex))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Pattern {
    /// The name of its first named group.
    pub fn name(&self) -> Option<&str> {
        self.0.capture_names().flatten().next()
    }

    /// The number that it finds: in its first named group, or else its first group, or else the whole of what it finds.
    /// Where it finds several, their median, so that a program that prints its rate every second has one.
    ///
    /// # Errors
    ///
    /// In words, when it finds nothing or something that is no number.
    pub fn number(&self, text: &str) -> Result<f64, String> {
        let mut numbers = Vec::new();
        for found in self.0.captures_iter(text) {
            let group = self.name().map_or_else(|| found.get(1), |name| found.name(name)).or(found.get(0));
            let word = group.map_or("", |g| g.as_str()).trim();
            let number: f64 =
                word.parse().map_err(|_| format!("'{self}' finds '{word}', which is not a number"))?;
            numbers.push(number);
        }
        numbers.sort_by(f64::total_cmp);
        let n = numbers.len();
        if n == 0 {
            return Err(format!("'{self}' is nowhere in what it printed"));
        }
        Ok((numbers[(n - 1) / 2] + numbers[n / 2]) / 2.0)
    }
}

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
        command: Box<Application>,
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

    /// Digest of an output without the lines that are left out, and without the blanks at its end.
    pub fn digest(&self, output: &str) -> String {
        let kept = output.lines().filter(|line| !self.ignore.iter().any(|pattern| pattern.0.is_match(line)));
        let mut text = String::with_capacity(output.len());
        for line in kept {
            text.push_str(line);
            text.push('\n');
        }
        blake3::hash(text.trim_end().as_bytes()).to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(pattern: &str, text: &str) -> Result<f64, String> {
        pattern.parse::<Pattern>().unwrap().number(text)
    }

    #[test]
    fn a_number_comes_from_the_named_group_or_the_first_or_all_that_is_found() {
        assert_eq!(number(r"(tg|pp)\S* (?<tok_s>[\d.]+)", "tg128 35.5 t/s"), Ok(35.5));
        assert_eq!(number(r"took ([\d.]+) s", "it took 7.25 s"), Ok(7.25));
        assert_eq!(number(r"[\d.]+", "12.5"), Ok(12.5));
        assert_eq!(number(r"^fps: (.*)$", "x\nfps: 60\nfps: 90\nfps: 61\n"), Ok(61.0));
    }

    #[test]
    fn what_is_not_found_or_no_number_is_said() {
        assert!(number("x=(.*)", "y=1").unwrap_err().contains("nowhere"));
        assert!(number("x=(.*)", "x=fast").unwrap_err().contains("'fast'"));
        assert!("(".parse::<Pattern>().unwrap_err().contains("regular expression"));
    }

    #[test]
    fn lines_that_are_ignored_and_blanks_at_the_end_do_not_count() {
        let measure = Measure { ignore: vec!["^took ".parse().unwrap()], ..Measure::default() };
        let same = |a: &str, b: &str| measure.digest(a) == measure.digest(b);
        assert!(same("a\ntook 1 s\nb\n", "a\ntook 2 s\nb"));
        assert!(same("a\n\n ", "a"));
        assert!(!same("a\nb", "a\nc") && !same("a\nb", "b\na") && !same("", "a"));
    }

    #[test]
    fn a_metric_is_called_as_its_group_is() {
        let named = |pattern: &str| Measure { metric: Some(pattern.parse().unwrap()), ..Measure::default() };
        assert_eq!(named(r"(?<tok_s>\d+)").name(), "tok_s");
        assert_eq!(named(r"(\d+)").name(), "metric");
        assert_eq!(Measure::default().name(), "wall seconds");
    }
}
