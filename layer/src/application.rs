//! What an application sets itself, with `VK_EXT_layer_settings`: structures in the list of an instance's create info.

use crate::abi::{chain, slice};
use ash::vk;
use std::ffi::{CStr, c_void};
use zinc_settings::{Elsewhere, manifest};

/// What the settings file says, and then what the application says.
///
/// # Safety
///
/// `p_next` must be null or the valid list of an instance's create info.
pub unsafe fn elsewhere(p_next: *const c_void) -> Elsewhere {
    let mut found = Elsewhere::of_file();
    // SAFETY: by the caller.
    unsafe { add(&mut found, p_next) };
    found
}

/// Adds what an application says, where `found` says nothing.
///
/// # Safety
///
/// As for [`elsewhere`].
unsafe fn add(found: &mut Elsewhere, p_next: *const c_void) {
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
                    found.add(&name, &value, "VK_EXT_layer_settings");
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_hazard::Policy;
    use zinc_settings::Settings;

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
        unsafe { add(&mut found, (&raw const info).cast()) };
        let (settings, warnings) = Settings::from_lookup(|name| found.get(name));
        assert_eq!((settings.policy, settings.granule, settings.names), (Policy::Stock, 128, true));
        assert!(warnings.is_empty() && found.warnings.is_empty());
    }
}
