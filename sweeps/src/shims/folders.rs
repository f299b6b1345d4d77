//! Which packages the shims come from, and where they lie.
//!
//! Two folders, because no single version of Mesa's shims knows all chips: `trixie-backports` has Honeykrisp and the
//! newest AMD chips, `bookworm-backports` an older Mesa that many people still run. A folder is complete when it holds
//! the *recipe* that it was made by. The recipe names the packages, the layout and the place itself, since the drivers'
//! manifests hold absolute paths: a folder that was moved, or made by another version of this program, counts as not
//! there and is made anew.
//!
//! The older Mesa is given Debian 13's C library too. A C library runs programs that were built for an older one, never
//! the reverse, and the programs to be started here were built on the user's own, perhaps newer, distribution.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::SweepError;

/// Counts up when the folders begin to be laid out differently.
const LAYOUT: u32 = 1;

/// Packages to unpack into one folder.
#[derive(Debug, PartialEq, Eq)]
pub struct FolderSpec {
    /// Its name, which is that of the suite that the driver comes from.
    pub name: &'static str,
    /// The suites that packages may come from.
    pub suites: &'static [&'static str],
    /// What is wanted, as apt takes it; what these depend on comes along.
    pub packages: &'static [&'static str],
}

/// Honeykrisp, and RADV with the newest chips.
pub const TRIXIE: FolderSpec = FolderSpec {
    name: "trixie-backports",
    suites: &["trixie", "trixie-backports"],
    packages: &[
        "mesa-vulkan-drivers/trixie-backports",
        "mesa-drm-shim/trixie-backports",
        "libvulkan1/trixie",
        "vulkan-tools/trixie",
        "libc6/trixie",
    ],
};

/// An older RADV, and some older chips.
pub const BOOKWORM: FolderSpec = FolderSpec {
    name: "bookworm-backports",
    suites: &["bookworm", "bookworm-backports", "trixie"],
    packages: &[
        "mesa-vulkan-drivers/bookworm-backports",
        "mesa-drm-shim/bookworm-backports",
        "libvulkan1/trixie",
        "vulkan-tools/trixie",
        "libc6/trixie",
    ],
};

/// llama.cpp with its Vulkan backend, down to its C library: no driver, but a program to start on one. It moves fast, so
/// it is that of Debian's newest suite.
pub const LLAMA: FolderSpec = FolderSpec {
    name: "llama.cpp",
    suites: &["sid"],
    packages: &["llama.cpp-tools", "libggml0-backend-vulkan", "libvulkan1", "libc6"],
};

/// RADV and its shim as `mesa-patches/build` made them, in a prefix of their own and for this system's C library. Nothing
/// is fetched for it.
pub const PATCHED: FolderSpec = FolderSpec { name: "patched", suites: &[], packages: &[] };

/// All folders with drivers that are fetched, in the order in which they are set up.
pub const ALL: [&FolderSpec; 2] = [&TRIXIE, &BOOKWORM];

/// The packages whose versions a reader wants to know.
const TOLD: [&str; 6] = [
    "libc6",
    "libggml0-backend-vulkan",
    "libvulkan1",
    "llama.cpp-tools",
    "mesa-drm-shim",
    "mesa-vulkan-drivers",
];

/// The place in the user's cache that holds the folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache(PathBuf);

