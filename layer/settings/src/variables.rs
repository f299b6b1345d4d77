//! The environment variables, as data.
//!
//! The parser takes names and values from here, `zinc-barrier variables` prints it, and a test compares the two
//! kinds of values: whatever this table calls a value is accepted, so that the help cannot promise more than the
//! layer keeps.

use zinc_hazard::Policy;

use crate::{
    DEFAULT_GRANULE, DEFAULT_OUT_OF_BOUNDS, DEFAULT_POLICY, DEFAULT_RANGES, MAX_GRANULE, OutOfBounds, Ranges,
};

/// How every setting of the layer begins.
pub const PREFIX: &str = "ZINC_BARRIER_";

/// Set to `1`, it inserts the implicit layer; the manifest names it.
pub const ENABLE: &str = "ZINC_BARRIER";

/// Set to `1`, it keeps the implicit layer out; the manifest names it.
pub const DISABLE: &str = "DISABLE_ZINC_BARRIER";

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The values that it takes, for people.
    pub values: fn() -> String,
    /// What holds where it is unset or empty.
    pub default: fn() -> String,
    /// What it does, in one or two sentences.
    pub help: &'static str,
}

/// Which barriers reach the driver.
pub const POLICY: Variable = Variable {
    name: "ZINC_BARRIER_POLICY",
    values: || Policy::ALL.map(Policy::name).join(", "),
    default: || DEFAULT_POLICY.name().into(),
    help: "Which barriers reach the driver.",
};

/// The order of operations.
pub const SHUFFLE: Variable = Variable {
    name: "ZINC_BARRIER_SHUFFLE",
    values: || "off, reverse, or a seed (a whole number)".into(),
    default: || "off".into(),
    help: "Issue dispatches and copies in another order wherever the emitted barriers leave it free, so that a \
           missing barrier shows even on a device that runs everything in order. For tests, not for rates.",
};

/// The barrier to lose.
pub const MUTATE: Variable = Variable {
    name: "ZINC_BARRIER_MUTATE",
    values: || "off, or K (a whole number from 0)".into(),
    default: || "off".into(),
    help: "Withhold one emitted barrier of each submission sequence, the K-th, counted from 0: 0 is the first. A \
           check that does not notice is blind.",
};

/// From where the barrier to lose is counted.
pub const MUTATE_COUNT: Variable = Variable {
    name: "ZINC_BARRIER_MUTATE_COUNT",
    values: || "submission, device".into(),
    default: || "submission".into(),
    help: "From where ZINC_BARRIER_MUTATE counts: from the last submission, so that each sequence loses its K-th barrier, or \
           from the device's creation, so that exactly one is lost.",
};

/// Counting for other policies.
pub const WOULD_EMIT: Variable = Variable {
    name: "ZINC_BARRIER_WOULD_EMIT",
    values: || "0, 1".into(),
    default: || "0".into(),
    help: "Also count what each other policy would have emitted for the same stream.",
};

/// The audit.
pub const AUDIT: Variable = Variable {
    name: "ZINC_BARRIER_AUDIT",
    values: || "0, 1".into(),
    default: || "0".into(),
    help: "Hold everything that is submitted against an independent model: each pair of accesses that the application \
           ordered and the issued barriers do not is printed on stderr and counted in the report. Slow.",
};

/// The delay.
pub const DELAY: Variable = Variable {
    name: "ZINC_BARRIER_DELAY",
    values: || "0, 1".into(),
    default: || "0".into(),
    help: "Take away what each operation writes, and give it back only to whom an issued barrier makes it visible, across \
           submissions too; until then the bytes hold a pattern. Shows wrong masks and missing visibility, which another \
           order can't. For tests, not for rates: it is slow, and takes up to four times the memory that is written.",
};

/// Slices.
pub const SLICE: Variable = Variable {
    name: "ZINC_BARRIER_SLICE",
    values: || "0, 1".into(),
    default: || "0".into(),
    help: "Cut each dispatch into pieces and issue them in turn with those of its neighbours, wherever the emitted \
           barriers leave that free: what overlaps in part shows. For tests, not for rates.",
};

