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
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use crate::error::SweepError;
use crate::host;
use crate::report::{Part, Report};
use crate::session::{self, beside};
pub use merge::merge;
pub use plan::{Plan, Planned, plan};

/// `sweep plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Name no programs and models by their BLAKE3: whoever runs the plan takes their own
    #[arg(long)]
    pub unpinned: bool,

    /// Add this sweep's arms to those that FILE already holds
    #[arg(long)]
    pub add: bool,

    /// Where the plan goes. This and what is above come before it, the sweep's options behind it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The sweep's options, as `sweep` itself takes them, without --out and --resume. In them {plan} stands for the folder of
    /// FILE and {bin} for that of the program `sweep`, wherever the plan is run
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub options: Vec<String>,
}

/// `sweep run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The plan
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,

    /// Which arm, from 0 [default: all, one after the other, with their joined report in the end]
    #[arg(long, value_name = "K")]
    pub arm: Option<u32>,

    /// Where the arm's report goes [default: arm-K]; of all arms, where each has a folder by its number beside the joined
    /// report [default: sweep-report]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Go on with this arm where a run of it was interrupted or killed
    #[arg(long)]
    pub resume: bool,

    /// Replace what an earlier sweep left in DIR, finished or not
    #[arg(long, conflicts_with = "resume")]
    pub force: bool,
}

impl RunArgs {
    /// Where the report goes.
    pub fn folder(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| match self.arm {
            Some(arm) => PathBuf::from(format!("arm-{arm}")),
            None => PathBuf::from("sweep-report"),
        })
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

    /// Replace a report in DIR that was not joined from others
    #[arg(long)]
    pub force: bool,
}

/// Makes one arm of a plan, or all of them.
///
/// # Errors
///
/// [`SweepError`]: `Usage` when the plan was changed or has no such arm, or the programs here are others than it names. Where
/// all are made, one that cannot be is said and left, and the joined report names the hole; only where none could be is that
/// an error, and then it is the last one's.
pub fn run(args: &RunArgs, stop: &AtomicBool) -> Result<Report, SweepError> {
    let plan = Plan::read(&args.plan)?;
    if let Some(arm) = args.arm {
        return run_arm(&plan, args, arm, args.folder(), stop);
    }
    merge::check(&args.folder(), args.force)?;
    let (mut made, mut last) = (Vec::new(), None);
    for arm in &plan.arms {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        eprintln!("sweep: arm {} of {}: {}", arm.arm, plan.arms.len(), arm.about());
        let folder = args.folder().join(arm.arm.to_string());
        match run_arm(&plan, args, arm.arm, folder.clone(), stop) {
            Ok(_) => made.push(folder),
            Err(error) => {
                eprintln!("sweep: arm {} was not made: {error}", arm.arm);
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if made.is_empty() => Err(error),
        _ => merge(&MergeArgs {
            reports: made,
            plan: Some(args.plan.clone()),
            out: args.folder(),
            force: args.force,
        }),
    }
}

fn run_arm(
    plan: &Plan,
    args: &RunArgs,
    arm: u32,
    folder: PathBuf,
    stop: &AtomicBool,
) -> Result<Report, SweepError> {
    let mut cli = plan.cli_of(plan.arm(arm)?, &args.plan)?;
    if !plan.blake3.is_empty() {
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
    }
    cli.out = folder;
    // Where all arms are made, one that had begun goes on and one that had not begins.
    cli.resume = args.resume && (args.arm.is_some() || cli.out.join("runs.jsonl").is_file());
    cli.force = args.force;
    cli.part = Some(Part { plan: plan.hash.clone(), arm, arms: plan.arms.len() as u32 });
    session::run(&cli, stop)
}
