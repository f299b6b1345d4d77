//! A device, opened with layers and settings of the layer under test, and what all programs need of it.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use ash::{Device, Entry, Instance, vk};

use crate::generate::Abilities;
use crate::program::{Kernel, Way};

/// SPIR-V of the kernels, by name.
const KERNELS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Bytes of push constants that all pipeline layouts have: k, and an address behind it.
pub const PUSHED: u32 = 16;
/// Where the address is.
pub const ADDRESS_AT: u32 = 8;
/// The most descriptors of an array.
pub const ARRAY: u32 = 4;

/// What validation has complained of, by all devices of this process.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes what validation has complained of since the last call.
pub fn complaints() -> Vec<String> {
    std::mem::take(&mut *COMPLAINTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

unsafe extern "system" fn complain(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the loader or a layer calls this with valid data.
    let said = unsafe {
        data.as_ref()
            .filter(|d| !d.p_message.is_null())
            .map(|d| CStr::from_ptr(d.p_message).to_string_lossy())
    };
    if let Some(said) = said {
        let mut all = COMPLAINTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.push(said.into_owned());
    }
    vk::FALSE
}

/// How a device is opened.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// The layers, the first one nearest to the application.
    pub layers: Vec<String>,
    /// Settings of the layer under test.
    pub settings: Vec<(String, String)>,
}

/// The kinds of set layouts; each is made twice, under two handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Three storage buffers.
    Plain,
    /// Three storage buffers with dynamic offsets.
    Dynamic,
    /// Three storage buffers that are pushed.
    Push,
    /// One storage buffer, and an array of up to four, bound in part.
    Array,
    /// The same, and it may change after the bind.
    Late,
    /// Four storage buffers: a set that no kernel takes.
    Strange,
}

impl Shape {
    const ALL: [Shape; 6] =
        [Shape::Plain, Shape::Dynamic, Shape::Push, Shape::Array, Shape::Late, Shape::Strange];

    /// The shape of set 0 for dispatches whose sets come in this way.
    pub fn of(way: Way) -> Shape {
        match way {
            Way::Plain | Way::Template => Shape::Plain,
            Way::Dynamic => Shape::Dynamic,
            Way::Push | Way::PushOneByOne | Way::PushTemplate | Way::PushTheRest => Shape::Push,
            Way::Array { late: false, .. } => Shape::Array,
            Way::Array { late: true, .. } => Shape::Late,
        }
    }

    /// The type of its first descriptors.
    pub fn ty(self) -> vk::DescriptorType {
        match self {
            Shape::Dynamic => vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
            _ => vk::DescriptorType::STORAGE_BUFFER,
        }
    }
}

/// A device.
pub struct Gpu {
    _entry: Entry,
    pub instance: Instance,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    pub device: Device,
    pub name: String,
    pub queues: Vec<vk::Queue>,
    pub family: u32,
    pub abilities: Abilities,
    memory_types: vk::PhysicalDeviceMemoryProperties,
    pub push: ash::khr::push_descriptor::Device,
    pub host: Option<ash::ext::external_memory_host::Device>,
    /// The alignment of imported host memory.
    pub host_alignment: u64,
    set_layouts: HashMap<(Shape, bool), vk::DescriptorSetLayout>,
    pipelines: Mutex<HashMap<(Kernel, Shape), (vk::Pipeline, vk::PipelineLayout)>>,
}

