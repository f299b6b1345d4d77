//! `report.json`: what the sweep did and what it concludes, for programs.
//!
//! The types here are the document. Its JSON Schema, `report.schema.json` beside this crate's manifest, is derived
//! from them ([`crate::schemas`]) and a test keeps the two equal. `report.md` and the table in the terminal are made from the same value,
//! so that no two of them can disagree.
//!
//! The rule for versions is the layer report's: a field that readers may ignore keeps the number, anything else
//! raises [`SCHEMA_VERSION`], and a reader accepts its own number only. What was not measured is `null`, never zero.
//! No user names and no paths stand in the document: it is meant to be passed on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Shuffle;
use crate::scored::PredictionScore;
use crate::stats::Spread;
use crate::stats::comparison::{Answer, Comparison};
use crate::verdict::{Mutation, Status, Verdict};

/// The version of the document.
pub const SCHEMA_VERSION: u32 = 1;

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Report of a sweep")]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of the sweep that wrote it.
    pub sweep_version: String,
    /// Whether all planned runs were made; a report is written after each, so that a crash loses one run at most.
    pub complete: bool,
    /// When the sweep began, seconds since 1970; null in reports older than the field.
    #[serde(default)]
    pub began_unix_s: Option<u64>,
    /// Which arm of a plan this is; null where the sweep was made in one.
    #[serde(default)]
    pub plan: Option<Part>,
    /// Of a merged report: the parts, each with its machine.
    #[serde(default)]
    pub parts: Vec<PartHost>,
    /// How good the prediction was that was made before; null where there was none.
    #[serde(default)]
    pub prediction: Option<PredictionScore>,
    /// The machine.
    pub host: Host,
    /// The source that the programs were built from; null outside a git checkout of it.
    pub git: Option<Git>,
    /// BLAKE3 of the programs and models that were run, hexadecimal, by role: `engine`, `layer`, and a model's name.
    pub blake3: BTreeMap<String, String>,
    /// What was asked for.
    pub settings: Settings,
    /// Every arm, in the order of their first runs.
    pub arms: Vec<Arm>,
    /// Every gate for every policy, with the drops behind its mutation score.
    pub gates: Vec<GateReport>,
    /// How often something went wrong in many repetitions; empty where none were asked for.
    #[serde(default)]
    pub soaks: Vec<SoakReport>,
    /// What a reader must know before believing the numbers, in sentences.
    pub notes: Vec<String>,
    /// Every run in the order in which they were made, with when and how long.
    #[serde(default)]
    pub timeline: Vec<Run>,
}

/// An arm of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The plan's hash.
    pub plan: String,
    /// Which arm, from 0.
    pub arm: u32,
    /// How many the plan has.
    pub arms: u32,
}

/// Where a part of a merged report was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartHost {
    /// Which arm of the plan.
    pub arm: u32,
    /// Whether all of its runs were made.
    pub complete: bool,
    /// The machine.
    pub host: Host,
    /// When it began, seconds since 1970.
    pub began_unix_s: Option<u64>,
}

/// One run of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The driver's short name.
    pub driver: String,
    /// The model.
    pub model: String,
    /// What was set for it, beside the policy.
    pub knobs: BTreeMap<String, String>,
    /// The run in words, such as `alias-only, shuffle reverse`.
    pub run: String,
    /// When it began: seconds since the sweep did.
    pub start_s: f64,
    /// How long it took, seconds.
    pub wall_s: f64,
    /// Whether it gave numbers.
    pub ok: bool,
    /// What came of it, in a few words.
    pub result: String,
}

/// What many repetitions of one policy gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoakReport {
    /// The driver's short name.
    pub driver: String,
    /// The device's name.
    pub device: String,
    /// The model.
    pub model: String,
    /// The policy.
    pub policy: String,
    /// The layer's order of operations.
    #[serde(default = "in_order")]
    pub shuffle: String,
    /// Whether this is the control, a run without barriers and reversed: where none of its records is bad, the others say
    /// nothing.
    #[serde(default)]
    pub control: bool,
    /// Tokens decoded; of an application without a number of tokens, its runs.
    pub tokens: u64,
    /// Records, each with a digest of its own: chunks of the text, or runs of an application.
    pub records: u64,
    /// Records that are not the reference's.
    pub bad: u64,
    /// Runs that gave no records.
    pub failed: u64,
    /// The share of bad records.
    pub rate: f64,
    /// The true share is below this with 95% confidence; with none bad, 3 in as many as there are records.
    pub bound: f64,
}

