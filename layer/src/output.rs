//! stderr, from inside a host process.
//!
//! File descriptor 2 need not be stderr any more when the last report is due: a program may have closed it, and what it
//! opens next gets the number. So stderr is what it was when the instance was made. How it is written to, so that the host
//! neither ends nor waits, is in `zinc_settings::writing`.

use parking_lot::Mutex;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use zinc_settings::writing::write_all;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

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
