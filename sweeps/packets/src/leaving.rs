//! The report of a program that ends by `_exit`.
//!
//! `_exit` may be called from a signal handler, for instance one that has caught a crash. The signal may have come
//! while its thread held a lock that writing a report needs (the dynamic loader's, or that of standard error), and a
//! program that would have ended would hang. So a clock runs meanwhile: when it rings, the process ends at once, with the status that it asked for.
//! Taking over a signal is harmless here, since the process has nothing more to do than to end.

use crate::state;
use libc::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

static STATUS: AtomicI32 = AtomicI32::new(0);
const SECONDS: u32 = 2;

/// Writes the report unless that takes too long, in which case this ends the process.
pub(crate) fn report(status: c_int) {
    if !state::is_owner() {
        return;
    }
    STATUS.store(status, Ordering::Relaxed);
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: zeroes are valid in both structures; the handler takes the one argument that a handler without
    // SA_SIGINFO gets. Everything called here may be called in a signal handler.
    unsafe {
        (*action.as_mut_ptr()).sa_sigaction = ring as *const () as usize;
        libc::sigaction(libc::SIGALRM, action.as_ptr(), std::ptr::null_mut());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::alarm(SECONDS);
    }
    let _ = std::panic::catch_unwind(state::finish);
}

extern "C" fn ring(_: c_int) {
    // SAFETY: exit_group ends the process; it has no preconditions.
    unsafe { libc::syscall(libc::SYS_exit_group, STATUS.load(Ordering::Relaxed)) };
}
