//! Results that compare levers and sizes: `engine ladder` and `engine micro`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::{Decode, SCHEMA};
use super::{Device, Model, Spread};

/// One rung of `engine ladder`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LadderRung {
    /// Its name.
    pub name: String,
    /// The options of `engine bench` that it is.
    pub options: String,
    /// vkCmdDispatch calls in one token's command buffers.
    pub dispatches: u64,
    /// vkCmdPipelineBarrier calls there.
    pub barriers: u64,
    /// vkQueueSubmit calls for one token; less than one where many tokens are submitted at once.
    pub submits: f64,
    /// As [`Decode::cpu_us_per_token`], of the last repetition.
    pub cpu_us: f64,
    /// A token on the device's own clock, microseconds; `null` where a token is not one submission of one recording.
    pub gpu_us: Option<f64>,
    /// Tokens a second.
    pub tok_s: Option<Spread>,
    /// That over the first rung's, formed within each repetition.
    pub ratio: Option<Spread>,
    /// BLAKE3 of the logits of a greedy text of 16 tokens; `null` where kernels compute nothing.
    pub digest: Option<String>,
    /// As [`Decode::attention`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<String>,
    /// Why this device can't have it.
    pub failed: Option<String>,
}

/// Result of `engine ladder`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `ladder`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// The device.
    pub device: Device,
    /// The weights.
    pub model: Model,
    /// Tokens in the sequence before the clock starts.
    pub depth: u64,
    /// Tokens timed in each repetition.
    pub tokens: u64,
    /// In the order in which they were measured.
    pub rungs: Vec<LadderRung>,
}

/// One kind of step in `engine micro`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MicroRow {
    /// What it computes, such as `ffn_down`.
    pub step: String,
    /// Workgroups and their size.
    pub shape: String,
    /// How many of them a token has.
    pub count: u64,
    /// One of them, microseconds, launch and barrier included.
    pub us: Spread,
    /// Bytes of weights and of keys and values that one of them reads.
    pub bytes: u64,
    /// The unfused steps that it stands for, microseconds together, where there are such.
    pub parts_us: Option<f64>,
    /// What the driver says of its kernel, by the driver's own names; `null` where it does not tell.
    #[serde(default)]
    pub driver: Option<BTreeMap<String, u64>>,
}

/// All kinds of steps with one tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MicroTuning {
    /// As it was asked for; empty for the device's own.
    pub tuning: String,
    /// One row for each kind of step.
    pub rows: Vec<MicroRow>,
    /// All steps of a token in their order, microseconds.
    pub token_us: f64,
}

/// Result of `engine micro`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Micro {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `micro`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// The device.
    pub device: Device,
    /// The weights.
    pub model: Model,
    /// Tokens in the sequence.
    pub depth: u64,
    /// Bytes a second that a kernel reads which does nothing else.
    pub peak_bytes_s: f64,
    /// One for each tuning.
    pub tunings: Vec<MicroTuning>,
}
