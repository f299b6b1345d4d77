//! A Vulkan driver with one device that is not good enough, for tests of what programs say then.
//!
//! It is a driver only as far as the loader and an application's first questions go: there is an instance, a device,
//! and answers about the device. Creating a device fails. What the device lacks is chosen by the name of the manifest
//! in `VK_DRIVER_FILES`: `old.json` knows Vulkan 1.0 only, `no-compute.json` has no compute queue, `small.json` has the
//! least limits that one can have; any other has all that the engine needs, and breaks when it is opened. (A variable
//! of its own would be taken out of the environment by the sweep.)
//!
//! The interface is the loader's "Vulkan Installable Client Driver interface", version 5.
#![allow(
    clippy::missing_safety_doc,
    reason = "called by the Vulkan loader, by the rules of the Vulkan specification"
)]

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::path::Path;

use ash::vk::{self, Handle};

/// What the loader expects in the first word of each handle that it dispatches on.
#[repr(C)]
struct Dispatchable {
    magic: usize,
}

const MAGIC: usize = 0x01CD_C0DE;
static mut INSTANCE: Dispatchable = Dispatchable { magic: MAGIC };
static mut DEVICE: Dispatchable = Dispatchable { magic: MAGIC };

fn lacks(what: &str) -> bool {
    let manifest = std::env::var_os("VK_DRIVER_FILES").unwrap_or_default();
    Path::new(&manifest).file_stem().is_some_and(|name| name == what)
}

/// Negotiates the version of the interface.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(version: *mut u32) -> vk::Result {
    // SAFETY: the loader passes a valid pointer.
    unsafe { *version = (*version).min(5) };
    vk::Result::SUCCESS
}

/// The one entry: functions by name.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetInstanceProcAddr(
    _: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the loader passes a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let function: *const () = match name.to_bytes() {
        b"vkCreateInstance" => create_instance as *const (),
        b"vkDestroyInstance" => destroy as *const (),
        b"vkEnumerateInstanceExtensionProperties" => no_instance_extensions as *const (),
        b"vkEnumerateDeviceExtensionProperties" => no_device_extensions as *const (),
        b"vkEnumerateInstanceVersion" => instance_version as *const (),
        b"vkEnumeratePhysicalDevices" => devices as *const (),
        b"vkGetPhysicalDeviceProperties" => properties as *const (),
        b"vkGetPhysicalDeviceProperties2" | b"vkGetPhysicalDeviceProperties2KHR" => properties2 as *const (),
        b"vkGetPhysicalDeviceFeatures" => features as *const (),
        b"vkGetPhysicalDeviceFeatures2" | b"vkGetPhysicalDeviceFeatures2KHR" => features2 as *const (),
        b"vkGetPhysicalDeviceMemoryProperties" => memory as *const (),
        b"vkGetPhysicalDeviceMemoryProperties2" | b"vkGetPhysicalDeviceMemoryProperties2KHR" => {
            memory2 as *const ()
        }
        b"vkGetPhysicalDeviceQueueFamilyProperties" => queues as *const (),
        b"vkGetPhysicalDeviceQueueFamilyProperties2" | b"vkGetPhysicalDeviceQueueFamilyProperties2KHR" => {
            queues2 as *const ()
        }
        b"vkGetPhysicalDeviceFormatProperties" => nothing as *const (),
        b"vkGetPhysicalDeviceImageFormatProperties" => refuse as *const (),
        b"vkGetPhysicalDeviceSparseImageFormatProperties" => nothing as *const (),
        b"vkCreateDevice" => refuse as *const (),
        b"vkGetDeviceProcAddr" => no_function as *const (),
        _ => return None,
    };
    // SAFETY: a function pointer of another type, which the loader casts back to the type that the name stands for.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(function) }
}

