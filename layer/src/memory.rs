//! Where a buffer's bytes are: allocations and the buffers bound to them.
//!
//! Two buffers may share an allocation, so every range that the tracker sees is a place in an allocation. What can't
//! be placed is `Range::Anywhere`, which overlaps everything: sparse buffers, buffers bound in a way that this layer
//! does not read. Imported and exported memory is one class that conflicts within itself, since two allocations of a
//! process may be the same bytes (docs/semantics.md, rule 10).

use crate::abi::chain;
use ash::vk;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use zinc_hazard::{MemoryId, Range};

/// All imported and exported memory.
pub const EXTERNAL: MemoryId = MemoryId(0);

/// One `VkDeviceMemory`.
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
enum Place {
    At { memory: Memory, offset: u64 },
    Unknown,
}

/// Bytes of a buffer, placed. Nothing in it refers to the buffer's record: descriptors keep extents, since a buffer
/// must be bound before a descriptor is written with it (VUID-VkWriteDescriptorSet-descriptorType-00329) and can't be
/// bound anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Somewhere.
    Anywhere,
    /// Bytes of an allocation.
    Bytes {
        /// The allocation.
        memory: MemoryId,
        /// The first byte.
        start: u64,
        /// How many; `None` reaches to the end of the buffer.
        size: Option<u64>,
        /// Where the buffer begins and ends in the allocation.
        buffer: (u64, u64),
    },
}

impl Extent {
    /// The bytes, moved by a dynamic offset.
    pub fn range(&self, dynamic: u64, granule: u64) -> Range {
        match *self {
            Extent::Anywhere => Range::Anywhere,
            Extent::Bytes { memory: EXTERNAL, .. } => {
                Range::Bytes { memory: EXTERNAL, start: 0, end: u64::MAX }
            }
            Extent::Bytes { memory, start, size, buffer } => {
                let start = start.saturating_add(dynamic);
                Range::bytes(memory, start, size.unwrap_or_else(|| buffer.1.saturating_sub(start)), granule)
            }
        }
    }

    /// The bytes from `first` up to `end`, both counted from where [`Extent::range`] begins; `None` when they are not all
    /// within it.
    #[inline]
    pub fn part(&self, dynamic: u64, (first, end): (u64, u64), granule: u64) -> Option<Range> {
        match *self {
            Extent::Bytes { memory, start, size, buffer } if memory != EXTERNAL => {
                let start = start.checked_add(dynamic)?;
                let size = size.unwrap_or_else(|| buffer.1.saturating_sub(start));
                (first < end && end <= size)
                    .then(|| Range::bytes(memory, start + first, end - first, granule))
            }
            _ => None,
        }
    }

    /// Every byte of the buffer.
    pub fn whole(&self, granule: u64) -> Range {
        match *self {
            Extent::Bytes { memory, buffer: (start, end), .. } if memory != EXTERNAL => {
                Range::bytes(memory, start, end - start, granule)
            }
            _ => self.range(0, granule),
        }
    }
}

impl Memory {
    /// Its identity; `None` where it may be the same bytes as another allocation.
    pub fn id(&self) -> Option<MemoryId> {
        (self.id != EXTERNAL).then_some(self.id)
    }

    /// The `size` bytes from `offset` on, as an image's.
    pub fn extent(&self, offset: u64, size: u64) -> Extent {
        let buffer = (offset, offset.saturating_add(size));
        Extent::Bytes { memory: self.id, start: offset, size: Some(size), buffer }
    }
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

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The buffer is bound to `memory` at `offset`; `None` when the layer can't say where.
    pub fn bind(&self, memory: Option<Memory>, offset: u64) {
        let place = match memory {
            Some(memory) if self.placeable => Place::At { memory, offset },
            _ => Place::Unknown,
        };
        // A second binding of one buffer is invalid; the first stands.
        let _ = self.place.set(place);
    }

    /// The bytes `offset..offset + size` of the buffer; `None` reaches to its end.
    #[inline]
    pub fn extent(&self, offset: u64, size: Option<u64>) -> Extent {
        match self.place.get() {
            Some(Place::At { memory, offset: base }) => Extent::Bytes {
                memory: memory.id,
                start: base.saturating_add(offset),
                size,
                buffer: (*base, base.saturating_add(self.size)),
            },
            Some(Place::Unknown) | None => Extent::Anywhere,
        }
    }

