//! The score of a prediction, as a part of a report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::difference::Interval;

/// One policy of one model: what was said, and what came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scored {
    /// The model.
    pub model: String,
    /// The policy.
    pub policy: String,
    /// The rate that was predicted, as a ratio to `stock`'s.
    pub predicted: Interval,
    /// The rate that was measured.
    pub measured: Interval,
    /// By how much the prediction is too high, as a share: 0.05 is 5%.
    pub error: f64,
    /// The same of the prediction that nothing changes.
    pub error_of_no_change: f64,
    /// Whether the two intervals have something in common.
    pub intervals_meet: bool,
    /// Barriers that reached the driver for a token: predicted, and counted.
    pub emitted: (f64, Option<f64>),
    /// Whether the arm may be compared at all: an incorrect one computes something else.
    pub correct: bool,
}

/// The score of a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionScore {
    /// Seconds that lie between the prediction and the run.
    pub seconds_before: u64,
    /// Each policy that both have.
    pub policies: Vec<Scored>,
    /// What is to be known beside it, in sentences.
    pub notes: Vec<String>,
}
