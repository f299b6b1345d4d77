//! Ways to compare a run with the reference.
//!
//! Each gate looks at one thing that a wrong barrier would change, and at runs of one program only: the engine's logits
//! say nothing of pictures. What it looks at is either one value for the whole run (a digest, a number) or a list of
//! *cases*, each with its own answer: kernels, scenes, sorts of hazard. Cases make a failure legible, since two bits
//! that break the same three kernels have most likely one cause.

/// The program that a run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// What is swept: the engine's decoding, or the application.
    Main,
    /// `engine ops`.
    Ops,
    /// llama.cpp's `test-backend-ops`.
    BackendOps,
    /// The engine's decoding with Khronos synchronization validation below the layer.
    Validation,
    /// The program `pictures`, off-screen.
    Graphics,
    /// The same in a window, under a virtual X server.
    Window,
}

impl Probe {
    /// The name that stands behind a run's own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Ops => "ops",
            Self::BackendOps => "backend-ops",
            Self::Validation => "validation",
            Self::Graphics => "graphics",
            Self::Window => "window",
        }
    }

    /// Whether issuing operations in another order could show this gate something. Validation judges what is recorded,
    /// in whatever order it comes.
    pub fn sees_order(self) -> bool {
        self != Self::Validation
    }

    /// Whether the owner's variables, which are a driver's, could show this gate something.
    pub fn sees_settings(self) -> bool {
        self != Self::Validation
    }
}

/// A way to compare a run with the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Every bit of every logit vector, by digest.
    Bits,
    /// Perplexity, finite and within [`PERPLEXITY_TOLERANCE`](crate::differences::PERPLEXITY_TOLERANCE).
    Perplexity,
    /// What an application prints, by digest.
    Output,
    /// A number that an application prints, within so many parts per million.
    Value {
        /// The largest relative difference that counts as none, in parts per million.
        ppm: u32,
    },
    /// Every kernel of the engine against its CPU reference.
    Ops,
    /// Every case of llama.cpp's `test-backend-ops`.
    BackendOps,
    /// No hazard that the reference's stream has not.
    Validation,
    /// Pictures, off-screen.
    Graphics,
    /// Pictures in a window.
    Window,
}

impl Gate {
    /// The gates of the engine's decoding.
    pub const OF_DECODING: [Gate; 2] = [Gate::Bits, Gate::Perplexity];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bits => "bits",
            Self::Perplexity => "perplexity",
            Self::Output => "output",
            Self::Value { .. } => "value",
            Self::Ops => "ops",
            Self::BackendOps => "backend-ops",
            Self::Validation => "validation",
            Self::Graphics => "graphics",
            Self::Window => "window",
        }
    }

    /// The program whose runs it looks at.
    pub fn probe(self) -> Probe {
        match self {
            Self::Bits | Self::Perplexity | Self::Output | Self::Value { .. } => Probe::Main,
            Self::Ops => Probe::Ops,
            Self::BackendOps => Probe::BackendOps,
            Self::Validation => Probe::Validation,
            Self::Graphics => Probe::Graphics,
            Self::Window => Probe::Window,
        }
    }
}
