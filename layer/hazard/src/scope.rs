//! Synchronisation scopes: which stages and accesses one side of a barrier names.
//!
//! The bit values are those of `VkPipelineStageFlagBits2` and `VkAccessFlagBits2`, so that masks go from the API
//! to this crate and back without a translation that could lose a bit. Bits that this file has no name for are
//! kept: an unknown stage is still a stage, and chains through it are still chains.
//!
//! Vulkan lets one bit stand for several (`ALL_COMMANDS`, `ALL_TRANSFER`, `MEMORY_READ`, ...). Whoever compares
//! masks first takes them apart, with [`Stages::expand`] and [`Flags::expand`]; whoever emits a barrier emits the
//! masks as the application wrote them.

use bitflags::bitflags;

bitflags! {
    /// Pipeline stages, `VkPipelineStageFlagBits2`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Stages: u64 {
        /// Before everything; in a first scope it names nothing, in a second one everything.
        const TOP_OF_PIPE = 1;
        /// Where indirect commands read their arguments.
        const DRAW_INDIRECT = 1 << 1;
        /// Index and vertex buffers.
        const VERTEX_INPUT = 1 << 2;
        /// Vertex shaders.
        const VERTEX_SHADER = 1 << 3;
        /// Tessellation control shaders.
        const TESSELLATION_CONTROL_SHADER = 1 << 4;
        /// Tessellation evaluation shaders.
        const TESSELLATION_EVALUATION_SHADER = 1 << 5;
        /// Geometry shaders.
        const GEOMETRY_SHADER = 1 << 6;
        /// Fragment shaders.
        const FRAGMENT_SHADER = 1 << 7;
        /// Depth and stencil tests before the fragment shader.
        const EARLY_FRAGMENT_TESTS = 1 << 8;
        /// Depth and stencil tests after the fragment shader.
        const LATE_FRAGMENT_TESTS = 1 << 9;
        /// Blending and writing of colour attachments.
        const COLOR_ATTACHMENT_OUTPUT = 1 << 10;
        /// Compute shaders.
        const COMPUTE_SHADER = 1 << 11;
        /// Copies, blits, resolves and clears together (`ALL_TRANSFER`).
        const ALL_TRANSFER = 1 << 12;
        /// After everything; in a first scope it names everything, in a second one nothing.
        const BOTTOM_OF_PIPE = 1 << 13;
        /// The host.
        const HOST = 1 << 14;
        /// Every stage of a graphics pipeline.
        const ALL_GRAPHICS = 1 << 15;
        /// Every stage of every command.
        const ALL_COMMANDS = 1 << 16;
        /// Preprocessing of generated commands.
        const COMMAND_PREPROCESS = 1 << 17;
        /// The predicate of conditional rendering.
        const CONDITIONAL_RENDERING = 1 << 18;
        /// `vkCmdCopy*`.
        const COPY = 1 << 32;
        /// `vkCmdResolve*`.
        const RESOLVE = 1 << 33;
        /// `vkCmdBlit*`.
        const BLIT = 1 << 34;
        /// `vkCmdClear*`, `vkCmdFillBuffer` and `vkCmdUpdateBuffer`.
        const CLEAR = 1 << 35;
        /// Index buffers.
        const INDEX_INPUT = 1 << 36;
        /// Vertex buffers.
        const VERTEX_ATTRIBUTE_INPUT = 1 << 37;
        /// Every vertex, tessellation, geometry, task and mesh shader.
        const PRE_RASTERIZATION_SHADERS = 1 << 38;
        const _ = !0;
    }

    /// Access types, `VkAccessFlagBits2`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Flags: u64 {
        /// Arguments of indirect commands.
        const INDIRECT_COMMAND_READ = 1;
        /// Index buffers.
        const INDEX_READ = 1 << 1;
        /// Vertex buffers.
        const VERTEX_ATTRIBUTE_READ = 1 << 2;
        /// Uniform buffers.
        const UNIFORM_READ = 1 << 3;
        /// Input attachments.
        const INPUT_ATTACHMENT_READ = 1 << 4;
        /// Sampled and storage reads of shaders together.
        const SHADER_READ = 1 << 5;
        /// Storage writes of shaders (the older name of [`Flags::SHADER_STORAGE_WRITE`]).
        const SHADER_WRITE = 1 << 6;
        /// Colour attachments, reading.
        const COLOR_ATTACHMENT_READ = 1 << 7;
        /// Colour attachments, writing.
        const COLOR_ATTACHMENT_WRITE = 1 << 8;
        /// Depth and stencil attachments, reading.
        const DEPTH_STENCIL_ATTACHMENT_READ = 1 << 9;
        /// Depth and stencil attachments, writing.
        const DEPTH_STENCIL_ATTACHMENT_WRITE = 1 << 10;
        /// Copies and their like, reading.
        const TRANSFER_READ = 1 << 11;
        /// Copies, fills and their like, writing.
        const TRANSFER_WRITE = 1 << 12;
        /// The host, reading.
        const HOST_READ = 1 << 13;
        /// The host, writing.
        const HOST_WRITE = 1 << 14;
        /// Every read.
        const MEMORY_READ = 1 << 15;
        /// Every write.
        const MEMORY_WRITE = 1 << 16;
        /// Preprocessing of generated commands, reading.
        const COMMAND_PREPROCESS_READ = 1 << 17;
        /// Preprocessing of generated commands, writing.
        const COMMAND_PREPROCESS_WRITE = 1 << 18;
        /// The predicate of conditional rendering.
        const CONDITIONAL_RENDERING_READ = 1 << 20;
        /// Sampled images and uniform texel buffers.
        const SHADER_SAMPLED_READ = 1 << 32;
        /// Storage buffers and images, reading.
        const SHADER_STORAGE_READ = 1 << 33;
        /// Storage buffers and images, writing.
        const SHADER_STORAGE_WRITE = 1 << 34;
        const _ = !0;
    }
}

