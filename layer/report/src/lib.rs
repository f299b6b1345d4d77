//! What the layer says about a device when the device is gone: one JSON document.
//!
//! Two kinds of readers depend on it. Programs (the sweep, plotting scripts) read the JSON, so its shape is a
//! promise: it has a version, [`SCHEMA_VERSION`], and a JSON Schema beside the code, `schema/report.schema.json`,
//! which a test keeps equal to the types here. People read the [table](Report::table), which says in words what
//! the numbers can and cannot show.
//!
//! The crate knows nothing of Vulkan and of how counts come about. It only refuses numbers that contradict each
//! other ([`Counts::check`]), because a report that does not add up is worse than none.
//!
//! # The rule for versions
//!
//! - A new field that readers may ignore keeps the number. Readers therefore accept unknown fields, and a field
//!   that was added later is optional, or has a default for documents that lack it.
//! - Anything else raises [`SCHEMA_VERSION`]: a field removed or renamed, another type or unit, another meaning
//!   under the same name, a new word in an enumeration that readers match on.
//! - A reader refuses every number but its own ([`Report::from_json`]): a wrong figure is worse than no figure.

mod counts;
mod device;
mod grid;
mod read;
mod report;
mod table;
mod words;

#[cfg(test)]
mod schema;

/// The version of a line of the layer's trace (`ZINC_BARRIER_TRACE`); a reader refuses others.
pub const TRACE_VERSION: u64 = 1;

pub use counts::{Counts, Hazards, Inconsistent};
pub use device::{Device, DeviceType, api_version_text};
pub use read::ReadError;
pub use report::{
    Audit, HazardKind, OutOfBounds, Ranges, Replayed, Report, SCHEMA_VERSION, Witness, WitnessRange,
    WrittenAt,
};
