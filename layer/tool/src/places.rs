//! Where the layer is put, and how it gets there and away again.
//!
//! Three files: the library and two manifests. An installation is all of them or none: when one cannot be written,
//! what this run had written is taken back. The library is copied, because a manifest that points into a build
//! folder dies with the next `cargo clean`, and silently: the loader skips a layer whose library is gone.
//!
//! Folders that did not exist are noted in a receipt beside the library, so that uninstalling removes them again
//! and no others.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use zinc_settings::files::{self, FileError};
use zinc_settings::manifest::{self, FILE_NAME, Kind, LIBRARY_NAME};

const RECEIPT: &str = "folders-made-by-install.json";

/// The folders of one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The layer's own folder: library and receipt.
    pub library_folder: PathBuf,
    /// The folder below which the loader looks for `vulkan/implicit_layer.d` and `vulkan/explicit_layer.d`.
    pub data: PathBuf,
}

impl Places {
    /// For one user: `~/.local`, with `$XDG_DATA_HOME` for the manifests where it is set.
    ///
    /// # Errors
    ///
    /// If `HOME` is not an absolute path.
    pub fn user(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Places> {
        let folder = |name: &str| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home =
            folder("HOME").context("HOME is not set to an absolute path; name a folder with --prefix")?;
        Ok(Places {
            library_folder: home.join(".local/lib/zinc_barrier"),
            data: folder("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share")),
        })
    }

    /// For everybody: `/usr/local`.
    pub fn system() -> Places {
        Places::under(Path::new("/usr/local"))
    }

    /// Below any folder, with `share` and `lib` in it; the loader finds it if `share` is in `XDG_DATA_DIRS`.
    pub fn under(prefix: &Path) -> Places {
        Places { library_folder: prefix.join("lib/zinc_barrier"), data: prefix.join("share") }
    }

    /// Where the library goes.
    pub fn library(&self) -> PathBuf {
        self.library_folder.join(LIBRARY_NAME)
    }

    /// Where a manifest goes.
    pub fn manifest(&self, kind: Kind) -> PathBuf {
        self.data.join("vulkan").join(kind.folder()).join(FILE_NAME)
    }

    fn receipt(&self) -> PathBuf {
        self.library_folder.join(RECEIPT)
    }

    /// Copies `source` and writes both manifests; returns what was written. Doing it again replaces the files.
    ///
    /// # Errors
    ///
    /// If `source` is no shared library, or a file or folder cannot be written: then nothing new is left behind.
    pub fn install(&self, source: &Path) -> Result<Vec<PathBuf>> {
        let library = fs::read(source).map_err(FileError::of("read the library", source))?;
        if !library.starts_with(b"\x7fELF") {
            bail!("{} is not a shared library; build one with 'cargo build --release'", source.display());
        }
        let folder = std::path::absolute(&self.library_folder)?;
        let mut made = Made::default();
        let mut folders = self.folders_of_receipt();
        for target in [self.library(), self.manifest(Kind::Implicit), self.manifest(Kind::Explicit)] {
            made.folder(target.parent().expect("every place is in a folder"))?;
        }
        made.file(&self.library(), &library, 0o755)?;
        for kind in Kind::ALL {
            let text = manifest::text(kind, &folder.join(LIBRARY_NAME))?;
            made.file(&self.manifest(kind), text.as_bytes(), 0o644)?;
        }
        folders.extend(made.folders.iter().map(|path| path.display().to_string()));
        made.file(&self.receipt(), format!("{:#}\n", serde_json::json!(folders)).as_bytes(), 0o644)?;
        Ok(made.keep())
    }

    /// Removes what [`Places::install`] wrote; returns what was removed. Where nothing was installed, nothing is.
    ///
    /// # Errors
    ///
    /// If a file cannot be removed, or a manifest of that name belongs to something else.
    pub fn uninstall(&self) -> Result<Vec<PathBuf>> {
        let folders = self.folders_of_receipt();
        let mut removed = Vec::new();
        // Manifests first: a manifest without its library makes the loader complain, a library alone does not.
        for path in Kind::ALL.map(|kind| self.manifest(kind)) {
            if path.exists() && manifest::read(&path, Kind::Explicit).is_none() {
                bail!("{} is not a manifest of {}; remove it yourself", path.display(), manifest::LAYER_NAME);
            }
            remove(&path, &mut removed)?;
        }
        remove(&self.library(), &mut removed)?;
        remove(&self.receipt(), &mut removed)?;
        // Innermost first. Whatever holds somebody else's files stays.
        let mut folders: Vec<PathBuf> = folders.into_iter().map(PathBuf::from).collect();
        folders.push(self.library_folder.clone());
        folders.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        folders.dedup();
        removed.extend(folders.into_iter().filter(|path| fs::remove_dir(path).is_ok()));
        Ok(removed)
    }

