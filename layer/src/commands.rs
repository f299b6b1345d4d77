//! The commands that the layer models, and what it does before those that it does not.
//!
//! Each hook reads its arguments, says what they touch, and leaves the rest to [`Context`].

use crate::abi::{chain, slice};
use crate::asked::Asked;
use crate::bindings::{self, Grid};
use crate::context::{Context, context};
use crate::device::{CommandState, Device, registry};
use crate::footprint::{self, BoundSet};
use crate::pipelines::Pipeline;
use crate::recorder::Finished;
use crate::segment::Segment;
use crate::stubs::Effect;
use ash::vk;
use std::cell::Cell;
use std::ffi::c_void;

/// A command that the layer does not model comes next; `name` says which.
///
/// # Safety
///
/// `buffer` must be live.
pub(crate) unsafe fn before_unmodelled(
    buffer: vk::CommandBuffer,
    effect: Effect,
    name: impl FnOnce() -> String,
) {
    // SAFETY: by the caller.
    let Some(context) = (unsafe { context(buffer) }) else { return };
    context.with(|state| {
        state.breaks_script();
        if effect == Effect::Taint {
            context.stop_holding(state);
            state.recorder.taint(name);
            return;
        }
        if state.recorder.rendering && matches!(effect, Effect::Flush) {
            // Nothing has become pending since rendering began.
            return;
        }
        let kept = state.recorder.unknown_operation();
        context.before_unknown(state, kept, name);
        state.recorder.issued_unknown();
        match effect {
            Effect::BeginRendering => state.recorder.rendering = true,
            Effect::EndRendering => state.recorder.rendering = false,
            Effect::BeginConditional => state.recorder.conditional = true,
            Effect::EndConditional => state.recorder.conditional = false,
            Effect::Unheard => {
                state.recorder.lose_track();
                context.stop_holding(state);
            }
            Effect::Flush | Effect::Taint | Effect::UnheardOfDevice => {}
        }
    });
}

/// The layer failed before an unmodelled command.
///
/// # Safety
///
/// `buffer` must be live.
pub(crate) unsafe fn give_up(buffer: vk::CommandBuffer) {
    // SAFETY: by the caller.
    if let Some(context) = unsafe { context(buffer) } {
        context.give_up();
    }
}

/// What a command buffer finds where it is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Inherited {
    /// Rendering has begun.
    rendering: bool,
    /// A predicate may decide which of its dispatches happen.
    conditional: bool,
}

impl Inherited {
    /// Reads a begin info. For a primary command buffer `VkCommandBufferBeginInfo` says of `pInheritanceInfo` and of
    /// `RENDER_PASS_CONTINUE` that they are ignored: the pointer may be anything then and must not be followed.
    ///
    /// # Safety
    ///
    /// `info` must be valid for a command buffer of this level.
    unsafe fn of(info: Option<&vk::CommandBufferBeginInfo<'_>>, level: vk::CommandBufferLevel) -> Inherited {
        let Some(info) = info.filter(|_| level == vk::CommandBufferLevel::SECONDARY) else {
            return Inherited::default();
        };
        // SAFETY: by the caller, a secondary's inheritance info is valid.
        let conditional = unsafe {
            info.p_inheritance_info.as_ref().is_some_and(|i| {
                chain(i.p_next).any(|c| {
                    c.get::<vk::CommandBufferInheritanceConditionalRenderingInfoEXT<'_>>()
                        .is_some_and(|c| c.conditional_rendering_enable == vk::TRUE)
                })
            })
        };
        Inherited {
            rendering: info.flags.contains(vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE),
            conditional,
        }
    }
}

pub unsafe extern "system" fn begin_command_buffer(
    buffer: vk::CommandBuffer,
    info: *const vk::CommandBufferBeginInfo<'_>,
) -> vk::Result {
    // SAFETY: the application's own arguments, passed on.
    unsafe {
        let Some(context) = context(buffer) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(begin) = context.device.next.begin_command_buffer else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let result = begin(buffer, info);
        if result == vk::Result::SUCCESS {
            context.with(|state| {
                context.device.begin(state);
                let Some(record) = context.record else { return };
                *record.finished.lock() = Finished::default();
                let inherited = Inherited::of(info.as_ref(), record.level);
                state.recorder.rendering = inherited.rendering;
                state.recorder.conditional = inherited.conditional;
            });
        }
        result
    }
}

