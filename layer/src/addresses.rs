//! Which buffer an address is in (docs/semantics.md, rule 8).
//!
//! A shader may reach memory by a number. Where tight ranges know the number when the dispatch is recorded, what is left is to
//! find the buffer: applications learn addresses from `vkGetBufferDeviceAddress`, so the layer listens there, and forgets a
//! buffer when it is destroyed. Two live buffers can hold one address only where both lie on the same bytes, so it is enough to
//! find one that holds all that is reached. An address that nobody was told of, a sparse buffer's, and memory that was
//! imported or exported are as unknown as they are elsewhere.
//!
//! Whoever records asks at every such dispatch, so each recorder remembers what it was told ([`Seen`]), as long as no buffer
//! came or went: warm, it takes no lock.

use crate::memory::Extent;
use ash::vk::{self, Handle};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use zinc_hazard::Range;

/// What is reached through an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The addresses from the first up to the second.
    Bytes(u64, u64),
    /// Any in the buffers that this address is in.
    Around(u64),
}

/// A buffer that has an address: where it ends, the memory that it is bound to, by serial number, and its bytes.
#[derive(Clone, Copy, Debug)]
struct Addressed {
    end: u64,
    memory: Option<u64>,
    bytes: Extent,
}

#[derive(Debug, Default)]
struct Live {
    /// By first address and handle.
    buffers: BTreeMap<(u64, u64), Addressed>,
    /// The first address of a handle.
    starts: HashMap<u64, u64>,
    /// The size of the largest buffer that there ever was: how far back from an address one may begin.
    longest: u64,
}

impl Live {
    /// The buffers that hold all addresses from `first` to `last`, with where they begin.
    fn holding(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, Addressed)> {
        let begin = first.saturating_sub(self.longest);
        let candidates = self.buffers.range((begin, 0)..=(first, u64::MAX));
        candidates.filter(move |(_, b)| last < b.end).map(|((start, _), b)| (*start, *b))
    }

    fn place(&self, reached: Reached, granule: u64) -> Range {
        match reached {
            Reached::Bytes(first, end) => {
                let part = |(start, found): (u64, Addressed)| {
                    let part = found.bytes.part(0, (first - start, end - start), granule);
                    part.unwrap_or_else(|| found.bytes.whole(granule))
                };
                // All of them say the same, or one of them is not what it was.
                self.holding(first, end.saturating_sub(1))
                    .map(part)
                    .reduce(together)
                    .unwrap_or(Range::Anywhere)
            }
            Reached::Around(address) => {
                let ranges = self.holding(address, address).map(|(_, b)| b.bytes.whole(granule));
                ranges.reduce(together).unwrap_or(Range::Anywhere)
            }
        }
    }
}

/// Both of two ranges.
fn together(a: Range, b: Range) -> Range {
    match (a, b) {
        (Range::Bytes { memory, start, end }, Range::Bytes { memory: other, start: s, end: e })
            if memory == other =>
        {
            Range::Bytes { memory, start: start.min(s), end: end.max(e) }
        }
        _ => Range::Anywhere,
    }
}

/// The buffers of a device whose addresses were asked for.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Counts changes, from 1 on.
    generation: AtomicU64,
    live: Mutex<Live>,
}

