//! GGUF versions 2 and 3: the file that holds a model.
//!
//! A model file is input from strangers, often gigabytes long and often cut off by a broken download. Three decisions
//! follow from that:
//!
//! * **Nothing is believed.** Every count, length and offset is checked against the bytes that are really there
//!   before it is used, with arithmetic that cannot wrap. A file can make the reader refuse; it cannot make it panic,
//!   read elsewhere, or allocate more than a small multiple of the file's own size.
//! * **Nothing is copied.** The file is mapped; strings, arrays and tensors are slices of the mapping ([`Value`],
//!   [`Array`], [`TensorInfo`]). A vocabulary of a hundred thousand strings costs nothing until someone walks it.
//! * **Layout is one thing, support another.** The reader knows the block size of every tensor type that GGUF has
//!   ([`TensorType`]), so it can check and list any file; which types the engine computes with is the business of
//!   [`crate::model`].
//!
//! The format is described in ggml's `docs/gguf.md`; type numbers and block sizes are those of `enum ggml_type`.

mod cursor;
mod file;
mod read;
pub(crate) mod split;
mod types;
mod value;
mod write;

#[cfg(test)]
mod hostile_tests;

pub use file::ModelFile;
pub(crate) use read::required;
pub use read::{Gguf, TensorInfo};
pub use types::TensorType;
pub use value::{Array, Value, ValueType};
pub use write::Writer;

/// What is wrong with a file, or with the way to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened or mapped.
    #[error("cannot read the model {path}: {source}")]
    Open {
        /// The path as it was given.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A part of a split model cannot be opened.
    #[error(
        "cannot read {path}, which is part {number} of {count} of this model: {source}; all parts lie in one folder"
    )]
    MissingPart {
        /// Where it should be.
        path: String,
        /// Number of the part, from 1.
        number: u64,
        /// Number of parts.
        count: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// A part of a split model whose name does not say so.
    #[error(
        "it is part {number} of {count} of a split model, and its name does not end in {ending}, so the other parts cannot be \
         found: give all parts their names back, or make one file of them with llama-gguf-split --merge"
    )]
    PartName {
        /// Number of the part, from 1.
        number: u64,
        /// Number of parts.
        count: u64,
        /// How its name should end.
        ending: String,
    },
    /// Something is wrong with a part of a split model.
    #[error("part {path}: {source}")]
    Part {
        /// The part.
        path: String,
        /// What is wrong.
        source: Box<Error>,
    },
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with {found}, not with \"GGUF\"")]
    Magic {
        /// The bytes found, printable.
        found: String,
    },
    /// A version that this reader does not know.
    #[error("GGUF version {0} is not supported: supported are 2 and 3; convert the model again with a current llama.cpp, which writes version 3{hint}", hint = if *.0 == 0x0300_0000 { " (this file is big-endian)" } else { "" })]
    Version(u32),
    /// Something should continue, and the file ends.
    #[error(
        "the file is truncated: {what} at byte {offset} needs {needed} bytes, and the file has {available} left; \
         download it again"
    )]
    Truncated {
        /// What was being read.
        what: String,
        /// Where it begins.
        offset: u64,
        /// How many bytes it needs.
        needed: u64,
        /// How many there are.
        available: u64,
    },
    /// The file contradicts itself or the format.
    #[error("the file is damaged or not GGUF: {0}")]
    Malformed(String),
    /// A tensor type number that GGUF does not define.
    #[error("tensor {tensor} has the unknown type {id}; known types are {known}", known = TensorType::list())]
    UnknownType {
        /// The tensor's name.
        tensor: String,
        /// The number found.
        id: u32,
    },
    /// A metadata key is not there.
    #[error("the model has no metadata key {0}: it is not complete, or not a language model")]
    MissingKey(String),
    /// A metadata key holds something else than expected.
    #[error("the metadata key {key} holds {found}, expected {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
}