impl Gpu {
    /// Opens the loader's first device.
    ///
    /// # Errors
    ///
    /// Where there is none that programs can run on; says what it lacks.
    pub fn open(opening: &Opening) -> Result<Gpu> {
        // SAFETY: a well-behaved library, kept as long as all that comes from it.
        let entry = unsafe { Entry::load() }.context("cannot load the Vulkan loader: run tests/setup")?;
        let layers: Vec<CString> =
            opening.layers.iter().map(|l| CString::new(l.as_str())).collect::<Result<_, _>>()?;
        let layer_names: Vec<_> = layers.iter().map(|l| l.as_ptr()).collect();
        let texts: Vec<[CString; 2]> = opening
            .settings
            .iter()
            .map(|(name, value)| Ok([CString::new(name.as_str())?, CString::new(value.as_str())?]))
            .collect::<Result<_>>()?;
        let values: Vec<_> = texts.iter().map(|[_, value]| value.as_ptr()).collect();
        let settings: Vec<_> = std::iter::zip(&texts, &values)
            .map(|([name, _], value)| vk::LayerSettingEXT {
                p_layer_name: c"zinc_barrier".as_ptr(),
                p_setting_name: name.as_ptr(),
                ty: vk::LayerSettingTypeEXT::STRING,
                value_count: 1,
                p_values: std::ptr::from_ref(value).cast(),
                ..Default::default()
            })
            .collect();
        let mut settings = vk::LayerSettingsCreateInfoEXT::default().settings(&settings);
        let validated = opening.layers.iter().any(|l| l.contains("validation"));
        let extensions = [ash::ext::debug_utils::NAME.as_ptr()];
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let mut create = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layer_names)
            .enabled_extension_names(&extensions);
        if !opening.settings.is_empty() {
            create = create.push_next(&mut settings);
        }
        // SAFETY: the structures live through the call.
        let instance = unsafe { entry.create_instance(&create, None) }
            .with_context(|| format!("vkCreateInstance with layers {:?}", opening.layers))?;
        let messenger = validated.then(|| {
            let utils = ash::ext::debug_utils::Instance::new(&entry, &instance);
            let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
                .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
                .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
                .pfn_user_callback(Some(complain));
            // SAFETY: the instance is alive, and the callback never unwinds.
            let messenger = unsafe { utils.create_debug_utils_messenger(&info, None) };
            messenger.map(|messenger| (utils, messenger))
        });
        Gpu::with(entry, instance, messenger.transpose()?)
    }

    fn with(
        entry: Entry,
        instance: Instance,
        messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    ) -> Result<Gpu> {
        // SAFETY: handles come from the instance; structures live through the calls.
        unsafe {
            let physical =
                *instance.enumerate_physical_devices()?.first().context("the loader shows no device")?;
            let properties = instance.get_physical_device_properties(physical);
            let name = properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned();
            let known = instance.enumerate_device_extension_properties(physical)?;
            let has = |name: &CStr| known.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
            if properties.api_version < vk::API_VERSION_1_3 || !has(ash::khr::push_descriptor::NAME) {
                bail!("{name} has no Vulkan 1.3 with push descriptors");
            }
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families
                .iter()
                .position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE) && f.timestamp_valid_bits > 0)
                .with_context(|| format!("{name} has no compute queue with timestamps"))?;
            let count = families[family].queue_count.min(3);
            let priorities = vec![1.0; count as usize];
            let queue = [vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family as u32)
                .queue_priorities(&priorities)];
            let host = has(ash::ext::external_memory_host::NAME);
            let mut extensions = vec![ash::khr::push_descriptor::NAME.as_ptr()];
            if host {
                extensions.push(ash::ext::external_memory_host::NAME.as_ptr());
            }
            let mut there = vk::PhysicalDeviceVulkan12Features::default();
            let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut there);
            instance.get_physical_device_features2(physical, &mut features);
            let indexes = features.features.shader_storage_buffer_array_dynamic_indexing == vk::TRUE;
            let on = |feature: vk::Bool32| feature == vk::TRUE;
            let arrays = indexes
                && on(there.descriptor_binding_partially_bound)
                && on(there.descriptor_binding_variable_descriptor_count)
                && on(there.descriptor_binding_storage_buffer_update_after_bind);
            let addresses = on(there.buffer_device_address);
            let mut newest = vk::PhysicalDeviceVulkan13Features::default().synchronization2(true);
            let mut newer = vk::PhysicalDeviceVulkan12Features::default()
                .buffer_device_address(addresses)
                .descriptor_binding_partially_bound(arrays)
                .descriptor_binding_variable_descriptor_count(arrays)
                .descriptor_binding_storage_buffer_update_after_bind(arrays);
            let features =
                vk::PhysicalDeviceFeatures::default().shader_storage_buffer_array_dynamic_indexing(arrays);
            let create = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queue)
                .enabled_extension_names(&extensions)
                .enabled_features(&features)
                .push_next(&mut newest)
                .push_next(&mut newer);
            let device = instance
                .create_device(physical, &create, None)
                .with_context(|| format!("{name} lacks what programs use"))?;
            let mut imported = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut imported);
            instance.get_physical_device_properties2(physical, &mut properties);
            let mut gpu = Gpu {
                queues: (0..count).map(|n| device.get_device_queue(family as u32, n)).collect(),
                push: ash::khr::push_descriptor::Device::new(&instance, &device),
                host: host.then(|| ash::ext::external_memory_host::Device::new(&instance, &device)),
                host_alignment: imported.min_imported_host_pointer_alignment.max(4096),
                abilities: Abilities {
                    host_memory: host,
                    arrays,
                    addresses,
                    queues: count as usize,
                    indirect: true,
                    garbage: messenger.is_none(),
                },
                memory_types: instance.get_physical_device_memory_properties(physical),
                _entry: entry,
                instance,
                messenger,
                device,
                name,
                family: family as u32,
                set_layouts: HashMap::new(),
                pipelines: Mutex::default(),
            };
            let possible = |shape: &Shape| arrays || !matches!(shape, Shape::Array | Shape::Late);
            for shape in Shape::ALL.into_iter().filter(possible) {
                for twin in [false, true] {
                    let made = gpu.make_set_layout(shape)?;
                    gpu.set_layouts.insert((shape, twin), made);
                }
            }
            Ok(gpu)
        }
    }

    fn make_set_layout(&self, shape: Shape) -> Result<vk::DescriptorSetLayout> {
        use vk::DescriptorBindingFlags as Flags;
        let counts: &[u32] = match shape {
            Shape::Array | Shape::Late => &[1, ARRAY],
            Shape::Strange => &[1; 4],
            _ => &[1; 3],
        };
        let bindings: Vec<_> = (0..)
            .zip(counts)
            .map(|(at, count)| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(at)
                    .descriptor_type(shape.ty())
                    .descriptor_count(*count)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let some = Flags::PARTIALLY_BOUND | Flags::VARIABLE_DESCRIPTOR_COUNT;
        let flags: &[Flags] = match shape {
            Shape::Array => &[Flags::empty(), some],
            Shape::Late => &[Flags::UPDATE_AFTER_BIND, some | Flags::UPDATE_AFTER_BIND],
            _ => &[],
        };
        let mut flags = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(flags);
        let mut info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        info.flags = match shape {
            Shape::Push => vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR,
            Shape::Late => vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL,
            _ => vk::DescriptorSetLayoutCreateFlags::empty(),
        };
        if matches!(shape, Shape::Array | Shape::Late) {
            info = info.push_next(&mut flags);
        }
        // SAFETY: the device is alive, the structures live through the call.
        Ok(unsafe { self.device.create_descriptor_set_layout(&info, None) }?)
    }

    /// One of the two set layouts of a shape.
    pub fn set_layout(&self, shape: Shape, twin: bool) -> vk::DescriptorSetLayout {
        self.set_layouts[&(shape, twin)]
    }

    /// A pipeline layout of sets of these shapes, from one or the other of their handles.
    pub fn pipeline_layout(&self, shapes: &[Shape], twin: bool) -> Result<vk::PipelineLayout> {
        let sets: Vec<_> = shapes.iter().map(|shape| self.set_layout(*shape, twin)).collect();
        let push = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(PUSHED)];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&push);
        // SAFETY: as above.
        Ok(unsafe { self.device.create_pipeline_layout(&info, None) }?)
    }

    /// The shapes of a pipeline's sets.
    pub fn shapes(kernel: Kernel, shape: Shape) -> Vec<Shape> {
        if kernel == Kernel::Far { vec![shape, shape] } else { vec![shape] }
    }

    /// The pipeline of a kernel for sets of a shape, with its layout; made when first asked for.
    pub fn pipeline(&self, kernel: Kernel, shape: Shape) -> Result<(vk::Pipeline, vk::PipelineLayout)> {
        let mut pipelines = self.pipelines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(made) = pipelines.get(&(kernel, shape)) {
            return Ok(*made);
        }
        let name = match kernel {
            Kernel::Write => "write",
            Kernel::Step => "step",
            Kernel::Add => "add",
            Kernel::Scale => "scale",
            Kernel::Far => "far",
            Kernel::Pick => "pick",
            Kernel::Peek => "reach",
        };
        let (_, bytes) = KERNELS.iter().find(|(known, _)| *known == name).context("a kernel of that name")?;
        let words = ash::util::read_spv(&mut std::io::Cursor::new(bytes))?;
        let layout = self.pipeline_layout(&Gpu::shapes(kernel, shape), false)?;
        // SAFETY: as above; the module was made for this interface.
        let pipeline = unsafe {
            let info = vk::ShaderModuleCreateInfo::default().code(&words);
            let module = self.device.create_shader_module(&info, None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let made = self.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            self.device.destroy_shader_module(module, None);
            made.map_err(|(_, why)| why).context("vkCreateComputePipelines")?[0]
        };
        pipelines.insert((kernel, shape), (pipeline, layout));
        Ok((pipeline, layout))
    }

    /// A memory type of those allowed that the host sees.
    pub fn host_type(&self, allowed: u32) -> Result<u32> {
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let types = self.memory_types.memory_types_as_slice().iter().enumerate();
        let found = types
            .filter(|(at, _)| allowed & 1 << at != 0)
            .find(|(_, ty)| ty.property_flags.contains(wanted))
            .with_context(|| format!("{} has no memory type that the host sees and that fits", self.name))?;
        Ok(found.0 as u32)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let pipelines = self.pipelines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: programs have ended and destroyed what is theirs; each of these is destroyed once.
        unsafe {
            let _ = self.device.device_wait_idle();
            for (pipeline, layout) in pipelines.values() {
                self.device.destroy_pipeline(*pipeline, None);
                self.device.destroy_pipeline_layout(*layout, None);
            }
            for layout in self.set_layouts.values() {
                self.device.destroy_descriptor_set_layout(*layout, None);
            }
            self.device.destroy_device(None);
            if let Some((utils, messenger)) = &self.messenger {
                utils.destroy_debug_utils_messenger(*messenger, None);
            }
            self.instance.destroy_instance(None);
        }
    }
}
