//! The command line, as data.
//!
//! Everything that can be wrong with an argument by itself is found here, by clap's value parsers, so that a typing
//! error is a usage error (exit 2) with the list of right answers and costs no run. What only the machine can answer
//! (is that driver here, is that model a file) is found later, in [`crate::drivers`] and [`crate::session`], and
//! ends with exit 3.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use zinc_engine::levers::RecordArg;
use zinc_hazard::Policy;

use crate::command_line::{CommandLine, Words};
use crate::cost::arguments::CostArgs;
use crate::documents::Document;
use crate::drivers::DriverSpec;
use crate::parts::arguments::{MergeArgs, PlanArgs, RunArgs};
use crate::pattern::Pattern;
use crate::plan::SETUP_TOKENS;
use crate::report::Part;
use crate::require::Require;
use crate::seconds::parse_seconds;
use crate::shims::on::OnArgs;
use crate::shims::setup::SetupArgs;
use crate::variables::Setting;
use crate::variables::{self, Ablation, Knob};

/// Tokens in a chunk unless the user says otherwise.
const DEFAULT_CTX: u64 = 128;

const EXAMPLES: &str = "\
Examples:
  sweep --policy alias-only
      Is the policy right on every device here, and what does it win? The reference (stock), the policy, the
      policy under four permuted orders, a control that must fail, and a sample of single dropped barriers.
  sweep --driver lavapipe --drops 50 --out lavapipe-report
      All policies on the CPU device, with a finer mutation score.
  sweep --driver nvidia --require gpu --reps 9 --tokens 512
      Rates worth quoting: more repetitions, longer runs, and no silent fall-back to a CPU device.
  sweep --driver name:'RX 9070' --model qwen3-4b-q4_0.gguf --policy alias-only --policy none
  sweep setup-shims && sweep --driver radv-shim:gfx1201 --driver honeykrisp-shim
      What the real RADV and the real Honeykrisp are handed under each policy, on any x86-64 machine. Nothing executes
      there: such arms have counts, and no results, no rates and no gates.
  sweep --driver radv-shim:gfx1201 --record reuse --record each --busy 0 --busy 1
      What recording each token anew costs the processor, also one with half of its time to give.
  sweep --driver honeykrisp-shim --root \"$(tests/oracles --where)\" -- llama-bench -m MODEL.gguf -p 0 -n {tokens} -r 1
      The same counts and costs for any application, per token by the difference of two lengths.
  sweep --app 'llama-bench -m MODEL.gguf -p 0 -n 128' --metric '(?<tok_s>[0-9.]+) ±' \\
        --check 'llama-perplexity -m MODEL.gguf -f TEXT' --check-value 'PPL = ([0-9.]+)'
      Any application, its rate as it prints it, under every policy; a second command says whether it is still right,
      and must say so of a run without barriers in another order too, or all is unproven. --same-output compares what
      the application prints itself, without the lines that --ignore names.
  sweep --driver honeykrisp-shim --knob HK_PERFTEST=nobarrier
      Does that variable do what its name says? (No: every barrier of the driver stays; only the links between streams
      go, and the processor's time for them. AGX_MESA_DEBUG and ASAHI_MESA_DEBUG,
      which sound alike, take other words, and a word of the one in the other is ignored without a message.)
  sweep --driver honeykrisp --ablate MASK_VARIABLE=0x000fffff --narrowest MASK_VARIABLE
      Which bits of a mask matter, which fail alike, and what is the smallest that passes.
  sweep --driver lavapipe --gates all --mutate 20 --policy narrow
      Every gate, each with a control that it must notice and twenty barriers withheld one at a time.
  sweep on radv-shim:navi31 -- vulkaninfo --summary
      Any program on such a driver.
  sweep --precision 1% --policy alias-only
      Goes on until the ratio is known to 1%, or says what it could not see.
  sweep plan plan.json --driver nvidia --policy alias-only --policy narrow   then, on any machine,
  sweep run plan.json --arm 1 --out parts/1                                  and in the end sweep merge parts/*
      The arms of one sweep on several machines: see sweeps/slurm and docs/sweeping.md.
  sweep cost --predict --out cost && sweep --prediction cost/prediction.json
      What a barrier costs here, what each policy should win for it, and how good that prediction was.
  sweep compare monday/ friday/        sweep against honeykrisp_m2ultra_arms sweep-report/
      What changed between two reports; what published figures are worth here.

Exit status:
  0  every arm is verified, counted only, without effect, or labelled incorrect by design
  1  a gate failed or was blind, an arm failed, or the sweep itself could not go on
  2  usage error
  3  a driver, a model, the engine or the layer is missing; where it is a driver that records only, its arms are
     not-run and all others are still run

The report is written to DIR/report.json (its JSON Schema: sweep --print-schema) and DIR/report.md.";

/// Runs the decode engine under barrier policies and proves that the numbers did not change.
#[derive(Debug, Clone, Parser)]
#[command(name = "sweep", version = env!("ZINC_BUILD_VERSION"), after_help = EXAMPLES, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do instead of sweeping
    #[command(subcommand)]
    pub command: Option<Command>,

    /// A policy to measure beside `stock`; may be given several times [default: all]
    #[arg(long = "policy", value_name = "POLICY", value_parser = parse_policy, help = policy_help())]
    pub policies: Vec<Policy>,

    /// A device to run on; may be given several times: auto (every device that executes), lavapipe, radv,
    /// honeykrisp, nvidia, name:SUBSTRING; one that mesa-patches/build made: patched:radv, patched:lavapipe; any other by
    /// its manifest: icd:PATH; or one that records without executing: honeykrisp-shim, radv-shim:CHIP (a
    /// wrong CHIP lists the right ones)
    #[arg(long = "driver", value_name = "DRIVER", default_value = "auto")]
    pub drivers: Vec<DriverSpec>,

    /// A GGUF model; may be given several times [default: the model embedded in the engine]
    #[arg(long = "model", value_name = "PATH")]
    pub models: Vec<PathBuf>,

    /// Refuse to run on any device but of this kind
    #[arg(long, value_name = "KIND")]
    pub require: Option<Require>,

    /// Timed runs of the reference and of each policy, interleaved
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub reps: u32,

    /// Go on with further rounds after --reps until the 95% interval of every ratio reaches no further than this to
    /// either side, such as 1% (at least six rounds, at most --max-reps)
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub precision: Option<f64>,

    /// With --precision: rounds at most
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_reps: u32,

    /// Tokens decoded in each run, in whole chunks of --ctx
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(SETUP_TOKENS..=10_000_000))]
    pub tokens: u64,

    /// Tokens in a chunk: the depth to which the context grows before it starts again [default: 128, or --tokens
    /// where that is less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(SETUP_TOKENS..=10_000_000))]
    pub ctx: Option<u64>,

    /// Gates that every correct policy has to pass; several with commas [default: bits,perplexity]. Each is run with its
    /// control and its single drops
    #[arg(long = "gates", visible_alias = "gate", value_name = "GATE,...", value_delimiter = ',')]
    pub gates: Vec<GateName>,

    /// After all else, repeat stock and every correct policy until each has decoded N tokens, with a digest for every chunk,
    /// and say how often a chunk was bad and what the true rate is below; then once without barriers and reversed, which must
    /// show
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub soak: Option<u64>,

    /// The program of the graphics gates [default: `pictures` beside this program]
    #[arg(long, value_name = "PATH")]
    pub pictures: Option<PathBuf>,

    /// The folder that tests/oracles filled, for the gates validation and backend-ops [default: where it puts it]
    #[arg(long, value_name = "FOLDER")]
    pub oracles: Option<PathBuf>,

    /// What the gate backend-ops tests, as `test-backend-ops -o` takes it; some of it should be of several dispatches, whose
    /// barriers a loss can show. Empty for everything, which takes hours on a CPU device and a --timeout
    #[arg(long, value_name = "OPS", default_value = "SILU_MUL,GROUP_NORM_MUL_ADD,SUM_ROWS")]
    pub backend_ops: String,

    /// Single barriers to drop, one a run and seeded by --seed, to see whether the gates notice; 0 leaves the mutation
    /// score out
    #[arg(long, visible_alias = "mutate", value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub drops: u32,

    /// Seed of the shuffled orders and of the sample of drops; the same seed gives the same sweep
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Where report.json and report.md go; made if it does not exist
    #[arg(long, value_name = "DIR", default_value = "sweep-report")]
    pub out: PathBuf,

    /// Go on with the sweep of the same arguments and programs that was interrupted or killed: runs that ended are taken from
    /// DIR/runs.jsonl
    #[arg(long)]
    pub resume: bool,

    /// Replace what an earlier sweep left in DIR, finished or not
    #[arg(long, conflicts_with = "resume")]
    pub force: bool,

    /// A prediction.json of `sweep cost --predict`, to be scored by this sweep
    #[arg(long, value_name = "FILE")]
    pub prediction: Option<PathBuf>,

    /// Seconds after which a run counts as hung [default: at least 300 for the first run of a program, more on a machine with less than eight processors or with other work, then 30 and 20 times as long as that took]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,

    /// Seconds after which one submission of the engine counts as hung [default: the engine's: 120 on a GPU, 480 and more on a
    /// CPU device]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub submit_timeout: Option<u64>,

    /// The engine's command [default: `engine` beside this program]
    #[arg(long, value_name = "PATH")]
    pub engine: Option<PathBuf>,

    /// The layer's library [default: `libzinc_barrier.so` beside this program]
    #[arg(long, value_name = "PATH")]
    pub layer: Option<PathBuf>,

    /// The packet counter's library, for drivers that record without executing, or `off` [default: `libzinc_packets.so`
    /// beside this program, if it is there]
    #[arg(long, value_name = "PATH")]
    pub packets: Option<PathBuf>,

    /// When the engine records commands, as its own --record takes it; may be given several times, each an axis of its
    /// own [default: the engine's]
    #[arg(long, value_name = "WHEN")]
    pub record: Vec<RecordArg>,

    /// Busy neighbours on each logical processor, which take time from a run; may be given several times, each an axis
    /// of its own [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub busy: Vec<u32>,

    /// A variable with the values that become arms, beside those where nothing is set and which all are compared with;
    /// crossed with stock, all policies and other knobs. Any variable will do; of one that the driver announces (see
    /// --knobs) the values are checked. --set is the same
    #[arg(long = "knob", visible_alias = "set", value_name = "NAME=V1,V2")]
    pub knob: Vec<Knob>,

    /// Print the switches that the drivers of --driver announce, with their legal values, and exit
    #[arg(long)]
    pub knobs: bool,

    /// A mask as an axis, one bit cleared at a time, such as NAME=0x000fffff
    #[arg(long = "ablate", value_name = "NAME=MASK")]
    pub ablations: Vec<Ablation>,

    /// With --ablate: also clear the upper bits one after the other
    #[arg(long, requires = "ablations")]
    pub prefixes: bool,

    /// Search the smallest mask of the --ablate variable NAME that passes every gate under stock
    #[arg(long, value_name = "NAME", requires = "ablations")]
    pub narrowest: Option<String>,

    /// An application in the engine's place, as one argument such as 'llama-bench -m MODEL.gguf'. Where it executes it is
    /// run under each policy, and --metric, --same-output and --check say what is read off it; on a driver that records
    /// it is counted, and {tokens} must stand in its arguments
    #[arg(long = "app", value_name = "COMMAND", conflicts_with_all = ["models", "record", "application"])]
    pub app: Option<Words>,

    /// What the application is called in the report, where its program's name does not say enough
    #[arg(long, value_name = "NAME")]
    pub app_name: Option<String>,

    /// What the application's rate is: a regular expression whose named group (which names it), first group or whole is a
    /// number in what it prints on either stream, such as 'tg128 .* (?<tok_s>[0-9.]+) ±' [default: its wall seconds]
    #[arg(long, value_name = "REGEX")]
    pub metric: Option<Pattern>,

    /// The application's standard output must be the same under every correct policy
    #[arg(long, conflicts_with = "check")]
    pub same_output: bool,

    /// A second command, run after the application under the same policy, whose standard output must be the same
    #[arg(long, value_name = "COMMAND")]
    pub check: Option<Words>,

    /// With --check: not its output, but the number that this finds must be the same, within --tolerance
    #[arg(long, value_name = "REGEX", requires = "check")]
    pub check_value: Option<Pattern>,

    /// With --check-value: how far the number may be off, such as 0.1%
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "check_value")]
    pub tolerance: Option<f64>,

    /// Lines of the output that do not count, such as those with times; may be given several times
    #[arg(long, value_name = "REGEX")]
    pub ignore: Vec<Pattern>,

    /// For an application of a newer distribution, on shims: take the dynamic loader and libraries of this folder, as
    /// tests/oracles unpacks it
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,

    /// The same as --app, its words as arguments of their own; {tokens} in them becomes the number of --tokens
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["models", "record"])]
    pub application: Vec<OsString>,

    /// Print the JSON Schema of a document and exit
    #[arg(long, value_name = "DOCUMENT", num_args = 0..=1, require_equals = true, default_missing_value = "report")]
    pub print_schema: Option<Document>,

    /// Which arm of a plan this is; not an argument.
    #[arg(skip)]
    pub part: Option<Part>,
}

impl Cli {
    /// The arguments of this process; ends it with help, version or a usage error where clap would.
    pub fn from_process() -> Cli {
        Cli::try_parse().and_then(Cli::check).unwrap_or_else(|error| error.exit())
    }

    /// Options as they stand in a plan.
    ///
    /// # Errors
    ///
    /// clap's, with its exit status.
    pub fn from_options(options: &[String]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("sweep").chain(options.iter().map(String::as_str)))
            .and_then(Cli::check)
    }

    /// What `shell` needs to complete the words of this command, as a script.
    pub fn completions(shell: clap_complete::Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "sweep", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }

    /// What no single argument can know: a run is made of whole chunks, so it holds at least one.
    fn check(self) -> Result<Cli, clap::Error> {
        let usage = |kind, message: String| Err(Cli::command().error(kind, message));
        if let Err((kind, message)) = self.check_application() {
            return usage(kind, message);
        }
        if let Some(name) = self.narrowest.as_ref().filter(|n| self.ablations.iter().all(|a| a.name != **n)) {
            let message = format!("--narrowest {name} needs its mask: give --ablate {name}=MASK too");
            return usage(ErrorKind::MissingRequiredArgument, message);
        }
        if self.record.contains(&RecordArg::Ahead) {
            let message = "--record ahead: a sweep compares the logits of every token, so the engine would reuse its recording \
                           as with --record reuse; `engine ladder` and `engine bench --record ahead` measure it";
            return usage(ErrorKind::ValueValidation, message.into());
        }
        if let Err(message) = self.settings() {
            return usage(ErrorKind::ValueValidation, message);
        }
        match self.ctx {
            Some(ctx) if ctx > self.tokens => {
                let message = format!(
                    "--tokens {} is less than one chunk of --ctx {ctx}; give at least as many tokens",
                    self.tokens
                );
                usage(ErrorKind::ArgumentConflict, message)
            }
            _ => Ok(self),
        }
    }

    /// What must fit together where an application stands in the engine's place.
    fn check_application(&self) -> Result<(), (ErrorKind, String)> {
        let Some(command) = self.command_line() else {
            let alone = [
                ("--app-name", self.app_name.is_some()),
                ("--metric", self.metric.is_some()),
                ("--same-output", self.same_output),
                ("--check", self.check.is_some()),
                ("--ignore", !self.ignore.is_empty()),
                ("--root", self.root.is_some()),
            ];
            return match alone.iter().find(|(_, given)| *given) {
                Some((option, _)) => Err((
                    ErrorKind::MissingRequiredArgument,
                    format!("{option} is of an application: name one with --app COMMAND, or behind --"),
                )),
                None => Ok(()),
            };
        };
        let own = |gate: &&GateName| **gate != GateName::Validation;
        if let Some(gate) = self.gates.iter().find(own) {
            return Err((
                ErrorKind::ArgumentConflict,
                format!(
                    "--gates {}: of the gates by name an application takes validation only; --same-output and --check are its \
                     own",
                    gate.to_possible_value().map_or_else(String::new, |v| v.get_name().to_string())
                ),
            ));
        }
        let counts_tokens = CommandLine::counts_tokens(command);
        if self.drivers.iter().any(|d| matches!(d, DriverSpec::Shim(_))) && !counts_tokens {
            return Err((
                ErrorKind::MissingRequiredArgument,
                "an argument of COMMAND must hold {tokens}, where the number of tokens is to stand: on a driver that \
                 records, costs are the difference of two lengths"
                    .into(),
            ));
        }
        if counts_tokens && self.tokens <= SETUP_TOKENS {
            return Err((
                ErrorKind::ValueValidation,
                format!(
                    "--tokens must be more than {SETUP_TOKENS} for COMMAND, whose short runs have that many"
                ),
            ));
        }
        Ok(())
    }

    /// The application's words, however they were given.
    pub fn command_line(&self) -> Option<&[OsString]> {
        match &self.app {
            Some(words) => Some(&words.0),
            None => Some(&self.application[..]).filter(|words| !words.is_empty()),
        }
    }

    /// What the application is called in the report.
    pub fn application_name(&self) -> Option<String> {
        let program = Path::new(self.command_line()?.first()?).file_name().unwrap_or_default();
        Some(self.app_name.clone().unwrap_or_else(|| program.to_string_lossy().into_owned()))
    }

    /// Whether every driver that was asked for records without executing.
    pub fn only_records(&self) -> bool {
        self.drivers.iter().all(|driver| matches!(driver, DriverSpec::Shim(_)))
    }

    /// The settings of the owner's variables; the first sets nothing.
    ///
    /// # Errors
    ///
    /// In words, when they cannot be crossed.
    pub fn settings(&self) -> Result<Vec<Setting>, String> {
        variables::settings(&self.knob, &self.ablations, self.prefixes)
    }

    /// All variables that are axes, with all of their values.
    pub fn knobs_given(&self) -> Vec<Knob> {
        let ablated = |a: &Ablation| Knob { name: a.name.clone(), values: a.values(self.prefixes) };
        self.knob.iter().cloned().chain(self.ablations.iter().map(ablated)).collect()
    }

    /// Tokens in a chunk.
    pub fn chunk(&self) -> u64 {
        self.ctx.unwrap_or_else(|| self.tokens.min(DEFAULT_CTX))
    }

    /// The policies to measure beside `stock`: those asked for, each once, in the order in which policies are shown;
    /// all of them when none was asked for. `stock` itself is the reference and is never among them.
    pub fn arms(&self) -> Vec<Policy> {
        Policy::ALL
            .into_iter()
            .filter(|p| *p != Policy::Stock && (self.policies.is_empty() || self.policies.contains(p)))
            .collect()
    }
}

/// What `sweep` does besides sweeping.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Fetch the drivers that record without executing, into a cache folder and without root
    SetupShims(SetupArgs),
    /// Run any program on a driver that records without executing
    On(OnArgs),
    /// Write a sweep's arms into a file, so that machines can share them
    Plan(PlanArgs),
    /// Run one arm of a plan, or all of them
    Run(RunArgs),
    /// Join the reports of a plan's arms
    Merge(MergeArgs),
    /// Draw report.md, report.svg and report.html anew from a report.json
    Plot {
        /// The report's folder, or its report.json
        report: PathBuf,
        /// Where to put them [default: beside the report]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Measure what a barrier costs on a device: by its sort, by the work around it
    Cost(CostArgs),
    /// Print what a shell needs to complete this command's words
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Lay two reports side by side: what became faster, slower, or other numbers
    Compare {
        /// The earlier report's folder, or its report.json
        a: PathBuf,
        /// The later one's
        b: PathBuf,
    },
    /// Lay a published table beside reports of this machine: each claim is confirmed, contradicted, or not testable here
    Against {
        /// A CSV, or the name of one that ships with this program (a wrong name lists them)
        table: String,
        /// Reports: folders, or report.json files
        reports: Vec<PathBuf>,
    },
}

/// A gate as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GateName {
    /// Every bit of every logit vector.
    Bits,
    /// Perplexity, to 0.1%.
    Perplexity,
    /// Every kernel of the engine against its CPU reference.
    Ops,
    /// llama.cpp's test-backend-ops (see --backend-ops).
    BackendOps,
    /// No hazard that Khronos synchronization validation would see below the layer, beyond those of stock.
    Validation,
    /// Pictures through blits, render-to-texture, mip chains and compute-to-draw.
    Graphics,
    /// The same in a window, under a virtual X server.
    Window,
    /// All of them.
    All,
}

fn policy_help() -> String {
    let mut help =
        String::from("A policy to measure beside stock; may be given several times [default: all of them]:");
    for policy in Policy::ALL {
        help.push_str(&format!("\n- {policy}: {}", policy.about()));
    }
    help
}

fn parse_policy(text: &str) -> Result<Policy, zinc_hazard::UnknownPolicy> {
    text.parse()
}

/// `1%` and `1` are one hundredth.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.001..=50.0).contains(&percent) => Ok(percent / 100.0),
        Ok(_) => Err(format!("'{text}' is out of range; give 0.001% to 50%")),
        Err(_) => Err(format!("'{text}' is not a percentage, such as 1%")),
    }
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
