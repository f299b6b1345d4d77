//! Every error that a command can end with, and the exit status that goes with it.
//!
//! Status 2 says that the command line asks for something that makes no sense, 3 that something is not there (a model,
//! a driver, a device), 1 anything else.

use crate::{chat, decode, gguf, hub, model, packages, perplexity, plan, synth, tokenizer, vk};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model file is missing or damaged.
    #[error("model {name}: {source}")]
    Gguf {
        /// The model as it was given.
        name: String,
        /// What is wrong.
        source: gguf::Error,
    },
    /// The model is well-formed, and the engine cannot run it.
    #[error("model {name}: {source}")]
    Model {
        /// The model as it was given.
        name: String,
        /// What is wrong.
        source: model::Error,
    },
    /// The model's tokenizer cannot be used.
    #[error("model {name}: {source}")]
    Tokenizer {
        /// The model as it was given.
        name: String,
        /// What is wrong.
        source: tokenizer::Error,
    },
    /// Vulkan failed.
    #[error(transparent)]
    Vulkan(#[from] vk::Error),
    /// Decoding failed.
    #[error(transparent)]
    Decode(#[from] decode::Error),
    /// The text cannot be scored.
    #[error(transparent)]
    Perplexity(#[from] perplexity::Error),
    /// A text cannot be encoded.
    #[error(transparent)]
    Text(#[from] tokenizer::Error),
    /// A conversation cannot be written down.
    #[error(transparent)]
    Chat(#[from] chat::Error),
    /// A model cannot be had from a hub.
    #[error(transparent)]
    Hub(#[from] hub::Error),
    /// A model cannot be had from a package registry.
    #[error(transparent)]
    Packages(#[from] packages::Error),
    /// A vocabulary cannot be used.
    #[error("vocabulary {name}: {source}")]
    Vocabulary {
        /// Where it comes from.
        name: String,
        /// What is wrong.
        source: synth::VocabularyError,
    },
    /// Logits that are not numbers.
    #[error(
        "{what}: the model's weights are damaged, or the device computes them wrongly; compare with engine perplexity --via \
         reference, which needs no device"
    )]
    NotNumbers {
        /// Which.
        what: String,
    },
    /// Something that could be fetched is not there.
    #[error("{0}")]
    Absent(String),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The path as it was given.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file cannot be written; nothing was left behind.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The path as it was given.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// `engine ops` found disagreement.
    #[error("{0}")]
    Ops(String),
}

impl Error {
    /// The process's exit status.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Hub(hub::Error::Name(_))
            | Self::Packages(packages::Error::Unknown(_))
            | Self::Perplexity(perplexity::Error::ChunkTooShort(_))
            | Self::Decode(decode::Error::Plan(plan::Error::Context { .. })) => 2,
            Self::Gguf { source: gguf::Error::Open { .. } | gguf::Error::MissingPart { .. }, .. }
            | Self::Absent(_)
            | Self::Hub(_)
            | Self::Packages(packages::Error::NoPip(_)) => 3,
            Self::Vulkan(e) | Self::Decode(decode::Error::Vulkan(e)) if e.is_missing_device() => 3,
            _ => 1,
        }
    }

    /// Whether the reader of our output went away, which is no error to talk about.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe)
    }
}
