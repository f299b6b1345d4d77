//! A folder that one program at a time writes to.
//!
//! Two sweeps in one folder would append to one record and replace each other's report, and both would end well. So
//! whoever writes holds a lock of the system on a file in the folder, which ends with the process however that ends. The
//! file is taken away at the end; one that a killed process left is nobody's, and is taken over.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::SweepError;

/// The name of the file.
pub const NAME: &str = ".sweep-lock";

/// A folder's lock, held until this value goes.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock of `folder`.
    ///
    /// # Errors
    ///
    /// [`SweepError::Usage`] when another process holds it, [`SweepError::Output`] when the file cannot be written.
    pub fn take(folder: &Path) -> Result<Lock, SweepError> {
        let path = folder.join(NAME);
        let failed = |source| SweepError::Output { path: path.clone(), source };
        loop {
            let mut file = OpenOptions::new()
                .create(true)
                .read(true)
                .write(true)
                .truncate(false)
                .open(&path)
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = file.read_to_string(&mut holder);
                    return Err(SweepError::Usage(format!(
                        "another sweep is writing to '{}' ({}): wait for its end, or give another folder with --out",
                        folder.display(),
                        holder.trim()
                    )));
                }
                // Some shared file systems have no locks: that is no reason to have no sweep there.
                Err(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK) => {
                    eprintln!(
                        "sweep: the file system of '{}' has no locks: start no second sweep with that folder",
                        folder.display()
                    );
                }
                Err(error) => return Err(failed(error.into())),
            }
            // Its last owner may have taken the file away between the two calls.
            let there = std::fs::metadata(&path).ok().map(|m| (m.dev(), m.ino()));
            let locked = file.metadata().map_err(failed)?;
            if there != Some((locked.dev(), locked.ino())) {
                continue;
            }
            let holder = format!(
                "process {} on {}\n",
                std::process::id(),
                rustix::system::uname().nodename().to_string_lossy()
            );
            file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())).map_err(failed)?;
            return Ok(Lock { path, _file: file });
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still locked, so that it is no other process's.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::take(folder.path()).unwrap();
        let error = Lock::take(folder.path()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let said = error.to_string();
        assert!(
            said.contains(&format!("process {}", std::process::id())) && said.contains("--out"),
            "{said}"
        );
        drop(first);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        Lock::take(folder.path()).unwrap();
    }

    #[test]
    fn a_file_that_a_killed_process_left_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), "process 123456789 on a machine of long ago\n").unwrap();
        let _lock = Lock::take(folder.path()).unwrap();
        let held = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert!(held.starts_with(&format!("process {} on ", std::process::id())), "{held}");
        assert_eq!(held.lines().count(), 1);
    }
}
