//! The document itself.
//!
//! Fields that change what a number *means* stand beside the numbers: the policy and whether it keeps the
//! application correct, the shuffle, the mutation, how far writes were trusted to stay in their descriptor's range,
//! the granule to which ranges were rounded, and when the report was written. A reader that compares two reports
//! can see that they are not comparable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Counts, Device};

/// The version of the document that this crate writes and reads; the crate's front page has the rule.
pub const SCHEMA_VERSION: u32 = 2;

/// What the layer saw and did on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The layer's own version, `MAJOR.MINOR.PATCH`.
    pub layer_version: String,
    /// The device.
    pub device: Device,
    /// The policy that was in force, by the name that users type.
    pub policy: String,
    /// Whether a correct application stays correct under that policy and mutation.
    pub policy_is_correct: bool,
    /// `off`, `reverse`, or a seed in decimal.
    pub shuffle: String,
    /// The number, from 0, of the emitted barrier that each submission sequence lost on purpose; null for none.
    pub mutate: Option<u64>,
    /// How far a write may stray from its descriptor's range.
    pub out_of_bounds: OutOfBounds,
    /// How far a binding reaches.
    #[serde(default)]
    pub ranges: Ranges,
    /// Ranges were widened to multiples of this many bytes before they were compared.
    pub granule: u64,
    /// The layer failed in this process and passed the rest through, as under `stock`: the counts are incomplete.
    #[serde(default)]
    pub layer_failed: bool,
    /// When the report was written.
    pub written_at: WrittenAt,
    /// What was executed: a command buffer that was submitted twice counts twice.
    pub totals: Counts,
    /// What was recorded: each recording counts once, whether it was ever submitted or not.
    pub recorded: Counts,
    /// What other policies would have made of the executed stream, by name; only when asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_emit: Option<BTreeMap<String, Counts>>,
    /// The most frequent forced barriers, most frequent first; only when asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<Vec<Witness>>,
    /// What the independent model said of everything that was submitted; only when asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// What was submitted in place of what was recorded; only where shuffling, slicing or delaying was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Replayed>,
    /// Of `recorded.hazards.unmodelled`: by the name of the command, how many barriers went out because it came next.
    /// `vkCmdPipelineBarrier` stands for barriers that are passed through, such as layout transitions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_by: BTreeMap<String, u64>,
    /// Of the dispatches in `recorded.unknown_operations`: by the reason why the layer does not know what they touch, how many
    /// there are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_because: BTreeMap<String, u64>,
    /// The process's name; only when names were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// What a reader must know before believing the numbers, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Where a write through a descriptor may land.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OutOfBounds {
    /// In the descriptor's range: the application indexes in bounds.
    Trust,
    /// Anywhere in the buffer, as plain `robustBufferAccess` allows for an index out of bounds.
    WholeBuffer,
}

impl OutOfBounds {
    /// Both, in the order in which they are shown.
    pub const ALL: [OutOfBounds; 2] = [OutOfBounds::Trust, OutOfBounds::WholeBuffer];

    /// The word in the JSON, and the one that users type.
    pub fn name(self) -> &'static str {
        match self {
            OutOfBounds::Trust => "trust",
            OutOfBounds::WholeBuffer => "whole-buffer",
        }
    }
}

/// How far a binding's range reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ranges {
    /// As far as the descriptor.
    #[default]
    Bound,
    /// As far as the shader's index arithmetic, where that can be followed.
    Tight,
}

impl Ranges {
    /// Both, in the order in which they are shown.
    pub const ALL: [Ranges; 2] = [Ranges::Bound, Ranges::Tight];

    /// The word in the JSON, and the one that users type.
    pub fn name(self) -> &'static str {
        match self {
            Ranges::Bound => "bound",
            Ranges::Tight => "tight",
        }
    }
}

/// The moment at which a report was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WrittenAt {
    /// The application destroyed the device: everything is in.
    DeviceDestruction,
    /// The process ended with the device alive.
    ProcessExit,
    /// The process was still running. A report that stays like this is one of a process that ended without a word: by a
    /// signal, `_exit` or `abort`. What was submitted in its last moments may be missing.
    Running,
}

/// What the audit found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Audit {
    /// Pairs of operations that the application ordered.
    pub required: u64,
    /// Those that what was issued does not order, and operations that were lost or changed places.
    pub violations: u64,
}

/// What became of submissions that were executed in another order, in pieces, or with delayed writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Replayed {
    /// Command buffers that were issued anew.
    pub replayed: u64,
    /// Those that went down as they were: they hold commands that can't be issued anew.
    pub passed_through: u64,
    /// Writes that were delayed.
    pub delayed: u64,
    /// Operations whose writes could not be: atomics, images, places that are not known.
    pub not_delayed: u64,
    /// Dispatches that were cut.
    pub cut: u64,
    /// Those that were not: too small, or the shader counts its workgroups.
    pub whole: u64,
}

/// A forced barrier and the two operations that forced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Witness {
    /// The earlier operation: its pipeline, or the kind of transfer. Names only when they were asked for,
    /// otherwise `pipeline N` in the order of creation.
    pub first: String,
    /// The later operation.
    pub second: String,
    /// The bytes on which both depend; absent where no range is known (a prefix, a flush).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<WitnessRange>,
    /// The dependence.
    pub kind: HazardKind,
    /// How often this pair forced a barrier.
    pub count: u64,
}

/// A range of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WitnessRange {
    /// The allocation, numbered from 0 in the order of `vkAllocateMemory`.
    pub memory: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// The fields of [`Hazards`](crate::Hazards) as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HazardKind {
    /// Read after write.
    Raw,
    /// Write after read.
    War,
    /// Write after write.
    Waw,
    /// Something before the command buffer.
    Prefix,
    /// A flush point.
    Flush,
}

impl Report {
    /// A report without would-be counts, witnesses and names, for setting the fields that matter one by one.
    ///
    /// It starts as a sound, unshuffled run of `policy` at 64-byte granules, written at device destruction.
    pub fn new(layer_version: &str, device: Device, policy: &str, policy_is_correct: bool) -> Report {
        Report {
            schema: SCHEMA_VERSION,
            layer_version: layer_version.into(),
            device,
            policy: policy.into(),
            policy_is_correct,
            shuffle: "off".into(),
            mutate: None,
            out_of_bounds: OutOfBounds::WholeBuffer,
            ranges: Ranges::Bound,
            granule: 64,
            layer_failed: false,
            written_at: WrittenAt::DeviceDestruction,
            totals: Counts::default(),
            recorded: Counts::default(),
            would_emit: None,
            witnesses: None,
            audit: None,
            replayed: None,
            kept_by: BTreeMap::new(),
            unknown_because: BTreeMap::new(),
            process: None,
            notes: Vec::new(),
        }
    }

    /// The JSON document, indented, with a newline at its end.
    pub fn to_json(&self) -> String {
        // Strings, integers and maps keyed by strings always serialise.
        let mut text = serde_json::to_string_pretty(self).expect("a report has nothing that JSON lacks");
        text.push('\n');
        text
    }
}
