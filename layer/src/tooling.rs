//! `VK_EXT_tooling_info`: the layer says that it is there.
//!
//! An application, or whoever reads its bug reports, can ask which tools are active on a physical device. A layer that
//! changes what reaches the driver has to be among the answers.

use crate::abi::DispatchKey;
use crate::context::catch;
use crate::entry::instance_function;
use ash::vk;
use std::ffi::{CStr, c_char};
use zinc_settings::manifest::LAYER_NAME;

/// What the layer says of itself.
fn tool() -> vk::PhysicalDeviceToolProperties<'static> {
    let mut tool = vk::PhysicalDeviceToolProperties::default();
    let put = |to: &mut [c_char; 256], text: &str| {
        to.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
    };
    put(&mut tool.name, LAYER_NAME);
    put(&mut tool.version, env!("CARGO_PKG_VERSION"));
    let text = "Drops pipeline barriers that no two accesses need, and counts the rest";
    tool.description.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
    tool.layer.iter_mut().zip(LAYER_NAME.bytes()).for_each(|(to, from)| *to = from as c_char);
    // It counts, and what reaches the driver is not what the application asked for.
    tool.purposes = vk::ToolPurposeFlags::PROFILING | vk::ToolPurposeFlags::MODIFYING_FEATURES;
    tool
}

/// `vkGetPhysicalDeviceToolProperties`.
pub unsafe extern "system" fn get_tool_properties(
    physical: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::PhysicalDeviceToolProperties<'_>,
) -> vk::Result {
    // SAFETY: the application's own arguments: `properties` is null or has room for `count` structures.
    unsafe {
        let Some(count) = count.as_mut() else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let fetch = |name: &CStr| catch(|| instance_function(DispatchKey::of(physical), name));
        let next = fetch(c"vkGetPhysicalDeviceToolProperties")
            .or_else(|| fetch(c"vkGetPhysicalDeviceToolPropertiesEXT"))
            .map(|f| {
                std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkGetPhysicalDeviceToolProperties>(
                    f,
                )
            });
        let mut others = 0;
        if properties.is_null() {
            let result = next.map_or(vk::Result::SUCCESS, |f| f(physical, &raw mut others, properties));
            *count = others + 1;
            return result;
        }
        let room = *count;
        if room == 0 {
            return vk::Result::INCOMPLETE;
        }
        // Ours first; the application's list of extending structures stays in place.
        let p_next = (*properties).p_next;
        *properties = vk::PhysicalDeviceToolProperties { p_next, ..tool() };
        let mut result = vk::Result::SUCCESS;
        if let Some(next) = next {
            others = room - 1;
            result = next(physical, &raw mut others, properties.add(1));
        }
        *count = others + 1;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_names_itself_in_whole_c_strings() {
        let tool = tool();
        let text = |chars: &[c_char]| {
            // SAFETY: the array is zero behind the text.
            unsafe { CStr::from_ptr(chars.as_ptr()) }.to_str().unwrap().to_string()
        };
        assert_eq!((text(&tool.name), text(&tool.layer)), (LAYER_NAME.into(), LAYER_NAME.into()));
        assert_eq!(text(&tool.version), env!("CARGO_PKG_VERSION"));
        assert!(text(&tool.description).contains("barriers"));
    }
}
