//! `/proc/self/exe` in a program that was started through a dynamic loader: the program's file, as without one.
//!
//! Each function of libc that reads links passes the call on to the next of its name, which may be the shim's, unless it
//! is asked for this process's own file.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{size_t, ssize_t};

/// The program's file, where it is to be answered.
static PROGRAM: OnceLock<CString> = OnceLock::new();

/// From now on, answers with the file that `program` names.
pub(crate) fn answer_with(program: Option<&OsStr>) {
    let file = program.and_then(|program| Path::new(program).canonicalize().ok());
    if let Some(file) = file.and_then(|file| CString::new(file.into_os_string().as_bytes()).ok()) {
        let _ = PROGRAM.set(file);
    }
}

/// The program's file, if `path` asks for it.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn asked(path: *const c_char) -> Option<&'static CStr> {
    let program = PROGRAM.get().filter(|_| !path.is_null())?;
    // SAFETY: by the caller.
    let own =
        match unsafe { CStr::from_ptr(path) }.to_bytes().strip_prefix(b"/proc/")?.strip_suffix(b"/exe")? {
            b"self" | b"thread-self" => true,
            number => std::str::from_utf8(number).is_ok_and(|n| n.parse() == Ok(std::process::id())),
        };
    own.then_some(program)
}

/// Writes a link's text as the system does: cut at the buffer's end, and without a zero byte.
///
/// # Safety
///
/// `to` has room for `size` bytes.
unsafe fn write(text: &CStr, to: *mut c_char, size: size_t) -> ssize_t {
    let length = text.to_bytes().len().min(size);
    // SAFETY: by the caller, and `text` is no part of the caller's memory.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to, length) };
    length as ssize_t
}

/// The next function of a name.
struct Next(&'static CStr, AtomicPtr<c_void>);

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next(name, AtomicPtr::new(std::ptr::null_mut()))
    }

    fn get(&self) -> *mut c_void {
        let mut next = self.1.load(Ordering::Relaxed);
        if next.is_null() {
            // SAFETY: the name is a C string; RTLD_NEXT means the libraries behind this one.
            next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.0.as_ptr()) };
            if next.is_null() {
                // SAFETY: abort may always be called. Every C library has the function, so there is none.
                unsafe { libc::abort() };
            }
            self.1.store(next, Ordering::Relaxed);
        }
        next
    }
}

/// `readlink(2)`.
///
/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t {
    static NEXT: Next = Next::new(c"readlink");
    // SAFETY: the caller's promise is libc's own, and the next function of this name has this type.
    unsafe {
        match asked(path) {
            Some(program) => write(program, to, size),
            None => {
                let next: unsafe extern "C" fn(*const c_char, *mut c_char, size_t) -> ssize_t =
                    std::mem::transmute(NEXT.get());
                next(path, to, size)
            }
        }
    }
}

/// `readlink` as programs call it that were built with checks of their buffers.
///
/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    to: *mut c_char,
    size: size_t,
    room: size_t,
) -> ssize_t {
    static NEXT: Next = Next::new(c"__readlink_chk");
    // SAFETY: as in `readlink`; what does not fit is left to libc, which ends the process.
    unsafe {
        match asked(path).filter(|_| size <= room) {
            Some(program) => write(program, to, size),
            None => {
                let next: unsafe extern "C" fn(*const c_char, *mut c_char, size_t, size_t) -> ssize_t =
                    std::mem::transmute(NEXT.get());
                next(path, to, size, room)
            }
        }
    }
}

/// `readlinkat(2)`; the folder does not count, since the paths that are answered are absolute.
///
/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(
    folder: c_int,
    path: *const c_char,
    to: *mut c_char,
    size: size_t,
) -> ssize_t {
    static NEXT: Next = Next::new(c"readlinkat");
    // SAFETY: as in `readlink`.
    unsafe {
        match asked(path) {
            Some(program) => write(program, to, size),
            None => {
                let next: unsafe extern "C" fn(c_int, *const c_char, *mut c_char, size_t) -> ssize_t =
                    std::mem::transmute(NEXT.get());
                next(folder, path, to, size)
            }
        }
    }
}

/// `realpath(3)`.
///
/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char {
    static NEXT: Next = Next::new(c"realpath");
    // SAFETY: as in `readlink`; the program's file is a path like any other.
    unsafe {
        let next: unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char =
            std::mem::transmute(NEXT.get());
        next(asked(path).map_or(path, CStr::as_ptr), to)
    }
}
