//! Reading the memory of the process itself.
//!
//! Arguments of a call come from the application, which may pass anything: the kernel answers a bad pointer with EFAULT
//! where a load of ours would end the process. So they are copied by the kernel too, with `process_vm_readv` on
//! ourselves, at a microsecond a piece. Where a sandbox forbids that, submissions count as unreadable.
//!
//! Mapped buffers can't be copied that way (the pages of a real device are not ordinary memory), and need not be:
//! the tracker knows that they are there.

use crate::hooks;
use std::ffi::c_void;
use zinc_packets_core::tracker::Process;

pub(crate) struct OwnProcess;

impl Process for OwnProcess {
    fn copy(&self, address: u64, out: &mut [u8]) -> bool {
        if out.is_empty() {
            return true;
        }
        let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
        let remote = libc::iovec { iov_base: address as usize as *mut c_void, iov_len: out.len() };
        // SAFETY: `local` describes `out`; the kernel checks `remote` and reports what it can't read.
        let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        usize::try_from(copied) == Ok(out.len())
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
