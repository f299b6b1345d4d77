//! The functions behind ours, and the switch in front of them.
//!
//! A [`Hook`] is one exported function's target and its successor. Everything in it is resolved by the first call, not
//! by a constructor: other libraries' constructors run before ours and already open files.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// One interposed function.
pub(crate) struct Hook {
    name: &'static CStr,
    /// Where the exported function jumps to: `resolve` at first, then `counting` or the next one.
    target: AtomicPtr<c_void>,
    counting: *mut c_void,
    next: AtomicPtr<c_void>,
}

// SAFETY: `counting` is the address of a function, which any thread may call; the rest is atomic.
unsafe impl Sync for Hook {}

impl Hook {
    pub(crate) const fn new(name: &'static CStr, resolve: *mut c_void, counting: *mut c_void) -> Self {
        Self { name, target: AtomicPtr::new(resolve), counting, next: AtomicPtr::new(null_mut()) }
    }

    /// What the exported function is to call.
    #[inline]
    pub(crate) fn target(&self) -> *mut c_void {
        self.target.load(Ordering::Acquire)
    }

    /// The next function of this name.
    #[inline]
    pub(crate) fn next(&self) -> *mut c_void {
        let next = self.next.load(Ordering::Acquire);
        if next.is_null() { self.find() } else { next }
    }

    /// Decides for good where calls go, and returns it.
    #[cold]
    pub(crate) fn resolve(&self) -> *mut c_void {
        let next = self.next();
        // While the environment is being read, our own allocator may come here: pass it on, and decide another time.
        let Some(on) = crate::state::decide() else { return next };
        let target = if on { self.counting } else { next };
        self.target.store(target, Ordering::Release);
        target
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name is a C string; RTLD_NEXT means the libraries after this one.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if next.is_null() {
            // glibc has all of them, so this process has no libc to speak of: there is nothing to pass a call on to.
            // SAFETY: abort may always be called.
            unsafe { libc::abort() };
        }
        self.next.store(next, Ordering::Release);
        next
    }

    /// Whether the function of this name that programs get is this library's own. Addresses can't be compared: our
    /// own reference to our own exported function would lead to the first one too. So ask which file it is in.
    pub(crate) fn is_first(&self) -> bool {
        // SAFETY: as above, with the order in which a program's own references are resolved.
        let used = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) };
        file_of(used) == file_of(self.counting)
    }
}

/// Where the file that holds a function was loaded; null if in none.
fn file_of(function: *mut c_void) -> *mut c_void {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr takes any address and fills the structure when it returns nonzero; zeroes are valid in it too.
    unsafe {
        libc::dladdr(function, info.as_mut_ptr());
        info.assume_init().dli_fbase
    }
}
