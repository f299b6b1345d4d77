//! What reached the driver.
//!
//! The commands that tests ask about write themselves down, if logging was started; a benchmark leaves it off.

use crate::{CommandBuffer, Void, void};
use ash::vk::{self, Handle};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, Ordering};

/// A command that reached the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A pipeline barrier, of either version: first stages and accesses, second stages and accesses, joined.
    Barrier {
        /// First scope: stages, accesses.
        src: (u64, u64),
        /// Second scope: stages, accesses.
        dst: (u64, u64),
    },
    /// A dispatch, by its number of workgroups.
    Dispatch([u32; 3]),
    /// A bind of sets: the layout's handle, the number of the first set, how many, and the first one's handle.
    Bind {
        /// `VkPipelineLayout`.
        layout: u64,
        /// `firstSet`.
        first: u32,
        /// `descriptorSetCount`.
        count: u32,
        /// The first `VkDescriptorSet`.
        set: u64,
    },
    /// A timestamp, by the number of its query.
    Timestamp(u32),
    /// A region begins: the first byte of its label.
    BeginLabel(u8),
    /// A label between commands: its first byte.
    InsertLabel(u8),
    /// A region ends.
    EndLabel,
    /// Any other command that is logged, by its name.
    Other(&'static str),
}

static ON: AtomicBool = AtomicBool::new(false);

/// From now on, commands are logged.
pub fn start_log() {
    ON.store(true, Ordering::Relaxed);
}

/// What reached a command buffer since it was begun.
///
/// # Safety
///
/// `buffer` must be one of this driver's, and alive.
pub unsafe fn calls(buffer: vk::CommandBuffer) -> Vec<Call> {
    // SAFETY: by the caller.
    unsafe { (*(buffer.as_raw() as *const CommandBuffer)).log.lock().clone() }
}

unsafe fn put(buffer: vk::CommandBuffer, call: Call) {
    if ON.load(Ordering::Relaxed) {
        // SAFETY: the caller passes one of this driver's command buffers.
        unsafe { (*(buffer.as_raw() as *const CommandBuffer)).log.lock().push(call) };
    }
}

macro_rules! named {
    ($( $function:ident = $name:literal; )*) => {
        $(
            unsafe extern "system" fn $function(buffer: vk::CommandBuffer) {
                // SAFETY: by the caller.
                unsafe { put(buffer, Call::Other($name)) }
            }
        )*

        fn find_named(name: &str) -> Option<Void> {
            match name {
                $( $name => void!($function), )*
                _ => None,
            }
        }
    };
}

named! {
    bind_pipeline = "vkCmdBindPipeline";
    bind_sets2 = "vkCmdBindDescriptorSets2";
    push_set = "vkCmdPushDescriptorSet";
    push_set_khr = "vkCmdPushDescriptorSetKHR";
    push_template = "vkCmdPushDescriptorSetWithTemplate";
    push_constants = "vkCmdPushConstants";
    copy_buffer = "vkCmdCopyBuffer";
    fill_buffer = "vkCmdFillBuffer";
    update_buffer = "vkCmdUpdateBuffer";
    copy_image = "vkCmdCopyImage";
    buffer_to_image = "vkCmdCopyBufferToImage";
    execute = "vkCmdExecuteCommands";
    begin_rendering = "vkCmdBeginRendering";
    end_rendering = "vkCmdEndRendering";
    begin_conditional = "vkCmdBeginConditionalRenderingEXT";
    end_conditional = "vkCmdEndConditionalRenderingEXT";
    set_event = "vkCmdSetEvent";
    reset_queries = "vkCmdResetQueryPool";
    begin_query = "vkCmdBeginQuery";
    end_query = "vkCmdEndQuery";
    copy_results = "vkCmdCopyQueryPoolResults";
    bind_shaders = "vkCmdBindShadersEXT";
    descriptor_buffers = "vkCmdBindDescriptorBuffersEXT";
    device_mask = "vkCmdSetDeviceMask";
    from_the_future = "vkCmdFromTheFutureEXT";
}

/// The logged function called `name`.
pub(crate) fn find(name: &str) -> Option<Void> {
    match name {
        "vkBeginCommandBuffer" => void!(begin),
        "vkCmdPipelineBarrier" => void!(barrier),
        "vkCmdPipelineBarrier2" | "vkCmdPipelineBarrier2KHR" => void!(barrier2),
        "vkCmdBindDescriptorSets" => void!(bind_sets),
        "vkCmdDispatch" => void!(dispatch),
        "vkCmdWriteTimestamp" => void!(timestamp),
        "vkCmdWriteTimestamp2" | "vkCmdWriteTimestamp2KHR" => void!(timestamp2),
        "vkCmdBeginDebugUtilsLabelEXT" => void!(begin_label),
        "vkCmdInsertDebugUtilsLabelEXT" => void!(insert_label),
        "vkCmdEndDebugUtilsLabelEXT" | "vkCmdDebugMarkerEndEXT" => void!(end_label),
        "vkCmdDebugMarkerBeginEXT" => void!(begin_marker),
        "vkCmdDispatchBase" => void!(dispatch_base),
        _ => find_named(name),
    }
}