pub unsafe extern "system" fn end_command_buffer(buffer: vk::CommandBuffer) -> vk::Result {
    // SAFETY: the application's own arguments, passed on.
    unsafe {
        let Some(context) = context(buffer) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(end) = context.device.next.end_command_buffer else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        context.with(|state| {
            if let Some(capture) = &context.device.capture {
                capture.end();
            }
            if let Some(due) = state.recorder.end() {
                context.emit(state, due.barrier);
            }
            context.release(state);
        });
        let result = end(buffer);
        if result == vk::Result::SUCCESS {
            context.with(|state| {
                let mut finished = state.recorder.finished();
                context.device.recorded(&finished.counts, &state.recorder);
                if let Some(journal) = state.recorder.take_journal() {
                    finished.witnesses = context.device.tell(&journal);
                    finished.journal = Some(journal.into());
                    finished.script = state.segment.as_mut().and_then(Segment::take_script).map(Into::into);
                }
                if let Some(record) = context.record {
                    *record.finished.lock() = finished;
                }
            });
        }
        result
    }
}

pub unsafe extern "system" fn cmd_bind_pipeline(
    buffer: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    pipeline: vk::Pipeline,
) {
    // SAFETY: the application's own arguments, passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        if let Some(bind) = context.device.next.cmd_bind_pipeline {
            bind(buffer, point, pipeline);
        }
        if point == vk::PipelineBindPoint::COMPUTE {
            context.with(|state| {
                state.recorder.bound.pipeline = pipeline;
                if let Some(segment) = &mut state.segment {
                    segment.bind_pipeline(pipeline);
                }
            });
        }
    }
}

pub unsafe extern "system" fn cmd_bind_descriptor_sets(
    buffer: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    layout: vk::PipelineLayout,
    first: u32,
    count: u32,
    sets: *const vk::DescriptorSet,
    offset_count: u32,
    offsets: *const u32,
) {
    // SAFETY: the application's own arguments, passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        if point == vk::PipelineBindPoint::COMPUTE {
            bind_compute_sets(&context, (layout, first), slice(sets, count), slice(offsets, offset_count));
        }
        if let Some(bind) = context.device.next.cmd_bind_descriptor_sets {
            bind(buffer, point, layout, first, count, sets, offset_count, offsets);
        }
    }
}

/// Takes in a bind of sets for compute, before it goes on: a release binds again what was bound before it.
pub(crate) fn bind_compute_sets(
    context: &Context<'_>,
    (layout, first): (vk::PipelineLayout, u32),
    sets: &[vk::DescriptorSet],
    offsets: &[u32],
) {
    context.with(|state| {
        let first = first as usize;
        let known = bind_sets(&mut state.recorder.bound.sets, context.device, first, sets, offsets);
        let Some(segment) = &mut state.segment else { return };
        let bound = state.recorder.bound.sets.get(first..first + sets.len()).unwrap_or_default();
        // SAFETY: the layout is an argument of the command.
        let layout = unsafe { context.device.pipeline_layouts.get(layout) };
        let again = layout.filter(|_| known).is_some_and(|l| segment.bind_sets(first, bound, l).is_ok());
        if !again {
            // It can't be bound again from here, and what is held must go before the bind does: issuing it binds again what
            // was bound before.
            context.stop_holding(state);
        }
    });
}

/// Takes in a bind of sets: dynamic offsets go to the sets in order, to each as many as its layout has dynamic
/// descriptors. Says whether all of them are known.
fn bind_sets(
    bound: &mut Vec<Option<BoundSet>>,
    device: &Device,
    first: usize,
    sets: &[vk::DescriptorSet],
    mut offsets: &[u32],
) -> bool {
    let mut known = true;
    if bound.len() < first + sets.len() {
        bound.resize(first + sets.len(), None);
    }
    for (place, handle) in bound[first..].iter_mut().zip(sets) {
        let mut mine = &offsets[..0];
        if !offsets.is_empty() {
            // SAFETY: the set is being bound, and so alive.
            let set = unsafe { device.sets.get(*handle) }.filter(|_| known);
            // After a set that is not known, whose offsets are whose is not known either.
            known &= set.is_some();
            let own = set.map_or(0, |s| s.layout.dynamic_count()).min(offsets.len());
            (mine, offsets) = offsets.split_at(own);
        }
        // In place of what was bound: that costs less than a new one, and most binds are without dynamic offsets.
        let set = place.get_or_insert_with(BoundSet::nothing);
        (set.handle, set.pushed, set.lost) = (*handle, None, !known);
        set.dynamic_offsets.clear();
        if !mine.is_empty() {
            set.dynamic_offsets.extend_from_slice(mine);
        }
    }
    known
}

