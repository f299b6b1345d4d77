//! A device, with or without the layer, and the objects that a recording needs.

use anyhow::{Context, Result, bail};
use ash::vk;
use serde_json::json;
use std::ffi::CStr;
use std::path::Path;
use zinc_settings::manifest::write_explicit_dir;
use zinc_settings::variables::{ENABLE, POLICY, REPORT as REPORT_TO};

/// The layer's name.
const LAYER: &CStr = c"zinc_barrier";

/// Where the layer's report goes, in the folder of the manifests.
pub const REPORT: &str = "report.json";

/// Bytes that one dispatch writes, and of each other buffer part.
pub const PART: u64 = 256;

/// Writes manifests into `folder` and sets the variables that the loader and the layer read.
///
/// # Errors
///
/// When the folder can't be written.
pub fn prepare(folder: &Path, layer: &Path, driver: Option<&Path>, policy: &str) -> Result<()> {
    let absolute = |path: &Path| std::path::absolute(path).context("no current folder");
    write_explicit_dir(folder, layer)?;
    let mut variables = vec![
        ("VK_LAYER_PATH", folder.as_os_str().to_owned()),
        (POLICY.name, policy.into()),
        (REPORT_TO.name, folder.join(REPORT).into()),
        // Mesa's layer would sort the devices, in one arm as in the other.
        ("NODEVICE_SELECT", "1".into()),
    ];
    if let Some(driver) = driver {
        let icd = json!({ "file_format_version": "1.0.0", "ICD": {
            "library_path": absolute(driver)?, "api_version": "1.3.0" } });
        let path = folder.join("driver.json");
        std::fs::write(&path, icd.to_string()).context("cannot write a manifest")?;
        // Older loaders know only the second name.
        variables.push(("VK_DRIVER_FILES", path.clone().into()));
        variables.push(("VK_ICD_FILENAMES", path.into()));
    }
    for (name, value) in variables {
        // SAFETY: no other thread has been started.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: as above. An implicit installation of the layer would be in both arms.
    unsafe {
        std::env::remove_var("VK_INSTANCE_LAYERS");
        std::env::remove_var(ENABLE);
    }
    Ok(())
}

/// A device.
pub struct World {
    instance: ash::Instance,
    /// The device's functions, fetched from it, so that nothing of the loader is in between.
    pub device: ash::Device,
    /// Its only queue family.
    pub family: u32,
    /// What the driver calls itself.
    pub name: String,
    /// Storage buffers that a shader may have.
    pub most_bindings: u32,
    memory_type: u32,
}

impl World {
    /// The first device of the loader.
    ///
    /// # Errors
    ///
    /// When there is none that can compute, or it can't be opened.
    pub fn new(entry: &ash::Entry, layered: bool) -> Result<World> {
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let layers: &[_] = if layered { &[LAYER.as_ptr()] } else { &[] };
        let info =
            vk::InstanceCreateInfo::default().application_info(&application).enabled_layer_names(layers);
        // SAFETY: what is passed lives until the calls return; objects belong to the device they are used with.
        unsafe {
            let instance = entry.create_instance(&info, None).context("no instance")?;
            let physical = *instance.enumerate_physical_devices()?.first().context("no Vulkan device")?;
            let properties = instance.get_physical_device_properties(physical);
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE));
            let family = family.context("the device has no queue that computes")? as u32;
            let memory = instance.get_physical_device_memory_properties(physical);
            let priorities = [1.0];
            let queue = [vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&priorities)];
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
            let device = instance.create_device(physical, &info, None).context("no device")?;
            if memory.memory_type_count == 0 {
                bail!("the device has no memory");
            }
            let name = properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned();
            let limits = properties.limits;
            let most_bindings = limits
                .max_per_stage_descriptor_storage_buffers
                .min(limits.max_descriptor_set_storage_buffers);
            Ok(World { instance, device, family, name, most_bindings, memory_type: 0 })
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: all that was made on the device is gone; nothing was submitted.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// What the recordings of one row use.
pub struct Objects<'a> {
    world: &'a World,
    memory: vk::DeviceMemory,
    /// Buffers of [`PART`] bytes each.
    pub buffers: Vec<vk::Buffer>,
    set_layout: vk::DescriptorSetLayout,
    /// The layout of all.
    pub layout: vk::PipelineLayout,
    module: vk::ShaderModule,
    /// Reads all bindings but the last, writes the last.
    pub pipeline: vk::Pipeline,
    pools: Vec<vk::DescriptorPool>,
    /// All sets that are alive.
    pub sets: Vec<vk::DescriptorSet>,
    bindings: u32,
}

