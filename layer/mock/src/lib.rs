//! A Vulkan driver that accepts everything and executes nothing.
//!
//! What the layer costs can't be seen beside a driver that costs more, and what the layer does with a command that no
//! driver at hand has can't be tested on one. So this driver has every command: those that a test wants to see
//! afterwards write themselves into their command buffer's log, all others return at once. Handles are counted up and
//! never used again, except those that a test asks for again with [`reuse_handles`] or [`recycle_handles`]. It never
//! fails unless told to ([`fail_after`], [`lose_device`]), but to map memory, of which it has none unless asked
//! ([`map_memory`]).
//!
//! It can be had in two ways: as a library for the Vulkan loader (`vk_icd*`, interface version 5), and linked into a
//! test that plays the loader itself, which then can read the log.
#![allow(
    clippy::missing_safety_doc,
    reason = "called by the Vulkan loader or a test that plays it, by the rules of the Vulkan specification"
)]

mod created;
mod faults;
mod layouts;
mod log;
mod physical;
pub mod shader;

use ash::vk::{self, Handle};
pub use created::{Created, created_with};
pub use faults::{fail_after, lose_device, recycle_handles};
pub use layouts::{PipelineLayouts, pipeline_layouts, remember_layouts, sets_of_layout};
pub use log::{Call, calls, start_log};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the loader expects in the first word of each handle that it dispatches on.
const MAGIC: usize = 0x01CD_C0DE;

/// A dispatchable object. The loader, or a test in its place, overwrites the first word with its dispatch table.
#[repr(C)]
struct Dispatchable {
    loader: usize,
}

/// A command buffer.
#[repr(C)]
pub(crate) struct CommandBuffer {
    loader: usize,
    pub(crate) log: parking_lot::Mutex<Vec<Call>>,
}

/// A function as the API hands it out.
type Void = unsafe extern "system" fn();

/// Turns a function of any type into [`Void`].
macro_rules! void {
    ($function:expr) => {
        // SAFETY: function pointers have one representation; whoever calls it casts it to what its name stands for.
        Some(unsafe { transmute::<*const (), Void>($function as *const ()) })
    };
}
pub(crate) use void;

static NEXT: AtomicU64 = AtomicU64::new(0x1000);

thread_local! {
    static REUSE: Cell<bool> = const { Cell::new(false) };
    /// What is mapped of any allocation.
    static MAPPED: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// From now on all memory that this thread maps is one block of `bytes`, into which nothing is ever written by the driver. It
/// stays until the process ends.
pub fn map_memory(bytes: usize) {
    MAPPED.set(vec![0u64; bytes.div_ceil(8)].leak().as_mut_ptr().cast());
}

/// From now on all objects that this thread makes get one and the same handle, as drivers may hand out a value again as
/// soon as its object is destroyed.
pub fn reuse_handles(reuse: bool) {
    REUSE.set(reuse);
}

/// A handle for a new object.
fn handle() -> u64 {
    match REUSE.get() {
        true => 0x100,
        false => faults::recycled().unwrap_or_else(|| NEXT.fetch_add(0x10, Ordering::Relaxed)),
    }
}

/// Negotiates the version of the interface.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(version: *mut u32) -> vk::Result {
    // SAFETY: the loader passes a valid pointer.
    unsafe { *version = (*version).min(5) };
    vk::Result::SUCCESS
}

/// The loader's one entry: functions by name.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetInstanceProcAddr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: by the caller.
    unsafe { get_instance_proc_addr(instance, name) }
}

/// `vkGetInstanceProcAddr`.
pub unsafe extern "system" fn get_instance_proc_addr(
    _: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a C string.
    let text = unsafe { CStr::from_ptr(name) };
    if let Some(found) = physical::find(text) {
        return Some(found);
    }
    match text.to_bytes() {
        b"vkGetInstanceProcAddr" => void!(get_instance_proc_addr),
        b"vkCreateInstance" => void!(create_dispatchable),
        b"vkCreateDevice" => void!(create_device),
        b"vkDestroyInstance" => void!(destroy_dispatchable),
        _ => find(text),
    }
}

/// `vkGetDeviceProcAddr`.
pub unsafe extern "system" fn get_device_proc_addr(
    _: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a C string.
    find(unsafe { CStr::from_ptr(name) })
}

