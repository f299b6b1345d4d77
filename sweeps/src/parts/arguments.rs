//! The arguments of `sweep plan`, `sweep run` and `sweep merge`.

use std::path::PathBuf;

use clap::Args;

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
