//! Handle tables.
//!
//! Vulkan lets drivers reuse a handle's value as soon as the object is destroyed, and lets applications create and
//! destroy objects on any thread. So a table maps a handle to a record; a new object with an old value gets a new
//! record, and a handle with no record is one whose creation the layer did not see, and counts as unknown.
//!
//! Every command that an application records looks something up, so looking up takes no lock and writes nothing that
//! another thread reads: some three loads, however many handles are alive and whatever other threads do. That the record
//! does not vanish meanwhile needs no counting either: the specification has applications keep an object alive while a
//! call uses it ("host access to the object must be externally synchronized" for each destroying command), so whoever
//! was passed the handle may read the record until its call returns.
//!
//! The table is cut into shards. Each is an open-addressed array, written under a lock. A key that was written stays;
//! removing clears its value. When an array is half full its live entries move to another; the old one is kept, cleared
//! and used again by a later move, never freed, because a reader may still be in it. Such a reader notices: a move that
//! takes an old array up again first counts `generation` on, and a reader that finds the count changed looks again.

use ash::vk;
use parking_lot::Mutex;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

const SHARDS: usize = 16;

/// The least places of an array.
const LEAST: usize = 16;

/// Handles are addresses or small numbers: one multiplication spreads them well enough.
fn hash(raw: u64) -> u64 {
    raw.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A key and its record. Key 0 is a free place; a null record is a handle that is gone.
struct Entry<T> {
    key: AtomicU64,
    record: AtomicPtr<T>,
}

/// Entries, a power of two of them, and the logarithm of their number in the low bits of their address: a search needs both, and
/// loads one word.
struct Array<T>(*mut Entry<T>);

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

/// The bits of an array's address that are free for a logarithm; also a processor's cache line.
const ALIGNMENT: usize = 64;

impl<T> Array<T> {
    fn layout(size: usize) -> Layout {
        let entries = Layout::array::<Entry<T>>(size).and_then(|l| l.align_to(ALIGNMENT));
        // As a vector of that size would.
        entries.unwrap_or_else(|_| panic!("{size} handles do not fit into memory"))
    }

    /// An array of `size` free places, which must be a power of two.
    fn new(size: usize) -> Array<T> {
        let layout = Array::<T>::layout(size);
        // SAFETY: the layout is not empty; zeroes are free places: key 0 and no record.
        let entries = unsafe { alloc_zeroed(layout) };
        if entries.is_null() {
            handle_alloc_error(layout);
        }
        Array(entries.map_addr(|at| at | size.trailing_zeros() as usize).cast())
    }

    #[inline]
    fn size(self) -> usize {
        1 << (self.0.addr() & (ALIGNMENT - 1))
    }

    #[inline]
    fn first(self) -> *mut Entry<T> {
        self.0.map_addr(|at| at & !(ALIGNMENT - 1))
    }

    /// All places.
    ///
    /// # Safety
    ///
    /// The array must not be null, and not be freed while they are used.
    unsafe fn entries<'a>(self) -> &'a [Entry<T>] {
        // SAFETY: by the caller; all of them were made with the array.
        unsafe { std::slice::from_raw_parts(self.first(), self.size()) }
    }

    /// The place of `raw`, or the free one where it would go. An array is never full.
    ///
    /// # Safety
    ///
    /// As for [`Array::entries`].
    #[inline]
    unsafe fn place<'a>(self, raw: u64) -> &'a Entry<T> {
        let mask = self.size() - 1;
        let mut at = (hash(raw) >> 20) as usize & mask;
        loop {
            // SAFETY: by the caller; the mask keeps it within the array.
            let entry = unsafe { &*self.first().add(at) };
            let key = entry.key.load(Ordering::Acquire);
            if key == raw || key == 0 {
                return entry;
            }
            at = (at + 1) & mask;
        }
    }

    /// Frees the array; records that are in it are left alone.
    ///
    /// # Safety
    ///
    /// As for [`Array::entries`], and it must not be used any more.
    unsafe fn free(self) {
        // SAFETY: allocated so.
        unsafe { dealloc(self.first().cast(), Array::<T>::layout(self.size())) };
    }
}

/// What only a shard's writers see.
struct Writer<T> {
    /// Places that have a key.
    used: usize,
    /// Arrays that readers may still be in, of any size. They are as old as the process allows, and few: a shard needs
    /// one at most of each power of two.
    retired: Vec<Array<T>>,
}

// SAFETY: the arrays belong to the shard, whichever thread holds its lock.
unsafe impl<T: Send> Send for Writer<T> {}

struct Shard<T> {
    /// An [`Array`]; null until something is inserted.
    array: AtomicPtr<Entry<T>>,
    generation: AtomicUsize,
    writer: Mutex<Writer<T>>,
}

impl<T> Shard<T> {
    const fn new() -> Shard<T> {
        Shard {
            array: AtomicPtr::new(std::ptr::null_mut()),
            generation: AtomicUsize::new(0),
            writer: Mutex::new(Writer { used: 0, retired: Vec::new() }),
        }
    }

    #[inline]
    fn find(&self, raw: u64) -> *mut T {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let Some(array) = self.array() else { return std::ptr::null_mut() };
            // SAFETY: arrays live as long as the shard.
            let entry = unsafe { array.place(raw) };
            let found = match entry.key.load(Ordering::Acquire) == raw {
                true => entry.record.load(Ordering::Acquire),
                false => std::ptr::null_mut(),
            };
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return found;
            }
        }
    }

    /// The array in use.
    #[inline]
    fn array(&self) -> Option<Array<T>> {
        let array = self.array.load(Ordering::Acquire);
        (!array.is_null()).then_some(Array(array))
    }

    /// The places of the array in use.
    fn entries(&self) -> &[Entry<T>] {
        // SAFETY: as in `find`.
        self.array().map_or(&[], |array| unsafe { array.entries() })
    }

    /// Puts `record` (which may be null) in the place of `raw` and returns what was there.
    fn replace(&self, writer: &mut Writer<T>, raw: u64, record: *mut T) -> *mut T {
        let array = self.array();
        // SAFETY: as in `find`.
        let known = array.map(|a| unsafe { a.place(raw) }).filter(|e| e.key.load(Ordering::Relaxed) == raw);
        if let Some(entry) = known {
            return entry.record.swap(record, Ordering::AcqRel);
        }
        if record.is_null() {
            return record;
        }
        let array = match array {
            Some(array) if 2 * (writer.used + 1) <= array.size() => array,
            _ => self.make_room(writer),
        };
        // SAFETY: as in `find`.
        let entry = unsafe { array.place(raw) };
        writer.used += 1;
        entry.record.store(record, Ordering::Relaxed);
        entry.key.store(raw, Ordering::Release);
        std::ptr::null_mut()
    }

    /// Moves what is alive into an array that is at most a quarter full.
    fn make_room(&self, writer: &mut Writer<T>) -> Array<T> {
        let old = self.array();
        let live = || self.entries().iter().filter(|e| e.is_alive());
        let size = (4 * live().count()).next_power_of_two().max(LEAST);
        let fitting = writer.retired.iter().position(|a| a.size() == size);
        let new = match fitting {
            None => Array::new(size),
            Some(at) => {
                let again = writer.retired.swap_remove(at);
                self.generation.fetch_add(1, Ordering::Relaxed);
                fence(Ordering::Release);
                // SAFETY: as in `find`; retired arrays are the shard's own.
                for entry in unsafe { again.entries() } {
                    entry.key.store(0, Ordering::Relaxed);
                    entry.record.store(std::ptr::null_mut(), Ordering::Relaxed);
                }
                again
            }
        };
        writer.used = 0;
        for entry in live() {
            let raw = entry.key.load(Ordering::Relaxed);
            // SAFETY: as in `find`; freed only with the shard.
            let to = unsafe { new.place(raw) };
            to.record.store(entry.record.load(Ordering::Relaxed), Ordering::Relaxed);
            to.key.store(raw, Ordering::Relaxed);
            writer.used += 1;
        }
        self.array.store(new.0, Ordering::Release);
        writer.retired.extend(old);
        new
    }
}

