//! Where the Vulkan loader looks, as its documentation of driver and layer discovery on Linux says.
//!
//! The loader itself does not tell where a layer came from or why one was left out, unless its debug log is read.
//! So the search is repeated here, in the same order, from the same variables.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::manifest::{self, Found, Kind};

/// The environment as the loader sees it.
pub struct Search<L> {
    /// Looks a variable up.
    pub lookup: L,
}

impl<L: Fn(&str) -> Option<OsString>> Search<L> {
    /// The driver manifests, in the loader's order.
    pub fn drivers(&self) -> Vec<PathBuf> {
        // The older name counts only where the newer one is unset.
        let replacing = self.paths("VK_DRIVER_FILES").or_else(|| self.paths("VK_ICD_FILENAMES"));
        self.manifests(&["VK_ADD_DRIVER_FILES"], replacing, "icd.d")
    }

    /// All manifests of implicit layers, in the loader's order.
    pub fn implicit(&self) -> Vec<PathBuf> {
        self.manifests(
            &["VK_ADD_IMPLICIT_LAYER_PATH"],
            self.paths("VK_IMPLICIT_LAYER_PATH"),
            Kind::Implicit.folder(),
        )
    }

    /// The manifests of this layer, in the loader's order.
    pub fn ours(&self) -> Vec<Found> {
        let implicit = self.implicit();
        let explicit =
            self.manifests(&["VK_ADD_LAYER_PATH"], self.paths("VK_LAYER_PATH"), Kind::Explicit.folder());
        let read =
            |files: Vec<PathBuf>, kind| files.into_iter().filter_map(move |path| manifest::read(&path, kind));
        read(implicit, Kind::Implicit).chain(read(explicit, Kind::Explicit)).collect()
    }

    /// Whether `variable` is set to something.
    pub fn is_set(&self, variable: &str) -> bool {
        self.text(variable).is_some()
    }

    /// Whether the loader's filters keep this layer out when a manifest of `kind` would bring it in, and by which
    /// variable.
    pub fn filtered(&self, kind: Kind) -> Option<&'static str> {
        let hit = |variable: &str| {
            let patterns = self.text(variable).unwrap_or_default();
            patterns.split(',').any(|pattern| match pattern.trim() {
                "~all~" => true,
                "~implicit~" => kind == Kind::Implicit,
                "~explicit~" => kind == Kind::Explicit,
                glob => matches(glob, kind.layer_name()),
            })
        };
        (hit("VK_LOADER_LAYERS_DISABLE") && !hit("VK_LOADER_LAYERS_ALLOW"))
            .then_some("VK_LOADER_LAYERS_DISABLE")
    }

    fn manifests(&self, adding: &[&str], replacing: Option<Vec<PathBuf>>, folder: &str) -> Vec<PathBuf> {
        let added = adding.iter().filter_map(|variable| self.paths(variable)).flatten();
        let rest = replacing.unwrap_or_else(|| self.below_bases(folder));
        let mut files = Vec::new();
        for place in added.chain(rest) {
            for file in json_files(&place) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        files
    }

    /// The folders in which the loader looks for manifests of `kind` unless a variable of its own replaces them, in its order.
    pub fn folders(&self, kind: Kind) -> Vec<PathBuf> {
        self.below_bases(kind.folder())
    }

    fn below_bases(&self, folder: &str) -> Vec<PathBuf> {
        self.bases().into_iter().map(|base| base.join("vulkan").join(folder)).collect()
    }

    /// The folders that hold a `vulkan` folder.
    pub fn bases(&self) -> Vec<PathBuf> {
        let home = self.value("HOME").map(PathBuf::from);
        let user = |variable: &str, below: &str| match self.value(variable) {
            Some(folder) => Some(PathBuf::from(folder)),
            None => home.as_ref().map(|home| home.join(below)),
        };
        let shared = |variable: &str, fallback: &str| -> Vec<PathBuf> {
            let list = self.paths(variable);
            list.unwrap_or_else(|| std::env::split_paths(fallback).collect())
        };
        let mut bases: Vec<PathBuf> = user("XDG_CONFIG_HOME", ".config").into_iter().collect();
        bases.extend(shared("XDG_CONFIG_DIRS", "/etc/xdg"));
        bases.extend(["/usr/local/etc", "/etc"].map(PathBuf::from));
        bases.extend(user("XDG_DATA_HOME", ".local/share"));
        bases.extend(shared("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
        bases
    }

    fn paths(&self, variable: &str) -> Option<Vec<PathBuf>> {
        let value = self.value(variable)?;
        Some(std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect())
    }

    fn value(&self, variable: &str) -> Option<OsString> {
        (self.lookup)(variable).filter(|value| !value.is_empty())
    }

    /// The value of `variable`, if it is set to something.
    pub fn text(&self, variable: &str) -> Option<String> {
        self.value(variable).map(|value| value.to_string_lossy().into_owned())
    }
}

/// The manifests at a place: itself if it is a file, else the `.json` files in it, by name.
fn json_files(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.into()];
    }
    let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    files
}

