//! The layer in a child's environment.
//!
//! The usual way here is the explicit one that docs/architecture.md describes: a manifest in a folder that
//! `VK_LAYER_PATH` names, and the layer's name in `VK_INSTANCE_LAYERS`. The tests of loading use the other ways.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use zinc_report::Report;

use crate::artefacts;

/// The layer's name.
pub const NAME: &str = "zinc_barrier";

/// The layer with its settings, and a place for its report.
#[derive(Debug)]
pub struct Layer {
    manifests: PathBuf,
    report: PathBuf,
    /// Layers below this one, in order.
    below: Vec<String>,
    settings: Vec<(String, OsString)>,
}

impl Layer {
    /// The layer with no setting but where its report goes; files go into `scratch`.
    ///
    /// # Panics
    ///
    /// When `scratch` can't be written.
    pub fn new(scratch: &Path) -> Layer {
        let manifests = scratch.join("layers");
        write_manifest(&manifests, None);
        let report = scratch.join("report.json");
        let settings = vec![("ZINC_BARRIER_REPORT".to_string(), report.clone().into_os_string())];
        Layer { manifests, report, below: Vec::new(), settings }
    }

    /// Sets a variable of the layer, given without its prefix.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<OsString>) -> Layer {
        let name = format!("ZINC_BARRIER_{name}");
        self.settings.retain(|(set, _)| *set != name);
        self.settings.push((name, value.into()));
        self
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(self, policy: &str) -> Layer {
        self.set("POLICY", policy)
    }

    /// Puts another layer below this one, between it and the driver.
    #[must_use]
    pub fn above(mut self, other: &str) -> Layer {
        self.below.push(other.into());
        self
    }

    /// The variables that insert the layer and set it.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        // The first name is nearest to the application.
        let names =
            [NAME.to_string()].into_iter().chain(self.below.iter().cloned()).collect::<Vec<_>>().join(":");
        let mut variables = self.settings.clone();
        variables.push(("VK_LAYER_PATH".into(), self.manifests.clone().into()));
        variables.push(("VK_INSTANCE_LAYERS".into(), names.into()));
        variables
    }

    /// The report that was written.
    ///
    /// # Panics
    ///
    /// When there is none, or when it is not consistent with itself.
    pub fn report(&self) -> Report {
        read_report(&self.report)
    }

    /// Whether a report was written.
    pub fn has_report(&self) -> bool {
        self.report.exists()
    }
}

/// Reads a report, which checks that its counts add up: asked + added = emitted + elided among them.
///
/// # Panics
///
/// When it can't be read.
pub fn read_report(path: &Path) -> Report {
    let text = fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("the layer wrote no report {}: {e}", path.display()));
    Report::from_json(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Writes a manifest of the built layer into a folder: an implicit one if variables are given that enable and disable
/// it, an explicit one otherwise.
///
/// # Panics
///
/// When the folder can't be written.
pub fn write_manifest(folder: &Path, implicit: Option<(&str, &str)>) {
    let mut layer = json!({
        "name": NAME,
        "type": "GLOBAL",
        "library_path": artefacts::layer(),
        "api_version": "1.3.0",
        "implementation_version": "1",
        "description": "under test",
    });
    if let Some((enable, disable)) = implicit {
        layer["enable_environment"] = json!({ enable: "1" });
        layer["disable_environment"] = json!({ disable: "1" });
    }
    let manifest = json!({ "file_format_version": "1.2.0", "layer": layer });
    fs::create_dir_all(folder).unwrap_or_else(|e| panic!("cannot create {}: {e}", folder.display()));
    let path = folder.join("zinc_barrier.json");
    fs::write(&path, manifest.to_string()).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}
