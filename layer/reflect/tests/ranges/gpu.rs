//! Just enough Vulkan to run one dispatch of a shader that logs.
//!
//! Every feature that the device has is enabled, since captured shaders come from an application that does the same.

use std::collections::BTreeMap;
use std::ffi::CString;

use ash::{Device, Entry, Instance, vk};
use zinc_reflect::{Dispatch, Specialization};

use super::instrument::{Logged, Through};

/// Bytes of the memory that shaders reach by address, unless more was asked for.
pub const ARENA: u64 = 1 << 18;

/// A CPU device: lavapipe.
pub struct Gpu {
    _entry: Entry,
    instance: Instance,
    device: Device,
    queue: vk::Queue,
    family: u32,
    memory_types: vk::PhysicalDeviceMemoryProperties,
    /// As the driver says it.
    pub name: String,
    arena: Memory,
    /// Where the memory begins that shaders may reach by address.
    pub address: u64,
}

/// What a slot of the log holds after a run: the least byte and the end, or nothing if it was not touched. Bytes are counted
/// from where a binding begins; behind pointers they are addresses.
pub type Seen = BTreeMap<(Through, bool), (u64, u64)>;

/// A specialization constant: its id, its bits, and its size in bytes.
pub type Constant = (u32, u64, usize);

#[derive(Clone, Copy)]
struct Memory {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    address: *mut u8,
    size: u64,
}

// SAFETY: mapped memory belongs to no thread; it is touched by whoever has the device to himself.
unsafe impl Send for Memory {}