/// The loader's globs: an asterisk at either end, at both or at none. Letters match in either case.
fn matches(glob: &str, name: &str) -> bool {
    let (glob, name) = (glob.to_lowercase(), name.to_lowercase());
    match (glob.strip_prefix('*'), glob.strip_suffix('*')) {
        _ if glob == "*" || glob == "**" => true,
        (Some(rest), Some(_)) => name.contains(rest.trim_end_matches('*')),
        (Some(rest), None) => name.ends_with(rest),
        (None, Some(rest)) => name.starts_with(rest),
        (None, None) => name == glob,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn search(pairs: &[(&str, &Path)]) -> Search<impl Fn(&str) -> Option<OsString> + use<>> {
        let map: BTreeMap<String, OsString> =
            pairs.iter().map(|(k, v)| (k.to_string(), (*v).into())).collect();
        Search { lookup: move |name: &str| map.get(name).cloned() }
    }

    #[test]
    fn manifests_are_found_below_home_and_replaced_by_the_layer_path() {
        let home = tempfile::tempdir().unwrap();
        let library = home.path().join("l.so");
        fs::write(&library, "").unwrap();
        let data = home.path().join(".local/share/vulkan/explicit_layer.d");
        manifest::write_explicit_dir(&data, &library).unwrap();
        let none = Path::new("/nowhere");
        let usual = [("HOME", home.path()), ("XDG_DATA_DIRS", none), ("XDG_CONFIG_DIRS", none)];
        let found = search(&usual).ours();
        assert_eq!(found.iter().map(|f| f.kind).collect::<Vec<_>>(), [Kind::Explicit]);
        let replaced = [usual[0], usual[1], usual[2], ("VK_LAYER_PATH", none)];
        assert_eq!(search(&replaced).ours(), []);
        let added = [("VK_LAYER_PATH", none), ("VK_ADD_LAYER_PATH", data.as_path())];
        assert_eq!(search(&added).ours().len(), 1);
    }

    #[test]
    fn drivers_come_from_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a.json", "b.json"].map(|name| folder.path().join(name));
        for path in [&a, &b, &folder.path().join("c.txt")] {
            fs::write(path, "{}").unwrap();
        }
        let drivers = |pairs: &[(&str, &Path)]| search(pairs).drivers();
        assert_eq!(drivers(&[("VK_DRIVER_FILES", folder.path())]), [a.as_path(), b.as_path()]);
        assert_eq!(drivers(&[("VK_ICD_FILENAMES", &b)]), [b.as_path()]);
        assert_eq!(drivers(&[("VK_ICD_FILENAMES", &b), ("VK_DRIVER_FILES", &a)]), [a.as_path()]);
    }

    #[test]
    fn filters_match_as_the_loader_matches_them() {
        for (pattern, implicit, explicit) in [
            ("~all~", true, true),
            ("~implicit~", true, false),
            ("~explicit~", false, true),
            ("VK_LAYER_*", true, false),
            ("other,ZINC_*", false, true),
            ("*barrier", true, true),
            ("*c_b*", true, true),
            ("zinc_barrier", false, true),
            ("vk_layer_zinc_barrier", true, false),
            ("zinc", false, false),
        ] {
            let search = search(&[("VK_LOADER_LAYERS_DISABLE", Path::new(pattern))]);
            let hit = Kind::ALL.map(|kind| search.filtered(kind).is_some());
            assert_eq!(hit, [implicit, explicit], "{pattern}");
        }
        let allowed =
            [("VK_LOADER_LAYERS_DISABLE", Path::new("*")), ("VK_LOADER_LAYERS_ALLOW", Path::new("*zinc_*"))];
        assert_eq!(search(&allowed).filtered(Kind::Implicit), None);
    }
}