unsafe extern "system" fn begin(
    buffer: vk::CommandBuffer,
    _: *const vk::CommandBufferBeginInfo<'_>,
) -> vk::Result {
    // SAFETY: by the caller.
    unsafe { (*(buffer.as_raw() as *const CommandBuffer)).log.lock().clear() };
    // SAFETY: takes nothing.
    unsafe { crate::faults::bind() }
}

unsafe extern "system" fn dispatch(buffer: vk::CommandBuffer, x: u32, y: u32, z: u32) {
    // SAFETY: by the caller.
    unsafe { put(buffer, Call::Dispatch([x, y, z])) }
}

unsafe extern "system" fn timestamp(
    buffer: vk::CommandBuffer,
    _: vk::PipelineStageFlags,
    _: vk::QueryPool,
    query: u32,
) {
    // SAFETY: by the caller.
    unsafe { put(buffer, Call::Timestamp(query)) }
}

unsafe extern "system" fn timestamp2(
    buffer: vk::CommandBuffer,
    _: vk::PipelineStageFlags2,
    _: vk::QueryPool,
    query: u32,
) {
    // SAFETY: by the caller.
    unsafe { put(buffer, Call::Timestamp(query)) }
}

unsafe extern "system" fn begin_label(buffer: vk::CommandBuffer, info: *const vk::DebugUtilsLabelEXT<'_>) {
    // SAFETY: the caller passes a label with a name.
    unsafe { put(buffer, Call::BeginLabel(*(*info).p_label_name as u8)) }
}

unsafe extern "system" fn insert_label(buffer: vk::CommandBuffer, info: *const vk::DebugUtilsLabelEXT<'_>) {
    // SAFETY: as above.
    unsafe { put(buffer, Call::InsertLabel(*(*info).p_label_name as u8)) }
}

unsafe extern "system" fn begin_marker(
    buffer: vk::CommandBuffer,
    info: *const vk::DebugMarkerMarkerInfoEXT<'_>,
) {
    // SAFETY: as above.
    unsafe { put(buffer, Call::BeginLabel(*(*info).p_marker_name as u8)) }
}

unsafe extern "system" fn end_label(buffer: vk::CommandBuffer) {
    // SAFETY: by the caller.
    unsafe { put(buffer, Call::EndLabel) }
}

unsafe extern "system" fn bind_sets(
    buffer: vk::CommandBuffer,
    _: vk::PipelineBindPoint,
    layout: vk::PipelineLayout,
    first: u32,
    count: u32,
    sets: *const vk::DescriptorSet,
    _: u32,
    _: *const u32,
) {
    // SAFETY: the caller passes `count` sets, if any.
    let set = if count == 0 { 0 } else { unsafe { (*sets).as_raw() } };
    // SAFETY: by the caller.
    unsafe { put(buffer, Call::Bind { layout: layout.as_raw(), first, count, set }) }
}

unsafe extern "system" fn dispatch_base(
    buffer: vk::CommandBuffer,
    _: u32,
    _: u32,
    _: u32,
    x: u32,
    y: u32,
    z: u32,
) {
    // SAFETY: by the caller.
    unsafe { put(buffer, Call::Dispatch([x, y, z])) }
}

unsafe extern "system" fn barrier(
    buffer: vk::CommandBuffer,
    src: vk::PipelineStageFlags,
    dst: vk::PipelineStageFlags,
    _: vk::DependencyFlags,
    count: u32,
    memory: *const vk::MemoryBarrier<'_>,
    _: u32,
    _: *const vk::BufferMemoryBarrier<'_>,
    _: u32,
    _: *const vk::ImageMemoryBarrier<'_>,
) {
    let (mut from, mut to) = (0, 0);
    for i in 0..count as usize {
        // SAFETY: the caller passes `count` barriers.
        let one = unsafe { &*memory.add(i) };
        from |= u64::from(one.src_access_mask.as_raw());
        to |= u64::from(one.dst_access_mask.as_raw());
    }
    let (src, dst) = ((u64::from(src.as_raw()), from), (u64::from(dst.as_raw()), to));
    // SAFETY: by the caller.
    unsafe { put(buffer, Call::Barrier { src, dst }) }
}

unsafe extern "system" fn barrier2(buffer: vk::CommandBuffer, info: *const vk::DependencyInfo<'_>) {
    let (mut src, mut dst) = ((0, 0), (0, 0));
    // SAFETY: the caller passes a valid structure.
    unsafe {
        for i in 0..(*info).memory_barrier_count as usize {
            let one = &*(*info).p_memory_barriers.add(i);
            src = (src.0 | one.src_stage_mask.as_raw(), src.1 | one.src_access_mask.as_raw());
            dst = (dst.0 | one.dst_stage_mask.as_raw(), dst.1 | one.dst_access_mask.as_raw());
        }
        put(buffer, Call::Barrier { src, dst });
    }
}