fn in_order() -> String {
    Shuffle::Off.to_string()
}

impl SoakReport {
    /// Whether this is a control in which nothing was bad.
    pub fn is_blind(&self) -> bool {
        self.control && self.bad == 0
    }
}

/// The machine that ran the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The processor's name for itself.
    pub cpu: String,
    /// Logical processors that the sweep could use.
    pub cores: u32,
    /// Operating system and its kernel's version.
    pub os: String,
}

/// A state of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Git {
    /// The commit.
    pub commit: String,
    /// Whether tracked files that go into the program differed from it when it was built.
    pub dirty: bool,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// The policies measured beside `stock`.
    pub policies: Vec<String>,
    /// Timed runs of each arm.
    pub reps: u32,
    /// Tokens of each run that were asked for.
    pub tokens: u64,
    /// Tokens in a chunk.
    pub ctx: u64,
    /// Single drops asked for.
    pub drops: u32,
    /// Seed of shuffles and drops.
    pub seed: u64,
    /// When the engine was told to record commands; empty where it was not told.
    #[serde(default)]
    pub record: Vec<String>,
    /// Busy neighbours on each logical processor, an axis of its own.
    #[serde(default)]
    pub busy: Vec<u32>,
    /// Half-width of the ratios' intervals, as a share, at which further rounds stop; null where only `reps` said so.
    #[serde(default)]
    pub precision: Option<f64>,
    /// The application that stood in the engine's place, without the folders in its arguments.
    #[serde(default)]
    pub application: Option<String>,
    /// What of the application must be the same under every correct policy, in words; null where nothing is compared.
    #[serde(default)]
    pub check: Option<String>,
}

/// What an application is measured by, which stands in the engine's place and executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The metric's name. Its values stand where the engine's have tokens a second.
    pub metric: String,
    /// What counts are of: `token`, or `run`, then the whole of one.
    pub per: String,
}

/// Why an arm is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArmRole {
    /// `stock`: what all others are compared with.
    Reference,
    /// A policy as users would run it: timed.
    Policy,
    /// The engine without the layer in its process.
    WithoutLayer,
    /// A correct policy under a permuted order.
    Shuffled,
    /// Wrong on purpose: the gates must notice.
    Control,
}

/// One way to run the engine, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// The driver's short name.
    pub driver: String,
    /// The device.
    pub device: DeviceReport,
    /// Whether the device executes; on one that only records, numbers and rates mean nothing.
    pub executes: bool,
    /// `embedded`, or the model's file name.
    pub model: String,
    /// The layer's policy; null without the layer.
    pub policy: Option<String>,
    /// `off`, `reverse`, or a seed.
    pub shuffle: String,
    /// Further variables that were set for this arm.
    pub knobs: BTreeMap<String, String>,
    /// Of a merged report: the arm of the plan. It is compared with the reference of the same part only.
    #[serde(default)]
    pub part: Option<u32>,
    /// Of an application that executes: what it is measured by. Then `tok_s` holds its metric, `perplexity` the number of
    /// its check and `logits_digest` the digest of what is compared.
    #[serde(default)]
    pub measured: Option<Measured>,
    /// Why the arm is there.
    pub role: ArmRole,
    /// Runs that gave numbers.
    pub runs: u32,
    /// Dispatches executed for one token, as the layer counted them.
    pub dispatches_per_token: Option<f64>,
    /// Pipeline barriers that the engine asked for.
    pub barriers_asked_per_token: Option<f64>,
    /// Pipeline barriers that the layer handed to the driver.
    pub barriers_emitted_per_token: Option<f64>,
    /// Flushes in the driver's own command stream (CS_PARTIAL_FLUSH on amdgpu, CDM barriers on asahi), as the packet
    /// counter saw them; null where nobody counted them.
    pub driver_flushes_per_token: Option<f64>,
    /// All that the packet counter saw in the driver's own command stream; null where nobody counted.
    #[serde(default)]
    pub driver_packets: Option<DriverPackets>,
    /// Tokens a second.
    pub tok_s: Option<Rate>,
    /// The rate of each round; null where the round gave none. Empty where nothing executes.
    #[serde(default)]
    pub tok_s_by_round: Vec<Option<f64>>,
    /// The same as a ratio to the reference, formed within each round.
    pub vs_stock: Option<Ratio>,
    /// CPU time to record and submit one token, microseconds, median.
    pub cpu_us_per_token: Option<f64>,
    /// The same with its interval.
    #[serde(default)]
    pub cpu_us_interval: Option<Rate>,
    /// On a driver that only records: wall time of one token, microseconds. Nothing executes there, so this is what the
    /// processor needs, and no GPU whatever could be handed tokens faster.
    #[serde(default)]
    pub wall_us_per_token: Option<Rate>,
    /// What one event costs here, by the difference to another arm; empty where counts or times are not known or do not
    /// differ.
    #[serde(default)]
    pub costs: Vec<EventCost>,
    /// Device time of one token, microseconds, median; null where it was not measured.
    pub gpu_us_per_token: Option<f64>,
    /// Perplexity of the text; null where it was not a finite number or there was no run.
    pub perplexity: Option<Perplexity>,
    /// Digest of every bit of every logit vector; of the first run that differs, if the runs differ.
    pub logits_digest: Option<String>,
    /// Gate to what it said of this arm.
    pub gates: BTreeMap<String, ArmGate>,
    /// What the arm may be called.
    pub verdict: Verdict,
    /// Why, where the verdict alone does not say.
    pub reason: Option<String>,
    /// The cases that failed, such as `bits, shuffle reverse`, sorted: arms that fail alike have equal lists.
    #[serde(default)]
    pub failing: Vec<String>,
}

