//! Where a buffer's bytes are: allocations and the buffers bound to them.
//!
//! Two buffers may share an allocation, so every range that the tracker sees is a place in an allocation. What can't
//! be placed is `Range::Anywhere`, which overlaps everything: sparse buffers, buffers bound in a way that this layer
//! does not read. Imported and exported memory is one class that conflicts within itself, since two allocations of a
//! process may be the same bytes (docs/semantics.md, rule 10). An import of a host pointer may be the bytes of any
//! allocation that the host has mapped, exported or not, so that it is anywhere unless its range was seen to be none of
//! those; and so is memory whose create info says something that this layer has not heard of.

use crate::abi::chain;
use crate::mappings::Mappings;
use ash::vk;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use zinc_hazard::{MemoryId, Range};

/// All imported and exported memory.
pub const EXTERNAL: MemoryId = MemoryId(0);

/// One `VkDeviceMemory`.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// `None` where it may be the bytes of any other allocation.
    id: Option<MemoryId>,
    /// No two allocations of a process have the same.
    serial: u64,
    size: u64,
}

/// What a member of an allocation's list makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sharing {
    /// Its bytes are its own.
    Own,
    /// Other imports and exports may be the same bytes.
    External,
    /// So may any allocation.
    Anywhere,
}

impl Sharing {
    /// # Safety
    ///
    /// The member must be one of a valid list.
    unsafe fn of(member: crate::abi::Chained, size: u64, mappings: &Mappings) -> Sharing {
        use vk::StructureType as Type;
        match member.s_type() {
            Type::MEMORY_ALLOCATE_FLAGS_INFO
            | Type::MEMORY_DEDICATED_ALLOCATE_INFO
            | Type::MEMORY_PRIORITY_ALLOCATE_INFO_EXT
            | Type::MEMORY_OPAQUE_CAPTURE_ADDRESS_ALLOCATE_INFO => Sharing::Own,
            Type::EXPORT_MEMORY_ALLOCATE_INFO => {
                let exported = member.get::<vk::ExportMemoryAllocateInfo<'_>>();
                match exported.is_some_and(|e| e.handle_types.is_empty()) {
                    true => Sharing::Own,
                    false => Sharing::External,
                }
            }
            Type::IMPORT_MEMORY_HOST_POINTER_INFO_EXT => {
                let free = member.get::<vk::ImportMemoryHostPointerInfoEXT<'_>>().is_some_and(|import| {
                    import.handle_type == vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT
                        && !mappings.meet(import.p_host_pointer as u64, size)
                });
                if free { Sharing::External } else { Sharing::Anywhere }
            }
            Type::IMPORT_MEMORY_FD_INFO_KHR
            | Type::IMPORT_MEMORY_WIN32_HANDLE_INFO_KHR
            | Type::IMPORT_MEMORY_WIN32_HANDLE_INFO_NV
            | Type::EXPORT_MEMORY_WIN32_HANDLE_INFO_KHR
            | Type::EXPORT_MEMORY_WIN32_HANDLE_INFO_NV
            | Type::EXPORT_MEMORY_ALLOCATE_INFO_NV
            | Type::IMPORT_ANDROID_HARDWARE_BUFFER_INFO_ANDROID
            | Type::IMPORT_MEMORY_ZIRCON_HANDLE_INFO_FUCHSIA
            | Type::IMPORT_MEMORY_BUFFER_COLLECTION_FUCHSIA
            | Type::IMPORT_SCREEN_BUFFER_INFO_QNX => Sharing::External,
            _ => Sharing::Anywhere,
        }
    }
}

impl Memory {
    /// The record of an allocation made with `info`, while the host has `mappings`.
    ///
    /// # Safety
    ///
    /// `info`'s `pNext` list must be valid.
    pub unsafe fn new(info: &vk::MemoryAllocateInfo<'_>, mappings: &Mappings) -> Memory {
        static NEXT: AtomicU64 = AtomicU64::new(EXTERNAL.0 + 1);
        let (serial, size) = (NEXT.fetch_add(1, Ordering::Relaxed), info.allocation_size);
        // SAFETY: by the caller.
        let sharing = unsafe { chain(info.p_next).map(|c| Sharing::of(c, size, mappings)) }.max();
        let id = match sharing.unwrap_or(Sharing::Own) {
            Sharing::Own => Some(MemoryId(serial)),
            Sharing::External => Some(EXTERNAL),
            Sharing::Anywhere => None,
        };
        Memory { id, serial, size }
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
        self.id.filter(|id| *id != EXTERNAL)
    }

