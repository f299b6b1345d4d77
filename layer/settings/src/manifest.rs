//! The two manifests through which the Vulkan loader finds the layer.
//!
//! One would seem enough, but each kind of manifest opens one door only. The loader of Debian 12 (1.3.239) inserts
//! an *implicit* layer when its enabling variable is set and ignores it when `VK_INSTANCE_LAYERS` names it; an
//! *explicit* one the other way round.
//!
//! The two have different names. Every loader warns of a layer whose name does not begin with `VK_LAYER_`, wherever it reads
//! such a manifest; and it reads those of implicit layers at the start of every Vulkan program, those of explicit ones only
//! where a program or a variable asks for one (seen with loader 1.4.363; 1.3.239 reads both always). So the implicit manifest has
//! a name that no loader warns of, and the explicit one the name that people type. Where both variables are set, the loader
//! inserts the layer twice; the one nearest to the application then takes the other out of the chain (`abi` in the layer).
//!
//! Two values in them are easy to get wrong:
//!
//! - `api_version`: the loader leaves an implicit layer out whose major and minor version are below what the
//!   application asks for (`loader_add_implicit_layer` in the Khronos loader). Commands that the layer does not know
//!   pass through it, so it names the newest version that there is ([`API_VERSION`]).
//! - `library_path`: absolute, because a bare name would be looked up in the host's library path.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::{self, FileError};
use crate::variables::{self, DISABLE, ENABLE, Variable};

/// The layer's name: what users put in `VK_INSTANCE_LAYERS`.
pub const LAYER_NAME: &str = "zinc_barrier";

/// The name of the implicit layer, which users need not type.
pub const IMPLICIT_NAME: &str = "VK_LAYER_ZINC_barrier";

/// The name of both manifest files.
pub const FILE_NAME: &str = "zinc_barrier.json";

/// The name of the layer's library.
pub const LIBRARY_NAME: &str = "libzinc_barrier.so";

/// The newest Vulkan version that an application may ask for with the layer still inserted.
pub const API_VERSION: &str = "1.4.0";

/// The function through which the loader and the layer agree on an interface.
pub const NEGOTIATE: &str = "vkNegotiateLoaderLayerInterfaceVersion";

/// Which of the two manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inserted by `ZINC_BARRIER=1`.
    Implicit,
    /// Inserted by `VK_INSTANCE_LAYERS=zinc_barrier`, or by the application.
    Explicit,
}

impl Kind {
    /// Both.
    pub const ALL: [Kind; 2] = [Kind::Implicit, Kind::Explicit];

    /// The folder, below a `vulkan` folder, in which the loader looks for this kind.
    pub fn folder(self) -> &'static str {
        match self {
            Kind::Implicit => "implicit_layer.d",
            Kind::Explicit => "explicit_layer.d",
        }
    }

    /// The layer's name in this kind of manifest.
    pub fn layer_name(self) -> &'static str {
        match self {
            Kind::Implicit => IMPLICIT_NAME,
            Kind::Explicit => LAYER_NAME,
        }
    }

    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Implicit => "implicit",
            Kind::Explicit => "explicit",
        }
    }
}

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// JSON is text, so a path that is none cannot be named in it.
    #[error("the path {} is not valid UTF-8, which a manifest needs; move the library", .0.display())]
    NotText(PathBuf),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The explicit manifest for the library at `library`, an absolute path.
///
/// # Errors
///
/// [`ManifestError::NotText`].
pub fn explicit(library: &Path) -> Result<Value, ManifestError> {
    let path = library.to_str().ok_or_else(|| ManifestError::NotText(library.into()))?;
    Ok(json!({
        "file_format_version": "1.2.0",
        "layer": {
            "name": LAYER_NAME,
            "type": "GLOBAL",
            "library_path": path,
            "api_version": API_VERSION,
            "implementation_version": "1",
            "description": "Drops pipeline barriers that no two accesses need, and counts the rest",
            "introduction": "Which barriers of a compute application are needed? Under a policy the layer drops, adds or \
                moves pipeline barriers; at the end it reports how many were asked for and how many reached the driver.",
            "platforms": ["LINUX"],
            "functions": { NEGOTIATE: NEGOTIATE },
            "instance_extensions": [{ "name": "VK_EXT_layer_settings", "spec_version": "2" }],
            "device_extensions": [{
                "name": "VK_EXT_tooling_info",
                "spec_version": "1",
                "entrypoints": ["vkGetPhysicalDeviceToolPropertiesEXT"],
            }],
            "features": { "settings": settings() },
        }
    }))
}