/// Takes in pushed constants, before they go on.
///
/// # Safety
///
/// The layout must be an argument of the command.
pub(crate) unsafe fn push_constants(
    context: &Context<'_>,
    layout: vk::PipelineLayout,
    stages: vk::ShaderStageFlags,
    (offset, values): (u32, &[u8]),
) {
    let device = context.device;
    let keeps = device.keeps_push_constants() && stages.contains(vk::ShaderStageFlags::COMPUTE);
    if !keeps && !device.keeps_bindings() {
        return;
    }
    context.with(|state| {
        if keeps {
            state.recorder.bound.push(offset, values);
        }
        let Some(segment) = &mut state.segment else { return };
        // SAFETY: by the caller.
        let layout = unsafe { device.pipeline_layouts.get(layout) };
        if !layout.is_some_and(|layout| segment.push(layout, stages, offset, values)) {
            context.stop_holding(state);
        }
    });
}

pub unsafe extern "system" fn cmd_push_constants(
    buffer: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    stages: vk::ShaderStageFlags,
    offset: u32,
    size: u32,
    values: *const c_void,
) {
    // SAFETY: the application's own arguments, passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        push_constants(&context, layout, stages, (offset, slice(values.cast(), size)));
        if let Some(push) = context.device.next.cmd_push_constants {
            push(buffer, layout, stages, offset, size, values);
        }
    }
}

pub unsafe extern "system" fn cmd_pipeline_barrier(
    buffer: vk::CommandBuffer,
    src: vk::PipelineStageFlags,
    dst: vk::PipelineStageFlags,
    dependency: vk::DependencyFlags,
    memory_count: u32,
    memory: *const vk::MemoryBarrier<'_>,
    buffer_count: u32,
    buffers: *const vk::BufferMemoryBarrier<'_>,
    image_count: u32,
    images: *const vk::ImageMemoryBarrier<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let asked = || {
            let (memory, buffers) = (slice(memory, memory_count), slice(buffers, buffer_count));
            Asked::v1(src, dst, dependency, memory, buffers, slice(images, image_count))
        };
        context.barrier(asked, || {
            if let Some(f) = context.device.next.cmd_pipeline_barrier {
                f(
                    buffer,
                    src,
                    dst,
                    dependency,
                    memory_count,
                    memory,
                    buffer_count,
                    buffers,
                    image_count,
                    images,
                );
            }
        });
    }
}

pub unsafe extern "system" fn cmd_pipeline_barrier2(
    buffer: vk::CommandBuffer,
    info: *const vk::DependencyInfo<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let asked = || {
            let info = &*info;
            Asked::v2(
                info.dependency_flags,
                !info.p_next.is_null(),
                slice(info.p_memory_barriers, info.memory_barrier_count),
                slice(info.p_buffer_memory_barriers, info.buffer_memory_barrier_count),
                slice(info.p_image_memory_barriers, info.image_memory_barrier_count),
            )
        };
        context.barrier(asked, || {
            if let Some(f) = context.device.next.cmd_pipeline_barrier2 {
                f(buffer, info);
            }
        });
    }
}

/// Whether a dispatch may hand data to others while it runs (rule 5), as what can't be seen may: nothing is moved across
/// it.
fn may_hand_over(pipeline: Option<&Pipeline>) -> bool {
    pipeline.and_then(|p| p.shader.as_ref()).is_none_or(|shader| shader.synchronising)
}

/// Whether the dispatch of what is bound is the one that the last recording of this buffer had here, or the policy does not
/// look at dispatches; then what is due before it was emitted, and nothing else need be done. Most dispatches end here.
///
/// # Safety
///
/// As for [`dispatch`].
#[inline]
unsafe fn repeats(context: &Context<'_>) -> bool {
    let device = context.device;
    let quick = |state: &mut CommandState| {
        if !state.is_quick() {
            return None;
        }
        if state.recorder.passes() {
            return Some(());
        }
        // SAFETY: as in `dispatch`.
        let (pipeline, find) =
            unsafe { (device.pipelines.get(state.recorder.bound.pipeline)?, |set| device.set(set)) };
        let due = state.recorder.repeats(pipeline, find)?;
        if let Some(due) = due {
            context.emit(state, due.barrier);
        }
        Some(())
    };
    context.with(quick).flatten().is_some()
}

