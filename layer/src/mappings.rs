//! Which host addresses are memory of the device's, mapped.
//!
//! An application may hand a pointer that `vkMapMemory` returned to an import (VK_EXT_external_memory_host). The two
//! allocations then are the same bytes, though neither is exported.

use crate::objects::create;
use ash::vk;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::c_void;

/// What is mapped: at most one range an allocation.
#[derive(Debug, Default)]
pub struct Mappings(Mutex<HashMap<u64, (u64, u64)>>);

impl Mappings {
    /// The memory with this serial number is mapped to `size` bytes at an address.
    pub fn mapped(&self, memory: u64, address: u64, size: u64) {
        self.0.lock().insert(memory, (address, address.saturating_add(size)));
    }

    /// It is unmapped, or freed.
    pub fn unmapped(&self, memory: u64) {
        self.0.lock().remove(&memory);
    }

    /// Returns true if some of `size` bytes at an address are mapped memory.
    pub fn meet(&self, address: u64, size: u64) -> bool {
        let end = address.saturating_add(size);
        self.0.lock().values().any(|(first, last)| address < *last && *first < end)
    }
}

/// Takes in that memory was mapped from `offset` on.
///
/// # Safety
///
/// The memory must be alive.
unsafe fn note(
    device: &crate::device::Device,
    memory: vk::DeviceMemory,
    (offset, size): (u64, u64),
    at: *const c_void,
) {
    // SAFETY: by the caller.
    let Some(record) = (unsafe { device.memories.get(memory) }) else { return };
    let rest = record.size().saturating_sub(offset);
    let size = if size == vk::WHOLE_SIZE { rest } else { size };
    device.mappings.mapped(record.serial(), at as u64, size);
}

pub unsafe extern "system" fn map_memory(
    device: vk::Device,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    flags: vk::MemoryMapFlags,
    out: *mut *mut c_void,
) -> vk::Result {
    create!(device.map_memory(memory, offset, size, flags, out), |d| {
        note(d, memory, (offset, size), *out);
    })
}

pub unsafe extern "system" fn map_memory2(
    device: vk::Device,
    info: *const vk::MemoryMapInfoKHR<'_>,
    out: *mut *mut c_void,
) -> vk::Result {
    create!(device.map_memory2(info, out), |d| {
        note(d, (*info).memory, ((*info).offset, (*info).size), *out);
    })
}

pub unsafe extern "system" fn unmap_memory(device: vk::Device, memory: vk::DeviceMemory) {
    crate::objects::destroy!(device.unmap_memory(memory), |d| {
        if let Some(record) = d.memories.get(memory) {
            d.mappings.unmapped(record.serial());
        }
    })
}

pub unsafe extern "system" fn unmap_memory2(
    device: vk::Device,
    info: *const vk::MemoryUnmapInfoKHR<'_>,
) -> vk::Result {
    crate::objects::destroy!(device.unmap_memory2(info), |d| {
        if let Some(record) = d.memories.get((*info).memory) {
            d.mappings.unmapped(record.serial());
        }
    })
}
