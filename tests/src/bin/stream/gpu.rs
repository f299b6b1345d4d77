//! The device on which streams are played: the first one that the loader shows, with one queue.
//!
//! Everything that a stream can touch is host-visible and coherent, so that the player can read all memory at the end
//! without recording a command of its own: nothing but the stream itself passes the layer.
//!
//! Descriptor set layouts are the same for all kernels (four storage buffers, plain or dynamic), so sets and
//! pipelines go together as a stream likes.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use ash::{Device, Entry, Instance, vk};

/// SPIR-V of the kernels, by name.
const KERNELS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// How many storage buffers a descriptor set holds.
pub const BINDINGS: u32 = 4;
/// Invocations in a workgroup of every kernel.
pub const GROUP: u64 = 64;
/// Where an address stands in the push constants.
pub const ADDRESS_AT: u32 = 8;
/// Width and height of images, which hold one 32-bit word a texel.
pub const IMAGE_SIDE: u32 = 16;

/// The layouts for one kind of descriptor.
#[derive(Clone, Copy)]
pub struct Layouts {
    pub set: vk::DescriptorSetLayout,
    pub pipeline: vk::PipelineLayout,
}

/// Device memory with the address at which the host sees it.
#[derive(Clone, Copy)]
pub struct Memory {
    pub handle: vk::DeviceMemory,
    pub address: *mut u8,
    pub size: u64,
}

/// A device and what all streams need of it. Dropping it destroys what was created through it.
pub struct Gpu {
    _entry: Entry,
    instance: Instance,
    pub device: Device,
    pub queue: vk::Queue,
    pub family: u32,
    pub name: String,
    memory_types: vk::PhysicalDeviceMemoryProperties,
    plain: Layouts,
    dynamic: Layouts,
    pub queries: vk::QueryPool,
    /// Buffers have addresses, and push constants room for one.
    pub addresses: bool,
    sets: Mutex<vk::DescriptorPool>,
    pipelines: Mutex<HashMap<(String, bool, bool), vk::Pipeline>>,
}

