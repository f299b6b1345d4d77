//! Where a GPU virtual address is in the CPU's memory.
//!
//! Three tables meet here. The kernel's buffer objects are bound to GPU addresses in a VM ([`GpuSpace`]); the
//! application maps buffer objects, or parts of them, for the CPU ([`CpuMaps`]); an address resolves when both cover
//! it. Buffers have numbers of our own, [`Bo`], because a GEM handle is free for the next buffer as soon as it is
//! closed, while bindings and mappings of the old one live on.
//!
//! What has been unmapped must never be read: the tables forget a range before the kernel may, which is up to the
//! caller, and a mapping that overlaps an older one replaces it.

use std::collections::{BTreeMap, HashMap};

/// A buffer object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bo(pub u64);

#[derive(Clone, Copy, Debug)]
struct Binding {
    len: u64,
    bo: Bo,
    offset: u64,
    /// One page of the buffer, over and over.
    repeated: bool,
}

/// One GPU address space: ranges of addresses to buffers.
#[derive(Debug, Default)]
pub struct GpuSpace {
    bindings: BTreeMap<u64, Binding>,
}

/// The GPU pages by which the kernel repeats a single page.
const PAGE: u64 = 0x4000;

impl GpuSpace {
    /// Binds `len` bytes at `va` to `bo` from `offset` on, in place of what was there.
    pub fn bind(&mut self, va: u64, len: u64, bo: Bo, offset: u64, repeated: bool) {
        self.unbind(va, len);
        if len > 0 {
            self.bindings.insert(va, Binding { len, bo, offset, repeated });
        }
    }

    /// Unbinds `len` bytes at `va`; what was bound beside them stays.
    pub fn unbind(&mut self, va: u64, len: u64) {
        let end = va.saturating_add(len);
        let touched: Vec<u64> = overlapping(&self.bindings, va, end, |b| b.len).collect();
        for start in touched {
            let Some(old) = self.bindings.remove(&start) else { continue };
            if start < va {
                self.bindings.insert(start, Binding { len: va - start, ..old });
            }
            let old_end = start.saturating_add(old.len);
            if old_end > end {
                let offset = if old.repeated { old.offset } else { old.offset.wrapping_add(end - start) };
                self.bindings.insert(end, Binding { len: old_end - end, offset, ..old });
            }
        }
    }

    /// Unbinds a buffer everywhere.
    pub fn forget(&mut self, bo: Bo) {
        self.bindings.retain(|_, binding| binding.bo != bo);
    }

    /// The buffer behind `va`, the offset in it, and how many bytes from there on are bound alike.
    pub fn resolve(&self, va: u64) -> Option<(Bo, u64, u64)> {
        let (start, binding) = self.bindings.range(..=va).next_back()?;
        let inside = va - start;
        let left = binding.len.checked_sub(inside).filter(|left| *left > 0)?;
        if binding.repeated {
            let inside = inside % PAGE;
            return Some((binding.bo, binding.offset.checked_add(inside)?, left.min(PAGE - inside)));
        }
        Some((binding.bo, binding.offset.checked_add(inside)?, left))
    }
}

/// A range of the process's memory that shows a buffer, readable.
#[derive(Clone, Copy, Debug)]
struct View {
    len: u64,
    bo: Bo,
    offset: u64,
}

/// The CPU mappings of all buffers.
#[derive(Debug, Default)]
pub struct CpuMaps {
    views: BTreeMap<u64, View>,
    by_bo: HashMap<Bo, Vec<u64>>,
}

impl CpuMaps {
    /// `len` bytes of the process's memory from `address` on now show `bo` from `offset` on.
    pub fn map(&mut self, address: u64, len: u64, bo: Bo, offset: u64) {
        self.unmap(address, len);
        if len > 0 {
            self.insert(address, View { len, bo, offset });
        }
    }

    /// The process's memory there is no longer what it was.
    pub fn unmap(&mut self, address: u64, len: u64) {
        if self.views.is_empty() {
            return;
        }
        let end = address.saturating_add(len);
        let touched: Vec<u64> = overlapping(&self.views, address, end, |v| v.len).collect();
        for start in touched {
            let Some(old) = self.views.remove(&start) else { continue };
            if let Some(list) = self.by_bo.get_mut(&old.bo) {
                list.retain(|address| *address != start);
                if list.is_empty() {
                    self.by_bo.remove(&old.bo);
                }
            }
            if start < address {
                self.insert(start, View { len: address - start, ..old });
            }
            let old_end = start.saturating_add(old.len);
            if old_end > end {
                let offset = old.offset.saturating_add(end - start);
                self.insert(end, View { len: old_end - end, offset, ..old });
            }
        }
    }

