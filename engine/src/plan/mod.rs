//! The plan: one decode token as a list of steps, before any Vulkan.
//!
//! Everything that the device will be told (which kernel, which bytes it reads and writes, push constants, grid) is
//! decided here, as plain data. That makes three things simple. Tests can look at a token without a driver: which
//! steps depend on which, whether every byte read was written before. Recording is a loop without decisions, so each
//! way of recording gives the same stream. And a different schedule (fused kernels, another order, barriers only where
//! due) is a different builder of the same data, not a different engine.
//!
//! Buffers appear as [`Space`]s, bytes as [`Span`]s. Activations live in one arena; each intermediate has a span of its
//! own there for the whole plan, and layers reuse those spans. So a step's output may be overwritten one layer later:
//! the write-after-read hazards that a real application has are here too, and visible in the spans.

mod attention;
pub mod barriers;
mod chain;
mod coop;
mod decode;
mod fused;
pub(crate) mod kernels;
mod layout;
mod prompt;
mod resident;
mod tile;

#[cfg(test)]
mod tests;

pub(crate) use attention::{
    CoopAttention, attention_shape, block_order, block_order_words, fitting_attention, key_positions,
};
pub use chain::Handoff;
pub(crate) use chain::{EMPTY, chained_tiling};
pub(crate) use coop::CoopTile;
pub use coop::{CoopTuning, Cooperative, Fragment, Shapes};
pub(crate) use decode::rope_tables;
pub use decode::{Options, decode};
pub use fused::{Fusion, Parts};
pub use layout::{Arena, Arenas, Limits, Part, Placed, Placement, place};
pub use prompt::{Logits, batch_bytes, prompt};
pub(crate) use tile::{Crew, Tiling, Work as Cut};

use zinc_shaders::{Call, Direction};

/// What cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A buffer range beyond what the device can bind.
    #[error(
        "{what} takes {bytes} bytes, and this device binds at most {largest} in one storage buffer range; use a smaller \
         model or context, or another device"
    )]
    Range {
        /// What it is.
        what: String,
        /// Its size.
        bytes: u64,
        /// The device's `maxStorageBufferRange`.
        largest: u64,
    },
    /// An allocation beyond what the device can make.
    #[error(
        "{what} takes {bytes} bytes, and this device allocates at most {largest} at once; use a smaller model or \
         context, or another device"
    )]
    Allocation {
        /// What it is.
        what: String,
        /// Its size.
        bytes: u64,
        /// The device's `maxMemoryAllocationSize`.
        largest: u64,
    },
    /// A tensor whose elements a 32-bit index cannot count.
    #[error("tensor {name} has {elements} elements; the kernels index at most 4294967295")]
    Index {
        /// The tensor.
        name: String,
        /// Its elements.
        elements: u64,
    },
    /// A context length that the model was not trained for, or none.
    #[error(
        "a context of {asked} tokens is outside 1 to {trained}, the length that this model was trained for"
    )]
    Context {
        /// What was asked.
        asked: u32,
        /// What the model allows.
        trained: u32,
    },
    /// A fused step that the device cannot run.
    #[error(
        "the fused step {step} with {columns} columns does not fit a workgroup of this device; use --fusion none"
    )]
    Unfused {
        /// The step.
        step: String,
        /// Columns of its matrix.
        columns: u32,
    },
    /// A tile that the kernel on cooperative matrices cannot have.
    #[error(
        "{tile} on cooperative matrices of {fragment} does not fit a workgroup of this device, or its parts do \
         not go into one another; use --matrix plain"
    )]
    Cooperative {
        /// Its sizes.
        tile: String,
        /// The shape that the device multiplies.
        fragment: String,
    },
    /// A model that the resident kernel does not do.
    #[error("--fusion persistent does not do {what}; use --fusion all")]
    NotResident {
        /// Why.
        what: String,
    },
    /// Steps that cannot hand over by their values.
    #[error("--handoff values does not do {what}; use --fusion all, or --handoff barriers")]
    NotChained {
        /// Why.
        what: &'static str,
    },
    /// A grid beyond the device's limits.
    #[error(
        "{step} needs a grid of {x} x {y} workgroups, and this device dispatches at most {most_x} x {most_y}"
    )]
    Grid {
        /// The step.
        step: String,
        /// Workgroups along x.
        x: u64,
        /// Workgroups along y.
        y: u64,
        /// Limit along x.
        most_x: u32,
        /// Limit along y.
        most_y: u32,
    },
}

/// A buffer, by its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Weights; a large model is split over several allocations.
    Weights(u32),
    /// Tables computed by the host before the first token (cosines and sines).
    Constants,
    /// What moves from token to token: position and token id, written by the host before each submission.
    Step,
    /// Keys and values of earlier tokens; a long context is split over several allocations.
    Cache(u32),
    /// Intermediates of one token.
    Arena,
    /// Counters that kernels leave at zero; zero before the first token.
    Control,
    /// Tokens that the device chose, by position, where the host reads them.
    Tokens,
    /// Logits, where the host reads them.
    Readback,
}

