//! The order in which operations are issued, and its words.

use std::fmt;
use std::str::FromStr;

use crate::number;

/// The order in which operations are issued wherever the emitted barriers leave it free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shuffle {
    /// As recorded.
    #[default]
    Off,
    /// Last first.
    Reverse,
    /// Permuted by a generator that starts from this seed.
    Seed(u64),
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shuffle::Off => f.pad("off"),
            Shuffle::Reverse => f.pad("reverse"),
            Shuffle::Seed(seed) => f.pad(&seed.to_string()),
        }
    }
}

/// A word that is no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a shuffle is off, reverse, or a seed from 0 to 18446744073709551615")]
pub struct UnknownShuffle;

impl FromStr for Shuffle {
    type Err = UnknownShuffle;

    fn from_str(s: &str) -> Result<Shuffle, UnknownShuffle> {
        match s {
            "off" => Ok(Shuffle::Off),
            "reverse" => Ok(Shuffle::Reverse),
            _ => number(s).map(Shuffle::Seed).ok_or(UnknownShuffle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_print_as_they_are_typed() {
        for text in ["off", "reverse", "0", "42"] {
            assert_eq!(text.parse::<Shuffle>().unwrap().to_string(), text);
        }
    }
}