/// What one event costs, as the difference of two arms: of time, by the difference of their numbers of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventCost {
    /// `barrier emitted` by the layer, or the driver's `flush` or `link`.
    pub event: String,
    /// `token`, the time of a whole token, or `CPU`, this machine's time for it.
    pub time: String,
    /// How many events a token has fewer than the other arm; negative where it has more.
    pub fewer: f64,
    /// Microseconds an event, formed within each round; what an arm that has fewer events wins with each.
    pub us: Rate,
}

/// What stands in a driver's own command stream for one token. What the hardware does not have is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriverPackets {
    /// Calls by which work was submitted.
    pub submits: Option<f64>,
    /// Dispatches on AMD, launches on Apple.
    pub dispatches: Option<f64>,
    /// CS_PARTIAL_FLUSH on AMD, barriers on Apple.
    pub flushes: Option<f64>,
    /// AMD: ACQUIRE_MEM, or SURFACE_SYNC on older chips.
    pub acquires: Option<f64>,
    /// AMD: RELEASE_MEM and EVENT_WRITE_EOP.
    pub releases: Option<f64>,
    /// Apple: links, by which the driver joined streams.
    pub links: Option<f64>,
    /// Apple: streams.
    pub streams: Option<f64>,
    /// Packets that act on caches, by what they ask.
    pub caches: Vec<CacheReport>,
}

/// One sort of packet that acts on caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheReport {
    /// The packet, with the event of a release.
    pub packet: String,
    /// Its field: `CP_COHER_CNTL`, `GCR_CNTL`, `EVENT`, or `MASK` of a barrier on Apple.
    pub field: String,
    /// The field's value, hexadecimal.
    pub value: String,
    /// The names of the bits that are set.
    pub bits: Vec<String>,
    /// How many for one token.
    pub per_token: f64,
}

/// A device in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceReport {
    /// `deviceName`.
    pub name: String,
    /// The driver's name and build.
    pub driver: String,
    /// The driver's version.
    pub driver_version: String,
    /// The device's Vulkan version.
    pub api_version: String,
    /// `cpu`, `integrated-gpu`, `discrete-gpu`, `virtual-gpu` or `other`.
    pub kind: String,
}

/// A rate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// The median.
    pub median: f64,
    /// Lower end of the interval.
    pub lo: f64,
    /// Upper end of the interval.
    pub hi: f64,
    /// Number of runs.
    pub n: u32,
    /// Probability that the interval holds the true median, whatever the distribution.
    pub coverage: f64,
}

