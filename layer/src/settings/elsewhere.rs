//! Settings that do not come from the environment: `vk_layer_settings.txt` and `VK_EXT_layer_settings`.
//!
//! Vulkan's layers share a settings file, which Vulkan Configurator writes, and an instance extension with which an
//! application sets its layers. Both say what the variables say, under the variable's name without its prefix and in
//! lower case: `zinc_barrier.policy = none`. As in Khronos's own layers, a variable counts before the file, and the
//! file before the application.

use super::variables::{self as var, PREFIX};
use crate::abi::{chain, slice};
use crate::manifest::{self, LAYER_NAME};
use ash::vk;
use std::collections::HashMap;
use std::ffi::{CStr, OsString, c_void};
use std::path::{Path, PathBuf};

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

    /// What the file says, and then what the application says.
    ///
    /// # Safety
    ///
    /// `p_next` must be null or the valid list of an instance's create info.
    pub unsafe fn find(p_next: *const c_void) -> Elsewhere {
        let text = file().and_then(|path| std::fs::read_to_string(path).ok());
        let mut found = Elsewhere::from_file(&text.unwrap_or_default());
        // SAFETY: by the caller.
        unsafe { found.add_application(p_next) };
        found
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

    /// Adds what an application says with `VK_EXT_layer_settings`, where the file says nothing.
    unsafe fn add_application(&mut self, p_next: *const c_void) {
        // SAFETY: by the caller, for the list and all that its members point to.
        for member in unsafe { chain(p_next) } {
            let Some(info) = member.get::<vk::LayerSettingsCreateInfoEXT<'_>>() else { continue };
            // SAFETY: as above.
            for setting in unsafe { slice(info.p_settings, info.setting_count) } {
                // SAFETY: as above.
                unsafe {
                    let text = |p: *const std::ffi::c_char| {
                        (!p.is_null()).then(|| CStr::from_ptr(p).to_string_lossy().into_owned())
                    };
                    if !text(setting.p_layer_name).is_some_and(|name| manifest::is_ours(&name.into())) {
                        continue;
                    }
                    if let (Some(name), Some(value)) = (text(setting.p_setting_name), value(setting)) {
                        self.add(&name, &value, "VK_EXT_layer_settings");
                    }
                }
            }
        }
    }

    /// Adds a setting unless there is one of the name.
    fn add(&mut self, setting: &str, value: &str, origin: &str) {
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

/// The first value of a setting as text.
///
/// # Safety
///
/// The setting must be valid.
unsafe fn value(setting: &vk::LayerSettingEXT<'_>) -> Option<String> {
    use vk::LayerSettingTypeEXT as Type;
    if setting.value_count == 0 || setting.p_values.is_null() {
        return None;
    }
    let at = setting.p_values;
    // SAFETY: by the caller, there is a value of the type.
    unsafe {
        Some(match setting.ty {
            Type::BOOL32 => u32::from(at.cast::<u32>().read_unaligned() != 0).to_string(),
            Type::INT32 => at.cast::<i32>().read_unaligned().to_string(),
            Type::INT64 => at.cast::<i64>().read_unaligned().to_string(),
            Type::UINT32 => at.cast::<u32>().read_unaligned().to_string(),
            Type::UINT64 => at.cast::<u64>().read_unaligned().to_string(),
            Type::STRING => {
                let text = at.cast::<*const std::ffi::c_char>().read_unaligned();
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())?
            }
            _ => return None,
        })
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
    use crate::settings::{Policy, Settings, Shuffle};

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

    #[test]
    fn an_application_sets_what_the_file_leaves_open_and_other_layers_settings_are_not_ours() {
        let policy = [c"stock".as_ptr()];
        let (granule, names) = ([4096u32], [vk::TRUE]);
        let setting = |layer: &'static CStr, name: &'static CStr, ty, count, values: *const c_void| {
            let mut setting = vk::LayerSettingEXT::default().layer_name(layer).setting_name(name).ty(ty);
            setting.value_count = count;
            setting.p_values = values;
            setting
        };
        use vk::LayerSettingTypeEXT as Type;
        let settings = [
            setting(c"zinc_barrier", c"policy", Type::STRING, 1, policy.as_ptr().cast()),
            setting(c"zinc_barrier", c"granule", Type::UINT32, 1, granule.as_ptr().cast()),
            setting(c"zinc_barrier", c"names", Type::BOOL32, 1, names.as_ptr().cast()),
            setting(c"zinc_barrier", c"report", Type::STRING, 0, std::ptr::null()),
            setting(c"VK_LAYER_KHRONOS_validation", c"policy", Type::STRING, 1, policy.as_ptr().cast()),
        ];
        let info = vk::LayerSettingsCreateInfoEXT::default().settings(&settings);
        let mut found = Elsewhere::from_file("zinc_barrier.granule = 128");
        // SAFETY: the structures above.
        unsafe { found.add_application((&raw const info).cast()) };
        let (settings, warnings) = Settings::from_lookup(|name| found.get(name));
        assert_eq!((settings.policy, settings.granule, settings.names), (Policy::Stock, 128, true));
        assert!(warnings.is_empty() && found.warnings.is_empty());
    }
}