/// Bytes of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Which buffer.
    pub space: Space,
    /// First byte; a multiple of the plan's alignment.
    pub offset: u64,
    /// Number of bytes, above zero.
    pub bytes: u64,
}

impl Span {
    /// How many floats it holds.
    fn floats(&self) -> u32 {
        (self.bytes / 4) as u32
    }

    /// The floats of a part's rows, of one for each row of the whole matrix.
    fn rows(&self, part: &Part) -> Self {
        let (offset, bytes) = (self.offset + 4 * u64::from(part.first_row), 4 * u64::from(part.rows));
        Self { offset, bytes, ..*self }
    }

    /// Whether they share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.space == other.space
            && self.offset < other.offset + other.bytes
            && other.offset < self.offset + self.bytes
    }
}

/// A kernel with everything that a dispatch of it needs; made by the functions of `kernels`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch<B = Span> {
    /// The kernel with its constants and what is bound: in a plan, exactly the bytes that the kernel may touch.
    pub call: Call<B>,
    /// Workgroups along x and y.
    pub grid: [u32; 2],
    /// How the grid shrinks with the context, for kernels whose work grows with it.
    pub reach: Option<Reach>,
    /// Whether it waits by itself for what the dispatch before hands over, so that no barrier stands between them.
    pub waits: bool,
}

/// A grid that covers positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Along x (0) or y (1).
    pub axis: usize,
    /// Positions that one workgroup takes.
    pub positions: u32,
}

impl<B> Dispatch<B> {
    /// So many workgroups along x and y.
    pub(crate) fn new(call: Call<B>, grid: [u32; 2]) -> Self {
        Self { call, grid, reach: None, waits: false }
    }

    /// One invocation for each of `count` elements of each of `rows` rows.
    pub(crate) fn over(call: Call<B>, count: u32, rows: u32) -> Self {
        let groups = count.div_ceil(call.workgroup());
        Self::new(call, [groups, rows])
    }

    /// The grid for a context of at most `positions` tokens.
    pub fn grid_at(&self, positions: u32) -> [u32; 2] {
        let mut grid = self.grid;
        if let Some(Reach { axis, positions: each }) = self.reach {
            grid[axis] = grid[axis].min(positions.div_ceil(each)).max(1);
        }
        grid
    }
}

impl Dispatch {
    /// As a step of this name, unless the device cannot bind or dispatch it.
    fn step(self, name: &'static str, layer: Option<u32>, limits: &Limits) -> Result<Step, Error> {
        for span in &self.call.bindings {
            limits.check_range(name, span.bytes)?;
        }
        let ([x, y], [most_x, most_y]) = (self.grid, limits.grid);
        if x > most_x || y > most_y {
            return Err(Error::Grid { step: name.to_owned(), x: x.into(), y: y.into(), most_x, most_y });
        }
        Ok(Step { layer, name, work: Work::Dispatch(self) })
    }
}

/// Workgroups of a matrix-vector kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Invocations in a workgroup: a power of two, at least 4.
    pub workgroup: u32,
    /// Rows that a workgroup computes.
    pub rows: u32,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Runs a kernel.
    Dispatch(Dispatch),
    /// Copies bytes between buffers (vkCmdCopyBuffer); both spans have the same length.
    Copy {
        /// Source.
        from: Span,
        /// Destination.
        to: Span,
    },
}

/// One step of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The layer, if the step belongs to one.
    pub layer: Option<u32>,
    /// What it computes, such as `ffn_gate`.
    pub name: &'static str,
    /// How.
    pub work: Work,
}

impl Step {
    /// The bytes that the step may read or write.
    pub fn accesses(&self) -> Vec<(Span, Direction)> {
        match &self.work {
            Work::Dispatch(Dispatch { call, .. }) => {
                call.bindings.iter().copied().zip(call.kernel.bindings.iter().copied()).collect()
            }
            Work::Copy { from, to } => vec![(*from, Direction::Read), (*to, Direction::Write)],
        }
    }

