//! Stands behind the counter as a drm-shim would: answers every DRM call on any descriptor, as an amdgpu that runs
//! nothing. `FAKE_REFUSE=1` refuses submissions with ENOMEM. An ordinary file serves as the device, so that mapping
//! it needs no help.

use libc::{c_int, c_ulong, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

static HANDLES: AtomicU32 = AtomicU32::new(0);

/// libc's `ioctl`, but for DRM calls.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request >> 8 & 0xff != 0x64 {
        // SAFETY: the next ioctl is libc's and has its signature; the caller's promises are passed on.
        return unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, c"ioctl".as_ptr());
            let next: unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int = std::mem::transmute(next);
            next(fd, request, argument)
        };
    }
    // SAFETY: a DRM call's argument is a structure of the size that its number implies, and writable.
    unsafe {
        let words = argument.cast::<u64>();
        match request & 0xff {
            // VERSION: 3.1.4 "amdgpu".
            0x00 => {
                argument.cast::<c_int>().write(3);
                argument.cast::<c_int>().add(1).write(1);
                argument.cast::<c_int>().add(2).write(4);
                let name = words.add(3).read() as usize as *mut u8;
                if words.add(2).read() >= 6 {
                    name.copy_from_nonoverlapping(b"amdgpu".as_ptr(), 6);
                }
                words.add(2).write(6);
            }
            // GEM_CREATE: handles from 1 on.
            0x40 => words.write(u64::from(HANDLES.fetch_add(1, Ordering::Relaxed) + 1)),
            // GEM_MMAP: one page a handle.
            0x41 => words.write(words.read() << 12),
            // CS.
            0x44 if std::env::var_os("FAKE_REFUSE").is_some() => {
                *libc::__errno_location() = libc::ENOMEM;
                return -1;
            }
            0x44 => words.write(42),
            // INFO: GFX11.
            0x45 => (words.read() as usize as *mut u32).write(11),
            _ => {}
        }
    }
    0
}
