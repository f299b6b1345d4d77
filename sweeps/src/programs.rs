//! Programs and files that the sweep starts: where they are found.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::SweepError;

/// What a report calls the engine's own model.
pub const EMBEDDED: &str = "embedded";

/// The program's file.
///
/// # Errors
///
/// [`SweepError::Missing`] when it is neither `own`, which comes first, nor in `path`.
pub fn find(name: &OsStr, own: Option<PathBuf>, path: Option<&OsStr>) -> Result<PathBuf, SweepError> {
    let is_program =
        |p: &PathBuf| p.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    let missing = || SweepError::Missing(format!("there is no program '{}'{}", name.display(), remedy(name)));
    if Path::new(name).components().count() != 1 || name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(is_program).ok_or_else(missing);
    }
    let folders = std::env::split_paths(path.unwrap_or_default()).map(|folder| folder.join(name));
    own.into_iter().chain(folders).find(is_program).ok_or_else(missing)
}

/// What to do where there is no program of this name, if it is one that can be fetched.
fn remedy(name: &OsStr) -> &'static str {
    match name.as_encoded_bytes().starts_with(b"llama-") {
        true => "; `sweep setup-shims llama.cpp` fetches it from Debian's packages, with its libraries",
        false => "",
    }
}

/// The path that was given, or the file of that name beside this program.
pub fn beside(given: Option<&Path>, name: &str, what: &str, option: &str) -> Result<PathBuf, SweepError> {
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe()
            .ok()
            .and_then(|exe| Some(exe.parent()?.join(name)))
            .unwrap_or_else(|| PathBuf::from(name)),
    };
    if !path.is_file() {
        return Err(SweepError::Missing(format!(
            "{what} is not at '{}'; build it with `cargo build --release -p zinc-barrier -p zinc-engine`, or say \
             where it is with {option}",
            path.display()
        )));
    }
    // The loader and the child resolve relative paths from elsewhere.
    std::path::absolute(&path)
        .map_err(|source| SweepError::System { what: format!("cannot find {what}"), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_fetches_it() {
        let said =
            |name: &str| find(OsStr::new(name), None, Some(OsStr::new("/nowhere"))).unwrap_err().to_string();
        assert!(said("llama-bench").contains("sweep setup-shims llama.cpp"), "{}", said("llama-bench"));
        assert!(said("app").contains("'app'") && !said("app").contains("setup-shims"), "{}", said("app"));
    }
}
