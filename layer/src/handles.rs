//! Handle tables.
//!
//! Vulkan lets drivers reuse a handle's value as soon as the object is destroyed, and lets applications create and
//! destroy objects on any thread. So a table maps a handle to a shared record; what still refers to a destroyed
//! object (a descriptor, a bound set) keeps its record, and a new object with the old value gets a new one. A handle
//! with no record is one whose creation the layer did not see, and counts as unknown.
//!
//! The table is cut into shards, each behind a lock of its own, so that threads that record at the same time rarely
//! meet.

use ash::vk;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

const SHARDS: usize = 16;

/// Handles are addresses or small numbers: one multiplication spreads them well enough.
#[derive(Default)]
pub struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Shard<T> = RwLock<HashMap<u64, Arc<T>, BuildHasherDefault<HandleHasher>>>;

/// Records by handle.
pub struct Table<T> {
    shards: [Shard<T>; SHARDS],
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { shards: std::array::from_fn(|_| Shard::default()) }
    }
}

impl<T> Table<T> {
    fn shard(&self, raw: u64) -> &Shard<T> {
        let mut hasher = HandleHasher::default();
        hasher.write_u64(raw);
        &self.shards[(hasher.finish() >> 60) as usize % SHARDS]
    }

    /// The record of `handle`.
    pub fn get<H: vk::Handle>(&self, handle: H) -> Option<Arc<T>> {
        let raw = handle.as_raw();
        self.shard(raw).read().get(&raw).cloned()
    }

    /// Records `handle`, in place of whatever bore its value before.
    pub fn insert<H: vk::Handle>(&self, handle: H, record: T) -> Arc<T> {
        let raw = handle.as_raw();
        let record = Arc::new(record);
        self.shard(raw).write().insert(raw, record.clone());
        record
    }

    /// Forgets `handle`.
    pub fn remove<H: vk::Handle>(&self, handle: H) -> Option<Arc<T>> {
        let raw = handle.as_raw();
        self.shard(raw).write().remove(&raw)
    }

    /// Forgets all records of which `dead` says so.
    pub fn remove_if(&self, dead: impl Fn(&T) -> bool) {
        for shard in &self.shards {
            shard.write().retain(|_, record| !dead(record));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;

    #[test]
    fn a_reused_handle_gets_a_new_record_and_old_references_keep_the_old_one() {
        let table = Table::default();
        let handle = vk::Buffer::from_raw(0x1000);
        let first = table.insert(handle, 1);
        table.remove(handle);
        assert!(table.get(handle).is_none());
        table.insert(handle, 2);
        assert_eq!((*first, *table.get(handle).unwrap()), (1, 2));
    }

    #[test]
    fn neighbouring_handles_do_not_share_one_shard() {
        let table = Table::default();
        for i in 0..1000u64 {
            table.insert(vk::Buffer::from_raw(0x5000_0000 + i * 64), i);
        }
        let filled: Vec<usize> = table.shards.iter().map(|s| s.read().len()).collect();
        assert_eq!(filled.iter().sum::<usize>(), 1000);
        let fullest = filled.iter().max().unwrap();
        assert!(*fullest < 200, "{fullest} of 1000 records in one of {SHARDS} shards");
    }
}