/// A device's function. Every name that could be one is one.
fn find(name: &CStr) -> vk::PFN_vkVoidFunction {
    let text = name.to_str().ok()?;
    if let Some(found) = log::find(text) {
        return Some(found);
    }
    match text {
        "vkGetDeviceProcAddr" => void!(get_device_proc_addr),
        "vkDestroyDevice" => void!(destroy_dispatchable),
        "vkGetDeviceQueue" => void!(queue),
        "vkGetDeviceQueue2" => void!(queue2),
        "vkCreateComputePipelines" | "vkCreateGraphicsPipelines" => void!(create_pipelines),
        "vkCreateShadersEXT" => void!(create_shaders),
        "vkCreatePipelineLayout" => void!(layouts::create),
        "vkDestroyPipelineLayout" => void!(layouts::destroy),
        "vkAllocateMemory" => void!(create),
        "vkFreeMemory" => void!(faults::destroy),
        "vkDestroyCommandPool" => void!(faults::destroy_command_pool),
        "vkEndCommandBuffer" | "vkQueueWaitIdle" | "vkDeviceWaitIdle" | "vkQueueSubmit"
        | "vkQueueSubmit2" | "vkWaitForFences" | "vkGetFenceStatus" => void!(faults::status),
        "vkBindBufferMemory" | "vkBindBufferMemory2" | "vkBindImageMemory" | "vkBindImageMemory2" => {
            void!(faults::bind)
        }
        "vkAllocateDescriptorSets" => void!(allocate_sets),
        "vkAllocateCommandBuffers" => void!(allocate_buffers),
        "vkFreeCommandBuffers" => void!(free_buffers),
        "vkGetBufferMemoryRequirements" | "vkGetImageMemoryRequirements" => void!(requirements),
        "vkGetBufferMemoryRequirements2" | "vkGetImageMemoryRequirements2" => void!(requirements2),
        "vkGetBufferDeviceAddress" => void!(address),
        "vkMapMemory" => void!(map),
        "vkGetPhysicalDeviceSurfaceSupportKHR" => None,
        _ if text.starts_with("vkCreate") => void!(create),
        _ if text.starts_with("vkDestroy") => void!(faults::destroy),
        _ if text.starts_with("vk") && !text.starts_with("vkGetPhysicalDevice") => void!(zero),
        _ => None,
    }
}

/// Does nothing and succeeds, whatever the arguments.
unsafe extern "system" fn zero() -> u64 {
    0
}

unsafe extern "system" fn create_dispatchable(
    _: *const c_void,
    _: *const c_void,
    out: *mut u64,
) -> vk::Result {
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = Box::into_raw(Box::new(Dispatchable { loader: MAGIC })) as u64 };
    vk::Result::SUCCESS
}

unsafe extern "system" fn create_device(
    _: vk::PhysicalDevice,
    info: *const c_void,
    allocator: *const c_void,
    out: *mut u64,
) -> vk::Result {
    // SAFETY: by the caller.
    unsafe {
        created::note(info.cast());
        create_dispatchable(info, allocator, out)
    }
}

unsafe extern "system" fn destroy_dispatchable(object: *mut Dispatchable, _: *const c_void) {
    if !object.is_null() {
        // SAFETY: made in `create_dispatchable`, and destroyed once.
        drop(unsafe { Box::from_raw(object) });
    }
}

unsafe extern "system" fn queue(_: vk::Device, _: u32, _: u32, out: *mut u64) {
    static QUEUE: AtomicU64 = AtomicU64::new(0);
    let made = Box::into_raw(Box::new(Dispatchable { loader: MAGIC })) as u64;
    // One queue for the process: it has no state.
    let queue = match QUEUE.compare_exchange(0, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(first) => {
            // SAFETY: just made, and seen by nobody.
            drop(unsafe { Box::from_raw(made as *mut Dispatchable) });
            first
        }
    };
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = queue };
}

unsafe extern "system" fn queue2(device: vk::Device, _: *const c_void, out: *mut u64) {
    // SAFETY: by the caller.
    unsafe { queue(device, 0, 0, out) }
}

