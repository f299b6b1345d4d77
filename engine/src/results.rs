//! What the engine says about a run, as data.
//!
//! Every command builds one of these values; `--json` prints it as a single JSON object on standard output, and the
//! table for people is made from the same value, so the two cannot disagree. Other programs (the sweep among them)
//! read these types back, which is why they derive both directions, tolerate fields that they do not know, and carry
//! a `schema` number: it grows when a field changes its meaning or goes away, never when one is added.
//!
//! Four rules hold for every field. Rates come with the name of the device that made them. What was not measured is
//! `null`, never zero. A count is *per token* only when it was the same for every token of the run. And a number that a
//! broken run made infinite or undefined is `null` in JSON, which has no such numbers, and reads back as NaN: a
//! document of a broken run must still be readable.

use serde::{Deserialize, Serialize};

use crate::profile::fit::Fit;
use crate::profile::segments::Segments;

mod levers;

pub use levers::{Ladder, LadderRung, Micro, MicroRow, MicroTuning};

/// Version of every document in this module.
pub const SCHEMA: u32 = 1;

/// Numbers that a broken run can make infinite or undefined.
mod finite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

/// The Vulkan device that did the work, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Position in the order in which the loader enumerates devices: what `--device INDEX` takes.
    pub index: u32,
    /// `VkPhysicalDeviceProperties::deviceName`.
    pub name: String,
    /// `VkPhysicalDeviceDriverProperties::driverName`, a space, and `driverInfo`.
    pub driver: String,
    /// `driverVersion` decoded the way its vendor packs it, else as `major.minor.patch` of the Vulkan packing.
    pub driver_version: String,
    /// The highest Vulkan version that the device supports, `major.minor.patch`.
    pub api_version: String,
    /// One of `cpu`, `integrated-gpu`, `discrete-gpu`, `virtual-gpu`, `other`.
    pub kind: DeviceKind,
}

/// `VkPhysicalDeviceType`, spelled for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A software rasteriser such as lavapipe: correct, and no measure of any GPU's speed.
    Cpu,
    /// Shares memory with the host.
    IntegratedGpu,
    /// Has memory of its own.
    DiscreteGpu,
    /// A GPU seen through a virtual machine.
    VirtualGpu,
    /// The driver says none of the above.
    Other,
}

impl DeviceKind {
    /// Whether the device is some kind of GPU; `Other` is not counted as one.
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::IntegratedGpu | Self::DiscreteGpu | Self::VirtualGpu)
    }
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::IntegratedGpu => "integrated-gpu",
            Self::DiscreteGpu => "discrete-gpu",
            Self::VirtualGpu => "virtual-gpu",
            Self::Other => "other",
        })
    }
}

/// Which weights were used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// `general.name` of the GGUF, or its file name.
    pub name: String,
    /// `embedded`, or the path as it was given.
    pub source: String,
    /// BLAKE3 of the GGUF's bytes, in hexadecimal.
    pub blake3: String,
    /// `general.architecture`.
    pub architecture: String,
    /// Number of weights, a tied output head counted once.
    pub parameters: u64,
    /// Size of the GGUF in bytes.
    pub bytes: u64,
}

/// How a run of single-token decode steps went. Counts are of what was *recorded* for one token by the engine; a
/// layer below may emit fewer barriers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decode {
    /// Decode steps taken.
    pub tokens: u64,
    /// Wall time of all of them: recording, submission, waiting, reading the logits back. Not model loading, not
    /// hashing or scoring.
    pub seconds: f64,
    /// `tokens / seconds`.
    pub tok_s: f64,
    /// vkCmdDispatch calls in one token's command buffers.
    pub dispatches_per_token: u64,
    /// vkCmdPipelineBarrier calls in one token's command buffers.
    pub barriers_per_token: u64,
    /// vkQueueSubmit calls for one token.
    pub submits_per_token: u64,
    /// CPU time of the calling thread to record and submit one token, microseconds. On a CPU device the compute
    /// itself runs on other threads and is not in here.
    pub cpu_us_per_token: f64,
    /// Time on the device's own clock, microseconds; `null` when it was not measured (timestamps order work, so they
    /// are never taken by default).
    pub gpu_us_per_token: Option<f64>,
    /// The cooperative matrices that attention was computed on, such as `16x8x16`; none for float arithmetic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<String>,
}

/// A value with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    #[serde(with = "finite")]
    pub value: f64,
    /// Its standard error.
    #[serde(with = "finite")]
    pub stderr: f64,
}

/// Which path computed the logits of a perplexity run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// One token a step through the decode path, on the device.
    Decode,
    /// The plain CPU reference: no Vulkan at all.
    Reference,
}

