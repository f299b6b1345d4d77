//! The interposed functions. Each exported one jumps to its hook's target; each counting one tells the tracker, calls
//! the next function, and tells the tracker again.
//!
//! `ioctl` and `fcntl` are variadic in C. A caller passes one further argument, or none, in the registers where a
//! fixed one would be, on every 64-bit Linux; so they are written with that argument fixed, and pass on what they got.

use crate::leaving;
use crate::next::Hook;
use crate::process::OwnProcess;
use crate::state;
use libc::{c_int, c_ulong, c_void, off_t, size_t};
use std::mem::transmute;
use std::sync::OnceLock;
use zinc_packets_core::tracker::{Driver, Pending, Tracker};
use zinc_packets_core::uapi;

macro_rules! hook {
    ($hook:ident, $symbol:literal, $name:ident, $resolve:ident, $counting:ident,
     ($($argument:ident: $type:ty),*) -> $ret:ty) => {
        pub(crate) static $hook: Hook = Hook::new($symbol, $resolve as *mut c_void, $counting as *mut c_void);

        // SAFETY: the symbol has libc's name and signature on purpose, and does what libc's does.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $ret {
            // SAFETY: a hook's target is always a function of this signature; the caller's promises are passed on.
            unsafe {
                transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $ret>($hook.target())($($argument),*)
            }
        }

        #[cold]
        unsafe extern "C" fn $resolve($($argument: $type),*) -> $ret {
            // SAFETY: as above.
            unsafe {
                transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $ret>($hook.resolve())($($argument),*)
            }
        }
    };
}

/// Calls the next function of a hook.
macro_rules! next {
    ($hook:ident, ($($argument:expr => $type:ty),*) -> $ret:ty) => {
        // SAFETY: the next function of that name has libc's signature; the caller's promises are passed on.
        unsafe {
            transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $ret>($hook.next())($($argument),*)
        }
    };
}