impl Gpu {
    /// Opens the first device of the loader; with `addresses`, so that shaders can reach buffers by them.
    ///
    /// # Errors
    /// When there is no loader, no device, or a device without a compute queue, Vulkan 1.3 or synchronization2, or without
    /// device addresses where those are wanted.
    pub fn open(addresses: bool) -> Result<Gpu> {
        // SAFETY: the loader is a well-behaved library, and outlives every use in the struct that keeps it.
        let entry = unsafe { Entry::load() }.context("cannot load the Vulkan loader: run tests/setup")?;
        let application =
            vk::ApplicationInfo::default().application_name(c"stream").api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures live through the call; the instance is destroyed in `drop` before the entry goes.
        let instance = unsafe { entry.create_instance(&create, None) }.context("vkCreateInstance")?;
        let opened = Gpu::open_device(&instance, addresses);
        let (device, queue, family, name, memory_types) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // SAFETY: nothing was created from the instance that still lives.
                unsafe { instance.destroy_instance(None) };
                return Err(error);
            }
        };
        let plain = layouts(&device, vk::DescriptorType::STORAGE_BUFFER, addresses)?;
        let dynamic = layouts(&device, vk::DescriptorType::STORAGE_BUFFER_DYNAMIC, addresses)?;
        let sizes = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::STORAGE_BUFFER_DYNAMIC]
            .map(|ty| vk::DescriptorPoolSize::default().ty(ty).descriptor_count(4 * 4096));
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(4096).pool_sizes(&sizes);
        let query = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
        // SAFETY: the device is valid, the structures live through the calls.
        let (pool, queries) =
            unsafe { (device.create_descriptor_pool(&pool, None)?, device.create_query_pool(&query, None)?) };
        Ok(Gpu {
            _entry: entry,
            instance,
            device,
            queue,
            family,
            name,
            memory_types,
            plain,
            dynamic,
            queries,
            addresses,
            sets: Mutex::new(pool),
            pipelines: Mutex::default(),
        })
    }

    #[allow(clippy::type_complexity, reason = "parts of one struct, taken apart at once by the only caller")]
    fn open_device(
        instance: &Instance,
        addresses: bool,
    ) -> Result<(Device, vk::Queue, u32, String, vk::PhysicalDeviceMemoryProperties)> {
        // SAFETY: the instance is valid; handles come from it; structures live through the calls.
        unsafe {
            let devices = instance.enumerate_physical_devices().context("vkEnumeratePhysicalDevices")?;
            let physical = *devices.first().context("the loader shows no device")?;
            let properties = instance.get_physical_device_properties(physical);
            let name = properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned();
            if properties.api_version < vk::API_VERSION_1_3 {
                bail!("{name} has no Vulkan 1.3");
            }
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE));
            let family = family.with_context(|| format!("{name} has no compute queue"))? as u32;
            let queue =
                [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let mut features = vk::PhysicalDeviceVulkan13Features::default().synchronization2(true);
            let mut older = vk::PhysicalDeviceVulkan12Features::default().buffer_device_address(true);
            let mut create =
                vk::DeviceCreateInfo::default().queue_create_infos(&queue).push_next(&mut features);
            if addresses {
                create = create.push_next(&mut older);
            }
            let device = instance.create_device(physical, &create, None).context("vkCreateDevice")?;
            let queue = device.get_device_queue(family, 0);
            Ok((device, queue, family, name, instance.get_physical_device_memory_properties(physical)))
        }
    }

    /// The layouts for dynamic or plain descriptors.
    pub fn layouts(&self, dynamic: bool) -> Layouts {
        if dynamic { self.dynamic } else { self.plain }
    }

    /// Allocates memory of a type in `allowed` that the host sees, and maps it. Its contents are zero.
    pub fn allocate(&self, size: u64, allowed: u32) -> Result<Memory> {
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let types = self.memory_types.memory_types_as_slice();
        let found = types
            .iter()
            .enumerate()
            .position(|(i, t)| allowed & (1 << i) != 0 && t.property_flags.contains(wanted))
            .context("no memory type that the host sees fits")?;
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut info =
            vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(found as u32);
        if self.addresses {
            info = info.push_next(&mut flags);
        }
        // SAFETY: the device is valid; the whole of a fresh allocation is mapped and written once.
        unsafe {
            let handle = self.device.allocate_memory(&info, None).context("vkAllocateMemory")?;
            let address =
                self.device.map_memory(handle, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?.cast::<u8>();
            address.write_bytes(0, size as usize);
            Ok(Memory { handle, address, size })
        }
    }

    /// Allocates a descriptor set.
    pub fn set(&self, dynamic: bool) -> Result<vk::DescriptorSet> {
        let pool = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let layouts = [self.layouts(dynamic).set];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(*pool).set_layouts(&layouts);
        // SAFETY: the pool is valid and locked, as the call demands.
        Ok(unsafe { self.device.allocate_descriptor_sets(&info) }.context("vkAllocateDescriptorSets")?[0])
    }

    /// The pipeline of a kernel, made when first asked for.
    pub fn pipeline(&self, kernel: &str, dynamic: bool, base: bool) -> Result<vk::Pipeline> {
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kernel.to_string(), dynamic, base);
        if let Some(pipeline) = pipelines.get(&key) {
            return Ok(*pipeline);
        }
        let spirv = KERNELS.iter().find(|(name, _)| *name == kernel);
        let (_, bytes) = spirv.with_context(|| {
            let names: Vec<&str> = KERNELS.iter().map(|(name, _)| *name).collect();
            format!("no kernel is called '{kernel}'; there are {}", names.join(", "))
        })?;
        let words = ash::util::read_spv(&mut std::io::Cursor::new(bytes))?;
        let flags =
            if base { vk::PipelineCreateFlags::DISPATCH_BASE } else { vk::PipelineCreateFlags::empty() };
        const MAIN: &CStr = c"main";
        // SAFETY: the module was compiled from our GLSL for this interface; structures live through the calls.
        let pipeline = unsafe {
            let module = vk::ShaderModuleCreateInfo::default().code(&words);
            let module = self.device.create_shader_module(&module, None).context("vkCreateShaderModule")?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(MAIN);
            let info = vk::ComputePipelineCreateInfo::default()
                .flags(flags)
                .stage(stage)
                .layout(self.layouts(dynamic).pipeline);
            let made = self.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            self.device.destroy_shader_module(module, None);
            made.map_err(|(_, error)| error).context("vkCreateComputePipelines")?[0]
        };
        pipelines.insert(key, pipeline);
        Ok(pipeline)
    }
}

/// A set layout of [`BINDINGS`] descriptors of one type, and the pipeline layout with it and one push constant, behind which
/// there may be room for an address.
fn layouts(device: &Device, ty: vk::DescriptorType, addresses: bool) -> Result<Layouts> {
    let bindings: Vec<_> = (0..BINDINGS)
        .map(|i| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(i)
                .descriptor_type(ty)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let size = if addresses { ADDRESS_AT + 8 } else { 4 };
    let push = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(size)];
    // SAFETY: the device is valid, the structures live through the calls.
    unsafe {
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let set = device.create_descriptor_set_layout(&info, None)?;
        let sets = [set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&push);
        Ok(Layouts { set, pipeline: device.create_pipeline_layout(&info, None)? })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let pool = *self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the device is idle afterwards, each handle was made from it and is destroyed once; whoever made
        // other objects destroyed them before (`Player::finish`).
        unsafe {
            // An error here leaves nothing better to do than to go on.
            let _ = self.device.device_wait_idle();
            for pipeline in pipelines.values() {
                self.device.destroy_pipeline(*pipeline, None);
            }
            self.device.destroy_descriptor_pool(pool, None);
            self.device.destroy_query_pool(self.queries, None);
            for layouts in [self.plain, self.dynamic] {
                self.device.destroy_pipeline_layout(layouts.pipeline, None);
                self.device.destroy_descriptor_set_layout(layouts.set, None);
            }
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
