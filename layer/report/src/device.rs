//! Which device a report is about.
//!
//! Everything is text as people know it from `vulkaninfo`: a reader that wants to compare drivers compares words,
//! and no reader has to know how each vendor packs its version into 32 bits.

use serde::{Deserialize, Serialize};

/// The device, as `VkPhysicalDeviceProperties` and `VkPhysicalDeviceDriverProperties` name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// `deviceName`.
    pub name: String,
    /// `driverName`; empty where the driver does not say.
    pub driver: String,
    /// `driverInfo` or, where it is empty, `driverVersion` as the driver's vendor writes it.
    pub driver_version: String,
    /// The Vulkan version of the physical device, `MAJOR.MINOR.PATCH`.
    pub api_version: String,
    /// `deviceType`.
    #[serde(rename = "type")]
    pub device_type: DeviceType,
    /// How many devices this process had made before this one: `%d` in the report's path.
    #[serde(default)]
    pub number: u32,
}

/// `VkPhysicalDeviceType` in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceType {
    /// None of the others.
    Other,
    /// A GPU that shares the host's memory.
    IntegratedGpu,
    /// A GPU with memory of its own.
    DiscreteGpu,
    /// A GPU in a virtual machine.
    VirtualGpu,
    /// The host's processor.
    Cpu,
}

impl DeviceType {
    /// From the value of a `VkPhysicalDeviceType`; unknown values are `Other`.
    pub fn from_vulkan(value: i32) -> DeviceType {
        match value {
            1 => DeviceType::IntegratedGpu,
            2 => DeviceType::DiscreteGpu,
            3 => DeviceType::VirtualGpu,
            4 => DeviceType::Cpu,
            _ => DeviceType::Other,
        }
    }

    /// The word in the JSON, and for people.
    pub fn name(self) -> &'static str {
        match self {
            DeviceType::Other => "other",
            DeviceType::IntegratedGpu => "integrated-gpu",
            DeviceType::DiscreteGpu => "discrete-gpu",
            DeviceType::VirtualGpu => "virtual-gpu",
            DeviceType::Cpu => "cpu",
        }
    }
}

/// A packed Vulkan version (`VK_MAKE_API_VERSION`) as `MAJOR.MINOR.PATCH`; a variant other than Vulkan's own, 0,
/// comes first and is set off by a colon.
pub fn api_version_text(version: u32) -> String {
    let (variant, major, minor, patch) =
        (version >> 29, version >> 22 & 0x7f, version >> 12 & 0x3ff, version & 0xfff);
    match variant {
        0 => format!("{major}.{minor}.{patch}"),
        _ => format!("{variant}:{major}.{minor}.{patch}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!(api_version_text(1 << 22 | 3 << 12 | 230), "1.3.230");
        assert_eq!(api_version_text(1 << 29 | 1 << 22), "1:1.0.0");
        assert_eq!(api_version_text(u32::MAX), "7:127.1023.4095");
    }

    #[test]
    fn a_type_has_the_same_word_for_people_and_in_the_json() {
        for value in -1..7 {
            let device_type = DeviceType::from_vulkan(value);
            assert_eq!(serde_json::to_value(device_type).unwrap(), device_type.name());
        }
        assert_eq!(DeviceType::from_vulkan(4), DeviceType::Cpu);
        assert_eq!(DeviceType::from_vulkan(99), DeviceType::Other);
    }
}
