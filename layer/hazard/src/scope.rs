//! Synchronisation scopes: which stages and accesses one side of a barrier names.
//!
//! The bit values are those of `VkPipelineStageFlagBits2` and `VkAccessFlagBits2`, so that masks go from the API
//! to this crate and back without a translation that could lose a bit. Bits that this file has no name for are
//! kept: an unknown stage is still a stage, and chains through it are still chains.
//!
//! Vulkan lets one bit stand for several (`ALL_COMMANDS`, `ALL_TRANSFER`, `MEMORY_READ`, ...). Whoever compares
//! masks first takes them apart, with [`Stages::expand`], [`Stages::execution`] and [`Flags::expand`]; whoever emits a barrier emits the
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
        /// Task shaders.
        const TASK_SHADER = 1 << 19;
        /// Mesh shaders.
        const MESH_SHADER = 1 << 20;
        /// Ray tracing shaders.
        const RAY_TRACING_SHADER = 1 << 21;
        /// Reading of the shading rate attachment.
        const FRAGMENT_SHADING_RATE_ATTACHMENT = 1 << 22;
        /// Reading of the fragment density map.
        const FRAGMENT_DENSITY_PROCESS = 1 << 23;
        /// Writing of transform feedback buffers.
        const TRANSFORM_FEEDBACK = 1 << 24;
        /// Copies of acceleration structures.
        const ACCELERATION_STRUCTURE_COPY = 1 << 28;
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
        /// Subpass shading (Huawei).
        const SUBPASS_SHADER = 1 << 39;
        /// The invocation mask (Huawei).
        const INVOCATION_MASK = 1 << 40;
        /// Cluster culling shaders (Huawei).
        const CLUSTER_CULLING_SHADER = 1 << 41;
        /// Where indirect copies read their arguments.
        const COPY_INDIRECT = 1 << 46;
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