impl Addresses {
    /// The driver has answered that `buffer`, of `size` bytes, begins at `address`. Its bytes are those of a memory with this
    /// serial number.
    pub fn found(&self, buffer: vk::Buffer, address: u64, size: u64, (memory, bytes): (Option<u64>, Extent)) {
        let mut live = self.live.lock();
        let handle = buffer.as_raw();
        if live.starts.get(&handle) == Some(&address) || address == 0 {
            return;
        }
        if let Some(before) = live.starts.insert(handle, address) {
            live.buffers.remove(&(before, handle));
        }
        live.buffers
            .insert((address, handle), Addressed { end: address.saturating_add(size), memory, bytes });
        live.longest = live.longest.max(size);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The memory with this serial number is freed. Buffers bound to it may live on, but they have no bytes any more, and
    /// their addresses may be given to others.
    pub fn freed(&self, memory: u64) {
        if self.generation.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut live = self.live.lock();
        let Live { buffers, starts, .. } = &mut *live;
        let before = buffers.len();
        buffers.retain(|(_, handle), buffer| {
            let stays = buffer.memory != Some(memory);
            if !stays {
                starts.remove(handle);
            }
            stays
        });
        if buffers.len() != before {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// The buffer is destroyed.
    pub fn forget(&self, buffer: vk::Buffer) {
        if self.generation.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut live = self.live.lock();
        let handle = buffer.as_raw();
        if let Some(start) = live.starts.remove(&handle) {
            live.buffers.remove(&(start, handle));
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// How many answers a recorder remembers.
const REMEMBERED: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Answer {
    generation: u64,
    reached: Reached,
    range: Range,
}

/// What one recorder was told of addresses.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    answers: Vec<Option<Answer>>,
}

impl Seen {
    /// Where what is reached lies.
    pub fn place(&mut self, addresses: &Addresses, reached: Reached, granule: u64) -> Range {
        // Read first: if something changes meanwhile, the answer is kept for a generation that is over.
        let generation = addresses.generation.load(Ordering::Acquire);
        if self.answers.is_empty() {
            self.answers.resize(REMEMBERED, None);
        }
        let (a, b) = match reached {
            Reached::Bytes(first, end) => (first, end),
            Reached::Around(address) => (address, 0),
        };
        let mixed = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let slot = &mut self.answers[mixed as usize % REMEMBERED];
        if let Some(known) = slot
            && (known.generation, known.reached) == (generation, reached)
        {
            return known.range;
        }
        let range = addresses.live.lock().place(reached, granule);
        *slot = Some(Answer { generation, reached, range });
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mappings::Mappings;
    use crate::memory::{Buffer, Memory};

    const BASE: u64 = 0x10_0000;

    fn memory() -> Memory {
        // SAFETY: no pNext list.
        unsafe { Memory::new(&vk::MemoryAllocateInfo::default(), &Mappings::default()) }
    }

    fn bound(size: u64, memory: Memory, offset: u64) -> Extent {
        let buffer = Buffer::new(&vk::BufferCreateInfo::default().size(size));
        buffer.bind(Some(memory), offset);
        buffer.extent(0, None)
    }

    fn place(addresses: &Addresses, reached: Reached) -> Range {
        Seen::default().place(addresses, reached, 1)
    }

    #[test]
    fn an_interval_of_addresses_is_bytes_of_the_buffer_that_holds_all_of_it() {
        let (addresses, memory) = (Addresses::default(), memory());
        let bytes = bound(0x1000, memory, 256);
        addresses.found(vk::Buffer::from_raw(1), BASE, 0x1000, (None, bytes));
        let id = memory.id().unwrap();
        assert_eq!(
            place(&addresses, Reached::Bytes(BASE + 16, BASE + 32)),
            Range::Bytes { memory: id, start: 272, end: 288 }
        );
        let whole = Range::Bytes { memory: id, start: 256, end: 256 + 0x1000 };
        assert_eq!(place(&addresses, Reached::Bytes(BASE, BASE + 0x1000)), whole);
        assert_eq!(place(&addresses, Reached::Around(BASE + 0xfff)), whole);
        for outside in [
            Reached::Bytes(BASE - 1, BASE + 4),
            Reached::Bytes(BASE, BASE + 0x1001),
            Reached::Around(BASE + 0x1000),
            Reached::Around(BASE - 1),
            Reached::Around(0),
        ] {
            assert_eq!(place(&addresses, outside), Range::Anywhere, "{outside:?}");
        }
    }

    #[test]
    fn all_live_buffers_around_an_address_count_and_one_that_is_destroyed_does_not() {
        let (addresses, memory) = (Addresses::default(), memory());
        let id = memory.id().unwrap();
        let (large, small) = (vk::Buffer::from_raw(1), vk::Buffer::from_raw(2));
        addresses.found(large, BASE, 0x1000, (None, bound(0x1000, memory, 0)));
        addresses.found(small, BASE + 0x800, 0x1000, (None, bound(0x1000, memory, 0x800)));
        let around = Reached::Around(BASE + 0x900);
        let mut seen = Seen::default();
        assert_eq!(seen.place(&addresses, around, 1), Range::Bytes { memory: id, start: 0, end: 0x1800 });
        addresses.forget(large);
        assert_eq!(seen.place(&addresses, around, 1), Range::Bytes { memory: id, start: 0x800, end: 0x1800 });
        addresses.forget(small);
        assert_eq!(seen.place(&addresses, around, 1), Range::Anywhere, "what was seen is out of date");
        // The handle comes back, at the address that another buffer had.
        let elsewhere = self::memory();
        addresses.found(large, BASE + 0x800, 0x200, (None, bound(0x200, elsewhere, 0)));
        let found = seen.place(&addresses, around, 1);
        assert_eq!(found, Range::Bytes { memory: elsewhere.id().unwrap(), start: 0, end: 0x200 });
    }

    #[test]
    fn a_buffer_without_its_memory_is_not_where_its_address_was() {
        let addresses = Addresses::default();
        let (old, new) = (memory(), memory());
        let (dead, alive) = (vk::Buffer::from_raw(1), vk::Buffer::from_raw(2));
        addresses.found(dead, BASE, 0x1000, (Some(old.serial()), bound(0x1000, old, 0)));
        addresses.freed(new.serial());
        let bytes = Reached::Bytes(BASE, BASE + 16);
        assert_eq!(place(&addresses, bytes), Range::Bytes { memory: old.id().unwrap(), start: 0, end: 16 });
        addresses.freed(old.serial());
        addresses.found(alive, BASE, 0x1000, (Some(new.serial()), bound(0x1000, new, 0)));
        let found = Range::Bytes { memory: new.id().unwrap(), start: 0, end: 16 };
        assert_eq!(place(&addresses, bytes), found, "the buffer that died first");
        // Two that are alive at one address are bytes of one memory, or something was not seen.
        let other = memory();
        addresses.found(dead, BASE, 0x800, (Some(other.serial()), bound(0x800, other, 0)));
        assert_eq!(place(&addresses, bytes), Range::Anywhere);
        addresses.forget(alive);
        assert_eq!(place(&addresses, bytes), Range::Bytes { memory: other.id().unwrap(), start: 0, end: 16 });
    }

    #[test]
    fn buffers_that_cannot_be_placed_stay_unknown() {
        let addresses = Addresses::default();
        let flags = vk::BufferCreateFlags::SPARSE_BINDING;
        let sparse = Buffer::new(&vk::BufferCreateInfo::default().size(4096).flags(flags));
        addresses.found(vk::Buffer::from_raw(1), BASE, 4096, (None, sparse.extent(0, None)));
        for reached in [Reached::Bytes(BASE, BASE + 4), Reached::Around(BASE)] {
            assert_eq!(place(&addresses, reached), Range::Anywhere);
        }
        let mut export = vk::ExportMemoryAllocateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD);
        let info = vk::MemoryAllocateInfo::default().push_next(&mut export);
        // SAFETY: the list is the one built above.
        let shared = unsafe { Memory::new(&info, &Mappings::default()) };
        addresses.found(vk::Buffer::from_raw(2), 2 * BASE, 4096, (None, bound(4096, shared, 0)));
        let found = place(&addresses, Reached::Bytes(2 * BASE, 2 * BASE + 4));
        assert!(matches!(found, Range::Bytes { start: 0, end: u64::MAX, .. }), "{found:?}");
    }
}