    /// A number that no other allocation of the process has, whether its bytes are its own or not.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The `size` bytes from `offset` on, as an image's.
    pub fn extent(&self, offset: u64, size: u64) -> Extent {
        let buffer = (offset, offset.saturating_add(size));
        match self.id {
            Some(memory) => Extent::Bytes { memory, start: offset, size: Some(size), buffer },
            None => Extent::Anywhere,
        }
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

    /// The serial number of the memory that it is bound to; `None` where that is not known.
    pub fn memory(&self) -> Option<u64> {
        match self.place.get() {
            Some(Place::At { memory, .. }) => Some(memory.serial),
            Some(Place::Unknown) | None => None,
        }
    }

    /// The bytes `offset..offset + size` of the buffer; `None` reaches to its end.
    #[inline]
    pub fn extent(&self, offset: u64, size: Option<u64>) -> Extent {
        match self.place.get() {
            Some(Place::At { memory: Memory { id: Some(memory), .. }, offset: base }) => Extent::Bytes {
                memory: *memory,
                start: base.saturating_add(offset),
                size,
                buffer: (*base, base.saturating_add(self.size)),
            },
            Some(_) | None => Extent::Anywhere,
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
        with(&vk::MemoryAllocateInfo::default())
    }

    fn with(info: &vk::MemoryAllocateInfo<'_>) -> Memory {
        // SAFETY: the tests' lists are valid.
        unsafe { Memory::new(info, &Mappings::default()) }
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
        let (one, two) = (with(&info), with(&info));
        let (a, b, c) = (buffer(16), buffer(16), buffer(16));
        a.bind(Some(one), 0);
        b.bind(Some(two), 4096);
        c.bind(Some(memory()), 0);
        assert!(whole(&a).overlaps(&whole(&b)), "two exports may be the same bytes");
        assert!(!whole(&a).overlaps(&whole(&c)));

        let mut none = vk::ExportMemoryAllocateInfo::default();
        let info = vk::MemoryAllocateInfo::default().push_next(&mut none);
        let private = with(&info);
        let d = buffer(16);
        d.bind(Some(private), 0);
        assert!(!whole(&a).overlaps(&whole(&d)), "an export of no handle type exports nothing");
    }

    #[test]
    fn a_host_pointer_is_anywhere_unless_it_was_seen_to_be_no_mapping() {
        type Handle = vk::ExternalMemoryHandleTypeFlags;
        let mappings = Mappings::default();
        mappings.mapped(memory().serial(), 0x1_0000, 0x1000);
        let import = |handle_type, at: u64| {
            let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
                .handle_type(handle_type)
                .host_pointer(std::ptr::without_provenance_mut(at as usize));
            let info = vk::MemoryAllocateInfo::default().allocation_size(0x1000).push_next(&mut import);
            // SAFETY: the list is the one built above.
            let imported = unsafe { Memory::new(&info, &mappings) };
            let buffer = buffer(256);
            buffer.bind(Some(imported), 0);
            whole(&buffer)
        };
        let other = buffer(256);
        other.bind(Some(memory()), 0);
        let other = whole(&other);
        assert!(import(Handle::HOST_ALLOCATION_EXT, 0x1_0800).overlaps(&other), "within what is mapped");
        assert!(import(Handle::HOST_ALLOCATION_EXT, 0x0_f800).overlaps(&other), "into what is mapped");
        assert!(!import(Handle::HOST_ALLOCATION_EXT, 0x1_1000).overlaps(&other), "behind it");
        assert!(
            import(Handle::HOST_MAPPED_FOREIGN_MEMORY_EXT, 0x9_0000).overlaps(&other),
            "mapped elsewhere"
        );
        let one = import(Handle::HOST_ALLOCATION_EXT, 0x1_1000);
        assert!(one.overlaps(&import(Handle::HOST_ALLOCATION_EXT, 0x9_0000)), "imports meet one another");
    }

    #[test]
    fn an_allocation_that_says_more_than_is_read_is_anywhere() {
        let strange =
            vk::BaseInStructure { s_type: vk::StructureType::from_raw(0x7000_0001), ..Default::default() };
        let info = vk::MemoryAllocateInfo { p_next: (&raw const strange).cast(), ..Default::default() };
        let odd = buffer(16);
        odd.bind(Some(with(&info)), 0);
        assert_eq!(whole(&odd), Range::Anywhere);
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