/// Result of `engine perplexity`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Perplexity {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `perplexity`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// The device; `null` with `--via reference`.
    pub device: Option<Device>,
    /// The weights.
    pub model: Model,
    /// Which path computed the logits.
    pub via: Via,
    /// Chunk length in tokens.
    pub ctx: u64,
    /// Tokens fed: whole chunks.
    pub tokens: u64,
    /// Tokens whose probability was scored: the second half of each chunk.
    pub scored: u64,
    /// Bytes of text that the scored tokens stand for.
    pub bytes: u64,
    /// Mean negative log-likelihood, nats per scored token.
    #[serde(with = "finite")]
    pub nll: f64,
    /// `exp(nll)` and its error, as llama.cpp's perplexity tool defines both.
    pub perplexity: Estimate,
    /// `exp` of nats per *byte* of scored text: comparable between tokenizers.
    #[serde(with = "finite")]
    pub per_byte: f64,
    /// BLAKE3 over the little-endian f32 bits of every logit vector of every step, in order, hexadecimal.
    pub logits_digest: String,
    /// The same for each chunk by itself, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_digests: Option<Vec<String>>,
    /// How the decode went; `null` with `--via reference`.
    pub decode: Option<Decode>,
    /// The batches that the text went in, with `--prompt-batch`; `decode` then has the rate and no counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<Batches>,
}

/// Result of `engine run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `run`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// The device.
    pub device: Device,
    /// The weights.
    pub model: Model,
    /// Token ids of the prompt, a leading control token included where the model asks for one.
    pub prompt_tokens: Vec<u32>,
    /// Token ids generated, the end token included if one came.
    pub tokens: Vec<u32>,
    /// The generated text (without the prompt); bytes that are not UTF-8 are replaced here, never in `tokens`.
    pub text: String,
    /// What each of `tokens` stands for; bytes that are not UTF-8 are replaced.
    #[serde(default)]
    pub pieces: Vec<String>,
    /// By how much the largest logit exceeded the second when each of `tokens` was chosen: a small margin is a near tie.
    /// `null` where a logit was undefined.
    #[serde(default)]
    pub margins: Vec<Option<f64>>,
    /// `length`, `end-of-text` or `context-full`.
    pub stopped: String,
    /// As in [`Perplexity::logits_digest`], over the steps of prompt and generation (of a prompt in batches: of its
    /// last token).
    pub logits_digest: String,
    /// How prompt and generation together went, counted for a single token; with `--prompt-batch` the prompt took batches.
    pub decode: Decode,
}

/// Repeated measurements of one quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one (the mean of the middle two, if their number is even).
    pub median: f64,
    /// The least.
    pub lo: f64,
    /// The greatest.
    pub hi: f64,
    /// How many there were.
    pub n: u64,
}

impl Spread {
    /// Sums up measurements; `None` if there are none, or if one is not a number.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        if sorted.iter().any(|v| v.is_nan()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let (lo, hi) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, lo, hi, n: sorted.len() as u64 })
    }
}

/// Result of `engine bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `bench`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// The device.
    pub device: Device,
    /// The weights.
    pub model: Model,
    /// Tokens in the sequence before the first timed step.
    pub depth: u64,
    /// Timed steps of each repetition.
    pub tokens: u64,
    /// Decode rate of each repetition, tokens per second.
    pub tok_s: Spread,
    /// Bytes that one token must read: every weight that it meets once, and the keys and values at the mean depth of
    /// the timed steps. What a device streams per second beyond `bytes_per_token * tok_s` went elsewhere.
    pub bytes_per_token: u64,
    /// All timed steps of all repetitions together.
    pub decode: Decode,
    /// How fast a prompt goes, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptRate>,
}

/// The rate of a prompt in `engine bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptRate {
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Tokens of the prompt per second, of each repetition: from an empty sequence to the last token's logits.
    pub tok_s: Spread,
    /// The batches that it went in; none for token by token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<Batches>,
    /// Where the device's time goes in one prompt, with `--gpu-time`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PromptStep>,
}

/// How a prompt is computed in batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batches {
    /// Most tokens that are computed at once.
    pub tokens: u64,
    /// vkCmdDispatch calls in a batch's command buffers.
    pub dispatches: u64,
    /// vkCmdPipelineBarrier calls in them.
    pub barriers: u64,
    /// What their products are computed with, and why.
    pub matrices: String,
}

/// One kind of step of a prompt, over all layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptStep {
    /// What it computes, such as `ffn_down`.
    pub step: String,
    /// How often.
    pub count: u64,
    /// Microseconds on the device's clock, of all of them together.
    pub us: f64,
}

/// One kind of step of a token in `engine profile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    /// What it computes, such as `ffn_down`.
    pub step: String,
    /// The kernel, or `copy`.
    pub kernel: String,
    /// Workgroups and their size.
    pub shape: String,
    /// How often a token has it.
    pub count: u64,
    /// Time of all of them, microseconds.
    pub us: f64,
    /// Bytes of weights that one of them reads.
    pub weight_bytes: u64,
}

