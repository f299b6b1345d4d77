//! Files that appear complete or not at all.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::Error;
use crate::interrupt;

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
    if let Err(error) = interrupt::removes(temporary.path()) {
        super::remark(&format!("note: an interrupt would leave a temporary file behind: {error}"));
    }
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
