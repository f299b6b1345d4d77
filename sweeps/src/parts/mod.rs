//! One sweep on several machines.
//!
//! Spreading work is what batch systems are for, so nothing here starts anything elsewhere: `sweep plan` writes the arms
//! into a file, `sweep run` makes one of them wherever it is started, and `sweep merge` joins what came of them. A plan has
//! a hash, each report says of which plan and which arm it is, and what is missing is named.
//!
//! An arm holds a policy *and the reference beside it*: a ratio of runs of two machines would say nothing. So the
//! reference is run once for each arm, and in the merged report each arm stands with its own.

mod merge;
pub mod plan;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::cli::Cli;
use crate::error::SweepError;
use crate::host;
use crate::report::{Part, Report};
use crate::session::{self, beside};
pub use merge::merge;
pub use plan::{Plan, Planned, plan};

/// `sweep plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Where the plan goes
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The sweep's options, as `sweep` itself takes them, without --out and --resume
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub options: Vec<String>,
}

/// `sweep run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The plan
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,

    /// Which arm, from 0
    #[arg(long, value_name = "K")]
    pub arm: u32,

    /// Where the arm's report goes [default: arm-K]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Go on with this arm where a run of it was interrupted or killed
    #[arg(long)]
    pub resume: bool,
}

impl RunArgs {
    /// Where the arm's report goes.
    pub fn folder(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("arm-{}", self.arm)))
    }
}

/// `sweep merge`.
#[derive(Debug, Clone, Args)]
pub struct MergeArgs {
    /// The reports of the arms: folders, or report.json files
    #[arg(value_name = "DIR", required = true)]
    pub reports: Vec<PathBuf>,

    /// The plan, so that missing arms can be named and reports of another plan refused
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// Where the joined report goes
    #[arg(long, value_name = "DIR", default_value = "sweep-report")]
    pub out: PathBuf,
}

/// Makes one arm of a plan.
///
/// # Errors
///
/// [`SweepError`]: `Usage` when the plan was changed or has no such arm, or the programs here are others than it names.
pub fn run(args: &RunArgs, stop: &AtomicBool) -> Result<Report, SweepError> {
    let plan = Plan::read(&args.plan)?;
    let planned = plan.arm(args.arm)?;
    let mut cli = Cli::from_options(&plan.options).map_err(|e| SweepError::Usage(e.to_string()))?;
    planned.restrict(&mut cli)?;
    let programs = [
        ("engine", beside(cli.engine.as_deref(), "engine", "the engine", "--engine")?),
        ("layer", beside(cli.layer.as_deref(), "libzinc_barrier.so", "the layer's library", "--layer")?),
    ];
    let models = cli.models.iter().map(|path| (plan::name_of(path), path.clone()));
    for (role, path) in programs.map(|(role, path)| (role.to_string(), path)).into_iter().chain(models) {
        let (here, planned) = (host::blake3_of(&path), plan.blake3.get(&role));
        if planned.is_some() && here.as_ref() != planned {
            return Err(SweepError::Usage(format!(
                "'{}' is not the {role} that the plan was made with: take the same file to every machine, or plan anew",
                path.display()
            )));
        }
    }
    cli.out = args.folder();
    cli.resume = args.resume;
    cli.part = Some(Part { plan: plan.hash.clone(), arm: args.arm, arms: plan.arms.len() as u32 });
    session::run(&cli, stop)
}