/// Where in the logical order of a pipeline a stage stands (Vulkan 1.4, 7.1.2 "Pipeline Stages").
///
/// The graphics stages, first to last. A first scope reaches back along it, a second scope forward.
const GRAPHICS_ORDER: [Stages; 12] = [
    Stages::DRAW_INDIRECT,
    Stages::INDEX_INPUT,
    Stages::VERTEX_ATTRIBUTE_INPUT,
    Stages::VERTEX_SHADER,
    Stages::TESSELLATION_CONTROL_SHADER,
    Stages::TESSELLATION_EVALUATION_SHADER,
    Stages::GEOMETRY_SHADER,
    Stages::EARLY_FRAGMENT_TESTS,
    Stages::FRAGMENT_SHADER,
    Stages::LATE_FRAGMENT_TESTS,
    Stages::COLOR_ATTACHMENT_OUTPUT,
    Stages::BOTTOM_OF_PIPE,
];

/// Bits that stand for others and that no access ever carries.
const COMPOUND_STAGES: Stages = Stages::TOP_OF_PIPE
    .union(Stages::BOTTOM_OF_PIPE)
    .union(Stages::ALL_COMMANDS)
    .union(Stages::ALL_GRAPHICS)
    .union(Stages::ALL_TRANSFER)
    .union(Stages::VERTEX_INPUT)
    .union(Stages::PRE_RASTERIZATION_SHADERS);

/// Which side of a barrier a mask stands on: some stage bits mean different things on the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first synchronisation scope (`srcStageMask`).
    First,
    /// The second synchronisation scope (`dstStageMask`).
    Second,
}

impl Stages {
    /// Every stage an operation can have, the host included.
    pub const EVERY: Stages = Stages::all().difference(COMPOUND_STAGES);

    /// The transfer stages that `ALL_TRANSFER` stands for.
    pub const TRANSFERS: Stages =
        Stages::COPY.union(Stages::RESOLVE).union(Stages::BLIT).union(Stages::CLEAR);

