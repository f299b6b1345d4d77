//! Buffers, each with a memory allocation of its own.
//!
//! The engine has few buffers: sub-ranges of them are what kernels see. So one allocation a buffer is no waste.

use std::rc::Rc;

use ash::vk;
use ash::vk::MemoryPropertyFlags as F;

use super::error::During;
use super::{Device, Error};

/// Who touches a buffer, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Only the device; filled by copies.
    Device,
    /// Written by the host, read by the device.
    HostWrites,
    /// Written by the device, read by the host.
    HostReads,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Self::Device => "buffers of the device",
            Self::HostWrites => "buffers that the host writes",
            Self::HostReads => "buffers that the host reads",
        }
    }

    /// Property flags to look for, the best first. Any memory serves for device buffers in the end.
    fn preferences(self) -> &'static [F] {
        match self {
            Self::Device => const { &[F::DEVICE_LOCAL, F::empty()] },
            Self::HostWrites => &[COHERENT],
            Self::HostReads => &[CACHED, COHERENT],
        }
    }
}

const COHERENT: F = F::from_raw(F::HOST_VISIBLE.as_raw() | F::HOST_COHERENT.as_raw());
const CACHED: F = F::from_raw(COHERENT.as_raw() | F::HOST_CACHED.as_raw());

/// A buffer and its memory.
pub struct Buffer {
    device: Rc<Device>,
    pub(super) raw: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: u64,
    /// Address of the mapping; null for device buffers.
    mapped: *mut u8,
}

impl Buffer {
    /// Makes a buffer of `bytes` bytes (at least 4). Its contents are undefined.
    pub fn new(device: &Rc<Device>, bytes: u64, usage: Use) -> Result<Self, Error> {
        let bytes = bytes.max(4).next_multiple_of(4);
        let info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(
                vk::BufferUsageFlags::STORAGE_BUFFER
                    | vk::BufferUsageFlags::TRANSFER_SRC
                    | vk::BufferUsageFlags::TRANSFER_DST,
            )
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: the device is alive; the structure lives until the call returns.
        let raw = unsafe { device.raw.create_buffer(&info, None) }.during("vkCreateBuffer")?;
        // From here on, dropping `buffer` cleans up whatever was made; null handles are ignored by Vulkan.
        let mut buffer = Self {
            device: Rc::clone(device),
            raw,
            memory: vk::DeviceMemory::null(),
            bytes,
            mapped: std::ptr::null_mut(),
        };
        // SAFETY: the buffer was just made from this device.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(raw) };
        let index = memory_type(&device.memory, needs.memory_type_bits, usage)
            .ok_or(Error::NoMemoryType(usage.name()))?;
        let allocate = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
        // SAFETY: the type index comes from this device's table.
        buffer.memory =
            unsafe { device.raw.allocate_memory(&allocate, None) }.map_err(|result| match result {
                vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => {
                    Error::OutOfMemory { kind: "device", during: format!("an allocation of {bytes} bytes") }
                }
                result => Error::from_result("vkAllocateMemory", result),
            })?;
        // SAFETY: fresh buffer, fresh memory of a type and size that its requirements allow.
        unsafe { device.raw.bind_buffer_memory(raw, buffer.memory, 0) }.during("vkBindBufferMemory")?;
        if usage != Use::Device {
            // SAFETY: the memory is host-visible by its type, and not mapped yet.
            let address = unsafe {
                device.raw.map_memory(buffer.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())
            };
            buffer.mapped = address.during("vkMapMemory")?.cast();
        }
        Ok(buffer)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn check(&self, offset: u64, len: usize) {
        let end = offset.checked_add(len as u64);
        assert!(
            !self.mapped.is_null() && end.is_some_and(|end| end <= self.bytes),
            "outside the mapped buffer"
        );
    }

    /// Copies bytes from the host into the buffer. No submission that reads them may be in flight.
    ///
    /// # Panics
    ///
    /// If the buffer is not host-visible or the bytes do not fit: mistakes of the caller.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: checked against the mapping's size; a mapping and a slice of the program do not overlap; the memory
        // is coherent, and the next submission makes host writes visible.
        unsafe { self.mapped.add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out of the buffer. The submission that wrote them must have finished, with a barrier to the host.
    ///
    /// # Panics
    ///
    /// As for [`Buffer::write`].
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        self.check(offset, out.len());
        // SAFETY: as in `write`, in the other direction.
        unsafe { self.mapped.add(offset as usize).copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.device.idle() {
            // SAFETY: no submission is in flight (every one is waited for, or the device is abandoned). Freeing memory
            // unmaps it.
            unsafe {
                self.device.raw.destroy_buffer(self.raw, None);
                self.device.raw.free_memory(self.memory, None);
            }
        }
    }
}

fn memory_type(table: &vk::PhysicalDeviceMemoryProperties, allowed: u32, usage: Use) -> Option<u32> {
    let types = &table.memory_types[..(table.memory_type_count as usize).min(table.memory_types.len())];
    let find = |flags: F| {
        let fits = |(i, t): (usize, &vk::MemoryType)| {
            let usable = !t.property_flags.intersects(F::PROTECTED | F::LAZILY_ALLOCATED);
            (allowed & (1 << i) != 0 && usable && t.property_flags.contains(flags)).then_some(i as u32)
        };
        types.iter().enumerate().find_map(fits)
    };
    usage.preferences().iter().find_map(|flags| find(*flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(flags: &[F]) -> vk::PhysicalDeviceMemoryProperties {
        let mut table = vk::PhysicalDeviceMemoryProperties {
            memory_type_count: flags.len() as u32,
            ..Default::default()
        };
        for (t, flags) in table.memory_types.iter_mut().zip(flags) {
            t.property_flags = *flags;
        }
        table
    }

    #[test]
    fn device_buffers_prefer_local_memory_and_take_any_in_the_end() {
        let t = table(&[F::HOST_VISIBLE | F::HOST_COHERENT, F::DEVICE_LOCAL]);
        assert_eq!(memory_type(&t, 0b11, Use::Device), Some(1));
        assert_eq!(memory_type(&t, 0b01, Use::Device), Some(0));
    }

    #[test]
    fn a_buffer_that_the_host_reads_prefers_cached_memory_and_never_takes_incoherent() {
        let coherent = F::HOST_VISIBLE | F::HOST_COHERENT;
        let t = table(&[F::HOST_VISIBLE | F::HOST_CACHED, coherent, coherent | F::HOST_CACHED]);
        assert_eq!(memory_type(&t, 0b111, Use::HostReads), Some(2));
        assert_eq!(memory_type(&t, 0b011, Use::HostReads), Some(1));
        assert_eq!(memory_type(&t, 0b001, Use::HostReads), None);
    }
}
