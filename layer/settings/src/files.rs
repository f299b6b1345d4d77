//! Files that appear whole or not at all.
//!
//! Both the layer (its report) and the command (manifests, the library) write where others may be reading. A file
//! is therefore written beside its place under another name and then renamed, which the kernel does at once. What
//! is no regular file (a pipe, a terminal, anything below /dev or /proc) is written to directly: a rename would
//! replace it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How many names are tried for a file that is not finished.
const TRIES: usize = 1 << 16;

/// A file that could not be written, read or removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}: {why}", path.display())]
pub struct FileError {
    /// A verb: `write`, `create the folder`, ...
    pub what: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The system's reason.
    pub why: io::Error,
}

impl FileError {
    /// For `map_err`: what was being done to which path.
    pub fn of(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_path_buf();
        move |why| FileError { what, path, why }
    }
}

/// Writes `bytes` as the whole content of `path`, with permissions `mode` less the process's umask.
///
/// Symbolic links are followed, so a link stays a link.
///
/// # Errors
///
/// Names `path` and the system's reason; then whatever was at `path` before is still there.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    write_whole_io(path, bytes, mode).map_err(FileError::of("write", path))
}

/// Returns true if what is at `path` is written to directly and not replaced.
pub fn is_written_in_place(path: &Path) -> bool {
    is_special(path) || fs::metadata(path).is_ok_and(|there| !there.is_file())
}

/// Returns true for what is below a folder of devices or of the kernel's own files.
fn is_special(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

fn write_whole_io(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let special = is_special(path);
    let target = match fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(there) if special || !there.is_file() => {
            // A pipe without a reader must neither block nor end the process.
            let mut options = File::options();
            let file = options.write(true).append(special).custom_flags(libc::O_NONBLOCK).open(path)?;
            return crate::writing::write_all(file.as_fd(), bytes);
        }
        Ok(_) => fs::canonicalize(path)?,
        Err(why) if why.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
        Err(why) => return Err(why),
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file")),
    };
    let mut unfinished = Unfinished::new(folder, mode)?;
    unfinished.file.write_all(bytes)?;
    unfinished.becomes(&target)
}

/// A file under a name that no other has. Dropped before it has its final name, it is removed.
struct Unfinished {
    /// `None` once it has its final name: a file that gets the old one then is another's.
    path: Option<PathBuf>,
    file: File,
}

impl Unfinished {
    /// Makes an empty file in `folder`, with permissions `mode` less the umask.
    fn new(folder: &Path, mode: u32) -> io::Result<Unfinished> {
        let names = std::iter::repeat_with(|| {
            let random: String = std::iter::repeat_with(fastrand::alphanumeric).take(6).collect();
            format!(".zinc_barrier-{random}.tmp")
        });
        Unfinished::of_names(folder, mode, &mut names.take(TRIES))
    }

    /// The same under the first of `names` that is free.
    fn of_names(folder: &Path, mode: u32, names: &mut dyn Iterator<Item = String>) -> io::Result<Unfinished> {
        for path in names.map(|name| folder.join(name)) {
            match File::options().write(true).create_new(true).mode(mode).open(&path) {
                Ok(file) => return Ok(Unfinished { path: Some(path), file }),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Puts it at `target`, in the place of what is there.
    fn becomes(mut self, target: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, target)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What cannot be removed stays; the error on its way out says what went wrong.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_a_link_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, b"new", 0o644).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        write_whole(Path::new("/dev/null"), b"gone", 0o644).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_failure_names_the_file_that_was_asked_for_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/file");
        let message = write_whole(&path, b"x", 0o644).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("cannot write {}: No such file or directory (os error 2)", path.display())
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_does_not_get_its_name_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("folder");
        fs::create_dir_all(taken.join("not empty")).unwrap();
        let mut unfinished = Unfinished::new(folder.path(), 0o644).unwrap();
        unfinished.file.write_all(b"half").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        unfinished.becomes(&taken).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_the_same_name_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "another's").unwrap();
        let mut names = ["a", "b"].map(String::from).into_iter();
        let unfinished = Unfinished::of_names(folder.path(), 0o644, &mut names).unwrap();
        assert_eq!(unfinished.path.as_deref(), Some(&*folder.path().join("b")));
        let mut none = std::iter::once("a".to_string());
        let why = Unfinished::of_names(folder.path(), 0o644, &mut none).err().unwrap();
        assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
        drop(unfinished);
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"another's");
    }
}