/// The settings as Vulkan Configurator reads them (the features of a layer manifest, file format 1.2.0): what the
/// variables are, in its words.
fn settings() -> Vec<Value> {
    let of = |variable: &Variable| {
        let key = variable.name.trim_start_matches(variables::PREFIX).to_lowercase();
        let values = (variable.values)();
        let default = (variable.default)();
        let mut setting = json!({
            "key": key,
            "env": variable.name,
            "label": key.replace('_', " "),
            "description": variable.help,
            "type": "STRING",
            "default": default,
            "platforms": ["LINUX"],
        });
        let words: Vec<&str> = values.split(", ").collect();
        if words == ["0", "1"] {
            setting["type"] = "BOOL".into();
            setting["default"] = (default == "1").into();
        } else if words.len() > 1 && words.iter().all(|w| !w.contains(' ')) {
            setting["type"] = "ENUM".into();
            let flags = words.iter().map(|w| json!({ "key": w, "label": w, "description": w }));
            setting["flags"] = flags.collect();
        }
        setting
    };
    variables::VARIABLES.iter().map(of).collect()
}

/// The implicit manifest for the library at `library`, an absolute path.
///
/// # Errors
///
/// [`ManifestError::NotText`].
pub fn implicit(library: &Path) -> Result<Value, ManifestError> {
    let mut manifest = explicit(library)?;
    manifest["layer"]["name"] = IMPLICIT_NAME.into();
    // The loader of Debian 12 (1.3.239) lists the instance extensions of an implicit layer that is enabled, and then
    // refuses an instance that is made with one of them. Applications that enable all they find would not start.
    if let Some(layer) = manifest["layer"].as_object_mut() {
        layer.remove("instance_extensions");
        layer.remove("device_extensions");
    }
    manifest["layer"]["enable_environment"] = json!({ ENABLE: "1" });
    manifest["layer"]["disable_environment"] = json!({ DISABLE: "1" });
    Ok(manifest)
}

/// The manifest of that kind as the text of a file.
///
/// # Errors
///
/// [`ManifestError::NotText`].
pub fn text(kind: Kind, library: &Path) -> Result<String, ManifestError> {
    let value = match kind {
        Kind::Implicit => implicit(library)?,
        Kind::Explicit => explicit(library)?,
    };
    Ok(format!("{value:#}\n"))
}

/// Writes an explicit manifest into `folder`, for tools that start a child with `VK_LAYER_PATH=folder` and
/// `VK_INSTANCE_LAYERS=zinc_barrier` and install nothing. Makes the folder if need be.
///
/// Returns the manifest's path.
///
/// # Errors
///
/// If `library` does not exist or its path is not text, and if the folder cannot be written.
pub fn write_explicit_dir(folder: &Path, library: &Path) -> Result<PathBuf, ManifestError> {
    let library = fs::canonicalize(library).map_err(FileError::of("find the library", library))?;
    let text = text(Kind::Explicit, &library)?;
    fs::create_dir_all(folder).map_err(FileError::of("create the folder", folder))?;
    let path = folder.join(FILE_NAME);
    files::write_whole(&path, text.as_bytes(), 0o644)?;
    Ok(path)
}

/// A manifest of this layer that was found on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The manifest.
    pub path: PathBuf,
    /// Its kind: whether it has an enabling or disabling variable, as only implicit ones do, is not asked; the
    /// folder decides, as it does for the loader.
    pub kind: Kind,
    /// The library that it names, resolved as the loader does: a relative path with a slash is relative to the
    /// manifest's folder. `None` if it names none.
    pub library: Option<PathBuf>,
    /// Its `api_version`.
    pub api_version: String,
}

/// Returns true for the layer's name in a manifest of either kind. Earlier versions had one for both.
pub fn is_ours(name: &Value) -> bool {
    Kind::ALL.iter().any(|kind| name == kind.layer_name())
}

