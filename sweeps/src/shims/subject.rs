//! A program to start on a shim that is fetched like the drivers: llama.cpp, which most people try first.
//!
//! `sweep setup-shims llama.cpp` unpacks it with all that it needs. Its programs are then found by name, after those in
//! `PATH`, and run with the C library and the libraries of their own folder, which are newer than the drivers'.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::folders::{Cache, LLAMA};
use crate::programs;

/// The folder whose libraries the program `name` is to have: the one that was `given`, or llama.cpp's where that was
/// fetched, has a program of this name, and `path` (`PATH`) has none.
pub fn root(name: &OsStr, given: Option<&Path>, path: Option<&OsStr>, cache: &Cache) -> Option<PathBuf> {
    if let Some(given) = given {
        return Some(given.into());
    }
    let bare = !name.as_encoded_bytes().contains(&b'/');
    let folder = cache.folder(&LLAMA);
    let has = bare && folder.join("usr/bin").join(name).is_file() && cache.is_complete(&LLAMA);
    (has && programs::find(name, None, path).is_err()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_cpp_is_found_by_name_once_it_was_fetched_and_an_own_one_comes_first() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::of(|name| (name == "XDG_CACHE_HOME").then(|| top.path().into())).unwrap();
        let name = OsStr::new("llama-bench");
        let of =
            |name: &str, given: Option<&Path>, path: Option<&OsStr>| root(name.as_ref(), given, path, &cache);
        assert_eq!(of("llama-bench", None, None), None);
        let folder = cache.folder(&LLAMA);
        std::fs::create_dir_all(folder.join("usr/bin")).unwrap();
        let program = folder.join("usr/bin").join(name);
        std::fs::write(&program, "").unwrap();
        assert_eq!(of("llama-bench", None, None), None, "half of it is none");
        std::fs::write(folder.join("recipe"), cache.recipe(&LLAMA)).unwrap();
        assert_eq!(of("llama-bench", None, None), Some(folder.clone()));
        assert_eq!(of("llama-cli", None, None), None);
        assert_eq!(of("./llama-bench", None, None), None);
        assert_eq!(of("llama-bench", Some(Path::new("/r")), None), Some("/r".into()));
        let own = top.path().join("bin");
        std::fs::create_dir(&own).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::copy(&program, own.join(name)).unwrap();
        std::fs::set_permissions(own.join(name), mode).unwrap();
        assert_eq!(of("llama-bench", None, Some(own.as_os_str())), None);
    }
}
