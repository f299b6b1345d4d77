//! The loader, an instance, and what its devices say about themselves.

use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;
use std::time::Duration;

use ash::ext::debug_utils;
use ash::vk;

use super::Error;
use super::cooperative;
use super::error::During;
use super::requirements::Caps;
use crate::plan::Features;
use crate::results::{Device, DeviceKind};

/// A Vulkan instance.
pub struct Instance {
    pub(super) raw: ash::Instance,
    // Keeps the loader's library loaded for as long as the instance lives.
    pub(super) entry: ash::Entry,
    /// Objects can be given names, which layers and tools show.
    pub(super) names: bool,
    /// The longest wait for one submission, where one was set.
    patience: Cell<Option<Duration>>,
}

/// The longest wait for one submission to a GPU: no token takes a minute on any, and a hung GPU never answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// Logical processors with which a CPU device is about as fast as [`PATIENCE`] takes for granted.
const USUAL_CORES: u32 = 8;

/// The longest wait on a CPU device with so many logical processors: longer where there are fewer, and four times as long in any
/// case, since it shares them with whatever else runs.
fn patience_on(cores: u32) -> Duration {
    PATIENCE * 4 * USUAL_CORES.div_ceil(cores.max(1)).max(1)
}

/// A device before anything is created on it.
#[derive(Debug, Clone)]
pub struct Physical {
    pub(super) handle: vk::PhysicalDevice,
    /// Its identity, for results.
    pub device: Device,
    /// What it can do.
    pub caps: Caps,
}

impl Instance {
    /// Whether a device, which was enumerated from this instance, has an extension.
    pub(super) fn has_extension(&self, device: vk::PhysicalDevice, name: &CStr) -> bool {
        // SAFETY: the handle was enumerated from this instance.
        let extensions = unsafe { self.raw.enumerate_device_extension_properties(device) };
        extensions.is_ok_and(|all| all.iter().any(|e| e.extension_name_as_c_str() == Ok(name)))
    }

    /// Loads the loader and creates an instance. Layers come from the loader's environment, as for any application.
    pub fn new() -> Result<Rc<Self>, Error> {
        // SAFETY: loading the Vulkan loader runs its initialisers, which is what every Vulkan program does.
        let entry = unsafe { ash::Entry::load() }.map_err(|e| Error::NoLoader(e.to_string()))?;
        let application = vk::ApplicationInfo::default()
            .application_name(c"zinc-barrier engine")
            .engine_name(c"zinc-barrier engine")
            .api_version(vk::API_VERSION_1_3);
        // SAFETY: the loader is loaded; no layer is asked for by name.
        let known = unsafe { entry.enumerate_instance_extension_properties(None) }.unwrap_or_default();
        let names = known.iter().any(|e| e.extension_name_as_c_str() == Ok(debug_utils::NAME));
        let extensions = [debug_utils::NAME.as_ptr()];
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if names {
            info = info.enabled_extension_names(&extensions);
        }
        // SAFETY: `info` and what it points to live until the call returns.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER | vk::Result::ERROR_INITIALIZATION_FAILED => {
                Error::NoDriver
            }
            result => Error::from_result("vkCreateInstance", result),
        })?;
        Ok(Rc::new(Self { raw, entry, names, patience: Cell::new(None) }))
    }

    /// Sets the longest wait for one submission, on every device.
    pub fn set_patience(&self, longest: Duration) {
        self.patience.set(Some(longest));
    }

    /// The longest wait for one submission to a device of this kind.
    pub(super) fn patience(&self, kind: DeviceKind) -> Duration {
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        self.patience.get().unwrap_or_else(|| match kind {
            DeviceKind::Cpu => patience_on(cores()),
            _ => PATIENCE,
        })
    }

    /// All devices, in the loader's order. Empty when drivers are there but show no device.
    pub fn devices(&self) -> Result<Vec<Physical>, Error> {
        // SAFETY: the instance is alive.
        let handles =
            unsafe { self.raw.enumerate_physical_devices() }.during("vkEnumeratePhysicalDevices")?;
        Ok(handles
            .into_iter()
            .enumerate()
            .map(|(index, handle)| self.describe(index as u32, handle))
            .collect())
    }

    fn describe(&self, index: u32, handle: vk::PhysicalDevice) -> Physical {
        // SAFETY: `handle` was enumerated from this instance.
        let plain = unsafe { self.raw.get_physical_device_properties(handle) };
        let api = plain.api_version;
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut maintenance = vk::PhysicalDeviceMaintenance3Properties::default();
        if api >= vk::API_VERSION_1_2 {
            let mut properties =
                vk::PhysicalDeviceProperties2::default().push_next(&mut driver).push_next(&mut maintenance);
            // SAFETY: both structures belong to Vulkan 1.2, which the device has.
            unsafe { self.raw.get_physical_device_properties2(handle, &mut properties) };
        }
        let features = self.features(handle, api);
        let text = |chars: &[std::ffi::c_char]| {
            let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|b| *b != 0).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let name = text(&plain.device_name);
        let driver_text = format!("{} {}", text(&driver.driver_name), text(&driver.driver_info));
        let kind = match plain.device_type {
            vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::IntegratedGpu,
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::DiscreteGpu,
            vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::VirtualGpu,
            _ => DeviceKind::Other,
        };
        // SAFETY: as above.
        let families = unsafe { self.raw.get_physical_device_queue_family_properties(handle) };
        let computes = |f: &vk::QueueFamilyProperties| f.queue_flags.contains(vk::QueueFlags::COMPUTE);
        let limits = &plain.limits;
        let caps = Caps {
            name: name.clone(),
            kind,
            api_version: (vk::api_version_major(api), vk::api_version_minor(api)),
            compute_family: families.iter().position(computes).map(|family| family as u32),
            workgroup_invocations: limits.max_compute_work_group_invocations,
            workgroup_size_x: limits.max_compute_work_group_size[0],
            shared_memory: limits.max_compute_shared_memory_size,
            grid: [limits.max_compute_work_group_count[0], limits.max_compute_work_group_count[1]],
            storage_buffers: limits.max_per_stage_descriptor_storage_buffers,
            push_constants: limits.max_push_constants_size,
            storage_range: limits.max_storage_buffer_range.into(),
            allocation: maintenance.max_memory_allocation_size,
            alignment: limits.min_storage_buffer_offset_alignment,
            features,
            nvidia: driver.driver_id == vk::DriverId::NVIDIA_PROPRIETARY,
            cooperative: cooperative::find(self, handle, api, features.memory_model),
            timestamp_bits: families.iter().find(|f| computes(f)).map_or(0, |f| f.timestamp_valid_bits),
            timestamp_period: limits.timestamp_period,
        };
        let device = Device {
            index,
            name,
            driver: driver_text.trim().to_owned(),
            driver_version: driver_version(driver.driver_id, plain.driver_version),
            api_version: version(api),
            kind,
        };
        Physical { handle, device, caps }
    }
}

