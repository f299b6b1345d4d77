//! What the masks of a barrier mean, read from the specification a second time.
//!
//! `scope` reads the same tables for the tracker. Were the model to call it, a mistake there would be in both and no
//! test could see it; so this file starts again from Vulkan 1.4, chapter 7 (7.1.2 "Pipeline Stages", 7.1.3 "Access
//! Types"), as plain tables of bit numbers, and a test compares the two readings bit by bit.
//!
//! Three decisions, each with its place in the specification:
//!
//! - `TOP_OF_PIPE` in a second scope and `BOTTOM_OF_PIPE` in a first one are `ALL_COMMANDS` *with an access mask of
//!   zero*: they order execution and never memory, whatever flags stand beside them.
//! - Logically earlier and later stages join for execution only ("access scopes do not interact with the logically
//!   earlier or later stages").
//! - A bit that no published stage has today belongs to `ALL_COMMANDS`, which is every stage of every command, and to
//!   no other compound.

use crate::scope::Barrier;

const TOP_OF_PIPE: u64 = 1;
const DRAW_INDIRECT: u64 = 1 << 1;
const VERTEX_INPUT: u64 = 1 << 2;
const VERTEX_SHADER: u64 = 1 << 3;
const TESSELLATION_CONTROL: u64 = 1 << 4;
const TESSELLATION_EVALUATION: u64 = 1 << 5;
const GEOMETRY_SHADER: u64 = 1 << 6;
const FRAGMENT_SHADER: u64 = 1 << 7;
const EARLY_FRAGMENT_TESTS: u64 = 1 << 8;
const LATE_FRAGMENT_TESTS: u64 = 1 << 9;
const COLOR_ATTACHMENT_OUTPUT: u64 = 1 << 10;
const COMPUTE_SHADER: u64 = 1 << 11;
const ALL_TRANSFER: u64 = 1 << 12;
const BOTTOM_OF_PIPE: u64 = 1 << 13;
pub(super) const HOST: u64 = 1 << 14;
const ALL_GRAPHICS: u64 = 1 << 15;
const ALL_COMMANDS: u64 = 1 << 16;
const CONDITIONAL_RENDERING: u64 = 1 << 18;
const TASK_SHADER: u64 = 1 << 19;
const MESH_SHADER: u64 = 1 << 20;
const RAY_TRACING_SHADER: u64 = 1 << 21;
const FRAGMENT_SHADING_RATE: u64 = 1 << 22;
const FRAGMENT_DENSITY_PROCESS: u64 = 1 << 23;
const TRANSFORM_FEEDBACK: u64 = 1 << 24;
const ACCELERATION_STRUCTURE_COPY: u64 = 1 << 28;
const COPY: u64 = 1 << 32;
const RESOLVE: u64 = 1 << 33;
const BLIT: u64 = 1 << 34;
const CLEAR: u64 = 1 << 35;
const INDEX_INPUT: u64 = 1 << 36;
const VERTEX_ATTRIBUTE_INPUT: u64 = 1 << 37;
const PRE_RASTERIZATION: u64 = 1 << 38;
const SUBPASS_SHADER: u64 = 1 << 39;
const INVOCATION_MASK: u64 = 1 << 40;
const CLUSTER_CULLING_SHADER: u64 = 1 << 41;
const COPY_INDIRECT: u64 = 1 << 46;

/// The bits that stand for others. No operation executes at one of them.
const COMPOUND: u64 = TOP_OF_PIPE
    | VERTEX_INPUT
    | ALL_TRANSFER
    | BOTTOM_OF_PIPE
    | ALL_GRAPHICS
    | ALL_COMMANDS
    | PRE_RASTERIZATION;

const TRANSFERS: u64 = COPY | RESOLVE | BLIT | CLEAR | ACCELERATION_STRUCTURE_COPY;

const BEFORE_RASTERIZATION: u64 = VERTEX_SHADER
    | TESSELLATION_CONTROL
    | TESSELLATION_EVALUATION
    | GEOMETRY_SHADER
    | TASK_SHADER
    | MESH_SHADER
    | CLUSTER_CULLING_SHADER;

const GRAPHICS: u64 = DRAW_INDIRECT
    | INDEX_INPUT
    | VERTEX_ATTRIBUTE_INPUT
    | BEFORE_RASTERIZATION
    | TRANSFORM_FEEDBACK
    | FRAGMENT_SHADING_RATE
    | FRAGMENT_DENSITY_PROCESS
    | CONDITIONAL_RENDERING
    | EARLY_FRAGMENT_TESTS
    | FRAGMENT_SHADER
    | LATE_FRAGMENT_TESTS
    | COLOR_ATTACHMENT_OUTPUT
    | SUBPASS_SHADER
    | INVOCATION_MASK;

/// Compound stage bits and what they name, on either side.
const STANDS_FOR: [(u64, u64); 5] = [
    (ALL_COMMANDS, !COMPOUND & !HOST),
    (ALL_GRAPHICS, GRAPHICS),
    (ALL_TRANSFER, TRANSFERS),
    (VERTEX_INPUT, INDEX_INPUT | VERTEX_ATTRIBUTE_INPUT),
    (PRE_RASTERIZATION, BEFORE_RASTERIZATION),
];

