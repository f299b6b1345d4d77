//! How much memory a device has left for buffers.

use ash::vk;

use super::Device;
use crate::results::DeviceKind;

impl Device {
    /// Bytes that buffers of the device may take: what the driver's budget leaves free where it tells
    /// (VK_EXT_memory_budget), else the size of the heap. A CPU driver takes the host's memory, whatever it calls its
    /// heap, so there it is what the system has available.
    pub fn memory_available(&self) -> u64 {
        if self.describe().kind == DeviceKind::Cpu
            && let Some(bytes) = host_memory_available()
        {
            return bytes;
        }
        let table = &self.memory;
        let types = &table.memory_types[..(table.memory_type_count as usize).min(table.memory_types.len())];
        let local = |t: &&vk::MemoryType| t.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL);
        let heap = types.iter().find(local).or(types.first()).map_or(0, |t| t.heap_index as usize);
        let size = table.memory_heaps.get(heap).map_or(0, |heap| heap.size);
        self.budget(heap).map_or(size, |budget| budget.min(size))
    }

    fn budget(&self, heap: usize) -> Option<u64> {
        let handle = self.physical.handle;
        // SAFETY: the handle comes from this instance, which is alive.
        let extensions = unsafe { self.instance.raw.enumerate_device_extension_properties(handle) }.ok()?;
        let name = ash::ext::memory_budget::NAME;
        if !extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name)) {
            return None;
        }
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: as above; the device has the extension of the chained structure, and both live until the call returns.
        unsafe { self.instance.raw.get_physical_device_memory_properties2(handle, &mut properties) };
        let (total, used) = (*budget.heap_budget.get(heap)?, *budget.heap_usage.get(heap)?);
        // Some drivers fill in nothing.
        (total > 0).then(|| total.saturating_sub(used))
    }
}

/// `MemAvailable` of /proc/meminfo, bytes.
fn host_memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}
