//! A file cannot make the reader allocate more than its own size allows, whatever it claims.
//!
//! The whole test program counts its allocations, so this is a program of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use zinc_engine::embedded;
use zinc_engine::gguf::Gguf;

struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only a thread-local number, which
// needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|sum| sum.set(sum.get().saturating_add(layout.size())));
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that parsing allocates in all, freed ones included.
fn allocated_by_parsing(file: &[u8]) -> usize {
    let before = ALLOCATED.with(Cell::get);
    let _ = std::hint::black_box(Gguf::parse(file));
    ALLOCATED.with(Cell::get) - before
}

/// The header of the embedded model: metadata and tensor table, where every claim is made.
const HEADER: usize = 12_000;

/// Growing tables count each of their sizes, names in errors count too; a claim that was believed would be far above.
fn allowed(file: &[u8]) -> usize {
    16 * file.len() + 4096
}

#[test]
fn a_sound_file_costs_little() {
    let allocated = allocated_by_parsing(embedded::MODEL);
    assert!(allocated > 0 && allocated < 100_000, "{allocated}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_claim_costs_no_more_than_the_file_is_long(at in 0usize..HEADER - 8, shift in 0u32..64, low: u8) {
        let mut file = embedded::MODEL[..HEADER].to_vec();
        let claim = (1u64 << shift) | u64::from(low);
        file[at..at + 8].copy_from_slice(&claim.to_le_bytes());
        let allocated = allocated_by_parsing(&file);
        prop_assert!(allocated <= allowed(&file), "{allocated} bytes for a file of {}", file.len());
    }
}
