//! The documents that this program writes, by name.

use clap::ValueEnum;

/// A document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// report.json of a sweep.
    Report,
    /// cost.json of `sweep cost`.
    Cost,
    /// prediction.json of `sweep cost --predict`.
    Prediction,
    /// The file of `sweep plan`.
    Plan,
}
