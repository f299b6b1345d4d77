//! The kinds of barriers that programs ask for.

use ash::{Device, vk};
use zinc_hazard::{Barrier, Flags, Scope, Stages};

/// A kind of barrier.
pub struct BarrierKind {
    /// What it orders.
    pub scopes: Barrier,
    /// By synchronization2.
    second: bool,
    /// One for each buffer, in place of one for all memory.
    buffers: bool,
    /// Whether whatever comes after is ordered against whatever came before.
    pub orders_everything: bool,
}

const fn scope(stages: Stages, flags: Flags) -> Scope {
    Scope { stages, flags }
}

const fn kind(src: Scope, dst: Scope, second: bool, orders_everything: bool) -> BarrierKind {
    BarrierKind { scopes: Barrier { src, dst }, second, buffers: false, orders_everything }
}

const ANY: Flags = Flags::MEMORY_READ.union(Flags::MEMORY_WRITE);
const USED: Stages = Stages::COMPUTE_SHADER.union(Stages::ALL_TRANSFER).union(Stages::DRAW_INDIRECT);
const APIECE: Stages =
    Stages::COMPUTE_SHADER.union(Stages::COPY).union(Stages::CLEAR).union(Stages::DRAW_INDIRECT);
const FLAGS: Flags = Flags::SHADER_STORAGE_READ
    .union(Flags::SHADER_STORAGE_WRITE)
    .union(Flags::TRANSFER_READ)
    .union(Flags::TRANSFER_WRITE)
    .union(Flags::INDIRECT_COMMAND_READ);

/// All kinds that programs use. The first is everything to everything.
pub const BARRIERS: [BarrierKind; 9] = [
    kind(scope(Stages::ALL_COMMANDS, ANY), scope(Stages::ALL_COMMANDS, ANY), false, true),
    kind(scope(USED, ANY), scope(USED, ANY), false, true),
    kind(scope(USED, Flags::MEMORY_WRITE), scope(USED, ANY), true, true),
    kind(scope(APIECE, FLAGS), scope(APIECE, FLAGS), true, true),
    BarrierKind { buffers: true, ..kind(scope(USED, ANY), scope(USED, ANY), false, true) },
    kind(
        scope(Stages::COMPUTE_SHADER, Flags::SHADER_WRITE),
        scope(Stages::COMPUTE_SHADER, Flags::SHADER_READ),
        false,
        false,
    ),
    kind(scope(Stages::ALL_TRANSFER, Flags::TRANSFER_WRITE), scope(Stages::COMPUTE_SHADER, ANY), true, false),
    kind(scope(Stages::COMPUTE_SHADER, ANY), scope(Stages::ALL_TRANSFER, Flags::TRANSFER_READ), false, false),
    kind(scope(USED, Flags::empty()), scope(USED, Flags::empty()), false, false),
];

impl BarrierKind {
    /// Asks for it; where it is one for each buffer, for one of all of these.
    ///
    /// # Safety
    ///
    /// The command buffer must be recording, and the buffers alive.
    pub unsafe fn issue(&self, device: &Device, commands: vk::CommandBuffer, buffers: &[vk::Buffer]) {
        let Barrier { src, dst } = self.scopes;
        // SAFETY: by the caller.
        unsafe {
            if self.second {
                let memory = [vk::MemoryBarrier2::default()
                    .src_stage_mask(vk::PipelineStageFlags2::from_raw(src.stages.bits()))
                    .src_access_mask(vk::AccessFlags2::from_raw(src.flags.bits()))
                    .dst_stage_mask(vk::PipelineStageFlags2::from_raw(dst.stages.bits()))
                    .dst_access_mask(vk::AccessFlags2::from_raw(dst.flags.bits()))];
                let info = vk::DependencyInfo::default().memory_barriers(&memory);
                return device.cmd_pipeline_barrier2(commands, &info);
            }
            let stages = |scope: Scope| vk::PipelineStageFlags::from_raw(scope.stages.bits() as u32);
            let access = |scope: Scope| vk::AccessFlags::from_raw(scope.flags.bits() as u32);
            let memory =
                [vk::MemoryBarrier::default().src_access_mask(access(src)).dst_access_mask(access(dst))];
            let buffers: Vec<_> = buffers
                .iter()
                .map(|buffer| {
                    vk::BufferMemoryBarrier::default()
                        .src_access_mask(access(src))
                        .dst_access_mask(access(dst))
                        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                        .buffer(*buffer)
                        .size(vk::WHOLE_SIZE)
                })
                .collect();
            let (memory, buffers) = match self.buffers {
                true => (&[][..], &buffers[..]),
                false => (&memory[..], &[][..]),
            };
            let none = vk::DependencyFlags::empty();
            device.cmd_pipeline_barrier(commands, stages(src), stages(dst), none, memory, buffers, &[]);
        }
    }
}
