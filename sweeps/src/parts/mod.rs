//! One sweep on several machines.
//!
//! Spreading work is what batch systems are for, so nothing here starts anything elsewhere: `sweep plan` writes the arms
//! into a file, `sweep run` makes one of them wherever it is started, and `sweep merge` joins what came of them. A plan has
//! a hash, each report says of which plan and which arm it is, and what is missing is named.
//!
//! An arm holds a policy *and the reference beside it*: a ratio of runs of two machines would say nothing. So the
//! reference is run once for each arm, and in the merged report each arm stands with its own.

pub mod arguments;
mod merge;
pub mod plan;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::SweepError;
use crate::host;
use crate::programs::beside;
use crate::report::{Part, Report};
use crate::session;
use arguments::{MergeArgs, RunArgs};
pub use merge::merge;
pub use plan::{Plan, Planned, plan};

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
