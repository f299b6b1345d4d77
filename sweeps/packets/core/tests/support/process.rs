//! A process made of bytes, and the kernel calls that a driver makes in it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use zinc_packets_core::tracker::{Driver, Pending, Process, Tracker};

/// Where a file's offset 0 would be mapped by the tracker itself.
pub const OWN: u64 = 0x7000_0000_0000;
/// Where arguments are.
pub const ARGUMENT: u64 = 0x10_0000;

/// Memory in bytes. Reading a mapping that is not there is the crash that must not happen: it panics.
#[derive(Default)]
pub struct Bytes {
    pub memory: RefCell<BTreeMap<u64, u8>>,
    pub own: RefCell<BTreeSet<u64>>,
    pub may_map: Cell<bool>,
}

impl Bytes {
    pub fn put(&self, at: u64, bytes: &[u8]) {
        let mut memory = self.memory.borrow_mut();
        for (i, byte) in bytes.iter().enumerate() {
            memory.insert(at.wrapping_add(i as u64), *byte);
        }
    }

    pub fn put_words(&self, at: u64, words: &[u32]) {
        self.put(at, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    }

    pub fn remove(&self, at: u64, len: u64) {
        self.memory.borrow_mut().retain(|address, _| *address < at || *address >= at + len);
    }
}

impl Process for Bytes {
    fn copy(&self, address: u64, out: &mut [u8]) -> bool {
        let memory = self.memory.borrow();
        for (i, slot) in out.iter_mut().enumerate() {
            let Some(byte) = memory.get(&address.wrapping_add(i as u64)) else { return false };
            *slot = *byte;
        }
        true
    }

    fn mapped(&self, address: u64, out: &mut [u32]) {
        for (i, word) in out.iter_mut().enumerate() {
            let mut bytes = [0; 4];
            assert!(
                self.copy(address + i as u64 * 4, &mut bytes),
                "a read at {address:#x} of what is not mapped"
            );
            *word = u32::from_le_bytes(bytes);
        }
    }

    fn map(&self, _: i32, offset: u64, _: u64) -> Option<u64> {
        self.may_map.get().then(|| {
            self.own.borrow_mut().insert(OWN + offset);
            OWN + offset
        })
    }

    fn unmap(&self, address: u64, _: u64) {
        assert!(self.own.borrow_mut().remove(&address), "what is unmapped was mapped");
    }
}

/// A DRM request word.
pub fn request(number: u8, size: usize) -> u64 {
    3 << 30 | (size as u64) << 16 | 0x64 << 8 | u64::from(number)
}

pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Two 32-bit fields in one word.
pub fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A process with a tracker.
#[derive(Default)]
pub struct Watched {
    pub process: Bytes,
    pub tracker: Tracker,
}

impl Watched {
    pub fn new(driver: Driver) -> Self {
        let mut watched = Self::default();
        watched.tracker.open(&watched.process, 3, driver, (3, 49, 0));
        watched
    }

    /// A call with its argument before and what the kernel writes over it; whether it succeeded.
    pub fn call(&mut self, fd: i32, number: u8, argument: &[u64], answer: Option<&[u64]>, succeeded: bool) {
        let bytes = bytes_of(argument);
        self.process.put(ARGUMENT, &bytes);
        let request = request(number, bytes.len());
        let pending: Pending = self.tracker.before(&self.process, fd, request, ARGUMENT);
        if let Some(answer) = answer {
            self.process.put(ARGUMENT, &bytes_of(answer));
        }
        self.tracker.after(&self.process, fd, ARGUMENT, pending, succeeded);
    }

    /// amdgpu: a buffer of `size` bytes with `handle`, whose mmap offset is `offset`.
    pub fn amdgpu_buffer(&mut self, handle: u32, size: u64, offset: u64) {
        self.call(3, 0x40, &[size, 4096, 2, 0], Some(&[u64::from(handle), 4096, 2, 0]), true);
        self.call(3, 0x41, &[u64::from(handle)], Some(&[offset]), true);
    }

    /// amdgpu: GEM_VA.
    pub fn amdgpu_va(&mut self, operation: u32, handle: u32, va: u64, len: u64) {
        self.call(3, 0x48, &[u64::from(handle), pair(operation, 0), va, 0, len], None, true);
    }

    /// amdgpu: a submission of one buffer to an IP's ring.
    pub fn amdgpu_submit(&mut self, ip: u32, ring: u32, va: u64, dwords: u32, succeeded: bool) {
        let ib = bytes_of(&[0, va, pair(dwords * 4, ip), pair(0, ring)]);
        self.process.put(ARGUMENT + 0x1000, &ib);
        self.process.put(ARGUMENT + 0x2000, &bytes_of(&[pair(1, 8), ARGUMENT + 0x1000, pair(2, 0), 0]));
        self.process.put(ARGUMENT + 0x3000, &bytes_of(&[ARGUMENT + 0x2000, ARGUMENT + 0x2010]));
        self.call(3, 0x44, &[pair(7, 0), pair(2, 0), ARGUMENT + 0x3000], Some(&[99, 0, 0]), succeeded);
    }

    /// asahi: a buffer, mapped for the CPU at `address`.
    pub fn asahi_buffer(&mut self, handle: u32, size: u64, offset: u64, address: u64) {
        self.call(3, 0x45, &[size, 0, 0], Some(&[size, 0, u64::from(handle)]), true);
        self.call(3, 0x46, &[u64::from(handle), 0], Some(&[u64::from(handle), offset]), true);
        self.tracker.map(3, address, size, offset, true);
    }

    /// asahi: bindings, each of flags, handle, offset, range and address.
    pub fn asahi_bind(&mut self, vm: u32, ops: &[(u32, u32, u64, u64, u64)]) {
        let words: Vec<u64> = ops.iter().flat_map(|op| [pair(op.0, op.1), op.2, op.3, op.4]).collect();
        self.process.put(ARGUMENT + 0x1000, &bytes_of(&words));
        self.call(3, 0x44, &[pair(vm, ops.len() as u32), pair(32, 0), ARGUMENT + 0x1000], None, true);
    }

    /// asahi: a submission of compute streams, each with the barrier field of its header.
    pub fn asahi_submit(&mut self, queue: u32, streams: &[(u64, u16)]) {
        let mut commands = Vec::new();
        for (base, waits) in streams {
            // Type 1, 24 bytes of payload, no render barrier.
            for field in [1, 24, 0xffff, *waits] {
                commands.extend(field.to_le_bytes());
            }
            commands.extend(bytes_of(&[0, *base, *base + 64]));
        }
        self.process.put(ARGUMENT + 0x1000, &commands);
        let size = commands.len() as u32;
        self.call(3, 0x4a, &[0, ARGUMENT + 0x1000, pair(0, queue), 0, pair(size, 0)], None, true);
    }
}
