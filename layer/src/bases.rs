//! The folders in which the Vulkan loader looks for what is named `vulkan/...`, as its documentation of layer discovery on
//! Linux says. There is one list, since a program that repeats the loader's search and misses a folder takes another layer
//! than the loader does.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folders, the first one first, for the environment in which `lookup` finds a variable's value.
pub fn bases(lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |variable: &str| lookup(variable).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from);
    let user = |variable: &str, below: &str| match set(variable) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => home.as_ref().map(|home| home.join(below)),
    };
    let shared = |variable: &str, fallback: &str| -> Vec<PathBuf> {
        let list = set(variable).unwrap_or_else(|| fallback.into());
        std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect()
    };
    let mut bases: Vec<PathBuf> = user("XDG_CONFIG_HOME", ".config").into_iter().collect();
    bases.extend(shared("XDG_CONFIG_DIRS", "/etc/xdg"));
    bases.extend(["/usr/local/etc", "/etc"].map(PathBuf::from));
    bases.extend(user("XDG_DATA_HOME", ".local/share"));
    bases.extend(shared("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
    bases
}
