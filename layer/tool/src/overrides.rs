//! Files of other programs that decide which layers the loader inserts.
//!
//! Vulkan Configurator writes one of two: its current version the loader's settings file, `vk_loader_settings.json`, which
//! lists layers and what becomes of each; earlier versions an implicit layer, `VK_LAYER_LUNARG_override`, whose manifest
//! replaces the folders of explicit layers and names layers that stay out. Which of the two a loader knows depends on its
//! version, so what is found here is a reason only where the loader was seen to leave the layer out.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zinc_settings::manifest::{self, Kind};
use zinc_settings::search::Search;

const SETTINGS: &str = "vulkan/loader_settings.d/vk_loader_settings.json";
const OVERRIDE: &str = "VK_LAYER_LUNARG_override";

/// A file that keeps the layer out, and how, as the end of a sentence with a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The file.
    pub path: PathBuf,
    /// A predicate without its subject, and the remedy.
    pub how: String,
}

/// The files that keep the layer out of some programs or all, in the order in which the loader reads them.
pub fn find<L: Fn(&str) -> Option<OsString>>(search: &Search<L>) -> Vec<Override> {
    let settings = search.bases().into_iter().map(|base| base.join(SETTINGS)).find(|path| path.is_file());
    let settings = settings.and_then(|path| {
        let how = of_settings(&json(&path)?)?;
        Some(Override { path, how })
    });
    let overrides = search.implicit().into_iter().filter_map(|path| {
        let how = of_override(&json(&path)?)?;
        Some(Override { path, how })
    });
    settings.into_iter().chain(overrides).collect()
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// For which programs a list of them says something.
fn programs(of: &Value) -> String {
    let keys: Vec<&str> = texts(&of["app_keys"]).collect();
    if keys.is_empty() { "every program".into() } else { keys.join(", ") }
}

/// How the loader's settings keep the layer out: an entry that switches it off, or a list without a place for what is not
/// listed.
fn of_settings(settings: &Value) -> Option<String> {
    let several = settings["settings_array"].as_array().into_iter().flatten();
    several.chain([&settings["settings"]]).find_map(|one| {
        let layers = one["layers"].as_array()?;
        let control = |layer: &Value| layer["control"].as_str().unwrap_or_default().to_owned();
        let own = layers.iter().find(|layer| manifest::is_ours(&layer["name"])).map(control);
        let others_may = layers.iter().any(|layer| control(layer) == "unordered_layer_location");
        let programs = programs(one);
        match own.as_deref() {
            Some("off") => Some(format!(
                "switches the layer off for {programs}; switch it on in Vulkan Configurator, or remove its entry"
            )),
            None if !others_may => Some(format!(
                "lists the layers that are inserted into {programs}, and the layer is not among them; add it in Vulkan \
                 Configurator, or let the loader decide there about layers that are not listed"
            )),
            _ => None,
        }
    })
}

/// How an overriding layer keeps the layer out: by name, or by folders without its manifest.
fn of_override(manifest: &Value) -> Option<String> {
    let layer = &manifest["layer"];
    if layer["name"] != OVERRIDE {
        return None;
    }
    let programs = programs(layer);
    if layer["blacklisted_layers"].as_array().into_iter().flatten().any(manifest::is_ours) {
        return Some(format!("keeps the layer out of {programs}; switch it on in Vulkan Configurator"));
    }
    let folders: Vec<&str> = texts(&layer["override_paths"]).collect();
    let has_ours = |folder: &&str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| manifest::read(&entry.path(), Kind::Explicit).is_some())
    };
    (!folders.is_empty() && !folders.iter().any(has_ours)).then(|| {
        format!(
            "replaces the folders of explicit layers for {programs} by {}, where the layer has no manifest; add its folder in \
             Vulkan Configurator",
            folders.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_keep_the_layer_out_by_an_entry_or_by_the_lack_of_one() {
        let settings = |layers: Value| of_settings(&json!({"settings": {"layers": layers}}));
        let other = json!({"name": "VK_LAYER_other", "control": "on"});
        let own = |control: &str| json!({"name": "zinc_barrier", "control": control});
        let rest = json!({"control": "unordered_layer_location"});
        assert!(
            settings(json!([other, own("off"), rest]))
                .unwrap()
                .contains("switches the layer off for every program")
        );
        assert!(settings(json!([other])).unwrap().contains("is not among them"));
        for well in [json!([other, rest]), json!([own("on")]), json!([own("auto"), rest])] {
            assert_eq!(settings(well.clone()), None, "{well}");
        }
        let two = json!({"settings_array": [
            {"app_keys": ["/bin/a"], "layers": [rest]},
            {"app_keys": ["/bin/b"], "layers": [own("off")]},
        ]});
        assert!(of_settings(&two).unwrap().contains("for /bin/b;"));
        assert_eq!(of_settings(&json!({"settings": {"stderr_log": "all"}})), None, "no list, no say");
    }

    #[test]
    fn an_overriding_layer_keeps_it_out_by_name_or_by_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = |more: Value| {
            let mut layer = json!({"name": OVERRIDE});
            layer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of_override(&json!({"layer": layer}))
        };
        assert!(
            manifest(json!({"blacklisted_layers": ["a", "zinc_barrier"]}))
                .unwrap()
                .contains("keeps the layer out")
        );
        let elsewhere = json!({"override_paths": [folder.path()]});
        assert!(manifest(elsewhere.clone()).unwrap().contains("has no manifest"));
        let library = folder.path().join("l.so");
        fs::write(&library, "").unwrap();
        manifest::write_explicit_dir(folder.path(), &library).unwrap();
        assert_eq!(manifest(elsewhere), None);
        assert_eq!(manifest(json!({"component_layers": ["zinc_barrier"]})), None);
        assert_eq!(
            of_override(
                &json!({"layer": {"name": "VK_LAYER_other", "blacklisted_layers": ["zinc_barrier"]}})
            ),
            None
        );
    }

    #[test]
    fn files_are_found_where_the_loader_looks() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".local/share").join(SETTINGS);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let search = Search {
            lookup: |name: &str| match name {
                "HOME" => Some(home.path().into()),
                "XDG_DATA_DIRS" | "XDG_CONFIG_DIRS" => Some("/nowhere".into()),
                _ => None,
            },
        };
        assert_eq!(find(&search), []);
        fs::write(&path, json!({"settings": {"layers": []}}).to_string()).unwrap();
        let found = find(&search);
        assert_eq!(found.iter().map(|o| &o.path).collect::<Vec<_>>(), [&path]);
        fs::write(&path, "not json").unwrap();
        assert_eq!(find(&search), [], "the loader passes over it, too");
    }
}
