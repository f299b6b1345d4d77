//! Drivers that the machine's Vulkan loader does not find by itself: those of `mesa-patches`, or any manifest.
//!
//! They are named to the loader by the variables that replace its own search, so an arm on them never falls back to
//! the system's driver of the same name, whose numbers would look just as plausible.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::SweepError;

/// The drivers that `mesa-patches/build` puts into a prefix.
pub const BUILT: [&str; 2] = ["radv", "lavapipe"];

/// A driver outside of the loader's folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patched {
    /// The latest one that `mesa-patches/build` made, by its label.
    Built(&'static str),
    /// Any, by its manifest.
    Manifest(PathBuf),
}

impl Patched {
    /// What `patched:NAME` or `icd:PATH` means; nothing where the text is neither.
    pub fn parse(text: &str) -> Option<Result<Patched, String>> {
        if let Some(path) = text.strip_prefix("icd:") {
            return Some(match path {
                "" => Err("give a driver's manifest after 'icd:'".into()),
                path => Ok(Patched::Manifest(path.into())),
            });
        }
        let name = text.strip_prefix("patched:")?;
        Some(BUILT.into_iter().find(|known| *known == name).map(Patched::Built).ok_or_else(|| {
            format!(
                "unknown driver '{text}'; mesa-patches/build makes {}",
                BUILT.map(|n| format!("patched:{n}")).join(", ")
            )
        }))
    }

    /// The manifest.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] naming the command that builds the driver, or the file that is not there.
    pub fn manifest(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, SweepError> {
        match self {
            Patched::Built(name) => {
                let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
                let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
                let path = cache
                    .map(|cache| cache.join(format!("zinc-barrier/mesa/current-{name}/vulkan/{name}.json")));
                path.filter(|path| path.is_file()).ok_or_else(|| {
                    SweepError::Missing(format!(
                        "driver '{self}' is not built: run `mesa-patches/build --drivers {name}`"
                    ))
                })
            }
            Patched::Manifest(path) => match path.is_file() {
                true => std::path::absolute(path).map_err(|source| SweepError::System {
                    what: format!("no path to {}", path.display()),
                    source,
                }),
                false => Err(SweepError::Missing(format!("there is no manifest '{}'", path.display()))),
            },
        }
    }
}

/// The variables that have the loader take this manifest and no other; older loaders know only the second name.
pub fn variables(manifest: &Path) -> Vec<(String, OsString)> {
    let mut all: Vec<(String, OsString)> =
        ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].map(|name| (name.into(), manifest.into())).into();
    // Mesa's layer that sorts devices would show the system's as well.
    all.push(("NODEVICE_SELECT".into(), "1".into()));
    all
}

impl fmt::Display for Patched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Patched::Built(name) => write!(f, "patched:{name}"),
            Patched::Manifest(path) => write!(f, "icd:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_built_or_named_by_its_manifest() {
        assert_eq!(Patched::parse("patched:radv"), Some(Ok(Patched::Built("radv"))));
        assert_eq!(Patched::parse("icd:/x.json"), Some(Ok(Patched::Manifest("/x.json".into()))));
        assert!(Patched::parse("patched:anv").unwrap().unwrap_err().contains("patched:radv"));
        assert!(Patched::parse("icd:").unwrap().is_err());
        assert_eq!(Patched::parse("radv"), None);
    }

    #[test]
    fn what_is_not_built_is_missing_and_says_how_to_build_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = |name: &str| (name == "HOME").then(|| folder.path().into());
        let error = Patched::Built("radv").manifest(home).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("mesa-patches/build"), "{error}");
        let vulkan = folder.path().join(".cache/zinc-barrier/mesa/current-radv/vulkan");
        std::fs::create_dir_all(&vulkan).unwrap();
        std::fs::write(vulkan.join("radv.json"), "{}").unwrap();
        assert_eq!(Patched::Built("radv").manifest(home).unwrap(), vulkan.join("radv.json"));
        assert_eq!(Patched::Manifest("/nonexistent".into()).manifest(home).unwrap_err().exit_code(), 3);
    }
}
