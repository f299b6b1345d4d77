//! Which kind of device is wanted.

use clap::ValueEnum;

/// A kind of device that the owner insists on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Require {
    /// A GPU: integrated, discrete or virtual.
    Gpu,
    /// A CPU device such as lavapipe.
    Cpu,
}

impl Require {
    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
        }
    }
}
