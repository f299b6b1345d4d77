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

    /// Returns true if it is found in a line.
    pub fn finds(&self, line: &str) -> bool {
        self.0.is_match(line)
    }

    /// The number that it finds: in its first named group, or else its first group, or else the whole of what it finds.
    /// A pattern that finds different numbers does not say which of them is meant.
    ///
    /// # Errors
    ///
    /// [`Unread`] when it finds nothing, something that is no number, or several numbers.
    pub fn number(&self, text: &str) -> Result<f64, Unread> {
        let mut numbers: Vec<f64> = Vec::new();
        for found in self.0.captures_iter(text) {
            let group = self.name().map_or_else(|| found.get(1), |name| found.name(name)).or(found.get(0));
            let word = group.map_or("", |g| g.as_str()).trim();
            let number = word
                .parse()
                .map_err(|_| Unread::Wrong(format!("'{self}' finds '{word}', which is not a number")))?;
            numbers.push(number);
        }
        let Some(first) = numbers.first() else {
            return Err(Unread::Nowhere(format!("'{self}' is nowhere in what it printed")));
        };
        match numbers.iter().find(|number| number.total_cmp(first).is_ne()) {
            None => Ok(*first),
            Some(other) => Err(Unread::Wrong(format!(
                "'{self}' is found {} times, with {first} and {other} among the numbers: add words that \
                 stand only at the number that is meant",
                numbers.len()
            ))),
        }
    }

    /// The rate that it finds: a number above zero, since ratios of others say nothing.
    ///
    /// # Errors
    ///
    /// [`Unread`] as of [`Pattern::number`], and when the number is not above zero.
    pub fn rate(&self, text: &str) -> Result<f64, Unread> {
        let rate = self.number(text)?;
        if rate.is_finite() && rate > 0.0 {
            return Ok(rate);
        }
        Err(Unread::Wrong(format!("'{self}' finds {rate}, which is no rate: a rate is a number above zero")))
    }
}

/// Why a pattern gives no number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// It finds nothing, which another run may mend.
    Nowhere(String),
    /// It finds what cannot be taken.
    Wrong(String),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(pattern: &str, text: &str) -> Result<f64, Unread> {
        pattern.parse::<Pattern>().unwrap().number(text)
    }

    fn wrong<T: std::fmt::Debug>(read: Result<T, Unread>) -> String {
        match read {
            Err(Unread::Wrong(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_number_comes_from_the_named_group_or_the_first_or_all_that_is_found() {
        assert_eq!(number(r"(tg|pp)\S* (?<tok_s>[\d.]+)", "tg128 35.5 t/s"), Ok(35.5));
        assert_eq!(number(r"took ([\d.]+) s", "it took 7.25 s"), Ok(7.25));
        assert_eq!(number(r"[\d.]+", "12.5"), Ok(12.5));
    }

    #[test]
    fn several_numbers_are_none_unless_they_are_equal() {
        let printed = "pp512 90.5 t/s\ntg128 12.5 t/s\n";
        let why = wrong(number(r"([\d.]+) t/s", printed));
        assert!(why.contains("2 times") && why.contains("90.5") && why.contains("12.5"), "{why}");
        assert_eq!(number(r"tg128 ([\d.]+) t/s", printed), Ok(12.5));
        assert_eq!(number(r"([\d.]+) t/s", "12.5 t/s\n12.50 t/s\n"), Ok(12.5));
    }

    #[test]
    fn what_is_not_above_zero_is_no_rate_and_may_be_a_value() {
        let rate = |word: &str| r"x=(.*)".parse::<Pattern>().unwrap().rate(&format!("x={word}"));
        for word in ["NaN", "-1.5", "0", "inf", "-0"] {
            assert!(wrong(rate(word)).contains("no rate"), "{word}");
        }
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(number("x=(.*)", "x=-1.5"), Ok(-1.5));
        assert!(number("x=(.*)", "x=NaN").unwrap().is_nan());
    }

    #[test]
    fn what_is_not_found_or_no_number_is_said() {
        assert!(matches!(number("x=(.*)", "y=1"), Err(Unread::Nowhere(why)) if why.contains("nowhere")));
        assert!(wrong(number("x=(.*)", "x=fast")).contains("'fast'"));
        assert!("(".parse::<Pattern>().unwrap_err().contains("regular expression"));
    }

    #[test]
    fn a_metric_is_called_as_its_group_is() {
        let named = |pattern: &str| Measure { metric: Some(pattern.parse().unwrap()), ..Measure::default() };
        assert_eq!(named(r"(?<tok_s>\d+)").name(), "tok_s");
        assert_eq!(named(r"(\d+)").name(), "metric");
        assert_eq!(Measure::default().name(), "wall seconds");
    }
}
