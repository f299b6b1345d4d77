//! The environment of an arm's process.
//!
//! An arm must depend on what the sweep asks and on nothing that happens to be set in the owner's shell. So every
//! variable of the layer is taken out of the inherited environment, and put back only where the arm needs it. What
//! chooses and configures *drivers* stays: it is the owner's, and the same for every arm.
//!
//! The layer is found through an explicit manifest in a folder of the sweep's own, first in `VK_LAYER_PATH`. That
//! variable replaces the loader's own list of folders, on every version of the loader (`VK_ADD_LAYER_PATH`, which would
//! extend it, is younger and is ignored beside the other), so the folders that the loader would have searched are
//! listed behind it. All but those that hold a manifest of this layer: where two have one name, loader 1.3.239 takes
//! the *last*, and the arm would run a layer that was installed earlier instead of the one that was built. (An
//! implicit manifest of the same name does no harm; the explicit one wins.)
//!
//! Explicit layers that the owner named in `VK_INSTANCE_LAYERS`, such as validation, stay in every arm, below ours:
//! nearer to the driver, where they see what the layer emits.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use zinc_settings::manifest::{self, Kind, LAYER_NAME as LAYER};
use zinc_settings::search::Search;
use zinc_settings::variables::{DISABLE, ENABLE, MUTATE, POLICY, REPORT, SHUFFLE};

use crate::plan::{RunSpec, Shuffle};

const LAYERS: &str = "VK_INSTANCE_LAYERS";
const LAYER_PATH: &str = "VK_LAYER_PATH";
const ADD_LAYER_PATH: &str = "VK_ADD_LAYER_PATH";

/// An environment without any trace of the layer: for the engine alone.
pub fn without_layer(inherited: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    inherited
        .into_iter()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            // The variable that inserts the layer is what the names of all others begin with.
            !name.starts_with(ENABLE) && name != DISABLE
        })
        .filter_map(|(name, value)| {
            if name != LAYERS {
                return Some((name, value));
            }
            let others = other_layers(&value);
            (!others.is_empty()).then(|| (name, join(&others)))
        })
        .collect()
}

/// The environment of `spec`'s process: [`without_layer`], and, unless the run is without it, the layer with its
/// settings. `manifests` is the folder with the explicit manifest, `report` where the layer is to write its report,
/// `holds_ours` whether a folder holds some manifest of this layer ([`holds_ours`]).
pub fn for_run(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    spec: &RunSpec,
    manifests: &Path,
    report: &Path,
    holds_ours: impl Fn(&Path) -> bool,
) -> Vec<(OsString, OsString)> {
    let mut env = without_layer(inherited);
    let Some(policy) = spec.policy else { return env };
    let mut layers = vec![PathBuf::from(LAYER)];
    layers.extend(get(&env, LAYERS).map(other_layers).unwrap_or_default());
    let others = match get(&env, LAYER_PATH) {
        Some(own) => split(own),
        None => {
            get(&env, ADD_LAYER_PATH).map(split).into_iter().flatten().chain(loader_folders(&env)).collect()
        }
    };
    let mut folders = vec![manifests.to_path_buf()];
    folders.extend(others.into_iter().filter(|folder| !holds_ours(folder)));
    set(&mut env, LAYERS, join(&layers));
    set(&mut env, LAYER_PATH, join(&folders));
    set(&mut env, POLICY.name, policy.name().into());
    if spec.shuffle != Shuffle::Off {
        set(&mut env, SHUFFLE.name, spec.shuffle.to_string().into());
    }
    if let Some(k) = spec.mutate {
        set(&mut env, MUTATE.name, k.to_string().into());
    }
    set(&mut env, REPORT.name, report_value(report));
    env
}

/// Whether a manifest of this layer lies in `folder`, under whatever file name.
pub fn holds_ours(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| manifest::read(&entry.path(), Kind::Explicit).is_some())
}

/// A path as the layer's report setting takes it, where a percent sign begins a placeholder.
fn report_value(report: &Path) -> OsString {
    report.to_string_lossy().replace('%', "%%").into()
}

