//! Where a buffer's bytes are: allocations and the buffers bound to them.
//!
//! Two buffers may share an allocation, so every range that the tracker sees is a place in an allocation. What can't
//! be placed is `Range::Anywhere`, which overlaps everything: sparse buffers, buffers bound in a way that this layer
//! does not read. Imported and exported memory is one class that conflicts within itself, since two allocations of a
//! process may be the same bytes (docs/semantics.md, rule 10).

use crate::abi::chain;
use ash::vk;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use zinc_hazard::{MemoryId, Range};

/// All imported and exported memory.
const EXTERNAL: MemoryId = MemoryId(0);

/// One `VkDeviceMemory`.
#[derive(Debug)]
pub struct Memory {
    id: MemoryId,
}

impl Memory {
    /// The record of an allocation made with `info`.
    ///
    /// # Safety
    ///
    /// `info`'s `pNext` list must be valid.
    pub unsafe fn new(info: &vk::MemoryAllocateInfo<'_>) -> Memory {
        static NEXT: AtomicU64 = AtomicU64::new(EXTERNAL.0 + 1);
        // SAFETY: by the caller. A structure that is not known to be harmless may import or export.
        let shared = unsafe { chain(info.p_next) }.any(|c| {
            !matches!(
                c.s_type(),
                vk::StructureType::MEMORY_ALLOCATE_FLAGS_INFO
                    | vk::StructureType::MEMORY_DEDICATED_ALLOCATE_INFO
                    | vk::StructureType::MEMORY_PRIORITY_ALLOCATE_INFO_EXT
                    | vk::StructureType::MEMORY_OPAQUE_CAPTURE_ADDRESS_ALLOCATE_INFO
            ) && !c.get::<vk::ExportMemoryAllocateInfo<'_>>().is_some_and(|e| e.handle_types.is_empty())
        });
        let id = if shared { EXTERNAL } else { MemoryId(NEXT.fetch_add(1, Ordering::Relaxed)) };
        Memory { id }
    }
}

/// Where a buffer was bound.
#[derive(Debug)]
enum Place {
    At { memory: Arc<Memory>, offset: u64 },
    Unknown,
}

/// One `VkBuffer`.
#[derive(Debug)]
pub struct Buffer {
    size: u64,
    placeable: bool,
    place: OnceLock<Place>,
}

impl Buffer {
    /// The record of a buffer made with `info`.
    pub fn new(info: &vk::BufferCreateInfo<'_>) -> Buffer {
        let odd = vk::BufferCreateFlags::SPARSE_BINDING
            | vk::BufferCreateFlags::SPARSE_RESIDENCY
            | vk::BufferCreateFlags::SPARSE_ALIASED
            | vk::BufferCreateFlags::PROTECTED;
        Buffer { size: info.size, placeable: !info.flags.intersects(odd), place: OnceLock::new() }
    }

    /// The buffer is bound to `memory` at `offset`; `None` when the layer can't say where.
    pub fn bind(&self, memory: Option<Arc<Memory>>, offset: u64) {
        let place = match memory {
            Some(memory) if self.placeable => Place::At { memory, offset },
            _ => Place::Unknown,
        };
        // A second binding of one buffer is invalid; the first stands.
        let _ = self.place.set(place);
    }

    /// The bytes `offset..offset + size` of the buffer; `None` reaches to its end.
    pub fn range(&self, offset: u64, size: Option<u64>, granule: u64) -> Range {
        match self.place.get() {
            Some(Place::At { memory, .. }) if memory.id == EXTERNAL => {
                Range::Bytes { memory: EXTERNAL, start: 0, end: u64::MAX }
            }
            Some(Place::At { memory, offset: base }) => {
                let size = size.unwrap_or_else(|| self.size.saturating_sub(offset));
                Range::bytes(memory.id, base.saturating_add(offset), size, granule)
            }
            Some(Place::Unknown) | None => Range::Anywhere,
        }
    }

    /// Every byte of the buffer.
    pub fn whole(&self, granule: u64) -> Range {
        self.range(0, None, granule)
    }
}

/// One `VkBufferView`.
#[derive(Debug)]
pub struct BufferView {
    /// The buffer; `None` when its creation was not seen.
    pub buffer: Option<Arc<Buffer>>,
    /// Where the view begins, in bytes.
    pub offset: u64,
    /// Its bytes; `None` reaches to the end of the buffer.
    pub size: Option<u64>,
}

/// `VK_WHOLE_SIZE` as `None`.
pub fn size_of_range(range: vk::DeviceSize) -> Option<u64> {
    (range != vk::WHOLE_SIZE).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Arc<Memory> {
        // SAFETY: no pNext list.
        Arc::new(unsafe { Memory::new(&vk::MemoryAllocateInfo::default()) })
    }

    fn buffer(size: u64) -> Buffer {
        Buffer::new(&vk::BufferCreateInfo::default().size(size))
    }

    #[test]
    fn two_buffers_on_the_same_bytes_overlap_and_two_allocations_never_do() {
        let (one, two) = (memory(), memory());
        let (a, b, c) = (buffer(256), buffer(256), buffer(256));
        a.bind(Some(one.clone()), 0);
        b.bind(Some(one), 128);
        c.bind(Some(two), 0);
        assert!(a.whole(64).overlaps(&b.whole(64)), "aliases of one allocation");
        assert!(!a.range(0, Some(128), 64).overlaps(&b.whole(64)));
        assert!(!a.whole(64).overlaps(&c.whole(64)));
    }

    #[test]
    fn what_cannot_be_placed_overlaps_everything() {
        let unbound = buffer(16);
        assert_eq!(unbound.whole(64), Range::Anywhere);
        let sparse = Buffer::new(
            &vk::BufferCreateInfo::default().size(16).flags(vk::BufferCreateFlags::SPARSE_BINDING),
        );
        sparse.bind(Some(memory()), 0);
        assert_eq!(sparse.whole(64), Range::Anywhere);
        let odd = buffer(16);
        odd.bind(None, 0);
        assert_eq!(odd.whole(64), Range::Anywhere);
    }

    #[test]
    fn exported_memory_is_one_class() {
        let mut export = vk::ExportMemoryAllocateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD);
        let info = vk::MemoryAllocateInfo::default().push_next(&mut export);
        // SAFETY: the list is the one built above.
        let (one, two) = unsafe { (Memory::new(&info), Memory::new(&info)) };
        let (a, b, c) = (buffer(16), buffer(16), buffer(16));
        a.bind(Some(Arc::new(one)), 0);
        b.bind(Some(Arc::new(two)), 4096);
        c.bind(Some(memory()), 0);
        assert!(a.whole(64).overlaps(&b.whole(64)), "two exports may be the same bytes");
        assert!(!a.whole(64).overlaps(&c.whole(64)));

        let mut none = vk::ExportMemoryAllocateInfo::default();
        let info = vk::MemoryAllocateInfo::default().push_next(&mut none);
        // SAFETY: as above.
        let private = unsafe { Memory::new(&info) };
        let d = buffer(16);
        d.bind(Some(Arc::new(private)), 0);
        assert!(!a.whole(64).overlaps(&d.whole(64)), "an export of no handle type exports nothing");
    }

    #[test]
    fn the_rest_of_a_buffer_ends_at_its_end() {
        let b = buffer(256);
        b.bind(Some(memory()), 0);
        assert_eq!(b.range(64, None, 1), b.range(64, Some(192), 1));
    }
}