unsafe extern "system" fn create_instance(
    _: *const c_void,
    _: *const c_void,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader passes a valid pointer; the static lives as long as the process.
    unsafe { *instance = vk::Instance::from_raw(&raw mut INSTANCE as u64) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(_: vk::Instance, _: *const c_void) {}

unsafe extern "system" fn nothing() {}

unsafe extern "system" fn no_function(_: vk::Device, _: *const c_char) -> vk::PFN_vkVoidFunction {
    None
}

unsafe extern "system" fn refuse() -> vk::Result {
    vk::Result::ERROR_INITIALIZATION_FAILED
}

unsafe extern "system" fn no_instance_extensions(_: *const c_char, count: *mut u32) -> vk::Result {
    // SAFETY: the caller passes a valid pointer.
    unsafe { *count = 0 };
    vk::Result::SUCCESS
}

unsafe extern "system" fn no_device_extensions(
    _: vk::PhysicalDevice,
    _: *const c_char,
    count: *mut u32,
) -> vk::Result {
    // SAFETY: the caller passes a valid pointer.
    unsafe { *count = 0 };
    vk::Result::SUCCESS
}

unsafe extern "system" fn instance_version(version: *mut u32) -> vk::Result {
    // SAFETY: the caller passes a valid pointer.
    unsafe { *version = vk::API_VERSION_1_3 };
    vk::Result::SUCCESS
}

unsafe extern "system" fn devices(
    _: vk::Instance,
    count: *mut u32,
    out: *mut vk::PhysicalDevice,
) -> vk::Result {
    // SAFETY: the caller passes valid pointers, `out` with room for `count` handles or null.
    unsafe {
        if out.is_null() {
            *count = 1;
        } else if *count > 0 {
            *count = 1;
            *out = vk::PhysicalDevice::from_raw(&raw mut DEVICE as u64);
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn properties(_: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceProperties) {
    let mut properties = vk::PhysicalDeviceProperties {
        api_version: if lacks("old") { vk::API_VERSION_1_0 } else { vk::API_VERSION_1_3 },
        driver_version: 1,
        device_type: vk::PhysicalDeviceType::OTHER,
        ..Default::default()
    };
    for (to, from) in properties.device_name.iter_mut().zip(b"Mock of a device that lacks something") {
        *to = *from as c_char;
    }
    let least = lacks("small");
    properties.limits = vk::PhysicalDeviceLimits {
        max_storage_buffer_range: if least { 1 << 10 } else { 1 << 30 },
        max_push_constants_size: if least { 4 } else { 128 },
        max_memory_allocation_count: 4096,
        max_bound_descriptor_sets: 4,
        max_per_stage_descriptor_storage_buffers: if least { 1 } else { 16 },
        max_descriptor_set_storage_buffers: if least { 1 } else { 16 },
        max_per_stage_resources: 128,
        max_compute_shared_memory_size: if least { 16 } else { 32768 },
        max_compute_work_group_count: if least { [1; 3] } else { [65535; 3] },
        max_compute_work_group_invocations: if least { 1 } else { 1024 },
        max_compute_work_group_size: if least { [1; 3] } else { [1024, 1024, 64] },
        min_storage_buffer_offset_alignment: 16,
        min_memory_map_alignment: 64,
        non_coherent_atom_size: 64,
        ..Default::default()
    };
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = properties };
}

unsafe extern "system" fn properties2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: the caller passes a valid pointer; what hangs behind `pNext` stays as it is, zero by default.
    unsafe { properties(device, &raw mut (*out).properties) };
}

unsafe extern "system" fn features(_: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceFeatures) {
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = vk::PhysicalDeviceFeatures::default() };
}

unsafe extern "system" fn features2(device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceFeatures2<'_>) {
    // SAFETY: as in `properties2`.
    unsafe { features(device, &raw mut (*out).features) };
}

unsafe extern "system" fn memory(_: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceMemoryProperties) {
    let mut properties = vk::PhysicalDeviceMemoryProperties {
        memory_type_count: 1,
        memory_heap_count: 1,
        ..Default::default()
    };
    properties.memory_heaps[0] = vk::MemoryHeap { size: 1 << 30, flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
    let seen = vk::MemoryPropertyFlags::DEVICE_LOCAL
        | vk::MemoryPropertyFlags::HOST_VISIBLE
        | vk::MemoryPropertyFlags::HOST_COHERENT;
    properties.memory_types[0] = vk::MemoryType { property_flags: seen, heap_index: 0 };
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = properties };
}

unsafe extern "system" fn memory2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    // SAFETY: as in `properties2`.
    unsafe { memory(device, &raw mut (*out).memory_properties) };
}

fn family() -> vk::QueueFamilyProperties {
    let flags = match lacks("no-compute") {
        true => vk::QueueFlags::TRANSFER,
        false => vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER,
    };
    vk::QueueFamilyProperties { queue_flags: flags, queue_count: 1, ..Default::default() }
}

unsafe extern "system" fn queues(
    _: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut vk::QueueFamilyProperties,
) {
    // SAFETY: the caller passes valid pointers, `out` with room for `count` families or null.
    unsafe {
        if out.is_null() {
            *count = 1;
        } else if *count > 0 {
            *count = 1;
            *out = family();
        }
    }
}

unsafe extern "system" fn queues2(
    _: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut vk::QueueFamilyProperties2<'_>,
) {
    // SAFETY: as in `queues`.
    unsafe {
        if out.is_null() {
            *count = 1;
        } else if *count > 0 {
            *count = 1;
            (*out).queue_family_properties = family();
        }
    }
}
