//! Which devices a sweep runs on.
//!
//! Users name drivers, the loader shows devices. A device's driver is told from the name that the driver gives itself
//! (`VkPhysicalDeviceDriverProperties`), never from its file or vendor id: RADV, AMDVLK and a proprietary driver share
//! a vendor id, and it is the driver that turns barriers into flushes. What was asked for and is not here is an
//! error that says what *is* here; a sweep never falls back to another device in silence.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use zinc_engine::results::{Device, DeviceInfo, DeviceKind, Info};

use crate::error::SweepError;
use crate::patched::{self, Patched};
use crate::require::Require;
use crate::shims::ShimDriver;

/// A driver as users name it on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverSpec {
    /// Every device that the engine can use.
    Auto,
    /// The devices of one driver, by the label that [`label`] gives.
    Driver(&'static str),
    /// The devices whose name contains this text, letter case ignored.
    Name(String),
    /// A driver that records without executing.
    Shim(ShimDriver),
    /// A driver that the loader does not find by itself.
    Patched(Patched),
}

/// Drivers that can be asked for by name.
const NAMED: [&str; 4] = ["lavapipe", "radv", "honeykrisp", "nvidia"];

impl FromStr for DriverSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(name) = NAMED.into_iter().find(|n| *n == text) {
            return Ok(Self::Driver(name));
        }
        match text.strip_prefix("name:") {
            Some("") => return Err("give a part of the device's name after 'name:'".into()),
            Some(part) => return Ok(Self::Name(part.into())),
            None => {}
        }
        if let Some(patched) = Patched::parse(text) {
            return patched.map(Self::Patched);
        }
        if ShimDriver::is_meant(text) {
            return text.parse().map(Self::Shim);
        }
        Err(format!(
            "unknown driver '{text}'; the drivers are auto, {}, name:SUBSTRING, {}, icd:MANIFEST; and, recording only, \
             {}",
            NAMED.join(", "),
            patched::BUILT.map(|name| format!("patched:{name}")).join(", "),
            ShimDriver::names()
        ))
    }
}

impl fmt::Display for DriverSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Driver(name) => f.write_str(name),
            Self::Name(part) => write!(f, "name:{part}"),
            Self::Shim(driver) => driver.fmt(f),
            Self::Patched(driver) => driver.fmt(f),
        }
    }
}

/// The short label of the driver behind a device, from the name that the driver gives itself: one of the names that
/// `--driver` takes, else the first word in lower case.
pub fn label(device: &Device) -> String {
    let own = device.driver.to_lowercase();
    for (needle, label) in
        [("llvmpipe", "lavapipe"), ("lavapipe", "lavapipe"), ("radv", "radv"), ("honeykrisp", "honeykrisp")]
    {
        if own.contains(needle) {
            return label.into();
        }
    }
    // NVK is Mesa's driver for the same cards: only the vendor's own driver is called nvidia.
    if own.starts_with("nvidia") {
        return "nvidia".into();
    }
    own.split_whitespace().next().unwrap_or("unknown").into()
}

/// A device chosen for the sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// What the engine said about it.
    pub device: Device,
    /// [`label`] of its driver.
    pub driver: String,
    /// What `engine --device` takes to mean exactly this one: its name, or its index where two share a name.
    pub selector: String,
}

/// The devices that `wanted` names, each once, in the loader's order.
///
/// # Errors
///
/// [`SweepError::Missing`] when a wanted driver has no usable device, or a chosen device is not of the `require`d
/// kind.
pub fn choose(
    info: &Info,
    wanted: &[DriverSpec],
    require: Option<Require>,
) -> Result<Vec<Chosen>, SweepError> {
    let mut picked = vec![false; info.devices.len()];
    for spec in wanted {
        let mut usable = 0;
        let mut reasons = Vec::new();
        for (i, entry) in info.devices.iter().enumerate() {
            if !matches(spec, &entry.device) || !kind_fits(spec, &entry.device, require) {
                continue;
            }
            match &entry.unusable {
                None => {
                    picked[i] = true;
                    usable += 1;
                }
                Some(why) => reasons.push(format!("{}: {why}", entry.device.name)),
            }
        }
        if usable == 0 {
            return Err(not_here(spec, info, &reasons, require));
        }
    }
    let chosen: Vec<Chosen> = info
        .devices
        .iter()
        .zip(picked)
        .filter(|(_, picked)| *picked)
        .map(|(entry, _)| Chosen {
            device: entry.device.clone(),
            driver: label(&entry.device),
            selector: selector(&entry.device, &info.devices),
        })
        .collect();
    if let Some(required) = require
        && let Some(wrong) = chosen.iter().find(|c| !satisfies(&c.device, required))
    {
        return Err(SweepError::Missing(format!(
            "--require {}: {} is of kind {}",
            required.name(),
            wrong.device.name,
            wrong.device.kind
        )));
    }
    Ok(chosen)
}