unsafe extern "system" fn create(
    _: vk::Device,
    _: *const c_void,
    _: *const c_void,
    out: *mut u64,
) -> vk::Result {
    let failed = faults::failed();
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = if failed.is_none() { handle() } else { 0 } };
    failed.unwrap_or(vk::Result::SUCCESS)
}

unsafe extern "system" fn create_pipelines(
    _: vk::Device,
    _: vk::PipelineCache,
    count: u32,
    _: *const c_void,
    _: *const c_void,
    out: *mut u64,
) -> vk::Result {
    let mut result = vk::Result::SUCCESS;
    for i in 0..count as usize {
        // Each pipeline of a call can fail on its own, and is null then.
        let failed = faults::failed();
        // SAFETY: the caller passes room for `count` handles.
        unsafe { *out.add(i) = if failed.is_none() { handle() } else { 0 } };
        result = failed.unwrap_or(result);
    }
    result
}

unsafe extern "system" fn create_shaders(
    _: vk::Device,
    count: u32,
    _: *const c_void,
    _: *const c_void,
    out: *mut u64,
) -> vk::Result {
    // SAFETY: the caller passes room for `count` handles.
    (0..count as usize).for_each(|i| unsafe { *out.add(i) = handle() });
    vk::Result::SUCCESS
}

unsafe extern "system" fn allocate_sets(
    _: vk::Device,
    info: *const vk::DescriptorSetAllocateInfo<'_>,
    out: *mut u64,
) -> vk::Result {
    let failed = faults::failed();
    // SAFETY: the caller passes room for as many handles as it asks for.
    unsafe {
        for i in 0..(*info).descriptor_set_count as usize {
            *out.add(i) = if failed.is_none() { handle() } else { 0 };
        }
    }
    failed.unwrap_or(vk::Result::SUCCESS)
}

unsafe extern "system" fn allocate_buffers(
    _: vk::Device,
    info: *const vk::CommandBufferAllocateInfo<'_>,
    out: *mut vk::CommandBuffer,
) -> vk::Result {
    let failed = faults::failed();
    // SAFETY: the caller passes room for as many handles as it asks for.
    unsafe {
        for i in 0..(*info).command_buffer_count as usize {
            if failed.is_some() {
                *out.add(i) = vk::CommandBuffer::null();
                continue;
            }
            let buffer = Box::new(CommandBuffer { loader: MAGIC, log: parking_lot::Mutex::default() });
            *out.add(i) = vk::CommandBuffer::from_raw(Box::into_raw(buffer) as u64);
            faults::belongs((*info).command_pool, *out.add(i));
        }
    }
    failed.unwrap_or(vk::Result::SUCCESS)
}

unsafe extern "system" fn free_buffers(
    _: vk::Device,
    pool: vk::CommandPool,
    count: u32,
    buffers: *const vk::CommandBuffer,
) {
    // SAFETY: made in `allocate_buffers`, and freed once.
    unsafe {
        for i in 0..count as usize {
            let buffer = (*buffers.add(i)).as_raw() as *mut CommandBuffer;
            if !buffer.is_null() {
                faults::freed(pool, *buffers.add(i));
                drop(Box::from_raw(buffer));
            }
        }
    }
}

unsafe extern "system" fn requirements(_: vk::Device, _: u64, out: *mut vk::MemoryRequirements) {
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = vk::MemoryRequirements { size: 1 << 16, alignment: 256, memory_type_bits: 1 } };
}

unsafe extern "system" fn requirements2(
    device: vk::Device,
    _: *const c_void,
    out: *mut vk::MemoryRequirements2<'_>,
) {
    // SAFETY: by the caller.
    unsafe { requirements(device, 0, &raw mut (*out).memory_requirements) }
}

unsafe extern "system" fn address(_: vk::Device, _: *const c_void) -> u64 {
    1 << 32
}

unsafe extern "system" fn map(
    _: vk::Device,
    _: vk::DeviceMemory,
    _: u64,
    _: u64,
    _: u32,
    out: *mut *mut c_void,
) -> vk::Result {
    let mapped = MAPPED.get();
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = mapped };
    if mapped.is_null() { vk::Result::ERROR_MEMORY_MAP_FAILED } else { vk::Result::SUCCESS }
}