/// The trace.
pub const TRACE: Variable = Variable {
    name: "ZINC_BARRIER_TRACE",
    values: || "off, or a path".into(),
    default: || "off".into(),
    help: "Write down every recording with the reasons for each barrier, kept or not, for 'zinc-barrier explain'; %p, %i, %d \
           and %% as in the report's path. The report then names the pairs that most often force a barrier.",
};

/// The report.
pub const REPORT: Variable = Variable {
    name: "ZINC_BARRIER_REPORT",
    values: || "stderr, off, or a path".into(),
    default: || "stderr".into(),
    help: "Where the report goes when a device is destroyed or, failing that, when the process ends: a table on \
           stderr, or JSON in a file. In the path %p is the process, %i its program \
           (another after exec), %d the number of the device in it (from 0), \
           %% a percent sign; without %d, the last device to go overwrites the others.",
};

/// Names in the report.
pub const NAMES: Variable = Variable {
    name: "ZINC_BARRIER_NAMES",
    values: || "0, 1".into(),
    default: || "0".into(),
    help: "Let names of the process and of its pipelines appear in the report.",
};

/// Trust in writes.
pub const OUT_OF_BOUNDS: Variable = Variable {
    name: "ZINC_BARRIER_OUT_OF_BOUNDS",
    values: || OutOfBounds::ALL.map(OutOfBounds::name).join(", "),
    default: || DEFAULT_OUT_OF_BOUNDS.name().into(),
    help: "Where a write through a descriptor may land if the device was made with robustBufferAccess but without \
           robustBufferAccess2: anywhere in the buffer (whole-buffer), as the specification allows for an index out \
           of bounds, or only in the descriptor's range (trust), which holds for applications that index in bounds.",
};

/// How far ranges reach.
pub const RANGES: Variable = Variable {
    name: "ZINC_BARRIER_RANGES",
    values: || Ranges::ALL.map(Ranges::name).join(", "),
    default: || DEFAULT_RANGES.name().into(),
    help: "How far a binding reaches: as far as its descriptor (bound), or as far as the shader's index arithmetic can \
           reach with the dispatch's push constants and workgroups (tight), which takes a part of a millisecond the \
           first time a dispatch is seen.",
};

/// The capture.
pub const CAPTURE: Variable = Variable {
    name: "ZINC_BARRIER_CAPTURE",
    values: || "off, or a path".into(),
    default: || "off".into(),
    help: "For those who work on the layer: write every dispatch with its shader, its push constants and what it binds \
           into a folder, which must not be there yet; %p, %i, %d and %% as in the report's path. The examples of \
           zinc-reflect read it. It holds the application's shaders, and no contents of memory.",
};

/// The granule of ranges.
pub const GRANULE: Variable = Variable {
    name: "ZINC_BARRIER_GRANULE",
    values: || format!("a power of two from 1 to {MAX_GRANULE}"),
    default: || DEFAULT_GRANULE.to_string(),
    help: "Bytes to which ranges are widened before they are compared. The memory model makes disjoint bytes \
           independent; a coarser granule guards against drivers that do not.",
};

/// Everything that this version reads, in the order in which it is shown.
pub const VARIABLES: [Variable; 15] = [
    POLICY,
    SHUFFLE,
    MUTATE,
    MUTATE_COUNT,
    AUDIT,
    DELAY,
    SLICE,
    WOULD_EMIT,
    REPORT,
    TRACE,
    NAMES,
    OUT_OF_BOUNDS,
    RANGES,
    CAPTURE,
    GRANULE,
];

/// Names that other parts of this kit read (its build, its tests): not for the layer, and no typing errors.
pub const OF_THE_KIT: [&str; 10] = [
    "ZINC_BARRIER_BUILT",
    "ZINC_BARRIER_GLSLANG",
    "ZINC_BARRIER_MIRROR",
    "ZINC_BARRIER_NOT_RUN",
    "ZINC_BARRIER_ORACLES",
    "ZINC_BARRIER_PACKETS",
    "ZINC_BARRIER_SHIM",
    "ZINC_BARRIER_UPDATE_SCHEMA",
    "ZINC_BARRIER_VALID_SECONDS",
    "ZINC_BARRIER_VALID_SEED",
];