    /// The bytes `offset..offset + size` of the buffer as a range; `None` reaches to its end.
    pub fn range(&self, offset: u64, size: Option<u64>, granule: u64) -> Range {
        self.extent(offset, size).range(0, granule)
    }
}

/// One `VkBufferView`: its bytes, placed when it was made, since its buffer must be bound then
/// (VUID-VkBufferViewCreateInfo-buffer-00935). `None` when the buffer's creation was not seen.
#[derive(Clone, Copy, Debug)]
pub struct BufferView(pub Option<Extent>);

/// `VK_WHOLE_SIZE` as `None`.
pub fn size_of_range(range: vk::DeviceSize) -> Option<u64> {
    (range != vk::WHOLE_SIZE).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        // SAFETY: no pNext list.
        unsafe { Memory::new(&vk::MemoryAllocateInfo::default()) }
    }

    fn whole(buffer: &Buffer) -> Range {
        buffer.extent(0, None).whole(64)
    }

    fn buffer(size: u64) -> Buffer {
        Buffer::new(&vk::BufferCreateInfo::default().size(size))
    }

    #[test]
    fn two_buffers_on_the_same_bytes_overlap_and_two_allocations_never_do() {
        let (one, two) = (memory(), memory());
        let (a, b, c) = (buffer(256), buffer(256), buffer(256));
        a.bind(Some(one), 0);
        b.bind(Some(one), 128);
        c.bind(Some(two), 0);
        assert!(whole(&a).overlaps(&whole(&b)), "aliases of one allocation");
        assert!(!a.range(0, Some(128), 64).overlaps(&whole(&b)));
        assert!(!whole(&a).overlaps(&whole(&c)));
    }

    #[test]
    fn what_cannot_be_placed_overlaps_everything() {
        let unbound = buffer(16);
        assert_eq!(whole(&unbound), Range::Anywhere);
        let sparse = Buffer::new(
            &vk::BufferCreateInfo::default().size(16).flags(vk::BufferCreateFlags::SPARSE_BINDING),
        );
        sparse.bind(Some(memory()), 0);
        assert_eq!(whole(&sparse), Range::Anywhere);
        let odd = buffer(16);
        odd.bind(None, 0);
        assert_eq!(whole(&odd), Range::Anywhere);
    }

    #[test]
    fn exported_memory_is_one_class() {
        let mut export = vk::ExportMemoryAllocateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD);
        let info = vk::MemoryAllocateInfo::default().push_next(&mut export);
        // SAFETY: the list is the one built above.
        let (one, two) = unsafe { (Memory::new(&info), Memory::new(&info)) };
        let (a, b, c) = (buffer(16), buffer(16), buffer(16));
        a.bind(Some(one), 0);
        b.bind(Some(two), 4096);
        c.bind(Some(memory()), 0);
        assert!(whole(&a).overlaps(&whole(&b)), "two exports may be the same bytes");
        assert!(!whole(&a).overlaps(&whole(&c)));

        let mut none = vk::ExportMemoryAllocateInfo::default();
        let info = vk::MemoryAllocateInfo::default().push_next(&mut none);
        // SAFETY: as above.
        let private = unsafe { Memory::new(&info) };
        let d = buffer(16);
        d.bind(Some(private), 0);
        assert!(!whole(&a).overlaps(&whole(&d)), "an export of no handle type exports nothing");
    }

    #[test]
    fn the_rest_of_a_buffer_ends_at_its_end() {
        let b = buffer(256);
        b.bind(Some(memory()), 0);
        assert_eq!(b.range(64, None, 1), b.range(64, Some(192), 1));
        assert_eq!(
            b.extent(0, None).range(64, 1),
            b.range(64, Some(192), 1),
            "so it does behind a dynamic offset"
        );
        assert_eq!(b.extent(0, Some(16)).range(64, 1), b.range(64, Some(16), 1));
    }
}