    /// `ffn_gate` or `blk.3.ffn_gate`.
    pub fn label(&self) -> String {
        match self.layer {
            Some(layer) => format!("blk.{layer}.{}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// Whether the two touch a common byte that at least one of them writes.
    pub fn conflicts(&self, other: &Self) -> bool {
        let theirs = other.accesses();
        self.accesses().iter().any(|(span, direction)| {
            theirs.iter().any(|(other, other_direction)| {
                span.overlaps(other) && (direction.writes() || other_direction.writes())
            })
        })
    }
}

/// A token's steps and the buffers that they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In order of execution.
    pub steps: Vec<Step>,
    /// Buffers beside the weights, with their sizes in bytes.
    pub buffers: Vec<(Space, u64)>,
    /// Words that the host puts in place before the first token.
    pub uploads: Vec<(Span, Vec<u32>)>,
    /// A word that is not zero after a token in which a kernel gave up waiting for others.
    pub failed: Option<Span>,
}

impl Plan {
    /// Number of vkCmdDispatch calls.
    pub fn dispatches(&self) -> u64 {
        self.steps.iter().filter(|step| matches!(step.work, Work::Dispatch(_))).count() as u64
    }

    /// Size of a buffer, 0 if the plan does not use it.
    pub fn bytes(&self, space: Space) -> u64 {
        self.buffers.iter().find(|b| b.0 == space).map_or(0, |b| b.1)
    }
}

/// What a device has beyond what every device has, as far as kernels use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Dot products of four signed bytes (`shaderIntegerDotProduct`).
    pub dot: bool,
    /// `vulkanMemoryModel` and `vulkanMemoryModelDeviceScope`.
    pub memory_model: bool,
    /// On a CPU driver, how many invocations run in step (`subgroupSize`).
    pub in_step: Option<u32>,
}

/// Workgroup shapes by kind of kernel. Results may differ between tunings in the last bits, since sums change their
/// order; on one device the tuning is fixed, so its bits are too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Element-wise kernels, embedding lookup, attention.
    pub element: u32,
    /// Kernels with one workgroup for a whole vector: norm and softmax.
    pub reduce: u32,
    /// Matrix-vector kernels.
    pub matvec: Shape,
    /// Fused kernels.
    pub fused: FusedTuning,
    /// The kernel on cooperative matrices.
    pub coop: CoopTuning,
}

/// Sizes of the fused kernels. The bits of a result depend on `threads`, `groups`, `lanes` and `units`, which decide how many
/// invocations share a row, and on those of attention, and not on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FusedTuning {
    /// Invocations in a workgroup of a matrix-vector step, at most.
    pub threads: u32,
    /// Workgroups of a matrix-vector step: the device's processors. A step that does not fit one pass has twice as many.
    pub groups: u32,
    /// Invocations in a workgroup of such a step, at most.
    pub wide_threads: u32,
    /// The same where steps wait for values.
    pub chain_threads: u32,
    /// Invocations that a processor should have at least, if there are so many units.
    pub lanes: u32,
    /// Units that an invocation has in flight, at most 16 (see units.glsl).
    pub units: u32,
    /// Invocations in a workgroup of attention.
    pub attention_threads: u32,
    /// Positions in a tile of attention.
    pub tile: u32,
    /// Positions of a tile whose keys an invocation has, where four or more query heads share a key: it reads a query from
    /// shared memory once for all of them.
    pub key_positions: u32,
    /// Workgroups of attention, at most: the splits of all heads together.
    pub attention_groups: u32,
    /// Megabytes of the weights of later steps that are read during attention, so that a large cache has them; 0 for none.
    pub prefetch: u32,
    /// The same during the projection that follows attention.
    pub prefetch_output: u32,
    /// Workgroups of the resident kernel: no more than are resident at once.
    pub resident_groups: u32,
    /// Invocations in a workgroup of the resident kernel.
    pub resident_threads: u32,
}

impl Tuning {
    /// A CPU driver such as lavapipe runs a workgroup on one core, eight invocations at a time in its vector lanes:
    /// small workgroups without idle lanes, and many rows each, since starting a workgroup costs more than a row.
    pub const CPU: Self = Self {
        element: 64,
        reduce: 8,
        matvec: Shape { workgroup: 8, rows: 8 },
        fused: FusedTuning {
            threads: 32,
            groups: 8,
            wide_threads: 32,
            chain_threads: 32,
            lanes: 8,
            units: 8,
            attention_threads: 32,
            tile: 8,
            key_positions: 1,
            attention_groups: 16,
            prefetch: 0,
            prefetch_output: 0,
            resident_groups: 1,
            resident_threads: 8,
        },
        coop: CoopTuning::SMALLEST,
    };
    /// A GPU wants enough workgroups to fill its processors, and 32 or 64 invocations in step.
    pub const GPU: Self = Self {
        element: 64,
        reduce: 256,
        matvec: Shape { workgroup: 64, rows: 2 },
        fused: FusedTuning {
            threads: 640,
            groups: 132,
            wide_threads: 256,
            chain_threads: 512,
            lanes: 512,
            units: 10,
            attention_threads: 256,
            tile: 128,
            key_positions: 2,
            // Somewhat more than two for each of an H200's 132 processors: 4096 positions and some are then 33 tiles for 34
            // splits, or for 17, and none has one more than the others.
            attention_groups: 272,
            prefetch: 0,
            prefetch_output: 0,
            resident_groups: 132,
            resident_threads: 256,
        },
        coop: CoopTuning::BY_MATRIX,
    };
}
