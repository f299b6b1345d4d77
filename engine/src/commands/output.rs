//! Files that appear complete or not at all.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// Temporary files begun so far, for the one handler that a process has.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Writes a file through a temporary one beside it, which is renamed when it is complete and on disk, and goes away
/// with any error or interrupt. `bytes` is about how much will be written: too little room is said before the first.
pub(super) fn write_whole(
    path: &Path,
    bytes: u64,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Error> {
    let fail = |source| Error::Write { path: path.display().to_string(), source };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut temporary =
        tempfile::Builder::new().prefix(".export-").suffix(".tmp").tempfile_in(folder).map_err(fail)?;
    if let Some(room) = room(folder).filter(|room| *room < bytes) {
        let text = format!("it needs {bytes} bytes, and the disk has {room} left");
        return Err(fail(std::io::Error::new(std::io::ErrorKind::StorageFull, text)));
    }
    remove_if_interrupted(temporary.path());
    let mut out = BufWriter::with_capacity(1 << 20, temporary.as_file_mut());
    write(&mut out).map_err(fail)?;
    out.flush().map_err(fail)?;
    drop(out);
    temporary.as_file().sync_all().map_err(fail)?;
    let kept = temporary.persist(path).map_err(|e| fail(e.error))?;
    // Temporary files are private to their maker; what was asked for is as any new file, but for the umask, which cannot
    // be read without changing it.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    kept.set_permissions(mode).map_err(fail)
}

/// Bytes that an ordinary user may still write in the folder's file system.
fn room(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

/// Makes an interrupt (or a request to terminate) take the unfinished file along. The exit status is the shell's for an
/// interrupt.
fn remove_if_interrupted(path: &Path) {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let first = unfinished.is_empty();
    unfinished.push(path.to_owned());
    if !first {
        return;
    }
    let handler = || {
        for path in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // After the rename there is no such file any more, and nothing is lost.
            let _ = std::fs::remove_file(path);
        }
        std::process::exit(130);
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        super::remark(&format!("note: an interrupt would leave a temporary file behind: {error}"));
    }
}