/// Whether a device that an application took by itself is what was asked for.
pub fn fits(spec: &DriverSpec, device: &Device, require: Option<Require>) -> bool {
    matches(spec, device) && require.is_none_or(|required| satisfies(device, required))
}

/// The variable by which the loader offers no driver but the named one, by the usual names of their manifests.
pub fn loader_filter(spec: &DriverSpec) -> Vec<(String, OsString)> {
    let globs = match spec {
        DriverSpec::Driver("lavapipe") => "*lvp*,*lavapipe*",
        DriverSpec::Driver("radv") => "*radeon*,*radv*",
        DriverSpec::Driver("honeykrisp") => "*asahi*,*honeykrisp*",
        DriverSpec::Driver("nvidia") => "*nvidia*",
        _ => return Vec::new(),
    };
    vec![("VK_LOADER_DRIVERS_SELECT".into(), globs.into())]
}

fn matches(spec: &DriverSpec, device: &Device) -> bool {
    match spec {
        DriverSpec::Auto => true,
        DriverSpec::Driver(name) => label(device) == *name,
        DriverSpec::Name(part) => device.name.to_lowercase().contains(&part.to_lowercase()),
        // What the loader shows by itself executes.
        DriverSpec::Shim(_) => false,
        // Where these are asked for, the loader shows them and no other.
        DriverSpec::Patched(Patched::Built(name)) => label(device) == *name,
        DriverSpec::Patched(Patched::Manifest(_)) => true,
    }
}

/// `auto` with `--require` means every device of that kind; a driver named outright must be of the kind or is refused.
fn kind_fits(spec: &DriverSpec, device: &Device, require: Option<Require>) -> bool {
    *spec != DriverSpec::Auto || require.is_none_or(|r| satisfies(device, r))
}

fn satisfies(device: &Device, require: Require) -> bool {
    match require {
        Require::Gpu => device.kind.is_gpu(),
        Require::Cpu => device.kind == DeviceKind::Cpu,
    }
}

/// The name is preferred since it is what people read in a log; the index only where the name is ambiguous.
fn selector(device: &Device, all: &[DeviceInfo]) -> String {
    let mine = device.name.to_lowercase();
    let same = all.iter().filter(|d| d.device.name.to_lowercase().contains(&mine)).count();
    if same == 1 { device.name.clone() } else { device.index.to_string() }
}

