//! Regular expressions of the owner's, and the numbers that they find.

use std::fmt;
use std::str::FromStr;

use regex::Regex;

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
}
