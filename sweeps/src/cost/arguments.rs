//! The arguments of `sweep cost`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::drivers::DriverSpec;
use crate::plan::SETUP_TOKENS;
use crate::require::Require;
use crate::seconds::parse_seconds;

/// `sweep cost`: measures; with `--predict`, also predicts; with `--score`, scores what was predicted.
#[derive(Debug, Clone, Args)]
pub struct CostArgs {
    /// A driver as the sweep itself takes it: lavapipe, radv, honeykrisp, nvidia, name:SUBSTRING, patched:NAME or
    /// icd:MANIFEST; its best device [default: of any driver]. One that only records has nothing to time
    #[arg(long, value_name = "DRIVER", default_value = "auto", conflicts_with_all = ["device", "from", "score"])]
    pub driver: DriverSpec,

    /// The device: its number, or part of its name [default: the best kind that is there]
    #[arg(long, value_name = "INDEX|NAME")]
    pub device: Option<String>,

    /// Refuse to run on any device but of this kind
    #[arg(long, value_name = "KIND")]
    pub require: Option<Require>,

    /// Rounds: how often each series is run
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reps: u32,

    /// Where the documents go; made if it does not exist
    #[arg(long, value_name = "DIR", default_value = "sweep-cost")]
    pub out: PathBuf,

    /// Replace the costs and the prediction of an earlier run in DIR
    #[arg(long)]
    pub force: bool,

    /// Take the costs of an earlier run instead of measuring: its folder, or its cost.json. Without --predict, only draws
    /// cost.md and cost.svg anew
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,

    /// Also write down, in prediction.json, what each policy should win on a model. Only `stock` is run for it
    #[arg(long)]
    pub predict: bool,

    /// Seconds after which one submission counts as hung [default: 120 on a GPU, 480 and more on a CPU device]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub submit_timeout: Option<Duration>,

    /// With --predict: a GGUF model; may be given several times [default: the model embedded in the engine]
    #[arg(long = "model", value_name = "PATH", requires = "predict")]
    pub models: Vec<PathBuf>,

    /// With --predict: tokens of a timed run, as the sweep will have them
    #[arg(long, value_name = "N", default_value_t = 128, requires = "predict",
          value_parser = clap::value_parser!(u64).range(SETUP_TOKENS..=10_000_000))]
    pub tokens: u64,

    /// With --predict: tokens in a chunk, as the sweep will have them [default: 128, or --tokens where that is less]
    #[arg(long, value_name = "N", requires = "predict",
          value_parser = clap::value_parser!(u64).range(SETUP_TOKENS..=10_000_000))]
    pub ctx: Option<u64>,

    /// With --predict: seconds after which a run of the engine counts as hung [default: at least 300, more on a machine with less than eight processors or with other work]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "predict")]
    pub timeout: Option<Duration>,

    /// The engine's command [default: `engine` beside this program]
    #[arg(long, value_name = "PATH", requires = "predict")]
    pub engine: Option<PathBuf>,

    /// The layer's library [default: `libzinc_barrier.so` beside this program]
    #[arg(long, value_name = "PATH", requires = "predict")]
    pub layer: Option<PathBuf>,

    /// Score DIR/prediction.json by a sweep's report that was made after it, and measure nothing
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["predict", "device", "require"])]
    pub score: Option<PathBuf>,
}

impl CostArgs {
    /// Tokens in a chunk.
    pub fn chunk(&self) -> u64 {
        self.ctx.unwrap_or(128).min(self.tokens)
    }
}
