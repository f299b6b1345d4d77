//! What a run is judged by: panics, also those that somebody caught, and bytes that stay.
//!
//! The layer catches its own panics before they reach an application, so catching is no way to see them: the process's
//! panic hook is. And a process's resident size says little about a leak of a few bytes, so the allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::PanicHookInfo;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The system's allocator with a count of what is live.
pub struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory but the counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: by the caller.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Bytes that are allocated now.
pub fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// The most memory that the process ever had resident, in KiB; 0 where the system doesn't say.
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

static PANICS: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<String> = Mutex::new(String::new());

/// From now on panics are counted and not printed.
pub fn panics_are_counted() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut last) = LAST.lock() {
            *last = info.to_string().replace('\n', " ");
        }
    }));
}

/// How often something panicked, caught or not.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The last panic's message and place.
pub fn last_panic() -> String {
    LAST.lock().map(|last| last.clone()).unwrap_or_default()
}
