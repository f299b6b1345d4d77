//! Settings that do not come from the environment: `vk_layer_settings.txt` and `VK_EXT_layer_settings`, whose structures
//! the layer reads.
//!
//! Vulkan's layers share a settings file, which Vulkan Configurator writes, and an instance extension with which an
//! application sets its layers. Both say what the variables say, under the variable's name without its prefix and in
//! lower case: `zinc_barrier.policy = none`. As in Khronos's own layers, a variable counts before the file, and the
//! file before the application.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::manifest::LAYER_NAME;
use crate::variables::{self as var, PREFIX};

/// The file's name.
const FILE_NAME: &str = "vk_layer_settings.txt";

/// Settings by the names of their variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    values: HashMap<String, String>,
    /// A line for each name that is no setting of the layer.
    pub warnings: Vec<String>,
}

impl Elsewhere {
    /// The value for a variable that is not set itself.
    pub fn get(&self, name: &str) -> Option<OsString> {
        self.values.get(name).map(OsString::from)
    }

    /// What the settings file in force says; nothing where there is none.
    pub fn of_file() -> Elsewhere {
        let text = file().and_then(|path| std::fs::read_to_string(path).ok());
        Elsewhere::from_file(&text.unwrap_or_default())
    }

    /// What a settings file says to this layer. Lines are `layer.setting = value`; `#` begins a comment.
    pub fn from_file(text: &str) -> Elsewhere {
        let mut found = Elsewhere::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once('=') else { continue };
            if let Some(setting) = key.trim().strip_prefix(LAYER_NAME).and_then(|k| k.strip_prefix('.')) {
                found.add(setting, value.trim(), FILE_NAME);
            }
        }
        found
    }

    /// Adds a setting, given as in a settings file, unless there is one of the name. `origin` is where it was found, for the
    /// warning if the layer has no such setting.
    pub fn add(&mut self, setting: &str, value: &str, origin: &str) {
        let variable = format!("{PREFIX}{}", setting.to_ascii_uppercase());
        if !var::VARIABLES.iter().any(|known| known.name == variable) {
            let shown: String = setting.chars().filter(|c| !c.is_control()).collect();
            self.warnings.push(format!("{LAYER_NAME}.{shown} of {origin} is ignored: no such setting"));
            return;
        }
        // A truth value, as Vulkan Configurator writes it.
        let value = match value {
            "true" | "TRUE" => "1",
            "false" | "FALSE" => "0",
            other => other,
        };
        self.values.entry(variable).or_insert_with(|| value.into());
    }
}

/// The settings file in force: the one that `VK_LAYER_SETTINGS_PATH` names (a file, or a folder that holds it), else the
/// user's, which Vulkan Configurator writes, else the one in the current folder.
fn file() -> Option<PathBuf> {
    let named = std::env::var_os("VK_LAYER_SETTINGS_PATH").filter(|p| !p.is_empty()).map(PathBuf::from);
    let data = std::env::var_os("XDG_DATA_HOME").filter(|p| !p.is_empty()).map(PathBuf::from);
    let data = data.or_else(|| std::env::home_dir().map(|home| home.join(".local/share")));
    let within = |folder: &Path| folder.join(FILE_NAME);
    let named = named.map(|path| if path.is_dir() { within(&path) } else { path });
    let places = [named, data.map(|d| within(&d.join("vulkan/settings.d"))), Some(FILE_NAME.into())];
    places.into_iter().flatten().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, Shuffle};
    use zinc_hazard::Policy;

    #[test]
    fn a_settings_file_says_what_the_variables_say() {
        let text = "# Vulkan Configurator\nkhronos_validation.validate_sync = true\n\
                    zinc_barrier.policy = none   # the ceiling\nzinc_barrier.would_emit = true\n\
                    zinc_barrier.shuffle=17\nzinc_barrier.polici = none\nnonsense\n";
        let found = Elsewhere::from_file(text);
        let (settings, warnings) = Settings::from_lookup(|name| found.get(name));
        assert_eq!(
            (settings.policy, settings.shuffle, settings.would_emit),
            (Policy::None, Shuffle::Seed(17), true)
        );
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
        assert!(found.warnings[0].contains("zinc_barrier.polici"), "{:?}", found.warnings);
    }
}
