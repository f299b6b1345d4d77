//! Writing from inside a host process.
//!
//! Three things that are harmless in a program of one's own would harm the host here. A write to a pipe whose reader is gone
//! raises SIGPIPE, which ends a process that has not asked for it. A write to a pipe without a reader that empties it waits for ever. And
//! file descriptor 2 need not be stderr any more when the last report is due: a program may have closed it, and what it
//! opens next gets the number. So writes raise no signal and wait for a second at most, and stderr is what it was when the
//! instance was made.

use parking_lot::Mutex;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a write may wait for its reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is written at once: a pipe that is ready takes that much without waiting (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Which file a descriptor stands for.
fn identity(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let mut about = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure is ours and is read only where the call has filled it.
    unsafe {
        (libc::fstat(fd.as_raw_fd(), about.as_mut_ptr()) == 0).then(|| {
            let about = about.assume_init();
            (about.st_dev, about.st_ino)
        })
    }
}

/// What was stderr.
#[derive(Debug)]
struct Kept {
    /// The number of a copy. A host that closes all descriptors closes that one, too, and may have opened something in its
    /// place: it is the layer's as long as it stands for what it stood for.
    copy: RawFd,
    identity: (u64, u64),
}

impl Kept {
    /// The copy, or descriptor 2, whichever still stands for what was stderr.
    fn find(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: no number of a descriptor is -1. What it stands for is looked at before it is used.
        let copy = unsafe { BorrowedFd::borrow_raw(self.copy) };
        [copy, second()].into_iter().find(|fd| identity(*fd) == Some(self.identity))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: as in `find`.
        let copy = unsafe { BorrowedFd::borrow_raw(self.copy) };
        if identity(copy) == Some(self.identity) {
            // SAFETY: made by the layer, and not closed since: what the host opens anew is another file.
            unsafe { libc::close(self.copy) };
        }
    }
}

/// Where messages and tables go: to descriptor 2, whatever that is, unless it was kept.
#[derive(Clone, Debug, Default)]
pub struct Output(Place);

#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Now,
    /// What was descriptor 2 once; nowhere, if there was none.
    Then(Option<Arc<Kept>>),
}

/// Where something is written is no part of what was asked for.
impl PartialEq for Output {
    fn eq(&self, _: &Output) -> bool {
        true
    }
}

impl Eq for Output {}

/// Descriptor 2.
fn second() -> BorrowedFd<'static> {
    // SAFETY: 2 is not -1. It may be closed, or closed while it is used: then a call fails, or writes to whatever the host has
    // opened there, which `Output::write` looks at just before.
    unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) }
}

impl Output {
    /// What is stderr now. The copy is closed in programs that the host starts.
    pub fn keep() -> Output {
        // SAFETY: a new descriptor, or -1.
        let copy = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            return Output(Place::Then(None));
        }
        // SAFETY: just made.
        let identity = identity(unsafe { BorrowedFd::borrow_raw(copy) });
        Output(Place::Then(identity.map(|identity| Arc::new(Kept { copy, identity }))))
    }

    /// Writes `text`, not mixed with that of other threads.
    ///
    /// # Errors
    ///
    /// The system's; `NotFound` where stderr is no more.
    pub fn write(&self, text: &str) -> io::Result<()> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock();
        let to = match &self.0 {
            Place::Now => second(),
            Place::Then(None) => return Err(io::ErrorKind::NotFound.into()),
            Place::Then(Some(kept)) => kept.find().ok_or(io::ErrorKind::NotFound)?,
        };
        write_all(to, text.as_bytes())
    }
}

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
    use std::io::Read;
    use std::os::fd::{IntoRawFd, OwnedFd};

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

    #[test]
    fn a_descriptor_that_stands_for_another_file_is_not_written_to() {
        let (mut read, write) = std::io::pipe().unwrap();
        let stderr = identity(write.as_fd()).unwrap();
        let copy = OwnedFd::from(write.try_clone().unwrap()).into_raw_fd();
        Output(Place::Then(Some(Arc::new(Kept { copy, identity: stderr })))).write("mine").unwrap();
        // As if the host had closed the copy, and opened this file there.
        let other = tempfile::tempfile().unwrap();
        let stolen = Kept { identity: stderr, copy: other.as_raw_fd() };
        let why = Output(Place::Then(Some(Arc::new(stolen)))).write("not yours").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
        assert_eq!(other.metadata().unwrap().len(), 0);
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "mine");
        assert_eq!(Output(Place::Then(None)).write("x").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