/// What comes directly before what in the logical order of a pipeline (Vulkan 1.4, 7.1.2 "Pipeline Stages"): the
/// primitive, mesh, compute, ray tracing and transfer pipelines in one list, sorted so that one walk through it finds
/// everything later, and one walk backwards everything earlier. Conditional rendering has no specified place.
const LOGICAL_ORDER: [(Stages, Stages); 15] = [
    (
        Stages::DRAW_INDIRECT,
        Stages::INDEX_INPUT
            .union(Stages::TASK_SHADER)
            .union(Stages::COMPUTE_SHADER)
            .union(Stages::RAY_TRACING_SHADER),
    ),
    (Stages::INDEX_INPUT, Stages::VERTEX_ATTRIBUTE_INPUT),
    (Stages::VERTEX_ATTRIBUTE_INPUT, Stages::VERTEX_SHADER),
    (Stages::VERTEX_SHADER, Stages::TESSELLATION_CONTROL_SHADER),
    (Stages::TESSELLATION_CONTROL_SHADER, Stages::TESSELLATION_EVALUATION_SHADER),
    (Stages::TESSELLATION_EVALUATION_SHADER, Stages::GEOMETRY_SHADER),
    (Stages::GEOMETRY_SHADER, Stages::TRANSFORM_FEEDBACK),
    (Stages::TRANSFORM_FEEDBACK, Stages::FRAGMENT_SHADING_RATE_ATTACHMENT),
    (Stages::TASK_SHADER, Stages::MESH_SHADER),
    (Stages::MESH_SHADER, Stages::FRAGMENT_SHADING_RATE_ATTACHMENT),
    (
        Stages::FRAGMENT_SHADING_RATE_ATTACHMENT.union(Stages::FRAGMENT_DENSITY_PROCESS),
        Stages::EARLY_FRAGMENT_TESTS,
    ),
    (Stages::EARLY_FRAGMENT_TESTS, Stages::FRAGMENT_SHADER),
    (Stages::FRAGMENT_SHADER, Stages::LATE_FRAGMENT_TESTS),
    (Stages::LATE_FRAGMENT_TESTS, Stages::COLOR_ATTACHMENT_OUTPUT),
    (Stages::COPY_INDIRECT, Stages::TRANSFERS),
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

    /// The writes of timestamps. They have no stage of their own: only what names every command names them. So this is a bit that
    /// no stage has.
    pub const TIMESTAMPS: Stages = Stages::from_bits_retain(1 << 62);

    /// The transfer stages that `ALL_TRANSFER` stands for.
    pub const TRANSFERS: Stages = Stages::COPY
        .union(Stages::RESOLVE)
        .union(Stages::BLIT)
        .union(Stages::CLEAR)
        .union(Stages::ACCELERATION_STRUCTURE_COPY);

    /// The stages whose *accesses* a mask covers: compound bits are taken apart, and the result has none.
    ///
    /// `TOP_OF_PIPE` and `BOTTOM_OF_PIPE` cover no access, on either side. A stage without a name in this file belongs
    /// to `ALL_COMMANDS` and to no other compound: taking a compound for wider than it is would make an emitted barrier
    /// look as if it ordered what it does not.
    pub fn expand(self) -> Stages {
        let mut out = self & !COMPOUND_STAGES;
        if self.contains(Stages::ALL_COMMANDS) {
            out |= Stages::EVERY & !Stages::HOST;
        }
        let before_rasterization = Stages::VERTEX_SHADER
            | Stages::TESSELLATION_CONTROL_SHADER
            | Stages::TESSELLATION_EVALUATION_SHADER
            | Stages::GEOMETRY_SHADER
            | Stages::TASK_SHADER
            | Stages::MESH_SHADER
            | Stages::CLUSTER_CULLING_SHADER;
        if self.contains(Stages::ALL_GRAPHICS) {
            out |= before_rasterization
                | Stages::DRAW_INDIRECT
                | Stages::INDEX_INPUT
                | Stages::VERTEX_ATTRIBUTE_INPUT
                | Stages::TRANSFORM_FEEDBACK
                | Stages::FRAGMENT_SHADING_RATE_ATTACHMENT
                | Stages::FRAGMENT_DENSITY_PROCESS
                | Stages::EARLY_FRAGMENT_TESTS
                | Stages::FRAGMENT_SHADER
                | Stages::LATE_FRAGMENT_TESTS
                | Stages::COLOR_ATTACHMENT_OUTPUT
                | Stages::CONDITIONAL_RENDERING
                | Stages::SUBPASS_SHADER
                | Stages::INVOCATION_MASK;
        }
        if self.contains(Stages::ALL_TRANSFER) {
            out |= Stages::TRANSFERS;
        }
        if self.contains(Stages::VERTEX_INPUT) {
            out |= Stages::INDEX_INPUT | Stages::VERTEX_ATTRIBUTE_INPUT;
        }
        if self.contains(Stages::PRE_RASTERIZATION_SHADERS) {
            out |= before_rasterization;
        }
        out
    }

    /// The stages whose *execution* a mask orders on `side` of a barrier; the result has no compound bit.
    ///
    /// Logically earlier stages join a first scope and logically later ones a second scope. `TOP_OF_PIPE` in a second
    /// scope and `BOTTOM_OF_PIPE` in a first one name every stage that a command can have, which never includes the
    /// host; the other way round they name none.
    pub fn execution(self, side: Side) -> Stages {
        let mut out = self.expand();
        match side {
            Side::First => {
                if self.contains(Stages::BOTTOM_OF_PIPE) {
                    out |= Stages::ALL_COMMANDS.expand();
                }
                for (earlier, later) in LOGICAL_ORDER.iter().rev() {
                    if out.intersects(*later) {
                        out |= *earlier;
                    }
                }
            }
            Side::Second => {
                if self.contains(Stages::TOP_OF_PIPE) {
                    out |= Stages::ALL_COMMANDS.expand();
                }
                for (earlier, later) in &LOGICAL_ORDER {
                    if out.intersects(*earlier) {
                        out |= *later;
                    }
                }
            }
        }
        out
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
/// global anyway and Vulkan drivers ignore the ranges (docs/semantics.md, "The world of the model").
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
    #[inline]
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
        assert_eq!(Stages::TOP_OF_PIPE.execution(Side::First), Stages::empty());
        assert_eq!(Stages::BOTTOM_OF_PIPE.execution(Side::Second), Stages::empty());
        for all in
            [Stages::TOP_OF_PIPE.execution(Side::Second), Stages::BOTTOM_OF_PIPE.execution(Side::First)]
        {
            assert!(all.contains(Stages::COMPUTE_SHADER | Stages::COPY | Stages::FRAGMENT_SHADER));
            assert!(!all.contains(Stages::HOST), "the host is never in ALL_COMMANDS");
        }
        assert_eq!(
            (Stages::TOP_OF_PIPE | Stages::BOTTOM_OF_PIPE).expand(),
            Stages::empty(),
            "no memory, ever"
        );
    }

    #[test]
    fn compound_bits_are_gone_after_expansion() {
        assert!(!Stages::all().expand().intersects(COMPOUND_STAGES));
        for side in [Side::First, Side::Second] {
            assert!(!Stages::all().execution(side).intersects(COMPOUND_STAGES));
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
    fn only_all_commands_names_a_stage_that_this_file_does_not_know() {
        let unknown = Stages::from_bits_retain(1 << 62);
        assert!(Stages::ALL_COMMANDS.expand().contains(unknown));
        let others = COMPOUND_STAGES & !Stages::ALL_COMMANDS;
        assert!(!others.expand().contains(unknown));
        assert!(!others.expand().contains(Stages::RAY_TRACING_SHADER), "ray tracing is not graphics");
    }

    #[test]
    fn execution_reaches_back_in_a_first_scope_and_forward_in_a_second() {
        use Side::{First, Second};
        assert!(Stages::COMPUTE_SHADER.execution(First).contains(Stages::DRAW_INDIRECT));
        assert_eq!(Stages::COMPUTE_SHADER.execution(Second), Stages::COMPUTE_SHADER);
        assert!(
            Stages::DRAW_INDIRECT
                .execution(Second)
                .contains(Stages::COMPUTE_SHADER | Stages::FRAGMENT_SHADER | Stages::MESH_SHADER)
        );
        assert_eq!(Stages::DRAW_INDIRECT.execution(First), Stages::DRAW_INDIRECT);
        assert!(
            Stages::FRAGMENT_SHADER.execution(First).contains(Stages::VERTEX_SHADER | Stages::TASK_SHADER)
        );
        assert!(!Stages::FRAGMENT_SHADER.execution(First).contains(Stages::LATE_FRAGMENT_TESTS));
        assert_eq!(Stages::COPY.execution(Second), Stages::COPY);
        assert_eq!(Stages::COPY.execution(First), Stages::COPY | Stages::COPY_INDIRECT);
    }
}
