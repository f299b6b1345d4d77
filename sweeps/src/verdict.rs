//! What is said of an arm and of a gate, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a gate said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// No run differed, and the gate is known to notice.
    Pass,
    /// A run differed.
    Fail,
    /// No run differed, and the gate would not have noticed.
    Blind,
    /// Nothing to compare.
    NotRun,
}

/// What became of the single dropped barriers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mutation {
    /// Drops that the gate noticed.
    pub caught: u64,
    /// Drops that were tried and gave numbers.
    pub tried: u64,
    /// The dropped barriers that nothing noticed, counted from 0 in each submission sequence.
    pub survivors: Vec<u64>,
    /// The dropped barriers whose runs gave no numbers: neither caught nor survived.
    pub failed: Vec<u64>,
}

/// What an arm may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// What the others are compared with.
    Reference,
    /// The same numbers, and the gates are known to notice wrong ones.
    Verified,
    /// Other numbers. For the control this is as it must be.
    Refuted,
    /// Not meant to be correct; never ranked.
    IncorrectByDesign,
    /// On a driver that records without executing: counts, and no numbers to compare, for the reference too.
    CountedOnly,
    /// What was executed is the reference's own stream: the policy changed nothing, whatever the rate.
    NoEffect,
    /// The same numbers, but a gate was blind or had nothing to compare.
    Unproven,
    /// Its driver is not here, so nothing was run.
    NotRun,
    /// No numbers: the run crashed, hung, printed garbage, or ran without the layer.
    Failed,
}
