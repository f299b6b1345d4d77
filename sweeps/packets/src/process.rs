//! Reading the memory of the process itself.
//!
//! Arguments of a call come from the application, which may pass anything: the kernel answers a bad pointer with EFAULT
//! where a load of ours would end the process. So they are copied by the kernel too, with `process_vm_readv` on
//! ourselves, a microsecond or so a call, whence
//! [`Process::copy_all`]. Where a sandbox forbids that, submissions count as unreadable.
//!
//! Mapped buffers can't be copied that way (the pages of a real device are not ordinary memory), and need not be:
//! the tracker knows that they are there.

use crate::hooks;
use std::ffi::c_void;
use zinc_packets_core::tracker::Process;

pub(crate) struct OwnProcess;

/// IOV_MAX on Linux.
const PIECES: usize = 1024;

/// Copies `each` bytes from each address into `out`.
fn copy_pieces(addresses: &[u64], each: usize, out: &mut [u8]) -> bool {
    let piece = |address: &u64| libc::iovec { iov_base: *address as usize as *mut c_void, iov_len: each };
    let remote: Vec<libc::iovec> = addresses.iter().map(piece).collect();
    let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    // SAFETY: `local` describes `out`; the kernel checks what `remote` describes and reports what it can't read.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
    };
    usize::try_from(copied) == Ok(out.len())
}

impl Process for OwnProcess {
    fn copy(&self, address: u64, out: &mut [u8]) -> bool {
        if out.is_empty() {
            return true;
        }
        self.copy_all(&[address], out)
    }

    fn copy_all(&self, addresses: &[u64], out: &mut [u8]) -> bool {
        let Some(each) = out.len().checked_div(addresses.len()).filter(|each| *each > 0) else { return true };
        // The kernel takes so many pieces at once and no more.
        let mut parts = out.chunks_mut(each * PIECES);
        addresses.chunks(PIECES).all(|some| parts.next().is_some_and(|part| copy_pieces(some, each, part)))
    }

    fn mapped(&self, address: u64, out: &mut [u32]) {
        let from = address as usize as *const u8;
        // SAFETY: the tracker calls this only for ranges inside mappings that this process made readable and has not
        // ended; ending one takes the lock that is held here. Bytes are copied, so alignment does not matter; a
        // thread that writes there meanwhile violates the API's rules for buffers being submitted, and at worst we
        // count what it wrote.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().cast::<u8>(), size_of_val(out)) };
    }

    fn map(&self, fd: i32, offset: u64, len: u64) -> Option<u64> {
        hooks::map_for_reading(fd, offset, len)
    }

    fn unmap(&self, address: u64, len: u64) {
        hooks::unmap_again(address, len);
    }
}
