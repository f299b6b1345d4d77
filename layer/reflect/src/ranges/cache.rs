//! Extents that were evaluated before.
//!
//! An application records the same dispatch with the same push constants token after token. The key holds only the
//! push constants that decide something, so a dispatch whose other push constants change (a scale, a seed) is found,
//! too. Bounded: an application that never repeats itself must not fill the memory.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use super::{Dispatch, Extents, Footprint};

/// Most dispatches that are remembered for one pipeline.
const MOST: usize = 4096;

/// Evaluated extents of one footprint.
#[derive(Debug, Default)]
pub struct Cache {
    known: RwLock<HashMap<Box<[u8]>, Arc<Extents>>>,
}

impl Cache {
    /// Nothing is known yet.
    pub fn new() -> Cache {
        Cache::default()
    }

    /// The extents of a dispatch, from memory or evaluated now. Use one cache with one footprint only.
    pub fn evaluate(&self, footprint: &Footprint, dispatch: &Dispatch<'_>) -> Arc<Extents> {
        let mut key = Vec::with_capacity(256);
        for number in dispatch.groups.iter().chain(&dispatch.base) {
            key.extend_from_slice(&number.to_le_bytes());
        }
        for (offset, length) in footprint.push_constants_used() {
            let (start, end) = (*offset as usize, *offset as usize + *length as usize);
            // What is missing is told from what is there by the key's length.
            key.extend_from_slice(dispatch.push_constants.get(start..end).unwrap_or(&[]));
        }
        let read = self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = read.get(key.as_slice()) {
            return found.clone();
        }
        drop(read);
        let extents = Arc::new(footprint.evaluate(dispatch));
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key.into(), extents.clone());
        extents
    }
}
