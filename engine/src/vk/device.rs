//! A logical device with its one queue.

use std::cell::Cell;
use std::ffi::CString;
use std::rc::Rc;
use std::time::Duration;

use ash::ext::debug_utils;
use ash::vk;
use zinc_shaders::{Capability, Kernel};

use super::account::{self, Accounts};
use super::calibrate::{self, Clocks};
use super::cooperative;
use super::error::During;
use super::requirements;
use super::{Error, Instance, Physical};
use crate::plan::{Cooperative, Features, Limits, Tuning};
use crate::results;

/// A device that work can be submitted to.
pub struct Device {
    pub(super) raw: ash::Device,
    pub(super) queue: vk::Queue,
    pub(super) family: u32,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) physical: Physical,
    /// Where the device's clock can be read together with the host's.
    pub(super) clocks: Option<Clocks>,
    /// Where the driver is to tell what it made of kernels, and can.
    pub(super) accounts: Option<Accounts>,
    /// Set when a submission never finished: objects may then still be in use, and destroying them would be undefined.
    abandoned: Cell<bool>,
    names: Option<debug_utils::Device>,
    pub(super) instance: Rc<Instance>,
}

impl Device {
    /// The longest wait for one submission: see [`Instance::set_patience`].
    pub fn patience(&self) -> Duration {
        self.instance.patience(self.physical.device.kind)
    }

