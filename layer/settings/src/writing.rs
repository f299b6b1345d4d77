//! Writing from inside a host process.
//!
//! Two things that are harmless in a program of one's own would harm the host of a layer. A write to a pipe whose reader is
//! gone raises SIGPIPE, which ends a process that has not asked for it. A write to a pipe without a reader that empties it
//! waits for ever. So writes raise no signal and wait for a second at most.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long a write may wait for its reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is written at once: a pipe that is ready takes that much without waiting (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Writes all of `bytes` without a signal, and without waiting longer than a second for a reader.
///
/// # Errors
///
/// The system's; `TimedOut` where no reader empties the pipe.
pub fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let _quiet = NoSigpipe::new();
    let deadline = Instant::now() + PATIENCE;
    let mut left = bytes;
    while !left.is_empty() {
        wait_for(to, deadline)?;
        let piece = &left[..left.len().min(PIECE)];
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(to.as_raw_fd(), piece.as_ptr().cast(), piece.len()) };
        match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => left = &left[written..],
            Err(_) => match io::Error::last_os_error() {
                why if matches!(why.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                why => return Err(why),
            },
        }
    }
    Ok(())
}

/// Waits until something can be written.
fn wait_for(to: BorrowedFd<'_>, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: to.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one structure of ours.
        match unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as libc::c_int) } {
            0 => return Err(io::ErrorKind::TimedOut.into()),
            // With an error or a hang-up too: the write then says what it is.
            1.. => return Ok(()),
            _ => match io::Error::last_os_error() {
                why if why.kind() == io::ErrorKind::Interrupted => {}
                why => return Err(why),
            },
        }
    }
}

/// Takes what is written by [`write_all`].
#[derive(Debug)]
pub struct Patient<F>(pub F);

impl<F: AsFd> Write for Patient<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_all(self.0.as_fd(), bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// While it lives, a write of this thread to a pipe without a reader is an error and no signal.
struct NoSigpipe {
    before: libc::sigset_t,
    was_pending: bool,
}

/// SIGPIPE alone.
fn sigpipe() -> libc::sigset_t {
    // SAFETY: the set is filled before it is read.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPIPE);
        set
    }
}

impl NoSigpipe {
    fn new() -> NoSigpipe {
        let set = sigpipe();
        // SAFETY: sets of ours; a signal that is blocked in this thread alone waits until it is not.
        unsafe {
            let (mut pending, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigpending(&raw mut pending);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            NoSigpipe { before, was_pending: libc::sigismember(&raw const pending, libc::SIGPIPE) == 1 }
        }
    }
}

impl Drop for NoSigpipe {
    fn drop(&mut self) {
        let (set, at_once) = (sigpipe(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        // SAFETY: as above. The signal of a write is raised for the thread that writes; one that was pending before is the
        // host's.
        unsafe {
            while !self.was_pending
                && (libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const at_once) >= 0
                    || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted)
            {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_an_error_and_no_signal() {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        // Rust's own start-up ignores the signal; a host's may not.
        // SAFETY: the default action, put back below.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let why = write_all(write.as_fd(), b"without a reader").unwrap_err();
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, before) };
        assert_eq!(why.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_that_does_not_read_costs_a_second_and_not_for_ever() {
        let (read, write) = std::io::pipe().unwrap();
        let why = write_all(write.as_fd(), &vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        drop(read);
    }
}