/// Reads `path` if it is a manifest of this layer; anything else is `None`.
pub fn read(path: &Path, kind: Kind) -> Option<Found> {
    let value: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let several = value["layers"].as_array().into_iter().flatten();
    let layer = several.chain([&value["layer"]]).find(|layer| is_ours(&layer["name"]))?;
    let library = layer["library_path"].as_str().map(|text| match text {
        relative if relative.contains('/') && !relative.starts_with('/') => {
            path.parent().unwrap_or(Path::new(".")).join(relative)
        }
        other => PathBuf::from(other),
    });
    let api_version = layer["api_version"].as_str().unwrap_or("").to_string();
    Some(Found { path: path.into(), kind, library, api_version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_manifests_name_one_library_and_only_the_implicit_one_has_variables() {
        let library = Path::new("/lib/libzinc_barrier.so");
        let (explicit, implicit) = (explicit(library).unwrap(), implicit(library).unwrap());
        for manifest in [&explicit, &implicit] {
            assert_eq!(manifest["layer"]["library_path"], "/lib/libzinc_barrier.so");
            assert_eq!(manifest["layer"]["functions"][NEGOTIATE], NEGOTIATE);
        }
        assert_eq!(explicit["layer"]["name"], "zinc_barrier");
        assert_eq!(implicit["layer"]["name"], "VK_LAYER_ZINC_barrier", "or every program's loader warns");
        assert_eq!(implicit["layer"]["enable_environment"], json!({"ZINC_BARRIER": "1"}));
        assert_eq!(implicit["layer"]["disable_environment"], json!({"DISABLE_ZINC_BARRIER": "1"}));
        assert_eq!(explicit["layer"]["instance_extensions"][0]["name"], "VK_EXT_layer_settings");
        assert!(implicit["layer"].get("instance_extensions").is_none(), "or vulkaninfo does not start");
        let settings = explicit["layer"]["features"]["settings"].as_array().unwrap();
        assert_eq!(settings.len(), variables::VARIABLES.len());
        let policy = settings.iter().find(|s| s["key"] == "policy").unwrap();
        assert_eq!((&policy["type"], &policy["default"]), (&json!("ENUM"), &json!("alias-only")));
        assert!(policy["flags"].as_array().unwrap().iter().any(|f| f["key"] == "none"));
        let kind = |key: &str| settings.iter().find(|s| s["key"] == key).unwrap()["type"].clone();
        assert_eq!((kind("names"), kind("granule")), (json!("BOOL"), json!("STRING")));
        assert!(explicit["layer"].get("enable_environment").is_none());
        assert!(explicit["layer"].get("disable_environment").is_none());
    }

    #[test]
    fn a_folder_for_a_child_process_holds_one_explicit_manifest_with_an_absolute_library() {
        let home = tempfile::tempdir().unwrap();
        let library = home.path().join("some.so");
        fs::write(&library, "").unwrap();
        let path = write_explicit_dir(&home.path().join("a/b"), &library).unwrap();
        let found = read(&path, Kind::Explicit).unwrap();
        assert_eq!(found.library, Some(fs::canonicalize(&library).unwrap()));
        let missing = write_explicit_dir(home.path(), Path::new("/no/such.so")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot find the library /no/such.so"), "{missing}");
    }

    #[test]
    fn only_manifests_of_this_layer_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let read_text = |text: &str| {
            fs::write(&path, text).unwrap();
            read(&path, Kind::Explicit)
        };
        assert_eq!(read_text("not json"), None);
        assert_eq!(read_text(r#"{"layer": {"name": "VK_LAYER_other"}}"#), None);
        let relative =
            read_text(r#"{"layers": [{"name": "zinc_barrier", "library_path": "./l.so"}]}"#).unwrap();
        assert_eq!(relative.library, Some(folder.path().join("./l.so")));
        let bare = read_text(r#"{"layer": {"name": "zinc_barrier", "library_path": "l.so"}}"#).unwrap();
        assert_eq!(bare.library, Some("l.so".into()));
        assert_eq!(read(Path::new("/no/such.json"), Kind::Explicit), None);
    }
}