    /// Takes compound bits apart, by their meaning on `side`; the result has no compound bit.
    ///
    /// `TOP_OF_PIPE` in a first scope and `BOTTOM_OF_PIPE` in a second one name no stage; the other way round
    /// they name every stage a command can have, which never includes the host.
    pub fn expand(self, side: Side) -> Stages {
        let mut out = self & !COMPOUND_STAGES;
        let everything = match side {
            Side::First => Stages::BOTTOM_OF_PIPE,
            Side::Second => Stages::TOP_OF_PIPE,
        };
        if self.intersects(Stages::ALL_COMMANDS | everything) {
            out |= Stages::EVERY & !Stages::HOST;
        }
        if self.intersects(Stages::ALL_GRAPHICS) {
            // Task, mesh and attachment-rate stages are among the bits without a name here: all of them are taken
            // to be graphics, except those that are known not to be.
            out |= Stages::EVERY
                & !(Stages::HOST | Stages::COMPUTE_SHADER | Stages::TRANSFERS | Stages::COMMAND_PREPROCESS);
        }
        if self.intersects(Stages::ALL_TRANSFER) {
            out |= Stages::TRANSFERS;
        }
        if self.intersects(Stages::VERTEX_INPUT) {
            out |= Stages::INDEX_INPUT | Stages::VERTEX_ATTRIBUTE_INPUT;
        }
        if self.intersects(Stages::PRE_RASTERIZATION_SHADERS) {
            out |= Stages::VERTEX_SHADER
                | Stages::TESSELLATION_CONTROL_SHADER
                | Stages::TESSELLATION_EVALUATION_SHADER
                | Stages::GEOMETRY_SHADER;
        }
        out
    }

    /// The stages an expanded mask orders for *execution*: logically earlier ones join a first scope, logically
    /// later ones a second scope. Memory scopes never grow this way.
    pub fn reach(self, side: Side) -> Stages {
        let mut out = self;
        let graphics = |s: &Stages| self.contains(*s);
        match side {
            Side::First => {
                if let Some(last) = GRAPHICS_ORDER.iter().rposition(graphics) {
                    GRAPHICS_ORDER[..last].iter().for_each(|s| out |= *s);
                }
                if self.contains(Stages::COMPUTE_SHADER) {
                    out |= Stages::DRAW_INDIRECT;
                }
            }
            Side::Second => {
                if let Some(first) = GRAPHICS_ORDER.iter().position(graphics) {
                    GRAPHICS_ORDER[first..].iter().for_each(|s| out |= *s);
                }
                if self.contains(Stages::DRAW_INDIRECT) {
                    out |= Stages::COMPUTE_SHADER;
                }
            }
        }
        out & !COMPOUND_STAGES
    }
}

impl Flags {
    /// Every read that has a name of its own.
    pub const READS: Flags = Flags::INDIRECT_COMMAND_READ
        .union(Flags::INDEX_READ)
        .union(Flags::VERTEX_ATTRIBUTE_READ)
        .union(Flags::UNIFORM_READ)
        .union(Flags::INPUT_ATTACHMENT_READ)
        .union(Flags::COLOR_ATTACHMENT_READ)
        .union(Flags::DEPTH_STENCIL_ATTACHMENT_READ)
        .union(Flags::TRANSFER_READ)
        .union(Flags::HOST_READ)
        .union(Flags::COMMAND_PREPROCESS_READ)
        .union(Flags::CONDITIONAL_RENDERING_READ)
        .union(Flags::SHADER_SAMPLED_READ)
        .union(Flags::SHADER_STORAGE_READ);

    /// Every write that has a name of its own.
    pub const WRITES: Flags = Flags::COLOR_ATTACHMENT_WRITE
        .union(Flags::DEPTH_STENCIL_ATTACHMENT_WRITE)
        .union(Flags::TRANSFER_WRITE)
        .union(Flags::HOST_WRITE)
        .union(Flags::COMMAND_PREPROCESS_WRITE)
        .union(Flags::SHADER_STORAGE_WRITE);

    /// Bits of extensions that this file does not know, which may be reads or writes.
    pub const UNNAMED: Flags = Flags::all()
        .difference(Flags::READS)
        .difference(Flags::WRITES)
        .difference(Flags::SHADER_READ)
        .difference(Flags::SHADER_WRITE)
        .difference(Flags::MEMORY_READ)
        .difference(Flags::MEMORY_WRITE);

    /// Takes compound bits apart; the result has no compound bit. `MEMORY_READ` and `MEMORY_WRITE` name unnamed
    /// bits too, since those are reads or writes.
    pub fn expand(self) -> Flags {
        let compound = Flags::SHADER_READ | Flags::SHADER_WRITE | Flags::MEMORY_READ | Flags::MEMORY_WRITE;
        let mut out = self & !compound;
        if self.contains(Flags::SHADER_READ) {
            out |= Flags::SHADER_SAMPLED_READ | Flags::SHADER_STORAGE_READ;
        }
        if self.contains(Flags::SHADER_WRITE) {
            out |= Flags::SHADER_STORAGE_WRITE;
        }
        if self.contains(Flags::MEMORY_READ) {
            out |= Flags::READS | Flags::UNNAMED;
        }
        if self.contains(Flags::MEMORY_WRITE) {
            out |= Flags::WRITES | Flags::UNNAMED;
        }
        out
    }
}