hook!(IOCTL, c"ioctl", ioctl, ioctl_first, ioctl_counting, (fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int);
hook!(MMAP, c"mmap", mmap, mmap_first, mmap_counting,
    (address: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void);
hook!(MMAP64, c"mmap64", mmap64, mmap64_first, mmap64_counting,
    (address: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void);
hook!(MUNMAP, c"munmap", munmap, munmap_first, munmap_counting, (address: *mut c_void, len: size_t) -> c_int);
hook!(MREMAP, c"mremap", mremap, mremap_first, mremap_counting,
    (old: *mut c_void, old_len: size_t, new_len: size_t, flags: c_int, new: *mut c_void) -> *mut c_void);
hook!(MPROTECT, c"mprotect", mprotect, mprotect_first, mprotect_counting,
    (address: *mut c_void, len: size_t, prot: c_int) -> c_int);
hook!(CLOSE, c"close", close, close_first, close_counting, (fd: c_int) -> c_int);
hook!(DUP, c"dup", dup, dup_first, dup_counting, (fd: c_int) -> c_int);
hook!(DUP2, c"dup2", dup2, dup2_first, dup2_counting, (old: c_int, new: c_int) -> c_int);
hook!(DUP3, c"dup3", dup3, dup3_first, dup3_counting, (old: c_int, new: c_int, flags: c_int) -> c_int);
hook!(FCNTL, c"fcntl", fcntl, fcntl_first, fcntl_counting, (fd: c_int, command: c_int, argument: *mut c_void) -> c_int);
hook!(FCNTL64, c"fcntl64", fcntl64, fcntl64_first, fcntl64_counting,
    (fd: c_int, command: c_int, argument: *mut c_void) -> c_int);
hook!(EXIT, c"_exit", _exit, exit_first, exit_counting, (status: c_int) -> ());
hook!(EXIT_C99, c"_Exit", _Exit, exit_c99_first, exit_c99_counting, (status: c_int) -> ());

unsafe extern "C" fn ioctl_counting(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if !uapi::is_drm(request) {
        return next!(IOCTL, (fd => c_int, request => c_ulong, argument => *mut c_void) -> c_int);
    }
    let address = argument as usize as u64;
    let before = || {
        // Calls with lower numbers are made on any device, and say nothing of one that has made none above.
        let told = |tracker: &mut Tracker| tracker.knows(fd) || uapi::number(request) < uapi::DRIVER;
        state::with(|tracker| told(tracker).then(|| tracker.before(&OwnProcess, fd, request, address)))
    };
    let pending = match before() {
        Some(None) => {
            identify(fd);
            before().flatten()
        }
        pending => pending.flatten(),
    };
    let result = next!(IOCTL, (fd => c_int, request => c_ulong, argument => *mut c_void) -> c_int);
    if let Some(pending @ Pending::After(_)) = pending {
        state::with(|tracker| tracker.after(&OwnProcess, fd, address, pending, result == 0));
    }
    result
}

/// DRM_IOCTL_VERSION's structure.
#[repr(C)]
struct Version {
    major: c_int,
    minor: c_int,
    patch: c_int,
    name_len: size_t,
    name: *mut u8,
    date_len: size_t,
    date: *mut u8,
    desc_len: size_t,
    desc: *mut u8,
}

/// Asks the kernel, or the shim, which driver is behind a descriptor. `errno` is as before.
#[cold]
fn identify(fd: c_int) {
    let (mut name, mut date, mut desc) = ([0u8; 64], [0u8; 64], [0u8; 64]);
    // Found now, while no lock is held: the dynamic loader has locks of its own, and a library that it is starting may
    // wait for ours.
    let _ = (MMAP.next(), MUNMAP.next());
    // One byte less: Mesa's shims may copy up to the length and add no end.
    let mut version = Version {
        major: 0,
        minor: 0,
        patch: 0,
        name_len: name.len() - 1,
        name: name.as_mut_ptr(),
        date_len: date.len() - 1,
        date: date.as_mut_ptr(),
        desc_len: desc.len() - 1,
        desc: desc.as_mut_ptr(),
    };
    // SAFETY: errno's address is valid for the life of the thread.
    let errno = unsafe { *libc::__errno_location() };
    let argument = (&raw mut version).cast::<c_void>();
    let result =
        next!(IOCTL, (fd => c_int, uapi::VERSION_REQUEST => c_ulong, argument => *mut c_void) -> c_int);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    let driver = match (result, std::str::from_utf8(&name[..version.name_len.min(name.len())])) {
        (0, Ok(name)) => Driver::of(name),
        _ => Driver::Other,
    };
    state::with(|tracker| {
        tracker.open(&OwnProcess, fd, driver, (version.major, version.minor, version.patch))
    });
}

unsafe extern "C" fn mmap_counting(
    address: *mut c_void,
    len: size_t,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    before_mmap(address, len, flags);
    let result = next!(MMAP, (address => *mut c_void, len => size_t, prot => c_int, flags => c_int, fd => c_int,
        offset => off_t) -> *mut c_void);
    after_mmap(result, len, prot, flags, fd, offset);
    result
}

unsafe extern "C" fn mmap64_counting(
    address: *mut c_void,
    len: size_t,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    before_mmap(address, len, flags);
    let result = next!(MMAP64, (address => *mut c_void, len => size_t, prot => c_int, flags => c_int, fd => c_int,
        offset => off_t) -> *mut c_void);
    after_mmap(result, len, prot, flags, fd, offset);
    result
}

/// Maps a part of a file for ourselves, as the application could.
pub(crate) fn map_for_reading(fd: c_int, offset: u64, len: u64) -> Option<u64> {
    let (len, offset) = (usize::try_from(len).ok()?, off_t::try_from(offset).ok()?);
    let null = std::ptr::null_mut::<c_void>();
    let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    let result = next!(MMAP, (null => *mut c_void, len => size_t, prot => c_int, flags => c_int, fd => c_int,
        offset => off_t) -> *mut c_void);
    (result != libc::MAP_FAILED).then_some(result as usize as u64)
}

/// Ends a mapping of [`map_for_reading`].
pub(crate) fn unmap_again(address: u64, len: u64) {
    let (address, len) = (address as usize as *mut c_void, len as size_t);
    let _ = next!(MUNMAP, (address => *mut c_void, len => size_t) -> c_int);
}

fn before_mmap(address: *mut c_void, len: size_t, flags: c_int) {
    if flags & libc::MAP_FIXED != 0 {
        forget(address, len);
    }
}

fn after_mmap(result: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) {
    if result != libc::MAP_FAILED {
        let fd = if flags & libc::MAP_ANONYMOUS == 0 { fd } else { -1 };
        let (address, readable) = (result as usize as u64, prot & libc::PROT_READ != 0);
        state::with(|tracker| tracker.map(fd, address, pages(len), offset as u64, readable));
    }
}

/// A length as the kernel takes it: whole pages, whose size differs between machines.
fn pages(len: size_t) -> u64 {
    static PAGE: OnceLock<u64> = OnceLock::new();
    // SAFETY: sysconf has no preconditions.
    let page = *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64);
    (len as u64).div_ceil(page).saturating_mul(page)
}

fn forget(address: *mut c_void, len: size_t) {
    state::with(|tracker| tracker.unmap(address as usize as u64, pages(len)));
}

unsafe extern "C" fn munmap_counting(address: *mut c_void, len: size_t) -> c_int {
    forget(address, len);
    next!(MUNMAP, (address => *mut c_void, len => size_t) -> c_int)
}

unsafe extern "C" fn mremap_counting(
    old: *mut c_void,
    old_len: size_t,
    new_len: size_t,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    // No driver moves a mapping of a buffer; one that did would have it counted as unreadable from then on.
    forget(old, old_len);
    if flags & libc::MREMAP_FIXED != 0 {
        forget(new, new_len);
    }
    next!(MREMAP, (old => *mut c_void, old_len => size_t, new_len => size_t, flags => c_int, new => *mut c_void)
        -> *mut c_void)
}

unsafe extern "C" fn mprotect_counting(address: *mut c_void, len: size_t, prot: c_int) -> c_int {
    if prot & libc::PROT_READ == 0 {
        forget(address, len);
    }
    next!(MPROTECT, (address => *mut c_void, len => size_t, prot => c_int) -> c_int)
}

unsafe extern "C" fn close_counting(fd: c_int) -> c_int {
    state::with(|tracker| tracker.close(&OwnProcess, fd));
    next!(CLOSE, (fd => c_int) -> c_int)
}

fn duplicated(old: c_int, new: c_int) -> c_int {
    if new >= 0 {
        state::with(|tracker| tracker.duplicate(&OwnProcess, old, new));
    }
    new
}

unsafe extern "C" fn dup_counting(fd: c_int) -> c_int {
    duplicated(fd, next!(DUP, (fd => c_int) -> c_int))
}

unsafe extern "C" fn dup2_counting(old: c_int, new: c_int) -> c_int {
    duplicated(old, next!(DUP2, (old => c_int, new => c_int) -> c_int))
}

unsafe extern "C" fn dup3_counting(old: c_int, new: c_int, flags: c_int) -> c_int {
    duplicated(old, next!(DUP3, (old => c_int, new => c_int, flags => c_int) -> c_int))
}

unsafe extern "C" fn fcntl_counting(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let result = next!(FCNTL, (fd => c_int, command => c_int, argument => *mut c_void) -> c_int);
    after_fcntl(fd, command, result)
}

unsafe extern "C" fn fcntl64_counting(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let result = next!(FCNTL64, (fd => c_int, command => c_int, argument => *mut c_void) -> c_int);
    after_fcntl(fd, command, result)
}

fn after_fcntl(fd: c_int, command: c_int, result: c_int) -> c_int {
    if command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC { duplicated(fd, result) } else { result }
}

unsafe extern "C" fn exit_counting(status: c_int) {
    leaving::report(status);
    next!(EXIT, (status => c_int) -> ())
}

unsafe extern "C" fn exit_c99_counting(status: c_int) {
    leaving::report(status);
    next!(EXIT_C99, (status => c_int) -> ())
}