/// Any dispatch.
///
/// # Safety
///
/// The arguments are the application's own.
unsafe fn dispatch(buffer: vk::CommandBuffer, grid: Grid) {
    // SAFETY: by the caller.
    let Some(context) = (unsafe { context(buffer) }) else { return };
    // SAFETY: by the caller.
    if matches!(grid, Grid::Plain(_)) && unsafe { repeats(&context) } {
        // SAFETY: by the caller.
        return unsafe { bindings::dispatch(&context.device.next, buffer, grid) };
    }
    let stays = Cell::new(false);
    context.operation(
        |state| {
            let device = context.device;
            // SAFETY: what is bound when a dispatch is recorded is alive (VUID-vkCmdDispatch-None-08606 and -08600), or
            // the application is beyond what its driver would bear.
            let (pipeline, find) =
                unsafe { (device.pipelines.get(state.recorder.bound.pipeline), |set| device.set(set)) };
            let arguments = match grid {
                Grid::Indirect(arguments, offset) => {
                    let granule = state.recorder.rules().granule;
                    // SAFETY: the buffer is an argument of the command.
                    let buffer = unsafe { device.buffers.get(arguments) };
                    Some(footprint::indirect_arguments(buffer, offset, granule))
                }
                Grid::Plain(_) | Grid::Base(..) => None,
            };
            stays.set(may_hand_over(pipeline));
            if stays.get() {
                context.release(state);
            }
            if let Some((capture, workgroups)) = device.capture.as_ref().zip(grid.workgroups()) {
                capture.dispatch(pipeline, &state.recorder.bound, find, workgroups);
            }
            let grid =
                if device.is_tight() { grid.workgroups().map(|g| (g, &device.addresses)) } else { None };
            state.recorder.dispatch(pipeline, find, arguments, grid)
        },
        |state| {
            let holds = state.recorder.holds();
            let Some(segment) = &mut state.segment else { return false };
            // SAFETY: as above.
            let pipeline = unsafe { context.device.pipelines.get(state.recorder.bound.pipeline) };
            stays.set(may_hand_over(pipeline));
            segment.dispatch(grid, (holds || !stays.get(), stays.get()), pipeline.and_then(|p| p.traits))
        },
        // SAFETY: by the caller.
        || unsafe { bindings::dispatch(&context.device.next, buffer, grid) },
    );
}

pub unsafe extern "system" fn cmd_dispatch(buffer: vk::CommandBuffer, x: u32, y: u32, z: u32) {
    // SAFETY: the application's own arguments.
    unsafe { dispatch(buffer, Grid::Plain([x, y, z])) }
}

pub unsafe extern "system" fn cmd_dispatch_base(
    buffer: vk::CommandBuffer,
    base_x: u32,
    base_y: u32,
    base_z: u32,
    x: u32,
    y: u32,
    z: u32,
) {
    // SAFETY: the application's own arguments.
    unsafe { dispatch(buffer, Grid::Base([base_x, base_y, base_z], [x, y, z])) }
}

pub unsafe extern "system" fn cmd_dispatch_indirect(
    buffer: vk::CommandBuffer,
    arguments: vk::Buffer,
    offset: vk::DeviceSize,
) {
    // SAFETY: the application's own arguments.
    unsafe { dispatch(buffer, Grid::Indirect(arguments, offset)) }
}

pub unsafe extern "system" fn cmd_execute_commands(
    buffer: vk::CommandBuffer,
    count: u32,
    secondaries: *const vk::CommandBuffer,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        context.with(|state| {
            let kept = state.recorder.unmodelled();
            context.before_unknown(state, kept, || "vkCmdExecuteCommands".into());
            for secondary in slice(secondaries, count) {
                let record = registry().command_buffers.get(*secondary);
                // A buffer can't execute itself; if an application tries, its lock must not be taken twice.
                let Some(record) = record.filter(|r| context.record.is_none_or(|c| !std::ptr::eq(c, *r)))
                else {
                    state.breaks_script();
                    continue;
                };
                let secondary = record.finished.lock().clone();
                state.recorder.executes(&secondary);
                if let Some(segment) = &mut state.segment {
                    segment.executes(secondary.script.as_deref());
                }
            }
            // "All state of the primary command buffer is undefined after an execute secondary command buffer command."
            state.recorder.bound.clear();
            if let Some(segment) = &mut state.segment {
                segment.forget_bound();
            }
        });
        if let Some(f) = context.device.next.cmd_execute_commands {
            f(buffer, count, secondaries);
        }
    }
}