impl Instance {
    /// Optional features that kernels use, as far as the device's version has them in its core.
    fn features(&self, handle: vk::PhysicalDevice, api: u32) -> Features {
        let mut model = vk::PhysicalDeviceVulkanMemoryModelFeatures::default();
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
        let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
        let mut cpu = false;
        if api >= vk::API_VERSION_1_2 {
            let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut model);
            if api >= vk::API_VERSION_1_3 {
                features = features.push_next(&mut dot);
            }
            // SAFETY: each structure belongs to a version of Vulkan that the device has.
            unsafe { self.raw.get_physical_device_features2(handle, &mut features) };
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut subgroup);
            // SAFETY: the structure belongs to Vulkan 1.1.
            unsafe { self.raw.get_physical_device_properties2(handle, &mut properties) };
            cpu = properties.properties.device_type == vk::PhysicalDeviceType::CPU;
        }
        Features {
            in_step: cpu.then_some(subgroup.subgroup_size),
            dot: dot.shader_integer_dot_product == vk::TRUE,
            memory_model: model.vulkan_memory_model == vk::TRUE
                && model.vulkan_memory_model_device_scope == vk::TRUE
                && model.vulkan_memory_model_availability_visibility_chains == vk::TRUE,
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: every device holds its instance, so none is left; the entry is dropped after this.
        unsafe { self.raw.destroy_instance(None) };
    }
}

fn version(v: u32) -> String {
    format!("{}.{}.{}", vk::api_version_major(v), vk::api_version_minor(v), vk::api_version_patch(v))
}

/// NVIDIA's proprietary driver packs 10, 8, 8 and 6 bits; Mesa and others pack as Vulkan does.
fn driver_version(id: vk::DriverId, v: u32) -> String {
    if id == vk::DriverId::NVIDIA_PROPRIETARY {
        format!("{}.{}.{}", v >> 22, (v >> 14) & 0xff, (v >> 6) & 0xff)
    } else {
        version(v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_version_is_unpacked_as_its_vendor_packs_it() {
        assert_eq!(
            driver_version(vk::DriverId::NVIDIA_PROPRIETARY, 580 << 22 | 159 << 14 | 3 << 6),
            "580.159.3"
        );
        assert_eq!(driver_version(vk::DriverId::MESA_RADV, vk::make_api_version(0, 22, 3, 6)), "22.3.6");
    }

    #[test]
    fn a_cpu_device_has_longer_where_there_are_fewer_processors() {
        let seconds = [1, 2, 8, 64].map(|cores| patience_on(cores).as_secs());
        assert_eq!(seconds, [3840, 1920, 480, 480]);
        assert_eq!(patience_on(0), patience_on(1));
    }
}