    fn folders_of_receipt(&self) -> Vec<String> {
        let text = fs::read(self.receipt()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

fn remove(path: &Path, removed: &mut Vec<PathBuf>) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => removed.push(path.into()),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
        Err(why) => return Err(FileError::of("remove", path)(why).into()),
    }
    Ok(())
}

/// What this run has made so far; dropped without [`Made::keep`], it is taken back.
#[derive(Default)]
struct Made {
    written: Vec<PathBuf>,
    new_files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Made {
    fn folder(&mut self, path: &Path) -> Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|p| !p.exists()).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)
                .map_err(FileError::of("create the folder", folder))
                .with_context(advice)?;
            self.folders.push(folder.into());
            readable(folder, 0o755)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
        let new = !path.exists();
        files::write_whole(path, bytes, mode).with_context(advice)?;
        if new {
            self.new_files.push(path.into());
        }
        self.written.push(path.into());
        readable(path, mode)
    }

    fn keep(mut self) -> Vec<PathBuf> {
        self.new_files.clear();
        self.folders.clear();
        std::mem::take(&mut self.written)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What cannot be removed either has nobody to be told: the error on its way out says what went wrong.
        self.new_files.iter().for_each(|path| drop(fs::remove_file(path)));
        self.folders.iter().rev().for_each(|path| drop(fs::remove_dir(path)));
    }
}

fn advice() -> &'static str {
    "nothing was installed; choose another place with --user or --prefix, or run as a user who may write there"
}

/// A strict umask must not hide the layer from the programs that are to load it.
fn readable(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(FileError::of("set permissions of", path))?;
    Ok(())
}

/// The layer's library, for a command at `executable`: beside it (a build folder), or in the `lib` folder of the
/// place where the command itself was installed.
///
/// # Errors
///
/// Lists where it looked.
pub fn library_beside(executable: &Path) -> Result<PathBuf> {
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let target = folder.parent().unwrap_or(Path::new("/"));
    let candidates = [
        folder.join(LIBRARY_NAME),
        folder.join("deps").join(LIBRARY_NAME),
        target.join("lib/zinc_barrier").join(LIBRARY_NAME),
        target.join("release").join(LIBRARY_NAME),
        target.join("debug").join(LIBRARY_NAME),
    ];
    if let Some(found) = candidates.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    let looked = candidates.map(|path| format!("  {}", path.display())).join("\n");
    bail!(
        "the layer's library was not found. Build it with 'cargo build --release', or name it with --library. \
         Looked for:\n{looked}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_manifests_follow_xdg_data_home_and_the_library_does_not() {
        let lookup = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))
        };
        let places = Places::user(lookup(&[("HOME", "/h")])).unwrap();
        assert_eq!(
            places.manifest(Kind::Implicit),
            Path::new("/h/.local/share/vulkan/implicit_layer.d/zinc_barrier.json")
        );
        let places = Places::user(lookup(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")])).unwrap();
        assert_eq!(
            places.manifest(Kind::Explicit),
            Path::new("/d/vulkan/explicit_layer.d/zinc_barrier.json")
        );
        assert_eq!(places.library(), Path::new("/h/.local/lib/zinc_barrier/libzinc_barrier.so"));
        let relative = Places::user(lookup(&[("HOME", "/h"), ("XDG_DATA_HOME", "d")])).unwrap();
        assert_eq!(relative.data, Path::new("/h/.local/share"));
        assert!(Places::user(lookup(&[])).unwrap_err().to_string().contains("HOME"));
    }

    #[test]
    fn a_missing_library_is_reported_with_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("bin/zinc-barrier");
        let message = library_beside(&executable).unwrap_err().to_string();
        assert!(
            message.contains(&format!("{}/bin/libzinc_barrier.so", folder.path().display())),
            "{message}"
        );
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/libzinc_barrier.so"), "").unwrap();
        assert_eq!(library_beside(&executable).unwrap(), folder.path().join("bin/libzinc_barrier.so"));
    }
}
