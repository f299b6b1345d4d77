//! Why a module could not be read.
//!
//! These errors say that the words are no SPIR-V module, or not one that this crate can take apart safely. They are
//! different from `EntryPoint::unknown`, which says that the module was read and something in it has a meaning that
//! this crate doesn't know. A caller treats both alike: the pipeline reads and writes everything.

use thiserror::Error;

/// Why the words are not a SPIR-V module that can be reflected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReflectError {
    /// Fewer than the five words of a header.
    #[error("{words} words are too few for a SPIR-V header, which has five: is the file cut off?")]
    NoHeader {
        /// Number of words given.
        words: usize,
    },
    /// The magic number in the wrong byte order.
    #[error("the module is in the other byte order: swap the bytes of every word first")]
    ByteSwapped,
    /// The first word is no magic number.
    #[error("the first word is {0:#010x} and not SPIR-V's magic number 0x07230203: this is no SPIR-V module")]
    BadMagic(u32),
    /// The module is well-formed, and lacks the entry point.
    #[error("the module has no compute entry point {name:?}: is it the name that the pipeline gives?")]
    NoEntryPoint {
        /// The name that was asked for.
        name: String,
    },
    /// An instruction reaches past the end, is too short for its opcode, or contradicts an earlier one.
    #[error("malformed SPIR-V at word {at}: {what}")]
    Malformed {
        /// Offset of the instruction in words from the start of the module.
        at: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl ReflectError {
    /// A malformed instruction at word `at`.
    pub(crate) fn malformed(at: usize, what: impl Into<String>) -> Self {
        ReflectError::Malformed { at, what: what.into() }
    }
}
