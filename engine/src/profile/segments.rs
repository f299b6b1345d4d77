//! The published segments of a token, measured.
//!
//! Every nanosecond of a token belongs to exactly one segment, so that they sum to it: the device's steps by what they do, what
//! lies between steps to the barriers, what the host does before the device begins to recording, and what it does after
//! the device's end to sampling. A resident kernel is one step that does all of its layers' work; it counts as streaming.

use serde::{Deserialize, Serialize};

use super::{Span, Token};

/// Microseconds of a token by what they are spent on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Segments {
    /// Projections of the layers.
    pub weight_streaming_us: f64,
    /// Attention: writing to the cache and reading it.
    pub kv_read_us: f64,
    /// Every other step of the device.
    pub small_kernels_us: f64,
    /// Between steps.
    pub barrier_bubbles_us: f64,
    /// The last norm, the output projection, the copy of the logits, reading and choosing on the host.
    pub head_and_sampling_us: f64,
    /// From the host's beginning to the device's.
    pub cpu_recording_us: f64,
}

/// The segments' names, in the order in which they are published.
pub const NAMES: [&str; 6] = [
    "weight streaming",
    "KV read",
    "small kernels",
    "barrier bubbles",
    "LM head and sampling",
    "CPU recording",
];

/// The place in [`NAMES`] of what a step of this name does.
pub(super) fn class(name: &str) -> usize {
    let name = name.rsplit('.').next().unwrap_or(name);
    match name {
        "attn_q" | "attn_k" | "attn_v" | "attn_qkv" | "attn_output" | "ffn_gate" | "ffn_up"
        | "ffn_gate_up" | "ffn_down" | "layers" | "prefetch" => 0,
        "attention" | "scores" | "softmax" | "weighted_sum" | "write_k" | "write_v" => 1,
        "best" | "advance" | "read_logits" | "read_failed" => 4,
        name if name.starts_with("output") => 4,
        _ => 2,
    }
}

impl Segments {
    /// Of one token.
    pub fn of(token: &Token) -> Self {
        let mut segments = Self::default();
        for (span, step) in token.gpu.iter().zip(&token.steps) {
            let segment = match step.map(|_| class(&span.name)) {
                Some(0) => &mut segments.weight_streaming_us,
                Some(1) => &mut segments.kv_read_us,
                Some(4) => &mut segments.head_and_sampling_us,
                Some(_) => &mut segments.small_kernels_us,
                None => &mut segments.barrier_bubbles_us,
            };
            *segment += span.length() / 1e3;
        }
        // What the host does after its wait comes after the device's end; all else that the device did not take, before.
        let tail = |span: &&Span| matches!(span.name.as_str(), "host read" | "sampling");
        let after: f64 = token.cpu.iter().filter(tail).map(Span::length).sum();
        segments.head_and_sampling_us += after / 1e3;
        segments.cpu_recording_us = (token.length() - token.on_device() - after) / 1e3;
        segments
    }

    /// The mean of several tokens: unlike medians, means of parts sum to the mean of the whole.
    pub fn mean(all: &[Self]) -> Self {
        let n = all.len().max(1) as f64;
        let mean = |f: fn(&Self) -> f64| all.iter().map(f).sum::<f64>() / n;
        Self {
            weight_streaming_us: mean(|s| s.weight_streaming_us),
            kv_read_us: mean(|s| s.kv_read_us),
            small_kernels_us: mean(|s| s.small_kernels_us),
            barrier_bubbles_us: mean(|s| s.barrier_bubbles_us),
            head_and_sampling_us: mean(|s| s.head_and_sampling_us),
            cpu_recording_us: mean(|s| s.cpu_recording_us),
        }
    }

    /// With names, in the order in which they are published.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        let figures = [
            self.weight_streaming_us,
            self.kv_read_us,
            self.small_kernels_us,
            self.barrier_bubbles_us,
            self.head_and_sampling_us,
            self.cpu_recording_us,
        ];
        std::array::from_fn(|i| (NAMES[i], figures[i]))
    }

    /// All of them.
    pub fn sum(&self) -> f64 {
        self.named().iter().map(|(_, us)| us).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::token;
    use super::*;

    #[test]
    fn every_nanosecond_is_in_one_segment() {
        let s = Segments::of(&token());
        let figures = s.named().map(|(_, us)| (us * 1e3).round());
        assert_eq!(figures, [200.0, 100.0, 70.0, 60.0, 320.0, 250.0]);
        assert!((s.sum() - 1.0).abs() < 1e-9);
        assert!((Segments::mean(&[s, Segments::default()]).sum() - 0.5).abs() < 1e-9);
    }
}