impl<'a> Objects<'a> {
    /// Makes `buffers` buffers in one allocation, and `sets` sets of `bindings` storage buffers.
    ///
    /// # Errors
    ///
    /// When the driver refuses one.
    pub fn new(world: &'a World, buffers: u32, sets: u32, bindings: u32) -> Result<Objects<'a>> {
        let device = &world.device;
        // SAFETY: as in `World::new`.
        unsafe {
            let info = vk::BufferCreateInfo::default().size(PART).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
            let buffers: Vec<_> =
                (0..buffers).map(|_| device.create_buffer(&info, None)).collect::<Result<_, _>>()?;
            let needs = device.get_buffer_memory_requirements(buffers[0]);
            let stride = PART.next_multiple_of(needs.alignment.max(1));
            let size = needs.size.max(stride) + stride * buffers.len() as u64;
            let memory_type = match needs.memory_type_bits {
                0 => world.memory_type,
                bits => bits.trailing_zeros(),
            };
            let info = vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(memory_type);
            let memory = device.allocate_memory(&info, None).context("no memory")?;
            for (i, buffer) in (0u64..).zip(&buffers) {
                device.bind_buffer_memory(*buffer, memory, i * stride)?;
            }

            let list: Vec<_> = (0..bindings)
                .map(|i| {
                    vk::DescriptorSetLayoutBinding::default()
                        .binding(i)
                        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                        .descriptor_count(1)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)
                })
                .collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&list);
            let set_layout = device.create_descriptor_set_layout(&info, None)?;
            let push = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(64)];
            let layouts = [set_layout];
            let info =
                vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&push);
            let layout = device.create_pipeline_layout(&info, None)?;
            let words = zinc_mock_driver::shader::words(bindings)?;
            let module =
                device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let pipelines = device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            let pipeline = pipelines.map_err(|(_, e)| e).context("no pipeline")?[0];

            let mut objects = Objects {
                world,
                memory,
                buffers,
                set_layout,
                layout,
                module,
                pipeline,
                pools: Vec::new(),
                sets: Vec::new(),
                bindings,
            };
            const A_POOL: u32 = 4096;
            for first in (0..sets).step_by(A_POOL as usize) {
                let count = A_POOL.min(sets - first);
                let sizes = [vk::DescriptorPoolSize::default()
                    .ty(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(count * bindings)];
                let info = vk::DescriptorPoolCreateInfo::default().max_sets(count).pool_sizes(&sizes);
                let pool = device.create_descriptor_pool(&info, None).context("no descriptor pool")?;
                objects.pools.push(pool);
                let layouts = vec![set_layout; count as usize];
                let info =
                    vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
                objects.sets.extend(device.allocate_descriptor_sets(&info).context("no descriptor sets")?);
            }
            Ok(objects)
        }
    }

    /// Writes a set: binding `i` is buffer `of(i)`.
    pub fn write(&self, set: vk::DescriptorSet, of: impl Fn(u32) -> usize) {
        let mut infos = [vk::DescriptorBufferInfo::default(); 64];
        let infos = &mut infos[..self.bindings.min(64) as usize];
        for (i, info) in (0..).zip(infos.iter_mut()) {
            *info = info.buffer(self.buffers[of(i) % self.buffers.len()]).range(PART);
        }
        // One write that spills over into all bindings, as llama.cpp does it.
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(infos);
        // SAFETY: as in `World::new`; nothing uses the set now.
        unsafe { self.world.device.update_descriptor_sets(&[write], &[]) };
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        let device = &self.world.device;
        // SAFETY: nothing was submitted, and the recordings that used them are gone.
        unsafe {
            self.pools.iter().for_each(|pool| device.destroy_descriptor_pool(*pool, None));
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_shader_module(self.module, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set_layout, None);
            self.buffers.iter().for_each(|buffer| device.destroy_buffer(*buffer, None));
            device.free_memory(self.memory, None);
        }
    }
}