fn not_here(spec: &DriverSpec, info: &Info, reasons: &[String], require: Option<Require>) -> SweepError {
    let kind = require.map(|r| format!(" of kind {}", r.name())).unwrap_or_default();
    let mut text = match spec {
        DriverSpec::Auto => format!("no Vulkan device{kind} that the engine can use"),
        other => format!("driver '{other}' is not here"),
    };
    if !reasons.is_empty() {
        text.push_str(&format!(" in a usable form ({})", reasons.join("; ")));
    }
    if let Some(error) = &info.vulkan_error {
        text.push_str(&format!("; the engine says: {error}"));
    }
    if info.devices.is_empty() {
        text.push_str(
            "; no device at all is visible: install a Vulkan driver (Debian: mesa-vulkan-drivers brings lavapipe)",
        );
    } else {
        text.push_str("; here are:");
        for entry in &info.devices {
            text.push_str(&format!(
                "\n  {} ({}, {})",
                entry.device.name,
                label(&entry.device),
                entry.device.kind
            ));
        }
    }
    SweepError::Missing(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32, name: &str, driver: &str, kind: DeviceKind) -> DeviceInfo {
        DeviceInfo {
            device: Device {
                index,
                name: name.into(),
                driver: driver.into(),
                driver_version: "1.2.3".into(),
                api_version: "1.3.0".into(),
                kind,
            },
            unusable: None,
        }
    }

    fn machine(devices: Vec<DeviceInfo>) -> Info {
        Info {
            schema: 1,
            command: "info".into(),
            engine_version: "0".into(),
            devices,
            vulkan_error: None,
            model: None,
        }
    }

    fn two() -> Info {
        machine(vec![
            device(0, "NVIDIA H200", "NVIDIA 580.159", DeviceKind::DiscreteGpu),
            device(1, "llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe Mesa 22.3.6", DeviceKind::Cpu),
        ])
    }

    #[test]
    fn drivers_are_told_apart_by_the_name_they_give_themselves() {
        for (driver, expected) in [
            ("llvmpipe Mesa 22.3.6 (LLVM 15.0.6)", "lavapipe"),
            ("radv Mesa 25.0.7-2", "radv"),
            ("Honeykrisp Mesa 26.1.6", "honeykrisp"),
            ("NVIDIA 580.159", "nvidia"),
            ("NVK Mesa 26.1.6", "nvk"),
            ("", "unknown"),
        ] {
            assert_eq!(label(&device(0, "x", driver, DeviceKind::Other).device), expected, "{driver}");
        }
    }

    #[test]
    fn a_shim_is_no_device_of_the_machine() {
        let spec: DriverSpec = "radv-shim:navi31".parse().unwrap();
        assert!(matches!(spec, DriverSpec::Shim(_)));
        assert_eq!(spec.to_string(), "radv-shim:navi31");
        let card =
            device(0, "AMD Radeon RX 7900 XTX (RADV NAVI31)", "radv Mesa 25.0.7", DeviceKind::DiscreteGpu);
        assert_eq!(choose(&machine(vec![card]), &[spec], None).unwrap_err().exit_code(), 3);
        let error = "radv-shim:navi99".parse::<DriverSpec>().unwrap_err();
        assert!(error.contains("navi99") && error.contains("navi31"), "{error}");
    }

    #[test]
    fn auto_takes_every_usable_device_and_leaves_out_the_others() {
        let mut info = two();
        assert_eq!(choose(&info, &[DriverSpec::Auto], None).unwrap().len(), 2);
        info.devices[0].unusable = Some("no 16-bit storage".into());
        let chosen = choose(&info, &[DriverSpec::Auto], None).unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].driver, "lavapipe");
    }

    #[test]
    fn a_driver_that_is_not_here_is_named_beside_what_is_here() {
        let error = choose(&two(), &["radv".parse().unwrap()], None).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let text = error.to_string();
        assert!(
            text.contains("'radv'") && text.contains("NVIDIA H200") && text.contains("llvmpipe"),
            "{text}"
        );
    }

    #[test]
    fn a_machine_without_any_driver_is_told_what_to_install() {
        let mut info = machine(vec![]);
        info.vulkan_error = Some("libvulkan.so.1 not found".into());
        let text = choose(&info, &[DriverSpec::Auto], None).unwrap_err().to_string();
        assert!(text.contains("libvulkan.so.1") && text.contains("install"), "{text}");
    }

    #[test]
    fn an_unusable_device_that_was_asked_for_says_why() {
        let mut info = two();
        info.devices[0].unusable = Some("no 16-bit storage".into());
        let text = choose(&info, &["nvidia".parse().unwrap()], None).unwrap_err().to_string();
        assert!(text.contains("no 16-bit storage"), "{text}");
    }

    #[test]
    fn a_required_kind_narrows_auto_and_refuses_a_named_driver() {
        let chosen = choose(&two(), &[DriverSpec::Auto], Some(Require::Gpu)).unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].driver, "nvidia");
        let error = choose(&two(), &["lavapipe".parse().unwrap()], Some(Require::Gpu)).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let only_cpu = machine(vec![two().devices.remove(1)]);
        assert_eq!(choose(&only_cpu, &[DriverSpec::Auto], Some(Require::Gpu)).unwrap_err().exit_code(), 3);
    }

    #[test]
    fn two_cards_of_one_name_are_selected_by_index() {
        let card = |i| device(i, "NVIDIA H200", "NVIDIA 580.159", DeviceKind::DiscreteGpu);
        let chosen = choose(&machine(vec![card(0), card(1)]), &[DriverSpec::Auto], None).unwrap();
        assert_eq!(chosen.iter().map(|c| c.selector.as_str()).collect::<Vec<_>>(), ["0", "1"]);
        assert_eq!(choose(&two(), &[DriverSpec::Auto], None).unwrap()[0].selector, "NVIDIA H200");
    }

    #[test]
    fn a_part_of_a_name_finds_a_device_whatever_the_letter_case() {
        let chosen =
            choose(&two(), &["name:h200".parse().unwrap(), "nvidia".parse().unwrap()], None).unwrap();
        assert_eq!(chosen.len(), 1, "named twice, chosen once");
    }
}
