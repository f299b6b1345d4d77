//! The one physical device: what it says of itself. It has whatever one asks for.

use crate::{Void, void};
use ash::vk::{self, Handle};
use std::ffi::{CStr, c_char};
use std::mem::transmute;

#[repr(C)]
struct Physical {
    loader: usize,
}

static mut PHYSICAL: Physical = Physical { loader: crate::MAGIC };

/// The function of that name, if it is about physical devices or asked before there is an instance.
pub(crate) fn find(name: &CStr) -> Option<Void> {
    match name.to_bytes() {
        b"vkEnumerateInstanceVersion" => void!(version),
        b"vkEnumeratePhysicalDevices" => void!(devices),
        b"vkEnumerateInstanceExtensionProperties" => void!(no_instance_extensions),
        b"vkEnumerateDeviceExtensionProperties" => void!(no_device_extensions),
        b"vkGetPhysicalDeviceProperties" => void!(properties),
        b"vkGetPhysicalDeviceProperties2" => void!(properties2),
        b"vkGetPhysicalDeviceMemoryProperties" => void!(memory),
        b"vkGetPhysicalDeviceQueueFamilyProperties" => void!(queues),
        b"vkGetPhysicalDeviceFeatures"
        | b"vkGetPhysicalDeviceFeatures2"
        | b"vkGetPhysicalDeviceFormatProperties"
        | b"vkGetPhysicalDeviceImageFormatProperties"
        | b"vkGetPhysicalDeviceSparseImageFormatProperties" => void!(crate::zero),
        _ => None,
    }
}

unsafe extern "system" fn version(out: *mut u32) -> vk::Result {
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = vk::API_VERSION_1_3 };
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
            *out = vk::PhysicalDevice::from_raw(&raw mut PHYSICAL as u64);
        }
    }
    vk::Result::SUCCESS
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

unsafe extern "system" fn properties(_: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceProperties) {
    let mut properties = vk::PhysicalDeviceProperties {
        api_version: vk::API_VERSION_1_3,
        driver_version: 1,
        device_type: vk::PhysicalDeviceType::OTHER,
        ..Default::default()
    };
    for (to, from) in properties.device_name.iter_mut().zip(b"Mock that executes nothing") {
        *to = *from as c_char;
    }
    properties.limits.max_per_stage_descriptor_storage_buffers = 1 << 20;
    properties.limits.max_descriptor_set_storage_buffers = 1 << 20;
    properties.limits.max_bound_descriptor_sets = 8;
    properties.limits.max_push_constants_size = 256;
    properties.limits.max_memory_allocation_count = u32::MAX;
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = properties };
}

unsafe extern "system" fn properties2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: by the caller.
    unsafe { properties(device, &raw mut (*out).properties) }
}

unsafe extern "system" fn memory(_: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceMemoryProperties) {
    let mut memory = vk::PhysicalDeviceMemoryProperties {
        memory_type_count: 1,
        memory_heap_count: 1,
        ..Default::default()
    };
    memory.memory_types[0].property_flags = vk::MemoryPropertyFlags::DEVICE_LOCAL
        | vk::MemoryPropertyFlags::HOST_VISIBLE
        | vk::MemoryPropertyFlags::HOST_COHERENT;
    memory.memory_heaps[0].size = 1 << 40;
    // SAFETY: the caller passes a valid pointer.
    unsafe { *out = memory };
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
            *out = vk::QueueFamilyProperties {
                queue_flags: vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER | vk::QueueFlags::GRAPHICS,
                queue_count: 1,
                ..Default::default()
            };
        }
    }
}