impl<T> Entry<T> {
    fn is_alive(&self) -> bool {
        !self.record.load(Ordering::Relaxed).is_null()
    }
}

impl<T> Drop for Shard<T> {
    fn drop(&mut self) {
        for entry in self.entries() {
            let record = entry.record.load(Ordering::Relaxed);
            if !record.is_null() {
                // SAFETY: records come from boxes and belong to the shard, which nobody else can see any more.
                drop(unsafe { Box::from_raw(record) });
            }
        }
        let current = self.array();
        for array in self.writer.get_mut().retired.drain(..).chain(current) {
            // SAFETY: as above; what is alive was moved out of those that are retired, or freed.
            unsafe { array.free() };
        }
    }
}

/// What a table is searched by.
pub trait Key {
    /// Its value; 0 is nothing.
    fn raw(self) -> u64;
}

impl<H: vk::Handle> Key for H {
    fn raw(self) -> u64 {
        self.as_raw()
    }
}

/// Records by handle.
pub struct Table<T> {
    shards: [Shard<T>; SHARDS],
}

impl<T: Send + Sync> Default for Table<T> {
    fn default() -> Self {
        Table::new()
    }
}

impl<T: Send + Sync> Table<T> {
    /// An empty table.
    pub const fn new() -> Table<T> {
        Table { shards: [const { Shard::new() }; SHARDS] }
    }

