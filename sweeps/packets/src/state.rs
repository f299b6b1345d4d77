//! Whether to count, the one tracker, and the report at the end.

use crate::hooks;
use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use zinc_packets_core::tracker::Tracker;

/// The variable that says where the report goes.
const VARIABLE: &str = "ZINC_BARRIER_PACKETS";

static PATH: OnceLock<Option<String>> = OnceLock::new();
static TRACKER: OnceLock<Mutex<Tracker>> = OnceLock::new();
/// The process that counts. A forked child has copied the counts, and must not report them again.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// Something went wrong inside; nothing is counted any more.
static BROKEN: AtomicBool = AtomicBool::new(false);
static REPORTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Whether this process counts, read from the environment once, at the first interposed call. None when this thread is
/// in here already.
pub(crate) fn decide() -> Option<bool> {
    alone(|| {
        PATH.get_or_init(|| {
            // SAFETY: getauxval and getpid have no preconditions.
            let (secure, pid) = unsafe { (libc::getauxval(libc::AT_SECURE) != 0, libc::getpid()) };
            OWNER.store(pid, Ordering::Relaxed);
            let value = std::env::var(VARIABLE).ok();
            value.filter(|value| !value.is_empty() && value != "off" && !secure)
        })
        .is_some()
    })
}

/// Runs `work` unless this thread is inside another `alone`. `errno` is as before.
fn alone<T>(work: impl FnOnce() -> T) -> Option<T> {
    // A thread that is being torn down has no more room for its own variables.
    if BUSY.try_with(|busy| busy.replace(true)).unwrap_or(true) {
        return None;
    }
    // SAFETY: errno's address is valid for the life of the thread.
    let errno = unsafe { *libc::__errno_location() };
    let result = catch_unwind(AssertUnwindSafe(work));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    let _ = BUSY.try_with(|busy| busy.set(false));
    if result.is_err() {
        BROKEN.store(true, Ordering::Relaxed);
        complain("an internal error ended the count; no report will be written");
    }
    result.ok()
}

/// Whether this is the process that counts, and not a child that it forked.
pub(crate) fn is_owner() -> bool {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() == OWNER.load(Ordering::Relaxed) }
}

/// Runs `work` on the tracker. None, and nothing done, in a forked child, after a failure, and when this thread is
/// in here already. `errno` is as before.
pub(crate) fn with<T>(work: impl FnOnce(&mut Tracker) -> T) -> Option<T> {
    if BROKEN.load(Ordering::Relaxed) || !is_owner() {
        return None;
    }
    alone(|| {
        let tracker = TRACKER.get_or_init(Mutex::default);
        work(&mut tracker.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

/// Whether calls reach this library before anything else that interposes them.
pub(crate) fn first() -> bool {
    hooks::IOCTL.is_first()
}

/// Writes the report, once.
pub(crate) fn finish() {
    if PATH.get().is_none_or(Option::is_none) || !is_owner() || REPORTED.load(Ordering::Relaxed) {
        return;
    }
    let first = first();
    let report = with(|tracker| {
        REPORTED.store(true, Ordering::Relaxed);
        // A shell that only starts programs must not write over what they counted.
        (tracker.saw_a_device() || !first).then(|| tracker.report(first))
    });
    let Some(Some(report)) = report else { return };
    if !first {
        complain("loaded after a library that also interposes ioctl: put it first, or calls are missed");
        if report.devices.is_empty() {
            return;
        }
    }
    let path = PathBuf::from(
        PATH.get().cloned().flatten().unwrap_or_default().replace("%p", &std::process::id().to_string()),
    );
    let written = serde_json::to_vec_pretty(&report).map_err(std::io::Error::from).and_then(|mut text| {
        text.push(b'\n');
        write_whole(&path, &text)
    });
    if let Err(error) = written {
        complain(&format!(
            "can't write the report to {}: {error}; set {VARIABLE} to a path in a folder that exists",
            path.display()
        ));
    }
}

/// A report appears whole or not at all. By hand, since the usual crate asks for a random name, and the standard
/// library's way to one allocates with the program's allocator (see the head of this library).
fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| file.write_all(text));
    let written = written.and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        // The error that matters is the one that brought us here.
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "zinc_packets: {what}");
}

/// Runs when the process ends, after its own exit handlers.
extern "C" fn at_end() {
    let _ = catch_unwind(finish);
}

// SAFETY: an entry of .fini_array is a function without arguments, which the C library calls at exit.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_in_a_hook_is_passed_by_and_a_panic_ends_the_counting_only() {
        assert_eq!(decide(), Some(false), "the tests run without the variable");
        assert_eq!(with(|_| with(|_| ())), Some(None));
        assert_eq!(with(|_| 1), Some(1));
        // SAFETY: errno's address is valid for the life of the thread.
        let errno = unsafe { &mut *libc::__errno_location() };
        *errno = libc::ENOENT;
        assert_eq!(with(|_| -> () { panic!("planted") }), None);
        assert_eq!(*errno, libc::ENOENT);
        assert_eq!(with(|_| 1), None);
    }
}