impl Gpu {
    /// Opens the first device that is a CPU.
    pub fn open() -> Result<Gpu, String> {
        let text = |what: &'static str| move |error: vk::Result| format!("{what}: {error}");
        // SAFETY: the loader is a well-behaved library and is kept as long as what comes from it.
        let entry = unsafe { Entry::load() }.map_err(|error| error.to_string())?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: structures live through the calls, handles come from the calls before.
        unsafe {
            let instance = entry.create_instance(&create, None).map_err(text("vkCreateInstance"))?;
            let devices =
                instance.enumerate_physical_devices().map_err(text("vkEnumeratePhysicalDevices"))?;
            // A CPU executes what it is told with nobody else's memory at stake, and every machine can have one.
            let cpu = |device: &&vk::PhysicalDevice| {
                instance.get_physical_device_properties(**device).device_type == vk::PhysicalDeviceType::CPU
            };
            let physical = *devices.iter().find(cpu).ok_or("no CPU device such as lavapipe")?;
            let properties = instance.get_physical_device_properties(physical);
            let name = properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned();
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE));
            let family = family.ok_or("no compute queue")? as u32;
            let (mut v11, mut v12, mut v13) = (
                vk::PhysicalDeviceVulkan11Features::default(),
                vk::PhysicalDeviceVulkan12Features::default(),
                vk::PhysicalDeviceVulkan13Features::default(),
            );
            let mut all = vk::PhysicalDeviceFeatures2::default()
                .push_next(&mut v11)
                .push_next(&mut v12)
                .push_next(&mut v13);
            instance.get_physical_device_features2(physical, &mut all);
            let queue =
                [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let create = vk::DeviceCreateInfo::default().queue_create_infos(&queue).push_next(&mut all);
            let device = instance.create_device(physical, &create, None).map_err(text("vkCreateDevice"))?;
            let queue = device.get_device_queue(family, 0);
            let memory_types = instance.get_physical_device_memory_properties(physical);
            let none = Memory {
                buffer: vk::Buffer::null(),
                memory: vk::DeviceMemory::null(),
                address: std::ptr::null_mut(),
                size: 0,
            };
            let mut gpu = Gpu {
                _entry: entry,
                instance,
                device,
                queue,
                family,
                memory_types,
                name,
                arena: none,
                address: 0,
            };
            gpu.reserve(ARENA)?;
            Ok(gpu)
        }
    }

    /// Makes the memory that shaders reach by address at least as large as `size`; it may begin at another address then.
    pub fn reserve(&mut self, size: u64) -> Result<(), String> {
        if self.arena.size < size {
            let text = |error: vk::Result| format!("{size} bytes with an address: {error}");
            let memory = self.memory(size).map_err(text)?;
            let before = std::mem::replace(&mut self.arena, memory);
            let info = vk::BufferDeviceAddressInfo::default().buffer(self.arena.buffer);
            // SAFETY: nothing is executing between two runs; null handles are ignored.
            unsafe {
                self.address = self.device.get_buffer_device_address(&info);
                self.device.destroy_buffer(before.buffer, None);
                self.device.free_memory(before.memory, None);
            }
        }
        Ok(())
    }

    fn memory(&self, size: u64) -> Result<Memory, vk::Result> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::UNIFORM_BUFFER
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let create = vk::BufferCreateInfo::default().size(size.max(4)).usage(usage);
        // SAFETY: the device is live; the memory is mapped once, whole.
        unsafe {
            let buffer = self.device.create_buffer(&create, None)?;
            let needs = self.device.get_buffer_memory_requirements(buffer);
            let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let types = self.memory_types.memory_types_as_slice().iter().enumerate();
            let mut fitting = types
                .filter(|(i, t)| needs.memory_type_bits & (1 << i) != 0 && t.property_flags.contains(wanted));
            let index = fitting.next().map_or(0, |(index, _)| index as u32);
            let mut flags =
                vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(index)
                .push_next(&mut flags);
            let memory = self.device.allocate_memory(&info, None)?;
            self.device.bind_buffer_memory(buffer, memory, 0)?;
            let address = self.device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?;
            address.cast::<u8>().write_bytes(0, size as usize);
            Ok(Memory { buffer, memory, address: address.cast(), size })
        }
    }

    /// Runs one dispatch of a shader that logs. `sizes` are the bytes bound to each (set, binding), `fill` gives the
    /// words in them and in the memory that has an address; what the log then holds is returned.
    pub fn run(
        &self,
        shader: &Logged,
        name: &str,
        specialization: &Specialization,
        dispatch: &Dispatch<'_>,
        sizes: &BTreeMap<(u32, u32), u64>,
        fill: impl Fn(usize) -> u32,
    ) -> Result<Seen, String> {
        let constants: Vec<Constant> = specialization.iter().map(|(id, bits)| (id, bits, 4)).collect();
        self.run_with(shader, name, &constants, dispatch, sizes, fill)
    }

    /// The same with specialization constants of any size.
    pub fn run_with(
        &self,
        shader: &Logged,
        name: &str,
        constants: &[Constant],
        dispatch: &Dispatch<'_>,
        sizes: &BTreeMap<(u32, u32), u64>,
        fill: impl Fn(usize) -> u32,
    ) -> Result<Seen, String> {
        self.run_within(shader, name, constants, dispatch, sizes, fill)
            .map_err(|error| format!("{}: {error}", self.name))
    }

    fn run_within(
        &self,
        shader: &Logged,
        name: &str,
        constants: &[Constant],
        dispatch: &Dispatch<'_>,
        sizes: &BTreeMap<(u32, u32), u64>,
        fill: impl Fn(usize) -> u32,
    ) -> Result<Seen, vk::Result> {
        let device = &self.device;
        let mut buffers: BTreeMap<(u32, u32), Memory> = BTreeMap::new();
        for (place, size) in sizes {
            buffers.insert(*place, self.memory(*size)?);
        }
        for memory in buffers.values().chain([&self.arena]) {
            // SAFETY: the whole buffer is mapped, and nothing runs yet.
            let words = unsafe {
                std::slice::from_raw_parts_mut(memory.address.cast::<u32>(), memory.size as usize / 4)
            };
            words.iter_mut().enumerate().for_each(|(index, word)| *word = fill(index));
        }
        let log = self.memory(shader.slots.len().max(1) as u64 * 8)?;
        // SAFETY: as above.
        let words =
            unsafe { std::slice::from_raw_parts_mut(log.address.cast::<u32>(), shader.slots.len() * 2) };
        words.chunks_mut(2).for_each(|slot| slot.copy_from_slice(&[u32::MAX, 0]));
        buffers.insert((shader.set, 0), log);

        // Eight bytes apart, as aligned as any type may want it.
        let data: Vec<u8> = constants.iter().flat_map(|(_, bits, _)| bits.to_le_bytes()).collect();
        let map: Vec<vk::SpecializationMapEntry> = constants
            .iter()
            .enumerate()
            .map(|(at, (id, _, size))| {
                vk::SpecializationMapEntry::default().constant_id(*id).offset(at as u32 * 8).size(*size)
            })
            .collect();
        let constants = vk::SpecializationInfo::default().map_entries(&map).data(&data);
        let name = CString::new(name).unwrap_or_default();
        let last_set = buffers.keys().map(|place| place.0).max().unwrap_or(0);
        let push = vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size((dispatch.push_constants.len() as u32).next_multiple_of(4));
        // SAFETY: one pass over objects made and destroyed here; structures live through their calls; the queue is idle
        // when they go.
        unsafe {
            let mut set_layouts = Vec::new();
            for set in 0..=last_set {
                let bindings: Vec<vk::DescriptorSetLayoutBinding<'_>> = buffers
                    .keys()
                    .filter(|place| place.0 == set)
                    .map(|place| {
                        vk::DescriptorSetLayoutBinding::default()
                            .binding(place.1)
                            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                            .descriptor_count(1)
                            .stage_flags(vk::ShaderStageFlags::COMPUTE)
                    })
                    .collect();
                let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
                set_layouts.push(device.create_descriptor_set_layout(&info, None)?);
            }
            let mut layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&set_layouts);
            let ranges = [push];
            if push.size != 0 {
                layout = layout.push_constant_ranges(&ranges);
            }
            let layout = device.create_pipeline_layout(&layout, None)?;
            let sizes = [vk::DescriptorPoolSize::default()
                .ty(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(buffers.len() as u32)];
            let pool = vk::DescriptorPoolCreateInfo::default().max_sets(last_set + 1).pool_sizes(&sizes);
            let pool = device.create_descriptor_pool(&pool, None)?;
            let info =
                vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&set_layouts);
            let sets = device.allocate_descriptor_sets(&info)?;
            for ((set, binding), memory) in &buffers {
                let info =
                    [vk::DescriptorBufferInfo::default().buffer(memory.buffer).range(memory.size.max(4))];
                let write = vk::WriteDescriptorSet::default()
                    .dst_set(sets[*set as usize])
                    .dst_binding(*binding)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(&info);
                device.update_descriptor_sets(&[write], &[]);
            }
            let module = vk::ShaderModuleCreateInfo::default().code(&shader.words);
            let module = device.create_shader_module(&module, None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(&name)
                .specialization_info(&constants);
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let pipeline = device
                .create_compute_pipelines(vk::PipelineCache::null(), &[info], None)
                .map_err(|(_, error)| error)?[0];
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
            let commands = device.create_command_pool(&info, None)?;
            let info =
                vk::CommandBufferAllocateInfo::default().command_pool(commands).command_buffer_count(1);
            let buffer = device.allocate_command_buffers(&info)?[0];
            device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default())?;
            let point = vk::PipelineBindPoint::COMPUTE;
            device.cmd_bind_pipeline(buffer, point, pipeline);
            device.cmd_bind_descriptor_sets(buffer, point, layout, 0, &sets, &[]);
            if push.size != 0 {
                let mut bytes = dispatch.push_constants.to_vec();
                bytes.resize(push.size as usize, 0);
                device.cmd_push_constants(buffer, layout, vk::ShaderStageFlags::COMPUTE, 0, &bytes);
            }
            let [x, y, z] = dispatch.groups;
            device.cmd_dispatch(buffer, x, y, z);
            device.end_command_buffer(buffer)?;
            let recorded = [buffer];
            let submit = [vk::SubmitInfo::default().command_buffers(&recorded)];
            device.queue_submit(self.queue, &submit, vk::Fence::null())?;
            device.queue_wait_idle(self.queue)?;
            let log = &buffers[&(shader.set, 0)];
            let words = std::slice::from_raw_parts(log.address.cast::<u32>(), shader.slots.len() * 2);
            let mut seen = Seen::new();
            for (of, slot) in shader.slots.iter().zip(words.chunks(2)) {
                if slot[0] != u32::MAX || slot[1] != 0 {
                    let from = if matches!(of.0, Through::Pointer(_)) { self.address } else { 0 };
                    let (low, high) = seen.get(of).copied().unwrap_or((u64::MAX, 0));
                    let (first, end) = (from + u64::from(slot[0]), from + u64::from(slot[1]));
                    seen.insert(*of, (low.min(first), high.max(end)));
                }
            }
            device.destroy_command_pool(commands, None);
            device.destroy_pipeline(pipeline, None);
            device.destroy_shader_module(module, None);
            device.destroy_descriptor_pool(pool, None);
            device.destroy_pipeline_layout(layout, None);
            set_layouts.iter().for_each(|layout| device.destroy_descriptor_set_layout(*layout, None));
            for memory in buffers.into_values() {
                device.destroy_buffer(memory.buffer, None);
                device.free_memory(memory.memory, None);
            }
            Ok(seen)
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: nothing else made from the device or the instance lives on.
        unsafe {
            self.device.destroy_buffer(self.arena.buffer, None);
            self.device.free_memory(self.arena.memory, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
