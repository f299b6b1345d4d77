//! What becomes of pipeline layouts: a layer that makes some of its own must destroy them, and each with the callbacks that it
//! was made with.

use crate::faults;
use ash::vk::{self, Handle};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;

/// The pipeline layouts of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineLayouts {
    /// Made and not destroyed.
    pub alive: usize,
    /// Made so far.
    pub made: usize,
    /// Destroyed with other callbacks than they were made with, or without, or twice.
    pub wrong: usize,
}

thread_local! {
    /// By handle, the callbacks that it was made with; and the counts.
    static MADE: RefCell<(HashMap<u64, usize>, PipelineLayouts)> = RefCell::default();
    /// The set layouts of each that was made since [`remember_layouts`].
    static SETS: RefCell<Option<HashMap<u64, Vec<u64>>>> = RefCell::default();
}

/// From now on this thread remembers what its pipeline layouts are made of.
pub fn remember_layouts() {
    SETS.set(Some(HashMap::new()));
}

/// The handles of the set layouts of a pipeline layout that this thread has made, though it may be destroyed; none where that
/// was not to be remembered ([`remember_layouts`]).
pub fn sets_of_layout(layout: u64) -> Vec<u64> {
    SETS.with_borrow(|sets| sets.as_ref()?.get(&layout).cloned()).unwrap_or_default()
}

/// The pipeline layouts that this thread has made.
pub fn pipeline_layouts() -> PipelineLayouts {
    MADE.with_borrow(|(alive, counts)| PipelineLayouts { alive: alive.len(), ..*counts })
}

pub(crate) unsafe extern "system" fn create(
    device: vk::Device,
    info: *const vk::PipelineLayoutCreateInfo<'_>,
    allocator: *const c_void,
    out: *mut u64,
) -> vk::Result {
    // SAFETY: by the caller.
    let result = unsafe { crate::create(device, info.cast(), allocator, out) };
    if result == vk::Result::SUCCESS {
        MADE.with_borrow_mut(|(alive, counts)| {
            counts.made += 1;
            // SAFETY: just written.
            alive.insert(unsafe { *out }, allocator as usize);
        });
        // SAFETY: the caller passes as many set layouts as it says.
        let sets = unsafe {
            let count = (*info).set_layout_count as usize;
            (0..count).map(|i| (*(*info).p_set_layouts.add(i)).as_raw()).collect()
        };
        // SAFETY: as above.
        SETS.with_borrow_mut(|all| all.as_mut().and_then(|all| all.insert(unsafe { *out }, sets)));
    }
    result
}

pub(crate) unsafe extern "system" fn destroy(device: vk::Device, layout: u64, allocator: *const c_void) {
    if layout != 0 {
        MADE.with_borrow_mut(|(alive, counts)| {
            counts.wrong += usize::from(alive.remove(&layout) != Some(allocator as usize));
        });
    }
    // SAFETY: by the caller.
    unsafe { faults::destroy(device, layout, allocator) }
}
