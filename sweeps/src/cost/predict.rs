//! What each policy should win on a model, written down before any of them is run.
//!
//! The sum is as plain as it looks: a token under `stock`, less what the barriers cost that a policy would not emit, plus
//! what those cost that it would add. It leaves out that independent dispatches behind a dropped barrier may run side by
//! side, that they are slower or faster for it, and what the layer costs the processor. Whether these matter is what
//! scoring shows; a prediction that is never wrong would be of no use.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::Cost;
use super::grid::{Axis, DIRTIED};
use super::scope::Scope;
use super::stream::Stream;
use crate::report::DeviceReport;
use crate::stats::difference::Interval;

/// The version of the document.
pub const SCHEMA_VERSION: u32 = 1;

/// `prediction.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "What barrier policies should win")]
pub struct Prediction {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of the sweep that predicted.
    pub sweep_version: String,
    /// When, seconds since 1970.
    pub made_unix_s: u64,
    /// The device.
    pub device: DeviceReport,
    /// Whether the costs behind it say something about a GPU.
    pub proves_speed: bool,
    /// BLAKE3 of the cost document, of the programs and of the models, hexadecimal, by role.
    pub blake3: BTreeMap<String, String>,
    /// Each model.
    pub models: Vec<OfModel>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfModel {
    /// `embedded`, or the file's name.
    pub model: String,
    /// Tokens of the timed runs.
    pub tokens: u64,
    /// Tokens in a chunk.
    pub ctx: u64,
    /// A token under `stock`, microseconds, measured.
    pub stock_us_per_token: Interval,
    /// Dispatches of a token.
    pub dispatches_per_token: f64,
    /// Bytes of weights by dispatches.
    pub read_bytes_per_dispatch: f64,
    /// Barriers asked for in a token, by sort.
    pub asked_per_token: BTreeMap<Scope, f64>,
    /// What one of them costs here, microseconds, on average.
    pub us_per_asked_barrier: Interval,
    /// What one costs that is added behind another.
    pub us_per_added_barrier: Interval,
    /// Each policy.
    pub policies: Vec<OfPolicy>,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfPolicy {
    /// The policy.
    pub policy: String,
    /// Barriers of a token that it would emit.
    pub emitted_per_token: f64,
    /// Those among them that nobody asked for.
    pub added_per_token: f64,
    /// A token under it, microseconds.
    pub us_per_token: Interval,
    /// Its rate as a ratio to `stock`'s.
    pub ratio: Interval,
    /// Whether the sum came out below what launching alone takes, so that this stands instead.
    pub at_the_floor: bool,
}

impl Prediction {
    /// The document as JSON, with a line feed at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// What `stream` should do under each policy, given what barriers cost. `None` when nothing is known of their cost.
pub fn of_model(cost: &Cost, model: &str, tokens: u64, ctx: u64, stream: &Stream) -> Option<OfModel> {
    let size = stream.read_bytes_per_dispatch;
    let asked: f64 = stream.asked.values().sum();
    let mut weighted = Interval { median: 0.0, lo: 0.0, hi: 0.0, n: u32::MAX };
    for (scope, count) in &stream.asked {
        let share = count / asked;
        let one = cost.at(*scope, size)?;
        weighted = plus(weighted, times(one, share));
    }
    let behind = minus(cost.at(Scope::ShaderThenAll, size)?, cost.at(Scope::Shader, size)?);
    let floor = stream.dispatches * bare(cost, size)?;
    let policies = stream.would.iter().map(|(policy, would)| {
        let fewer = (asked - (would.emitted - would.added)).max(0.0);
        let change = minus(times(behind, would.added), times(weighted, fewer));
        let t = stream.us_per_token;
        let bounded = |t: f64, change: f64| (t + change).max(floor);
        OfPolicy {
            policy: policy.clone(),
            emitted_per_token: would.emitted,
            added_per_token: would.added,
            us_per_token: Interval {
                median: bounded(t.median, change.median),
                lo: bounded(t.lo, change.lo),
                hi: bounded(t.hi, change.hi),
                n: change.n.min(t.n),
            },
            // The token's own scatter is in both sides of the ratio.
            ratio: Interval {
                median: t.median / bounded(t.median, change.median),
                lo: t.median / bounded(t.median, change.hi),
                hi: t.median / bounded(t.median, change.lo),
                n: change.n.min(t.n),
            },
            at_the_floor: t.median + change.median < floor,
        }
    });
    Some(OfModel {
        model: model.into(),
        tokens,
        ctx,
        stock_us_per_token: stream.us_per_token,
        dispatches_per_token: stream.dispatches,
        read_bytes_per_dispatch: size,
        asked_per_token: stream.asked.clone(),
        us_per_asked_barrier: weighted,
        us_per_added_barrier: behind,
        policies: policies.collect(),
    })
}

/// A dispatch of that size without a barrier, microseconds: that of the nearest measured size below, or the smallest.
fn bare(cost: &Cost, read_bytes: f64) -> Option<f64> {
    let plain = |p: &&super::document::Point| {
        p.axis == Axis::Size && p.scope == Scope::None && !p.resident && p.dirtied_bytes == DIRTIED
    };
    let mut sizes: Vec<(u64, f64)> = cost
        .points
        .iter()
        .filter(plain)
        .filter_map(|p| Some((p.read_bytes, p.us_per_dispatch?.median)))
        .collect();
    sizes.sort_by_key(|(size, _)| *size);
    let below = sizes.iter().rev().find(|(size, _)| *size as f64 <= read_bytes);
    below.or(sizes.first()).map(|(_, us)| *us)
}

fn plus(a: Interval, b: Interval) -> Interval {
    Interval { median: a.median + b.median, lo: a.lo + b.lo, hi: a.hi + b.hi, n: a.n.min(b.n) }
}

fn minus(a: Interval, b: Interval) -> Interval {
    Interval { median: a.median - b.median, lo: a.lo - b.hi, hi: a.hi - b.lo, n: a.n.min(b.n) }
}

fn times(a: Interval, by: f64) -> Interval {
    Interval { median: a.median * by, lo: a.lo * by, hi: a.hi * by, n: a.n }
}

#[cfg(test)]
#[path = "predict_tests.rs"]
mod tests;