/// Result of `engine profile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `profile`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// The device.
    pub device: Device,
    /// The weights.
    pub model: Model,
    /// Tokens in the sequence before the first timed step.
    pub depth: u64,
    /// A token on the device's clock, microseconds, median; stamped at its beginning and end only.
    pub token_us: f64,
    /// The same with two stamps around every step of one token.
    pub all_stamps_token_us: f64,
    /// Each how many'th step of a token had stamps of those that rows and segments come from: 1 all.
    pub stamp_every: u32,
    /// Such a token on the device's clock.
    pub stamped_token_us: f64,
    /// Sum of the steps' medians, without what lies between them.
    pub steps_us: f64,
    /// A token on the host's clock, microseconds, mean, without stamps.
    pub wall_us: f64,
    /// The same with the stamps of `stamp_every`, read after the token.
    pub stamped_wall_us: f64,
    /// The stamped token by what it is spent on; sums to `stamped_wall_us`.
    pub segments: Segments,
    /// By how much the segments' sum exceeds `wall_us`, percent.
    pub difference_percent: f64,
    /// Part of a stamped token in which the device is idle.
    pub gpu_idle: f64,
    /// Part of a stamped token in which the host waits for the device.
    pub cpu_waits: f64,
    /// Time against bytes of weights, over the steps that multiply by a matrix; none where all are of one size.
    pub fit: Option<Fit>,
    /// One row for each kind of step.
    pub rows: Vec<ProfileRow>,
}

/// One shape of one kernel, checked against the CPU reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpsCase {
    /// Name of the kernel.
    pub kernel: String,
    /// The shape, as `name=value` pairs.
    pub shape: String,
    /// Whether it agreed within its tolerance.
    pub passed: bool,
    /// Largest `|gpu - cpu| / tolerance` over the outputs: at most 1 when it passed.
    #[serde(with = "finite")]
    pub worst: f64,
    /// What went wrong, if anything.
    pub detail: Option<String>,
}

/// Result of `engine ops`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ops {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `ops`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// The device.
    pub device: Device,
    /// Cases that agreed.
    pub passed: u64,
    /// Cases run.
    pub total: u64,
    /// Controls that were caught: the same comparison with one input perturbed on purpose must fail.
    pub controls_caught: u64,
    /// Controls run.
    pub controls: u64,
    /// Every case, controls left out.
    pub cases: Vec<OpsCase>,
}

/// What `engine info` tells about a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Identity and size.
    #[serde(flatten)]
    pub model: Model,
    /// Layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub embedding: u64,
    /// Width of the feed-forward hidden layer.
    pub feed_forward: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of one head.
    pub head_dim: u64,
    /// Vocabulary size.
    pub vocabulary: u64,
    /// The context length that the model was trained for.
    pub context: u64,
    /// `tokenizer.ggml.model`.
    pub tokenizer: String,
    /// Tensor type to number of tensors of that type.
    pub tensor_types: std::collections::BTreeMap<String, u64>,
    /// The tokens at which generation ends.
    #[serde(default)]
    pub end_tokens: Vec<u64>,
    /// Why `run` and the other commands that need text refuse the model; `null` when they do not.
    #[serde(default)]
    pub unusable: Option<String>,
}

/// A device in the list of `engine info`, and whether the engine can run on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Identity.
    #[serde(flatten)]
    pub device: Device,
    /// Why the engine cannot use it; `null` when it can.
    pub unusable: Option<String>,
}

/// Result of `engine info`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `info`.
    pub command: String,
    /// Version of this engine.
    pub engine_version: String,
    /// Every device that the loader shows, in its order; empty when there is none.
    pub devices: Vec<DeviceInfo>,
    /// Why `devices` is empty, if the loader or its drivers could not be used at all.
    pub vulkan_error: Option<String>,
    /// The model named by `--model`, or the embedded one.
    pub model: Option<ModelInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_spelled_the_same_in_json_and_in_tables() {
        for kind in [
            DeviceKind::Cpu,
            DeviceKind::IntegratedGpu,
            DeviceKind::DiscreteGpu,
            DeviceKind::VirtualGpu,
            DeviceKind::Other,
        ] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
    }

    #[test]
    fn an_undefined_number_is_null_and_reads_back_as_undefined() {
        let json = serde_json::to_string(&Estimate { value: f64::NAN, stderr: f64::INFINITY }).unwrap();
        assert_eq!(json, r#"{"value":null,"stderr":null}"#);
        let back: Estimate = serde_json::from_str(&json).unwrap();
        assert!(back.value.is_nan() && back.stderr.is_nan());
    }

    #[test]
    fn a_spread_is_the_median_between_the_extremes() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, lo: 1.0, hi: 3.0, n: 3 }));
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!((Spread::of(&[]), Spread::of(&[f64::NAN])), (None, None));
    }

    #[test]
    fn a_reader_tolerates_fields_of_a_later_version() {
        let json = r#"{"value": 2.0, "stderr": 0.5, "added_later": [1]}"#;
        let estimate: Estimate = serde_json::from_str(json).unwrap();
        assert_eq!(estimate, Estimate { value: 2.0, stderr: 0.5 });
    }
}
