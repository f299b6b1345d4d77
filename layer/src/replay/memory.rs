//! Memory for the delay: the application's own seen as one buffer an allocation, and scratch beside it.
//!
//! What an operation writes is known as bytes of an allocation, so that is how it is copied and masked: each allocation has
//! one buffer of the layer's over all of it. Where the specification allows none (memory dedicated to one buffer or image,
//! imported memory, a type that no such buffer may have) writes are not delayed.

use super::delay::Bytes;
use ash::vk;

/// What the layer's buffers are used for.
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// The least limit of `maxStorageBufferRange` that a device may have.
pub const LARGEST_BINDING: u64 = 1 << 27;

/// Scratch memory that a queue may have, in bytes.
const MOST_SCRATCH: u64 = 3 << 30;

/// Scratch memory is allocated in chunks of this many bytes, or as many as are needed.
const CHUNK: u64 = 16 << 20;

/// One allocation of the application's, as a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// Over the bytes from 0 on.
    pub buffer: vk::Buffer,
    /// How many.
    pub size: u64,
    /// The allocation's memory type.
    pub memory_type: u32,
}

impl Alias {
    /// The buffer over `size` bytes of `memory`; `None` where there can't be one.
    ///
    /// # Safety
    ///
    /// `memory` must be alive and not be dedicated to an object.
    pub unsafe fn new(
        vk: &ash::Device,
        memory: vk::DeviceMemory,
        size: u64,
        memory_type: u32,
    ) -> Option<Alias> {
        let info = vk::BufferCreateInfo::default().size(size).usage(USAGE);
        // SAFETY: by the caller; the structure is ours, and the buffer is destroyed where it can't be bound.
        unsafe {
            let buffer = vk.create_buffer(&info, None).ok()?;
            let needs = vk.get_buffer_memory_requirements(buffer);
            let fits = needs.size <= size && needs.memory_type_bits & 1 << memory_type != 0;
            if fits && vk.bind_buffer_memory(buffer, memory, 0).is_ok() {
                return Some(Alias { buffer, size, memory_type });
            }
            vk.destroy_buffer(buffer, None);
            None
        }
    }
}

/// Where the bytes of one write are kept: three rows of as many words as it has, what was there before, what was written,
/// and which bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    chunk: usize,
    /// The buffer.
    pub buffer: vk::Buffer,
    /// Its size in bytes.
    pub buffer_size: u64,
    /// Where the rows begin, in bytes.
    pub at: u64,
    /// The words of a row.
    pub words: u64,
}

impl Slot {
    /// Where row `row` begins, in bytes.
    pub fn row(&self, row: u64) -> u64 {
        self.at + 4 * self.words * row
    }
}

#[derive(Debug)]
struct Chunk {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    size: u64,
    /// Free bytes, `(start, end)`, sorted.
    free: Vec<(u64, u64)>,
}

impl Chunk {
    fn take(&mut self, size: u64) -> Option<u64> {
        let at = self.free.iter().position(|(start, end)| end - start >= size)?;
        let start = self.free[at].0;
        self.free[at].0 += size;
        if self.free[at].0 == self.free[at].1 {
            self.free.remove(at);
        }
        Some(start)
    }

    fn give(&mut self, start: u64, end: u64) {
        let at = self.free.partition_point(|free| free.0 < start);
        self.free.insert(at, (start, end));
        self.free.dedup_by(|next, last| {
            let joins = last.1 == next.0;
            if joins {
                last.1 = next.1;
            }
            joins
        });
    }
}

/// The scratch memory of one queue. Its operations are ordered by full barriers, so what is free in the order of
/// submission is free.
#[derive(Debug, Default)]
pub struct Scratch {
    chunks: Vec<Chunk>,
    total: u64,
}

impl Scratch {
    /// Room for a write of `bytes` to memory of this type; `None` where there is none.
    ///
    /// # Safety
    ///
    /// The device must be alive and have the memory type.
    pub unsafe fn take(&mut self, vk: &ash::Device, bytes: Bytes, memory_type: u32) -> Option<Slot> {
        let row = bytes.end - bytes.start;
        let size = row.checked_mul(3).filter(|size| *size <= LARGEST_BINDING)?;
        let slot = |number: usize, chunk: &Chunk, at: u64| Slot {
            chunk: number,
            buffer: chunk.buffer,
            buffer_size: chunk.size,
            at,
            words: row / 4,
        };
        for (number, chunk) in self.chunks.iter_mut().enumerate() {
            if let Some(at) = chunk.take(size) {
                return Some(slot(number, chunk, at));
            }
        }
        if self.total + size > MOST_SCRATCH {
            return None;
        }
        // SAFETY: by the caller.
        let mut chunk = unsafe { Scratch::chunk(vk, size.max(CHUNK), memory_type) }?;
        self.total += chunk.size;
        let at = chunk.take(size)?;
        self.chunks.push(chunk);
        let number = self.chunks.len() - 1;
        Some(slot(number, &self.chunks[number], at))
    }

    /// # Safety
    ///
    /// As for [`Scratch::take`].
    unsafe fn chunk(vk: &ash::Device, size: u64, memory_type: u32) -> Option<Chunk> {
        let info = vk::BufferCreateInfo::default().size(size).usage(USAGE);
        // SAFETY: the structures are ours; what was made is destroyed where the rest fails.
        unsafe {
            let buffer = vk.create_buffer(&info, None).ok()?;
            let needs = vk.get_buffer_memory_requirements(buffer);
            let ty = match needs.memory_type_bits & 1 << memory_type {
                0 => needs.memory_type_bits.trailing_zeros(),
                _ => memory_type,
            };
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(ty);
            let Ok(memory) = vk.allocate_memory(&info, None) else {
                vk.destroy_buffer(buffer, None);
                return None;
            };
            if vk.bind_buffer_memory(buffer, memory, 0).is_err() {
                vk.destroy_buffer(buffer, None);
                vk.free_memory(memory, None);
                return None;
            }
            Some(Chunk { buffer, memory, size, free: vec![(0, size)] })
        }
    }

    /// The write's bytes are not needed any more.
    pub fn give(&mut self, slot: Slot) {
        self.chunks[slot.chunk].give(slot.at, slot.row(3));
    }

    /// Destroys it all.
    ///
    /// # Safety
    ///
    /// Nothing that uses it may be executing.
    pub unsafe fn end(&mut self, vk: &ash::Device) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: by the caller.
            unsafe {
                vk.destroy_buffer(chunk.buffer, None);
                vk.free_memory(chunk.memory, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let (buffer, memory) = (vk::Buffer::null(), vk::DeviceMemory::null());
        let mut chunk = Chunk { buffer, memory, size: 100, free: vec![(0, 100)] };
        let parts: Vec<u64> = (0..4).map(|_| chunk.take(25).unwrap()).collect();
        assert_eq!((parts.as_slice(), chunk.take(1)), (&[0, 25, 50, 75][..], None));
        for part in [25, 75, 0] {
            chunk.give(part, part + 25);
        }
        assert_eq!(chunk.free, [(0, 50), (75, 100)]);
        assert_eq!((chunk.take(50), chunk.take(50)), (Some(0), None));
        chunk.give(50, 75);
        chunk.give(0, 50);
        assert_eq!(chunk.free, [(0, 100)]);
    }
}
