//! What came of one run: numbers, or the reason why there are none.
//!
//! A run that crashes, hangs, prints garbage or runs without the layer has told us something, and the sweep goes on.
//! But it has told us *nothing about the numbers*: it neither confirms nor refutes, and it never counts as a caught
//! drop. Otherwise a layer that crashes whenever it is asked to withhold a barrier would earn a perfect mutation
//! score.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zinc_report::Counts;

use crate::packets;
use crate::plan::RunSpec;
use crate::serial::{self, float};

/// What a run gave.
pub type Outcome = Result<Measured, Failure>;

/// A run and what came of it.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The run.
    pub spec: RunSpec,
    /// What came of it.
    pub outcome: Outcome,
    /// Wall time of the whole process.
    pub wall: Duration,
}

/// The numbers of a run that came to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Digest over every bit of every logit vector.
    pub digest: String,
    /// Perplexity; not finite where the logits were not.
    #[serde(with = "float")]
    pub perplexity: f64,
    /// Its standard error; not finite where the perplexity is not.
    #[serde(with = "float")]
    pub perplexity_stderr: f64,
    /// Tokens decoded.
    pub tokens: u64,
    /// Tokens decoded a second.
    #[serde(with = "float")]
    pub tok_s: f64,
    /// CPU time to record and submit one token, microseconds.
    #[serde(with = "float")]
    pub cpu_us_per_token: f64,
    /// Device time of one token, microseconds, where it was measured.
    pub gpu_us_per_token: Option<f64>,
    /// Dispatches that the engine says it recorded for one token.
    pub dispatches_per_token: u64,
    /// Submissions that the engine says it made for one token.
    pub submits_per_token: u64,
    /// What the layer counted; `None` without the layer.
    pub counts: Option<Counts>,
    /// What the driver submitted, or why its number cannot be believed; `None` where nobody counted.
    #[serde(with = "serial::packets")]
    pub packets: Option<Result<packets::Counts, String>>,
    /// What the whole process took; only of an application that says nothing of its tokens itself.
    pub process: Option<Process>,
    /// What the layer says that a reader must know before believing its counts.
    pub layer_notes: Vec<String>,
    /// What the sweep itself has to say of how the numbers were read.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of a program with cases: each case with its answer.
    pub cases: BTreeMap<String, String>,
    /// Of a traced run: the barriers that a pair of operations within one recording forces, by their number in it.
    #[serde(default)]
    pub forced: Vec<u64>,
}

impl Measured {
    /// A run of so many tokens of which nothing else is known: numbers that are none, no digest, no counts.
    pub fn nothing(tokens: u64) -> Measured {
        Measured {
            digest: String::new(),
            perplexity: f64::NAN,
            perplexity_stderr: f64::NAN,
            tokens,
            tok_s: f64::NAN,
            cpu_us_per_token: f64::NAN,
            gpu_us_per_token: None,
            dispatches_per_token: 0,
            submits_per_token: 0,
            counts: None,
            packets: None,
            process: None,
            layer_notes: Vec::new(),
            notes: Vec::new(),
            cases: BTreeMap::new(),
            forced: Vec::new(),
        }
    }
}

/// What a whole process took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// CPU time of all its threads.
    pub cpu: Duration,
    /// Wall time.
    pub wall: Duration,
}

/// Why a run gave no numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// The process could not be started.
    #[error("the program could not be started: {0}")]
    Start(String),
    /// It ended with an exit status other than 0.
    #[error("the program ended with exit status {status}{}", said(.stderr))]
    Exit {
        /// The exit status.
        status: i32,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// A signal ended it.
    #[error("the program was ended by signal {signal}{}", said(.stderr))]
    Signal {
        /// The signal with its name, such as `SIGSEGV (11)`.
        signal: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It was still running after the time allowed, and was killed.
    #[error("the program was still running after {:.1} s and was killed; --timeout allows more", .0.as_secs_f64())]
    Timeout(Duration),
    /// It ended well and printed something that is not its result.
    #[error("the program ended well, and its output is not a result: {0}")]
    Garbage(String),
    /// There is no layer report: the layer was not in the process.
    #[error(
        "the layer was not loaded: it left no report; `zinc-barrier doctor` says why the loader would not load it"
    )]
    LayerNotLoaded,
    /// There is a report, but not of what was asked for.
    #[error("the layer was not loaded as asked: {0}; `zinc-barrier doctor` says what the loader finds")]
    LayerDiffers(String),
    /// A report is missing, or not the last one that there was to be.
    #[error("the layer's reports do not cover the run: {0}")]
    ReportsMissing(String),
    /// A barrier was to be withheld and none was.
    #[error("no barrier {0} was emitted that could be withheld")]
    NothingDropped(u64),
    /// The audit found pairs that the application ordered and the policy does not.
    #[error("the audit found {0} pairs of operations that the application ordered and the policy does not")]
    Unordered(u64),
}

impl Failure {
    /// The sort of failure in a word or two, without what differs from run to run.
    pub fn kind(&self) -> String {
        match self {
            Self::Start(_) => "not started".into(),
            Self::Exit { stderr, .. } | Self::Signal { stderr, .. } if lost_device(stderr) => {
                "device lost".into()
            }
            Self::Exit { status, .. } => format!("exit status {status}"),
            Self::Signal { signal, .. } => format!("crash, {signal}"),
            Self::Timeout(_) => "hang".into(),
            Self::Garbage(_) => "garbage".into(),
            Self::LayerNotLoaded | Self::LayerDiffers(_) | Self::NothingDropped(_) => {
                "layer not as asked".into()
            }
            Self::ReportsMissing(_) => "reports missing".into(),
            Self::Unordered(_) => "audit".into(),
        }
    }
}

/// Whether a program says that its device was lost, in Vulkan's words or the engine's.
fn lost_device(stderr: &str) -> bool {
    let stderr = stderr.to_lowercase();
    ["device_lost", "devicelost", "device lost", "device was lost"].iter().any(|words| stderr.contains(words))
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}
