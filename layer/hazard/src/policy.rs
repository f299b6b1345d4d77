//! The policies: which barriers a layer or an engine lets through. docs/semantics.md defines each word.

use crate::whole::Freedom;
use std::fmt;
use std::str::FromStr;

/// What is emitted of the barriers that an application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Exactly what was asked.
    Stock,
    /// What was asked, and a full barrier after every dispatch.
    Every,
    /// Deferred barriers, emitted only when a required pair forces one.
    AliasOnly,
    /// As `AliasOnly`, decided when the command buffer ends: the places and masks that the pairs need and no more.
    Narrow,
    /// As `Narrow`, after moving operations within what the application left free.
    Reorder,
    /// No barrier at all. Wrong by design: the ceiling of what could be won.
    None,
}

impl Policy {
    /// All policies, in the order in which they are shown.
    pub const ALL: [Policy; 6] =
        [Policy::Stock, Policy::Every, Policy::AliasOnly, Policy::Narrow, Policy::Reorder, Policy::None];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Stock => "stock",
            Policy::Every => "every",
            Policy::AliasOnly => "alias-only",
            Policy::Narrow => "narrow",
            Policy::Reorder => "reorder",
            Policy::None => "none",
        }
    }

    /// One line for `--help` and tables.
    pub fn about(self) -> &'static str {
        match self {
            Policy::Stock => "exactly the barriers that the application asked for",
            Policy::Every => "what was asked, and a full barrier after every dispatch",
            Policy::AliasOnly => "only barriers that order two accesses to the same bytes",
            Policy::Narrow => {
                "as alias-only, with the stages and access flags that those accesses need and no others"
            }
            Policy::Reorder => "as narrow, after moving what the application left free to move",
            Policy::None => "no barrier at all: incorrect by design, the ceiling of what could be won",
        }
    }

    /// How operations may move where this policy decides only when a stretch of recording has ended; `None` where it
    /// decides while the application records.
    pub fn freedom(self) -> Option<Freedom> {
        match self {
            Policy::Narrow => Some(Freedom::InOrder),
            Policy::Reorder => Some(Freedom::AnyOrder),
            Policy::Stock | Policy::Every | Policy::AliasOnly | Policy::None => None,
        }
    }

    /// Whether an application that was correct stays correct.
    pub fn is_correct(self) -> bool {
        self != Policy::None
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A policy name that does not exist; its message lists those that do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown policy '{}'; the policies are ", self.0)?;
        for (i, policy) in Policy::ALL.iter().enumerate() {
            write!(f, "{}{policy}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(s: &str) -> Result<Policy, UnknownPolicy> {
        Policy::ALL.into_iter().find(|p| p.name() == s).ok_or_else(|| UnknownPolicy(s.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_a_wrong_one_lists_the_right_ones() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse::<Policy>(), Ok(policy));
        }
        let message = "alias".parse::<Policy>().unwrap_err().to_string();
        assert!(
            message.contains("'alias'") && Policy::ALL.iter().all(|p| message.contains(p.name())),
            "{message}"
        );
    }
}