    /// [`Device::patience`] in nanoseconds, as Vulkan takes it; what is too long for that is for ever.
    pub fn patience_ns(&self) -> u64 {
        u64::try_from(self.patience().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Creates a device without extensions (but those of clocks and of cooperative matrices, where they are there) and with the
    /// optional features that kernels use, where it has them;
    /// robustBufferAccess stays off, so that nothing but the bound ranges says what a kernel touches.
    pub fn new(instance: Rc<Instance>, physical: Physical) -> Result<Rc<Self>, Error> {
        Self::open(instance, physical, false)
    }

    /// As [`Device::new`], with the extension that [`Device::account`] needs, if the device has it.
    pub fn that_tells(instance: Rc<Instance>, physical: Physical) -> Result<Rc<Self>, Error> {
        Self::open(instance, physical, true)
    }

    fn open(instance: Rc<Instance>, physical: Physical, tells: bool) -> Result<Rc<Self>, Error> {
        requirements::check(&physical.caps)?;
        let family = physical.caps.compute_family.unwrap_or(0);
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let features = physical.caps.features;
        let mut model = vk::PhysicalDeviceVulkanMemoryModelFeatures::default()
            .vulkan_memory_model(true)
            .vulkan_memory_model_device_scope(true)
            .vulkan_memory_model_availability_visibility_chains(true);
        let mut dot =
            vk::PhysicalDeviceShaderIntegerDotProductFeatures::default().shader_integer_dot_product(true);
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        if features.memory_model {
            info = info.push_next(&mut model);
        }
        if features.dot {
            info = info.push_next(&mut dot);
        }
        let clocks = calibrate::has(&instance, physical.handle);
        let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        let mut half = vk::PhysicalDeviceShaderFloat16Int8Features::default().shader_float16(true);
        let mut size = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
            .subgroup_size_control(true)
            .compute_full_subgroups(true);
        let cooperative = matches!(physical.caps.cooperative, Cooperative::Has(_));
        if cooperative {
            info = info.push_next(&mut matrix).push_next(&mut half).push_next(&mut size);
        }
        let tells = tells && account::has(&instance, physical.handle);
        let mut executables = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default()
            .pipeline_executable_info(true);
        if tells {
            info = info.push_next(&mut executables);
        }
        let extensions: Vec<_> = [
            (clocks, calibrate::EXTENSION),
            (cooperative, cooperative::EXTENSION),
            (tells, account::EXTENSION),
        ]
        .into_iter()
        .filter_map(|(there, name)| there.then_some(name.as_ptr()))
        .collect();
        info = info.enabled_extension_names(&extensions);
        // SAFETY: the handle comes from this instance; `info` and what it points to live until the call returns.
        let raw =
            unsafe { instance.raw.create_device(physical.handle, &info, None) }.during("vkCreateDevice")?;
        // SAFETY: one queue of this family was asked for above.
        let queue = unsafe { raw.get_device_queue(family, 0) };
        // SAFETY: as for create_device.
        let memory = unsafe { instance.raw.get_physical_device_memory_properties(physical.handle) };
        let clocks = clocks.then(|| Clocks::new(&instance.raw, &raw));
        let accounts = tells.then(|| Accounts::new(&instance.raw, &raw));
        let abandoned = Cell::new(false);
        let names = instance.names.then(|| debug_utils::Device::new(&instance.raw, &raw));
        Ok(Rc::new(Self {
            raw,
            queue,
            family,
            memory,
            physical,
            clocks,
            accounts,
            abandoned,
            names,
            instance,
        }))
    }

    /// Gives a pipeline the name of its kernel, for whoever looks at what the engine does from outside (`zinc-barrier explain`).
    pub(super) fn name(&self, pipeline: vk::Pipeline, kernel: &Kernel) {
        let Some((names, text)) = self.names.as_ref().zip(CString::new(kernel.name).ok()) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(pipeline).object_name(&text);
        // SAFETY: the pipeline is of this device and used by this thread alone. A name that can't be kept is no loss.
        let _ = unsafe { names.set_debug_utils_object_name(&info) };
    }

    /// Identity, for results.
    pub fn describe(&self) -> &results::Device {
        &self.physical.device
    }

    /// What plans for this device must respect.
    pub fn limits(&self) -> Limits {
        let caps = &self.physical.caps;
        Limits {
            alignment: caps.alignment.max(Limits::ALIGNMENT),
            range: caps.storage_range,
            allocation: caps.allocation,
            grid: caps.grid,
            workgroup: caps.workgroup_invocations.min(caps.workgroup_size_x),
            shared_memory: caps.shared_memory,
            target: Limits::TARGET,
        }
    }

    /// Optional features that kernels may use.
    pub fn features(&self) -> Features {
        self.physical.caps.features
    }

    /// Whether attention of one token on cooperative matrices was measured to be faster than with float arithmetic on devices of
    /// this driver.
    pub fn prefers_cooperative_attention(&self) -> bool {
        self.physical.caps.nvidia
    }

    /// Cooperative matrices, or why there are none.
    pub fn cooperative(&self) -> Cooperative {
        self.physical.caps.cooperative
    }

    /// Refuses a kernel that needs what the device lacks.
    pub(super) fn check_kernel(&self, kernel: &'static Kernel) -> Result<(), Error> {
        let caps = &self.physical.caps;
        let has = |c: Capability| match c {
            // Every device of Vulkan 1.1 has the basic operations of subgroups in compute shaders.
            Capability::Shader | Capability::GroupNonUniform => true,
            Capability::Float16 | Capability::CooperativeMatrixKHR => {
                matches!(caps.cooperative, Cooperative::Has(_))
            }
            Capability::GroupNonUniformArithmetic => {
                matches!(caps.cooperative, Cooperative::Has(shapes) if shapes.attention.is_some())
            }
            Capability::VulkanMemoryModel | Capability::VulkanMemoryModelDeviceScope => {
                caps.features.memory_model
            }
            Capability::DotProduct | Capability::DotProductInput4x8BitPacked => caps.features.dot,
            _ => false,
        };
        if let Some(&capability) = kernel.capabilities.iter().find(|c| !has(**c)) {
            return Err(Error::Capability { kernel: kernel.name, capability: capability as u32 });
        }
        let (need, have) = (kernel.bindings.len() as u32, caps.storage_buffers);
        if need > have {
            return Err(Error::Bindings { kernel: kernel.name, need, have });
        }
        Ok(())
    }

    pub(super) fn timestamp_bits(&self) -> u32 {
        self.physical.caps.timestamp_bits
    }

    pub(super) fn timestamp_period(&self) -> f32 {
        self.physical.caps.timestamp_period
    }

    /// Workgroup shapes for this device.
    pub fn tuning(&self) -> Tuning {
        requirements::tuning(self.physical.caps.kind)
    }

    /// Notes that work may still be running: from now on nothing of this device is destroyed.
    pub fn abandon(&self) {
        self.abandoned.set(true);
    }

    /// Whether objects of this device may be destroyed.
    pub fn idle(&self) -> bool {
        !self.abandoned.get()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.idle() {
            // SAFETY: every object made from this device holds an Rc of it and was destroyed before.
            unsafe { self.raw.destroy_device(None) };
        }
    }
}
