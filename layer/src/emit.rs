//! A barrier of the layer's own making, in the words of whichever version of the command the device has.

use crate::next::Next;
use ash::vk;
use zinc_hazard::{Barrier, Flags, Scope, Stages};

/// Records `barrier` as one global memory barrier.
///
/// # Safety
///
/// `buffer` must be in the recording state, and `next` its device's functions. The barrier must hold bits that the device
/// has.
pub unsafe fn barrier(next: &Next, buffer: vk::CommandBuffer, barrier: Barrier) {
    let (src, dst) = (issued_stages(barrier.src.stages), issued_stages(barrier.dst.stages));
    let old = |stages: Stages, flags: Flags| stages.bits() >> 32 == 0 && flags.bits() >> 32 == 0;
    let is_old = old(src, barrier.src.flags) && old(dst, barrier.dst.flags);
    // SAFETY: by the caller.
    unsafe {
        match (next.cmd_pipeline_barrier2, next.cmd_pipeline_barrier) {
            (Some(pipeline_barrier), _) if !is_old => {
                let memory = vk::MemoryBarrier2::default()
                    .src_stage_mask(vk::PipelineStageFlags2::from_raw(src.bits()))
                    .src_access_mask(vk::AccessFlags2::from_raw(barrier.src.flags.bits()))
                    .dst_stage_mask(vk::PipelineStageFlags2::from_raw(dst.bits()))
                    .dst_access_mask(vk::AccessFlags2::from_raw(barrier.dst.flags.bits()));
                let info = vk::DependencyInfo::default().memory_barriers(std::slice::from_ref(&memory));
                pipeline_barrier(buffer, &raw const info);
            }
            (_, Some(pipeline_barrier)) => {
                // Version 1 has no empty stage mask: top of pipe is no stage in a first scope, bottom in a second.
                let or = |stages: Stages, none: vk::PipelineStageFlags| match stages.bits() as u32 {
                    0 => none,
                    bits => vk::PipelineStageFlags::from_raw(bits),
                };
                let memory = vk::MemoryBarrier::default()
                    .src_access_mask(vk::AccessFlags::from_raw(old_flags(barrier.src.flags)))
                    .dst_access_mask(vk::AccessFlags::from_raw(old_flags(barrier.dst.flags)));
                pipeline_barrier(
                    buffer,
                    or(src, vk::PipelineStageFlags::TOP_OF_PIPE),
                    or(dst, vk::PipelineStageFlags::BOTTOM_OF_PIPE),
                    vk::DependencyFlags::empty(),
                    1,
                    &raw const memory,
                    0,
                    std::ptr::null(),
                    0,
                    std::ptr::null(),
                );
            }
            _ => {}
        }
    }
}

/// Transfers are asked for stage by stage and emitted together (docs/semantics.md, rule 9): which of them a fill is,
/// drivers have not always agreed on.
fn issued_stages(stages: Stages) -> Stages {
    match stages.intersects(Stages::TRANSFERS) {
        true => stages.difference(Stages::TRANSFERS) | Stages::ALL_TRANSFER,
        false => stages,
    }
}

/// A barrier in the plainest bits that do the same and perhaps more: one that was cut names single kinds of shader
/// accesses, which only devices with version 2 of the command have names for.
pub fn plain(barrier: Barrier) -> Barrier {
    let scope = |scope: Scope| {
        let mut flags = scope.flags;
        for (one, all) in [
            (Flags::SHADER_SAMPLED_READ | Flags::SHADER_STORAGE_READ, Flags::SHADER_READ),
            (Flags::SHADER_STORAGE_WRITE, Flags::SHADER_WRITE),
        ] {
            if flags.intersects(one) {
                flags = flags.difference(one) | all;
            }
        }
        Scope { stages: issued_stages(scope.stages), flags }
    };
    Barrier { src: scope(barrier.src), dst: scope(barrier.dst) }
}

/// An access mask in the bits of version 1, never narrower.
fn old_flags(flags: Flags) -> u32 {
    let mut out = flags.bits() as u32;
    if flags.intersects(Flags::SHADER_SAMPLED_READ | Flags::SHADER_STORAGE_READ) {
        out |= Flags::SHADER_READ.bits() as u32;
    }
    if flags.intersects(Flags::SHADER_STORAGE_WRITE) {
        out |= Flags::SHADER_WRITE.bits() as u32;
    }
    out
}