/// The pipelines, each as its stages in their logical order; an entry of several bits is several stages without an
/// order among them. Conditional rendering has no specified place, and so no entry.
const PIPELINES: [&[u64]; 6] = [
    &[
        DRAW_INDIRECT,
        INDEX_INPUT,
        VERTEX_ATTRIBUTE_INPUT,
        VERTEX_SHADER,
        TESSELLATION_CONTROL,
        TESSELLATION_EVALUATION,
        GEOMETRY_SHADER,
        TRANSFORM_FEEDBACK,
        FRAGMENT_SHADING_RATE,
        EARLY_FRAGMENT_TESTS,
        FRAGMENT_SHADER,
        LATE_FRAGMENT_TESTS,
        COLOR_ATTACHMENT_OUTPUT,
    ],
    &[
        DRAW_INDIRECT,
        TASK_SHADER,
        MESH_SHADER,
        FRAGMENT_SHADING_RATE,
        EARLY_FRAGMENT_TESTS,
        FRAGMENT_SHADER,
        LATE_FRAGMENT_TESTS,
        COLOR_ATTACHMENT_OUTPUT,
    ],
    // Tile-based shading reads the density map before the early tests; its place is not fixed further.
    &[
        FRAGMENT_DENSITY_PROCESS,
        EARLY_FRAGMENT_TESTS,
        FRAGMENT_SHADER,
        LATE_FRAGMENT_TESTS,
        COLOR_ATTACHMENT_OUTPUT,
    ],
    &[DRAW_INDIRECT, COMPUTE_SHADER],
    &[DRAW_INDIRECT, RAY_TRACING_SHADER],
    &[COPY_INDIRECT, TRANSFERS],
];

const SHADER_READ: u64 = 1 << 5;
const SHADER_WRITE: u64 = 1 << 6;
const MEMORY_READ: u64 = 1 << 15;
const MEMORY_WRITE: u64 = 1 << 16;
const SHADER_SAMPLED_READ: u64 = 1 << 32;
const SHADER_STORAGE_READ: u64 = 1 << 33;
const SHADER_STORAGE_WRITE: u64 = 1 << 34;

/// Flags that stand for others.
const COMPOUND_FLAGS: u64 = SHADER_READ | SHADER_WRITE | MEMORY_READ | MEMORY_WRITE;

/// Bit numbers of the reads that this crate names: indirect, index, vertex, uniform, input attachment, colour, depth,
/// transfer, host, preprocess, conditional rendering, sampled, storage.
const READS: [u32; 13] = [0, 1, 2, 3, 4, 7, 9, 11, 13, 17, 20, 32, 33];

/// Bit numbers of the writes that this crate names: colour, depth, transfer, host, preprocess, storage.
const WRITES: [u32; 6] = [8, 10, 12, 14, 18, 34];

fn bits(numbers: &[u32]) -> u64 {
    numbers.iter().fold(0, |mask, n| mask | 1 << n)
}

/// A barrier with every mask spelled out: no bit left that stands for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelled {
    /// Stages whose accesses the first scope covers.
    pub src_stages: u64,
    /// Flags of the accesses that the first scope covers.
    pub src_flags: u64,
    /// Stages whose execution the first scope covers.
    pub src_execution: u64,
    /// Stages whose accesses the second scope covers.
    pub dst_stages: u64,
    /// Flags of the accesses that the second scope covers.
    pub dst_flags: u64,
    /// Stages whose execution the second scope covers.
    pub dst_execution: u64,
}

impl Spelled {
    pub fn new(barrier: &Barrier) -> Spelled {
        let (src, dst) = (barrier.src.stages.bits(), barrier.dst.stages.bits());
        Spelled {
            src_stages: named_stages(src),
            src_flags: named_flags(barrier.src.flags.bits()),
            src_execution: with_earlier(
                named_stages(src) | if src & BOTTOM_OF_PIPE != 0 { everything() } else { 0 },
            ),
            dst_stages: named_stages(dst),
            dst_flags: named_flags(barrier.dst.flags.bits()),
            dst_execution: with_later(
                named_stages(dst) | if dst & TOP_OF_PIPE != 0 { everything() } else { 0 },
            ),
        }
    }
}

/// What `ALL_COMMANDS` names.
fn everything() -> u64 {
    named_stages(ALL_COMMANDS)
}

/// The stages that a mask names explicitly.
fn named_stages(mask: u64) -> u64 {
    STANDS_FOR
        .iter()
        .filter(|(bit, _)| mask & bit != 0)
        .fold(mask & !COMPOUND, |named, (_, stands_for)| named | stands_for)
}

/// The flags that a mask names. A flag without a name here is a read or a write of some extension: `MEMORY_READ` and
/// `MEMORY_WRITE` both take it in.
fn named_flags(mask: u64) -> u64 {
    let unnamed = !(bits(&READS) | bits(&WRITES) | COMPOUND_FLAGS);
    let mut named = mask & !COMPOUND_FLAGS;
    for (bit, stands_for) in [
        (SHADER_READ, SHADER_SAMPLED_READ | SHADER_STORAGE_READ),
        (SHADER_WRITE, SHADER_STORAGE_WRITE),
        (MEMORY_READ, bits(&READS) | unnamed),
        (MEMORY_WRITE, bits(&WRITES) | unnamed),
    ] {
        if mask & bit != 0 {
            named |= stands_for;
        }
    }
    named
}

/// Adds the logically earlier stages of every pipeline.
fn with_earlier(stages: u64) -> u64 {
    let mut all = stages;
    for pipeline in PIPELINES {
        for (place, later) in pipeline.iter().enumerate() {
            if stages & later != 0 {
                pipeline[..place].iter().for_each(|earlier| all |= earlier);
            }
        }
    }
    all
}

/// Adds the logically later stages of every pipeline.
fn with_later(stages: u64) -> u64 {
    let mut all = stages;
    for pipeline in PIPELINES {
        for (place, earlier) in pipeline.iter().enumerate() {
            if stages & earlier != 0 {
                pipeline[place + 1..].iter().for_each(|later| all |= later);
            }
        }
    }
    all
}
