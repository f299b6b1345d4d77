//! What the layer and the programs around it agree on: the variables that set it, the manifests through which the loader
//! finds it, the folders in which the loader looks, and how a file is written where others may be reading.
//!
//! Each of these has two sides. The layer reads the variables that a sweep sets; a sweep hides the manifests that
//! `zinc-barrier install` writes; the doctor searches where the loader does. So each is here, once. The crate is linked
//! into the layer, and with it into other people's processes: it depends on little, and does nothing on its own.

pub mod elsewhere;
pub mod files;
pub mod manifest;
pub mod search;
mod settings;
mod shuffle;
pub mod variables;
pub mod writing;

pub use elsewhere::Elsewhere;
pub use settings::{
    DEFAULT_GRANULE, DEFAULT_OUT_OF_BOUNDS, DEFAULT_POLICY, DEFAULT_RANGES, Destination, MAX_GRANULE,
    Settings, unknown_variables,
};
pub use shuffle::{Shuffle, UnknownShuffle};
pub use zinc_report::{OutOfBounds, Ranges};

use std::ffi::OsStr;

/// Text of the user's for a message: no character that could break the line or steer a terminal.
pub fn printable(value: &OsStr) -> String {
    value.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A whole number from 0, written with digits alone.
fn number(s: &str) -> Option<u64> {
    // u64's own parser would also take a leading plus.
    s.parse().ok().filter(|_| s.bytes().all(|b| b.is_ascii_digit()))
}