impl Cache {
    /// The place for this environment: `$XDG_CACHE_HOME` or else `$HOME/.cache`, then `zinc-barrier/shims`.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] when neither variable holds an absolute path, or when the path holds a character that
    /// the dynamic loader and the Vulkan loader take to separate paths.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Cache, SweepError> {
        let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base =
            folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache"))).ok_or_else(|| {
                SweepError::Missing(
                    "no place for the shims: set HOME or XDG_CACHE_HOME to an absolute path".into(),
                )
            })?;
        let path = base.join("zinc-barrier/shims");
        let unfit = |c: char| c.is_control() || c.is_whitespace() || ":;,\"'\\#&$%*?[]{}".contains(c);
        match path.to_str().map(|text| text.find(unfit)) {
            Some(None) => Ok(Cache(path)),
            _ => Err(SweepError::Missing(format!(
                "the shims cannot lie in '{}', since loaders take spaces and punctuation in paths to separate them; \
                 set XDG_CACHE_HOME to another folder",
                path.display()
            ))),
        }
    }

    /// The place for this process's own environment.
    ///
    /// # Errors
    ///
    /// As [`Cache::of`].
    pub fn here() -> Result<Cache, SweepError> {
        Cache::of(|name| std::env::var_os(name))
    }

    /// The place.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where `spec`'s folder is, or is to be.
    pub fn folder(&self, spec: &FolderSpec) -> PathBuf {
        if *spec == PATCHED {
            // Where mesa-patches/build links what it built last.
            return self.0.with_file_name("mesa").join("current-radv");
        }
        self.0.join(spec.name)
    }

    /// What stands in the folder's file `recipe` once it is complete.
    pub fn recipe(&self, spec: &FolderSpec) -> String {
        let (suites, packages) = (spec.suites.join(" "), spec.packages.join(" "));
        format!("layout {LAYOUT} at {}: {packages} from {suites}", self.folder(spec).display())
    }

    /// Whether the folder is there and complete.
    pub fn is_complete(&self, spec: &FolderSpec) -> bool {
        let recipe = std::fs::read_to_string(self.folder(spec).join("recipe"));
        // The recipe of a build is its own: it is written last, so that it is there is enough.
        recipe.is_ok_and(|found| *spec == PATCHED || found == self.recipe(spec))
    }

    /// Package, version and SHA-256 of the packages that decide what a driver emits, as recorded when the folder was
    /// made; empty when there is no record.
    pub fn versions(&self, spec: &FolderSpec) -> Vec<[String; 3]> {
        let record = std::fs::read_to_string(self.folder(spec).join("versions.txt")).unwrap_or_default();
        record
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                let (package, version, _architecture, sha256) =
                    (words.next()?, words.next()?, words.next()?, words.next()?);
                TOLD.contains(&package).then(|| [package, version, sha256].map(String::from))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(vars: &[(&str, &str)]) -> Result<Cache, SweepError> {
        Cache::of(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
    }

    #[test]
    fn the_place_follows_the_rules_for_caches() {
        let place = |vars: &[(&str, &str)]| cache(vars).unwrap().path().to_str().unwrap().to_string();
        assert_eq!(place(&[("HOME", "/h")]), "/h/.cache/zinc-barrier/shims");
        assert_eq!(place(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), "/c/zinc-barrier/shims");
        assert_eq!(place(&[("HOME", "/h"), ("XDG_CACHE_HOME", "relative")]), "/h/.cache/zinc-barrier/shims");
    }

    #[test]
    fn a_place_that_loaders_cannot_take_is_refused_with_the_remedy() {
        for home in ["", "relative"] {
            let error = cache(&[("HOME", home)]).unwrap_err();
            assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
        }
        for path in ["/with space", "/a:b", "/a;b", "/a\"b", "/a\nb", "/$ORIGIN"] {
            let error = cache(&[("XDG_CACHE_HOME", path)]).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
        }
        assert!(cache(&[("XDG_CACHE_HOME", "/home/émile/.cache-2_x+y")]).is_ok());
    }

    #[test]
    fn only_a_folder_made_by_this_recipe_in_this_place_is_complete() {
        let top = tempfile::tempdir().unwrap();
        let here = cache(&[("XDG_CACHE_HOME", top.path().to_str().unwrap())]).unwrap();
        assert!(!here.is_complete(&TRIXIE));
        let folder = here.folder(&TRIXIE);
        std::fs::create_dir_all(&folder).unwrap();
        assert!(!here.is_complete(&TRIXIE), "a folder alone proves nothing");
        std::fs::write(folder.join("recipe"), here.recipe(&TRIXIE)).unwrap();
        assert!(here.is_complete(&TRIXIE) && !here.is_complete(&BOOKWORM));
        let other = cache(&[("XDG_CACHE_HOME", "/elsewhere")]).unwrap();
        std::fs::write(folder.join("recipe"), other.recipe(&TRIXIE)).unwrap();
        assert!(!here.is_complete(&TRIXIE), "the manifests would name libraries elsewhere");
    }

    #[test]
    fn the_patched_driver_lies_where_its_build_puts_it() {
        let top = tempfile::tempdir().unwrap();
        let here = cache(&[("XDG_CACHE_HOME", top.path().to_str().unwrap())]).unwrap();
        let folder = here.folder(&PATCHED);
        assert_eq!(folder, top.path().join("zinc-barrier/mesa/current-radv"));
        assert!(!here.is_complete(&PATCHED));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("recipe"), "mesa 25.0.7\n").unwrap();
        assert!(here.is_complete(&PATCHED));
    }

    #[test]
    fn the_record_tells_of_the_packages_that_count() {
        let top = tempfile::tempdir().unwrap();
        let here = cache(&[("XDG_CACHE_HOME", top.path().to_str().unwrap())]).unwrap();
        assert!(here.versions(&TRIXIE).is_empty());
        std::fs::create_dir_all(here.folder(&TRIXIE)).unwrap();
        let record = "libz 1 amd64 00\nmesa-vulkan-drivers 26.1 amd64 abc\nmesa-drm-shim broken\n";
        std::fs::write(here.folder(&TRIXIE).join("versions.txt"), record).unwrap();
        assert_eq!(here.versions(&TRIXIE), [["mesa-vulkan-drivers", "26.1", "abc"].map(String::from)]);
    }
}
