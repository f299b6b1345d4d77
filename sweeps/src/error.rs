//! Why a sweep stops, and with which exit status.
//!
//! What goes wrong *inside* an arm is never one of these: a child that crashes, hangs or prints garbage is an outcome
//! of its arm, recorded in the report, and the next arm runs. These are the reasons for which there is no report to
//! be had at all.

use std::path::PathBuf;

/// A reason for the sweep as a whole to end.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A driver, model, engine or layer that was needed is not here: exit 3.
    #[error("{0}")]
    Missing(String),
    /// Something was asked for that a driver, asked itself, does not know: exit 2.
    #[error("{0}")]
    Usage(String),
    /// The report cannot be written: exit 1.
    #[error(
        "cannot write the report to '{}': {source}; give a folder that can be written with --out",
        .path.display()
    )]
    Output {
        /// The folder or file that could not be written.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The runs that everything is compared with failed, so that nothing can be concluded: exit 1.
    #[error("{0}")]
    Reference(String),
    /// Something of this machine failed under the sweep itself (no temporary folder, no process to be had): exit 1.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The owner pressed Ctrl-C or asked the process to end: exit 130.
    #[error("interrupted; the arms that were finished are in the report")]
    Interrupted,
}

impl SweepError {
    /// The exit status that this ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Missing(_) => 3,
            Self::Usage(_) => 2,
            Self::Output { .. } | Self::Reference(_) | Self::System { .. } => 1,
            Self::Interrupted => 130,
        }
    }
}