/// One side of a barrier: the stages it names, and the accesses at those stages that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// `srcStageMask` or `dstStageMask`, as the application wrote it.
    pub stages: Stages,
    /// `srcAccessMask` or `dstAccessMask`, as the application wrote it.
    pub flags: Flags,
}

/// A global memory barrier: what `vkCmdPipelineBarrier` with one `VkMemoryBarrier` asks for.
///
/// Buffer and image barriers are widened to this before they reach the tracker, since their execution part is
/// global anyway and Vulkan drivers ignore the ranges (docs/semantics.md, "Model").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Barrier {
    /// The first synchronisation scope: what must have happened.
    pub src: Scope,
    /// The second synchronisation scope: what must wait.
    pub dst: Scope,
}

impl Barrier {
    /// The barrier that orders everything before it against everything after it, the host aside.
    pub const FULL: Barrier = Barrier {
        src: Scope { stages: Stages::ALL_COMMANDS, flags: Flags::MEMORY_READ.union(Flags::MEMORY_WRITE) },
        dst: Scope { stages: Stages::ALL_COMMANDS, flags: Flags::MEMORY_READ.union(Flags::MEMORY_WRITE) },
    };

    /// The least barrier that does what both do.
    #[must_use]
    pub fn join(self, other: Barrier) -> Barrier {
        let both = |a: Scope, b: Scope| Scope { stages: a.stages | b.stages, flags: a.flags | b.flags };
        Barrier { src: both(self.src, other.src), dst: both(self.dst, other.dst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_and_bottom_mean_opposite_things_on_the_two_sides() {
        assert_eq!(Stages::TOP_OF_PIPE.expand(Side::First), Stages::empty());
        assert_eq!(Stages::BOTTOM_OF_PIPE.expand(Side::Second), Stages::empty());
        for all in [Stages::TOP_OF_PIPE.expand(Side::Second), Stages::BOTTOM_OF_PIPE.expand(Side::First)] {
            assert!(all.contains(Stages::COMPUTE_SHADER | Stages::COPY | Stages::FRAGMENT_SHADER));
            assert!(!all.contains(Stages::HOST), "the host is never in ALL_COMMANDS");
        }
    }

    #[test]
    fn compound_bits_are_gone_after_expansion() {
        for side in [Side::First, Side::Second] {
            assert!(!Stages::all().expand(side).intersects(COMPOUND_STAGES));
        }
        assert!(Flags::SHADER_READ.expand().contains(Flags::SHADER_STORAGE_READ));
        assert!(
            !Flags::SHADER_READ.expand().contains(Flags::UNIFORM_READ),
            "uniform reads are a flag of their own"
        );
        assert!(!Flags::MEMORY_READ.expand().intersects(Flags::WRITES));
        assert!(!Flags::MEMORY_WRITE.expand().intersects(Flags::READS));
    }

    #[test]
    fn execution_reaches_back_in_a_first_scope_and_forward_in_a_second() {
        assert!(Stages::COMPUTE_SHADER.reach(Side::First).contains(Stages::DRAW_INDIRECT));
        assert_eq!(Stages::COMPUTE_SHADER.reach(Side::Second), Stages::COMPUTE_SHADER);
        assert!(
            Stages::DRAW_INDIRECT
                .reach(Side::Second)
                .contains(Stages::COMPUTE_SHADER | Stages::FRAGMENT_SHADER)
        );
        assert_eq!(Stages::DRAW_INDIRECT.reach(Side::First), Stages::DRAW_INDIRECT);
        assert!(Stages::FRAGMENT_SHADER.reach(Side::First).contains(Stages::VERTEX_SHADER));
        assert!(!Stages::FRAGMENT_SHADER.reach(Side::First).contains(Stages::LATE_FRAGMENT_TESTS));
        assert_eq!(Stages::COPY.reach(Side::First), Stages::COPY, "a copy has one stage");
    }
}
