//! The driver that all tests run on, and the part of the environment that selects it.
//!
//! lavapipe is named explicitly, by its manifest, for two reasons: a machine with a GPU must give the same results as
//! one without, and the loader must not even look at other drivers, which may complain on stderr.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::artefacts;

/// Folders in which a driver's manifest may lie.
const DRIVER_FOLDERS: [&str; 3] =
    ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// lavapipe's manifest. Its name differs between distributions.
///
/// # Panics
///
/// When there is none.
pub fn lavapipe() -> PathBuf {
    let manifests =
        DRIVER_FOLDERS.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = manifests
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("lvp_icd") && name.ends_with(".json") && !name.contains("i686")
        })
        .collect();
    found.sort();
    found.into_iter().next().unwrap_or_else(|| panic!("lavapipe is not installed: run tests/setup"))
}

/// The variables that make one driver the only one, for older and newer loaders.
pub fn driver(manifest: &Path) -> Vec<(String, OsString)> {
    ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].map(|name| (name.to_string(), manifest.into())).into()
}

/// The variables of every child that uses Vulkan: lavapipe, an empty home in `scratch`, and a shader cache that all
/// tests share, which saves them the compilation of the same kernels over and over.
pub fn environment(scratch: &Path) -> Vec<(String, OsString)> {
    let cache = artefacts::stream().with_file_name("test-shader-cache");
    let mut variables = driver(&lavapipe());
    variables.push(("HOME".into(), scratch.into()));
    variables.push(("MESA_SHADER_CACHE_DIR".into(), cache.into()));
    variables
}