    fn insert(&mut self, address: u64, view: View) {
        self.by_bo.entry(view.bo).or_default().push(address);
        self.views.insert(address, view);
    }

    /// Forgets all mappings of a buffer; where they were, with their lengths.
    pub fn forget(&mut self, bo: Bo) -> Vec<(u64, u64)> {
        let starts = self.by_bo.remove(&bo).unwrap_or_default();
        starts.into_iter().filter_map(|at| Some((at, self.views.remove(&at)?.len))).collect()
    }

    /// Forgets everything; where the mappings were, with their lengths.
    pub fn drain(&mut self) -> Vec<(u64, u64)> {
        self.by_bo.clear();
        std::mem::take(&mut self.views).into_iter().map(|(at, view)| (at, view.len)).collect()
    }

    /// Where the process sees byte `offset` of `bo`, and how many bytes from there on are contiguous.
    pub fn resolve(&self, bo: Bo, offset: u64) -> Option<(u64, u64)> {
        self.by_bo.get(&bo)?.iter().find_map(|address| {
            let view = self.views.get(address)?;
            let inside = offset.checked_sub(view.offset)?;
            let left = view.len.checked_sub(inside).filter(|left| *left > 0)?;
            Some((address.checked_add(inside)?, left))
        })
    }
}

fn overlapping<T>(
    map: &BTreeMap<u64, T>,
    start: u64,
    end: u64,
    len: impl Fn(&T) -> u64,
) -> impl Iterator<Item = u64> {
    let before = map.range(..start).next_back().filter(|(at, item)| at.saturating_add(len(item)) > start);
    before.into_iter().chain(map.range(start..end.max(start))).map(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unbinding_the_middle_leaves_both_ends_with_their_offsets() {
        let mut space = GpuSpace::default();
        space.bind(0x1000, 0x3000, Bo(1), 0x100, false);
        space.unbind(0x2000, 0x1000);
        assert_eq!(space.resolve(0x1ffc), Some((Bo(1), 0x10fc, 4)));
        assert_eq!(space.resolve(0x2000), None);
        assert_eq!(space.resolve(0x3000), Some((Bo(1), 0x2100, 0x1000)));
        assert_eq!(space.resolve(0x4000), None);
    }

    #[test]
    fn a_mapping_over_an_older_one_replaces_it() {
        let mut maps = CpuMaps::default();
        maps.map(0x10000, 0x2000, Bo(1), 0);
        maps.map(0x10000, 0x1000, Bo(2), 0x40);
        assert_eq!(maps.resolve(Bo(1), 0), None);
        assert_eq!(maps.resolve(Bo(1), 0x1000), Some((0x11000, 0x1000)));
        assert_eq!(maps.resolve(Bo(2), 0x44), Some((0x10004, 0xffc)));
    }

    #[test]
    fn a_repeated_page_shows_the_same_bytes_everywhere() {
        let mut space = GpuSpace::default();
        space.bind(0, 4 * PAGE, Bo(1), 0x8000, true);
        assert_eq!(space.resolve(PAGE + 8), Some((Bo(1), 0x8008, PAGE - 8)));
    }

    proptest! {
        #[test]
        fn a_table_of_bytes_agrees(ops in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..64, 0u64..4), 0..40)) {
            let (mut space, mut maps) = (GpuSpace::default(), CpuMaps::default());
            let mut model = [None; 160];
            for (bind, va, len, bo) in ops {
                if bind {
                    space.bind(va, len, Bo(bo), 1000, false);
                    maps.map(va, len, Bo(bo), 1000);
                } else {
                    space.unbind(va, len);
                    maps.unmap(va, len);
                }
                for (i, byte) in (va..va + len).enumerate() {
                    model[byte as usize] = bind.then_some((Bo(bo), 1000 + i as u64));
                }
            }
            for (va, expected) in model.iter().enumerate() {
                prop_assert_eq!(space.resolve(va as u64).map(|(bo, offset, _)| (bo, offset)), *expected);
                if let Some((bo, offset)) = expected {
                    // Several views may show one byte of a buffer; any of them is right.
                    let (address, _) = maps.resolve(*bo, *offset).expect("some view shows it");
                    prop_assert_eq!(model[address as usize], Some((*bo, *offset)));
                }
            }
        }
    }
}
