//! A VM's memory as the CPU sees it, at the moment of a submission.
//!
//! An address resolves in three steps: which buffer is bound there, where the application has that buffer mapped, and
//! if it has not, whether we may map it ourselves. We may when the driver has asked for the buffer's mmap offset: then
//! it was made for the CPU, and showing it to the CPU once more moves nothing. Buffers in memory that the CPU can't
//! reach are never touched.

use crate::file::File;
use crate::memory::Memory;
use crate::space::{Bo, CpuMaps, GpuSpace};
use crate::tracker::Process;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A VM's memory as the CPU sees it.
pub(crate) struct Seen<'a> {
    space: Option<&'a GpuSpace>,
    maps: &'a CpuMaps,
    process: &'a dyn Process,
    mask: u64,
    fd: i32,
    offsets: &'a BTreeMap<u64, (Bo, u64)>,
    own: RefCell<CpuMaps>,
}

impl<'a> Seen<'a> {
    /// The memory of a VM of `file`, for a submission through `fd`, with addresses of as many bits as `mask` has.
    pub(crate) fn new(
        file: &'a File,
        fd: i32,
        vm: u32,
        mask: u64,
        maps: &'a CpuMaps,
        process: &'a dyn Process,
        own: CpuMaps,
    ) -> Self {
        let own = RefCell::new(own);
        Self { space: file.spaces.get(&vm), maps, process, mask, fd, offsets: &file.offsets, own }
    }

    /// Gives our own mappings back, with those that were added.
    pub(crate) fn into_own(self) -> CpuMaps {
        self.own.into_inner()
    }

    fn resolve(&self, bo: Bo, offset: u64) -> Option<(u64, u64)> {
        let mut own = self.own.borrow_mut();
        if let Some(found) = self.maps.resolve(bo, offset).or_else(|| own.resolve(bo, offset)) {
            return Some(found);
        }
        let (start, (_, size)) = self.offsets.iter().find(|(_, (other, _))| *other == bo)?;
        if offset >= *size {
            return None;
        }
        let address = self.process.map(self.fd, *start, *size)?;
        own.map(address, *size, bo, 0);
        own.resolve(bo, offset)
    }
}

impl Memory for Seen<'_> {
    fn read(&self, va: u64, out: &mut [u32]) -> usize {
        let mut done = 0;
        while done < out.len() {
            let at = va.wrapping_add(done as u64 * 4) & self.mask;
            let Some((bo, offset, bound)) = self.space.and_then(|space| space.resolve(at)) else { break };
            let Some((address, mapped)) = self.resolve(bo, offset) else { break };
            let words = usize::try_from(bound.min(mapped) / 4).unwrap_or(usize::MAX).min(out.len() - done);
            if words == 0 {
                break;
            }
            self.process.mapped(address, &mut out[done..done + words]);
            done += words;
        }
        done
    }
}