impl From<Spread> for Rate {
    fn from(s: Spread) -> Rate {
        Rate { median: s.median, lo: s.lo, hi: s.hi, n: s.n as u32, coverage: s.coverage }
    }
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub ratio: f64,
    /// Lower end of the 95% interval: a bootstrap's from six rounds on, Student's t on logarithms below.
    pub lo: f64,
    /// Upper end of the interval.
    pub hi: f64,
    /// What it says; null in reports older than the field.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// The smallest difference, as a share, that these runs would have shown four times in five.
    #[serde(default)]
    pub smallest_difference: Option<f64>,
}

impl From<Comparison> for Ratio {
    fn from(c: Comparison) -> Ratio {
        let smallest_difference = c.smallest.filter(|s| s.is_finite());
        Ratio { ratio: c.ratio, lo: c.lo, hi: c.hi, answer: Some(c.answer), smallest_difference }
    }
}

/// A perplexity with its error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Perplexity {
    /// The estimate.
    pub value: f64,
    /// Its standard error, which is of the text and not of the run: two runs on one text differ by far less.
    pub stderr: Option<f64>,
}

/// What a gate said of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArmGate {
    /// The answer. For the control `fail` is as it must be.
    pub status: Status,
    /// The policy's mutation score by this gate; null where no drops were tried.
    pub mutation: Option<Score>,
}

/// A mutation score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// Drops that the gate noticed.
    pub caught: u64,
    /// Drops that were tried.
    pub tried: u64,
}

impl From<&Mutation> for Score {
    fn from(m: &Mutation) -> Score {
        Score { caught: m.caught, tried: m.tried }
    }
}

/// A gate's answer for one policy on one device with one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// The gate.
    pub gate: String,
    /// The driver's short name.
    pub driver: String,
    /// The device's name.
    pub device: String,
    /// The model.
    pub model: String,
    /// The policy.
    pub policy: String,
    /// What was set beside the policy.
    #[serde(default)]
    pub knobs: BTreeMap<String, String>,
    /// The answer.
    pub status: Status,
    /// Whether the gate noticed the control; null where there was none.
    pub control_caught: Option<bool>,
    /// The single dropped barriers; null where none were tried.
    pub mutation: Option<Mutation>,
    /// Why the answer is not `pass`.
    pub reason: Option<String>,
}

impl Report {
    /// The exit status that the report stands for: 0 when everything is as it must be, 1 when a gate failed or was
    /// blind or an arm failed or stayed unproven, and otherwise 3 when a driver was missing.
    pub fn exit_code(&self) -> u8 {
        let arm_is_fine = |arm: &Arm| match arm.verdict {
            Verdict::Reference
            | Verdict::Verified
            | Verdict::IncorrectByDesign
            | Verdict::CountedOnly
            | Verdict::NotRun
            | Verdict::NoEffect => true,
            Verdict::Refuted => arm.role == ArmRole::Control,
            Verdict::Unproven | Verdict::Failed => false,
        };
        let gate_is_fine = |gate: &GateReport| !matches!(gate.status, Status::Fail | Status::Blind);
        let blind = self.soaks.iter().any(SoakReport::is_blind);
        if blind
            || !(self.complete && self.arms.iter().all(arm_is_fine) && self.gates.iter().all(gate_is_fine))
        {
            return 1;
        }
        if self.arms.iter().any(|arm| arm.verdict == Verdict::NotRun) { 3 } else { 0 }
    }

    /// The document as JSON, with a line feed at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_the_document_are_those_of_the_interface() {
        let word = |v: Verdict| serde_json::to_value(v).unwrap().as_str().unwrap().to_string();
        assert_eq!(
            [
                Verdict::Reference,
                Verdict::Verified,
                Verdict::Refuted,
                Verdict::IncorrectByDesign,
                Verdict::CountedOnly,
                Verdict::NoEffect,
                Verdict::NotRun
            ]
            .map(word),
            [
                "reference",
                "verified",
                "refuted",
                "incorrect-by-design",
                "counted-only",
                "no-effect",
                "not-run"
            ]
        );
        let word = |s: Status| serde_json::to_value(s).unwrap().as_str().unwrap().to_string();
        assert_eq!(
            [Status::Pass, Status::Fail, Status::Blind, Status::NotRun].map(word),
            ["pass", "fail", "blind", "not-run"]
        );
    }
}