    fn shard(&self, raw: u64) -> &Shard<T> {
        &self.shards[(hash(raw) >> 60) as usize % SHARDS]
    }

    /// The record of `handle`.
    ///
    /// # Safety
    ///
    /// The object must not be destroyed, nor its value given to a new one, while the reference is used. By the
    /// specification that holds in any call that an application passes the handle to, until the call returns.
    #[inline]
    pub unsafe fn get(&self, handle: impl Key) -> Option<&T> {
        let raw = handle.raw();
        // SAFETY: records are boxes that live until the handle is removed or replaced: by the caller, not now.
        unsafe { self.shard(raw).find(raw).as_ref() }
    }

    /// Records `handle`, in place of whatever bore its value before, which is returned.
    pub fn insert(&self, handle: impl Key, record: T) -> Option<Box<T>> {
        let raw = handle.raw();
        if raw == 0 {
            return None;
        }
        let shard = self.shard(raw);
        let old = shard.replace(&mut shard.writer.lock(), raw, Box::into_raw(Box::new(record)));
        // SAFETY: what was in a table came from a box and is in no table now.
        (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
    }

    /// Forgets `handle`.
    pub fn remove(&self, handle: impl Key) -> Option<Box<T>> {
        let raw = handle.raw();
        if raw == 0 {
            return None;
        }
        let shard = self.shard(raw);
        let old = shard.replace(&mut shard.writer.lock(), raw, std::ptr::null_mut());
        // SAFETY: as in `insert`.
        (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
    }

    /// Forgets all records of which `dead` says so.
    pub fn remove_if(&self, dead: impl Fn(&T) -> bool) {
        for shard in &self.shards {
            let _writer = shard.writer.lock();
            for entry in shard.entries() {
                let record = entry.record.load(Ordering::Relaxed);
                // SAFETY: under the lock nobody else frees it.
                if unsafe { record.as_ref() }.is_some_and(&dead) {
                    entry.record.store(std::ptr::null_mut(), Ordering::Release);
                    // SAFETY: as in `insert`.
                    drop(unsafe { Box::from_raw(record) });
                }
            }
        }
    }

    /// Calls `f` for every record, while none can be added or removed in its neighbourhood.
    pub fn each(&self, mut f: impl FnMut(&T)) {
        for shard in &self.shards {
            let _writer = shard.writer.lock();
            for entry in shard.entries() {
                // SAFETY: under the lock no record is freed.
                if let Some(record) = unsafe { entry.record.load(Ordering::Relaxed).as_ref() } {
                    f(record);
                }
            }
        }
    }

    /// Runs `f` while no record can be added or removed.
    #[cfg(test)]
    pub fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _writers: Vec<_> = self.shards.iter().map(|s| s.writer.lock()).collect();
        f()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;
    use std::sync::atomic::AtomicBool;

    /// `steps`, or, where an interpreter takes a thousand times as long for each, few of them.
    fn many(steps: u64) -> u64 {
        if cfg!(miri) { steps / 200 } else { steps }
    }

    fn buffer(i: u64) -> vk::Buffer {
        vk::Buffer::from_raw(0x5000_0000 + i * 64)
    }

    fn get<T: Copy + Send + Sync>(table: &Table<T>, handle: vk::Buffer) -> Option<T> {
        // SAFETY: copied at once, and no test removes a handle while another thread reads it.
        unsafe { table.get(handle) }.copied()
    }

    #[test]
    fn a_reused_handle_gets_a_new_record_and_a_dead_one_has_none() {
        let table = Table::default();
        table.insert(buffer(1), 1);
        assert_eq!(get(&table, buffer(1)), Some(1));
        assert_eq!(table.remove(buffer(1)).as_deref(), Some(&1));
        assert_eq!((get(&table, buffer(1)), table.remove(buffer(1))), (None, None));
        table.insert(buffer(1), 2);
        assert_eq!(table.insert(buffer(1), 3).as_deref(), Some(&2), "the older record is handed back");
        assert_eq!(get(&table, buffer(1)), Some(3));
        assert_eq!((get(&table, vk::Buffer::null()), table.insert(vk::Buffer::null(), 4)), (None, None));
    }

    #[test]
    fn it_holds_what_a_map_holds_through_growth_and_churn() {
        let table = Table::default();
        let mut map = std::collections::HashMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for step in 0..many(60_000) {
            let handle = random.u64(1..2000);
            if random.u8(0..3) == 0 {
                assert_eq!(table.remove(buffer(handle)).map(|b| *b), map.remove(&handle));
            } else {
                assert_eq!(table.insert(buffer(handle), step).map(|b| *b), map.insert(handle, step));
            }
            // New values all the time, as drivers hand them out.
            if step % 3 == 0 {
                table.insert(buffer(10_000 + step), step);
                table.remove(buffer(10_000 + step));
            }
        }
        for handle in 1..2000 {
            assert_eq!(get(&table, buffer(handle)), map.get(&handle).copied());
        }
        table.remove_if(|step| step % 2 == 0);
        assert!((1..2000).all(|h| get(&table, buffer(h)) == map.get(&h).copied().filter(|s| s % 2 == 1)));
        let places: usize = table
            .shards
            .iter()
            .map(|s| s.writer.lock().retired.iter().map(|a| a.size()).sum::<usize>())
            .sum();
        assert!(places < 16 * 4 * 2000, "{places} places in arrays kept for readers: churn must reuse them");
    }

    #[test]
    fn readers_find_what_is_there_while_others_come_and_go() {
        let table = Table::default();
        (0..64).for_each(|i| drop(table.insert(buffer(i), i)));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut rounds = 0u64;
                        while !stop.load(Ordering::Relaxed) || rounds == 0 {
                            for i in 0..64 {
                                assert_eq!(get(&table, buffer(i)), Some(i));
                            }
                            rounds += 1;
                        }
                    })
                })
                .collect();
            for i in 0..many(40_000) {
                table.insert(buffer(100 + i), i);
                table.remove(buffer(100 + i / 2));
            }
            stop.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|r| r.join().unwrap());
        });
    }

    #[test]
    fn looking_up_waits_for_nobody() {
        let table = Table::default();
        table.insert(buffer(1), 1);
        let found = table
            .locked(|| std::thread::scope(|scope| scope.spawn(|| get(&table, buffer(1))).join().unwrap()));
        assert_eq!(found, Some(1), "while every lock of the table is held");
    }

    #[test]
    fn neighbouring_handles_do_not_share_one_shard() {
        let table = Table::default();
        (0..1000).for_each(|i| drop(table.insert(buffer(i), i)));
        let filled: Vec<usize> = table.shards.iter().map(|s| s.writer.lock().used).collect();
        assert_eq!(filled.iter().sum::<usize>(), 1000);
        let fullest = filled.iter().max().unwrap();
        assert!(*fullest < 200, "{fullest} of 1000 records in one of {SHARDS} shards");
    }
}