/// Where the loader looks for explicit manifests if nothing tells it otherwise, in its order.
fn loader_folders(env: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let search = Search { lookup: |name: &str| get(env, name).map(OsStr::to_os_string) };
    search.folders(Kind::Explicit)
}

fn other_layers(value: &OsStr) -> Vec<PathBuf> {
    split(value).into_iter().filter(|name| name != Path::new(LAYER)).collect()
}

fn split(value: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(value).filter(|p| !p.as_os_str().is_empty()).collect()
}

/// Joins with colons. Parts that came from a split hold none; a folder of ours that holds one cannot be expressed in
/// such a variable at all, and the arm then ends with the layer not loaded.
fn join(parts: &[PathBuf]) -> OsString {
    let mut joined = OsString::new();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            joined.push(":");
        }
        joined.push(part);
    }
    joined
}

pub(crate) fn get<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_os_str())
}

/// Takes a variable out.
pub(crate) fn remove(env: &mut Vec<(OsString, OsString)>, name: &str) {
    env.retain(|(n, _)| n != name);
}

/// Gives a variable a value, whether it had one or not.
pub(crate) fn set(env: &mut Vec<(OsString, OsString)>, name: &str, value: OsString) {
    remove(env, name);
    env.push((name.into(), value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_hazard::Policy;

    fn owner(vars: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        vars.iter().map(|(n, v)| (n.into(), v.into())).collect()
    }

    fn run(vars: &[(&str, &str)], spec: &RunSpec) -> Vec<(OsString, OsString)> {
        for_run(owner(vars), spec, Path::new("/m"), Path::new("/r/50%.json"), |f| {
            f == Path::new("/installed")
        })
    }

    fn value(env: &[(OsString, OsString)], name: &str) -> Option<String> {
        get(env, name).map(|v| v.to_string_lossy().into_owned())
    }

    const STRAY: [(&str, &str); 6] = [
        ("ZINC_BARRIER", "1"),
        ("ZINC_BARRIER_POLICY", "none"),
        ("ZINC_BARRIER_SHUFFLE", "5"),
        ("ZINC_BARRIER_GRANULE", "4096"),
        ("DISABLE_ZINC_BARRIER", "1"),
        ("VK_INSTANCE_LAYERS", "zinc_barrier"),
    ];

    #[test]
    fn nothing_of_the_layer_is_inherited() {
        let env = without_layer(owner(&STRAY));
        assert!(env.is_empty(), "{env:?}");
        assert_eq!(run(&STRAY, &RunSpec::WITHOUT_LAYER), []);
        let drop = RunSpec::dropping(Policy::AliasOnly, 3, Shuffle::Reverse);
        let stock = RunSpec { policy: Some(Policy::Stock), shuffle: Shuffle::Off, mutate: None, ..drop };
        let env = run(&STRAY, &stock);
        assert_eq!(value(&env, "ZINC_BARRIER_POLICY").unwrap(), "stock");
        for name in ["ZINC_BARRIER", "ZINC_BARRIER_SHUFFLE", "ZINC_BARRIER_GRANULE", "DISABLE_ZINC_BARRIER"] {
            assert_eq!(value(&env, name), None, "{name}");
        }
    }

    #[test]
    fn what_the_run_asks_for_is_set() {
        let env = run(&[], &RunSpec::dropping(Policy::AliasOnly, 3, Shuffle::Seed(7)));
        let expected = [
            ("ZINC_BARRIER_POLICY", "alias-only"),
            ("ZINC_BARRIER_SHUFFLE", "7"),
            ("ZINC_BARRIER_MUTATE", "3"),
            ("ZINC_BARRIER_REPORT", "/r/50%%.json"),
            ("VK_INSTANCE_LAYERS", "zinc_barrier"),
        ];
        for (name, wanted) in expected {
            assert_eq!(value(&env, name).as_deref(), Some(wanted), "{name}");
        }
    }

    #[test]
    fn the_owners_drivers_and_other_layers_stay() {
        let vars = [
            ("VK_DRIVER_FILES", "lvp.json"),
            ("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation:zinc_barrier"),
        ];
        let spec = RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Off);
        let env = run(&vars, &spec);
        assert_eq!(value(&env, "VK_DRIVER_FILES").unwrap(), "lvp.json");
        assert_eq!(value(&env, "VK_INSTANCE_LAYERS").unwrap(), "zinc_barrier:VK_LAYER_KHRONOS_validation");
        let alone = run(&vars, &RunSpec::WITHOUT_LAYER);
        assert_eq!(value(&alone, "VK_INSTANCE_LAYERS").unwrap(), "VK_LAYER_KHRONOS_validation");
    }

    #[test]
    fn our_manifest_comes_first_and_the_loaders_own_folders_behind_it() {
        let spec = RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Off);
        let path =
            value(&run(&[("HOME", "/h"), ("XDG_DATA_DIRS", "/d1:/d2")], &spec), "VK_LAYER_PATH").unwrap();
        let folders: Vec<&str> = path.split(':').collect();
        assert_eq!(
            folders,
            [
                "/m",
                "/h/.config/vulkan/explicit_layer.d",
                "/etc/xdg/vulkan/explicit_layer.d",
                "/usr/local/etc/vulkan/explicit_layer.d",
                "/etc/vulkan/explicit_layer.d",
                "/h/.local/share/vulkan/explicit_layer.d",
                "/d1/vulkan/explicit_layer.d",
                "/d2/vulkan/explicit_layer.d",
            ]
        );
        let path = value(&run(&[("VK_LAYER_PATH", "/own")], &spec), "VK_LAYER_PATH").unwrap();
        assert_eq!(path, "/m:/own", "an owner who replaced the list has replaced it");
        let path = value(&run(&[("VK_LAYER_PATH", "/installed:/own")], &spec), "VK_LAYER_PATH").unwrap();
        assert_eq!(path, "/m:/own", "an installed layer of the same name would win");
        let path = value(&run(&[("VK_ADD_LAYER_PATH", "/more")], &spec), "VK_LAYER_PATH").unwrap();
        assert!(path.starts_with("/m:/more:/etc/xdg"), "{path}");
    }

    /// What the doctor finds, a sweep must hide: the folders are those of one list.
    #[test]
    fn a_layer_is_hidden_wherever_the_loader_would_find_it() {
        let spec = RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Off);
        let usual = [("HOME", "/h"), ("XDG_CONFIG_HOME", ""), ("XDG_DATA_DIRS", "/d1:/d2")];
        let search = Search { lookup: |name: &str| get(&owner(&usual), name).map(OsStr::to_os_string) };
        let all = search.folders(Kind::Explicit);
        assert!(all.iter().any(|folder| folder.starts_with("/usr/local/etc")), "{all:?}");
        for installed in &all {
            let env = for_run(owner(&usual), &spec, Path::new("/m"), Path::new("/r"), |f| f == installed);
            let searched: Vec<PathBuf> = split(get(&env, LAYER_PATH).unwrap());
            let others = all.iter().filter(|folder| *folder != installed).cloned();
            assert_eq!(searched, [PathBuf::from("/m")].into_iter().chain(others).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_folder_with_a_manifest_of_this_layer_is_recognised_whatever_the_files_name() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!holds_ours(folder.path()) && !holds_ours(Path::new("/nonexistent")));
        std::fs::write(folder.path().join("other.json"), r#"{"layer": {"name": "VK_LAYER_OTHER"}}"#).unwrap();
        assert!(!holds_ours(folder.path()));
        let library = folder.path().join("lib.so");
        std::fs::write(&library, "").unwrap();
        let text = manifest::text(Kind::Explicit, &library).unwrap();
        std::fs::write(folder.path().join("renamed.json"), text).unwrap();
        assert!(holds_ours(folder.path()));
    }
}
