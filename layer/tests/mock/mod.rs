//! An application, the loader and a driver in one process: the layer between a test and the mock driver.
//!
//! The test plays the application. What the loader does for a layer is little: it hands over the next link, and it puts
//! its dispatch table into the first word of each dispatchable object. The driver is `zinc_mock_driver`, whose log says
//! what reached it.
#![allow(dead_code, reason = "each test binary uses a part")]

use ash::vk::{self, Handle};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use zinc_mock_driver::{Call, calls};

/// This test program, to be started again with other settings. `ZINC_BARRIER_RUNNER` is what starts it where the kernel can't: an
/// emulator of its processor, with options.
pub fn this_program() -> Command {
    let this = std::env::current_exe().expect("a test is a program");
    let Ok(runner) = std::env::var("ZINC_BARRIER_RUNNER") else { return Command::new(this) };
    let mut words = runner.split_whitespace();
    let mut command = Command::new(words.next().expect("a runner has a name"));
    command.args(words).arg(this);
    command
}

/// `vkNegotiateLoaderLayerInterfaceVersion`, whatever the caller's name for its structure.
pub type Negotiate = unsafe extern "system" fn(*mut c_void) -> vk::Result;

#[repr(C)]
struct Interface {
    s_type: i32,
    next: *mut c_void,
    version: u32,
    instance: Option<vk::PFN_vkGetInstanceProcAddr>,
    device: Option<vk::PFN_vkGetDeviceProcAddr>,
    physical: *const c_void,
}

#[repr(C)]
struct Link {
    next: *mut Link,
    instance: vk::PFN_vkGetInstanceProcAddr,
    /// Of an instance's link: the physical devices' function, which this driver has none of. Of a device's: the device's.
    other: Option<vk::PFN_vkGetDeviceProcAddr>,
}

#[repr(C)]
struct LayerInfo {
    s_type: i32,
    next: *const c_void,
    function: i32,
    link: *mut Link,
}

/// A new dispatch table: every instance and every device has one of its own.
fn table() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);
    NEXT.fetch_add(0x100, Ordering::Relaxed)
}

unsafe fn set_table(object: u64, table: usize) {
    // SAFETY: the driver's dispatchable objects begin with that word.
    unsafe { *(object as *mut usize) = table };
}

/// The end of the chain, where the loader stands: the driver's functions, but objects get their tables.
unsafe extern "system" fn end(instance: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction {
    unsafe extern "system" fn create_instance(
        info: *const vk::InstanceCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::Instance,
    ) -> vk::Result {
        // SAFETY: the driver's function, with what the layer passed on.
        unsafe {
            let create =
                zinc_mock_driver::get_instance_proc_addr(vk::Instance::null(), c"vkCreateInstance".as_ptr());
            let create: vk::PFN_vkCreateInstance = transmute(create);
            let result = create(info, allocator, out);
            set_table((*out).as_raw(), table());
            result
        }
    }
    unsafe extern "system" fn create_device(
        physical: vk::PhysicalDevice,
        info: *const vk::DeviceCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::Device,
    ) -> vk::Result {
        // SAFETY: as above.
        unsafe {
            let create =
                zinc_mock_driver::get_instance_proc_addr(vk::Instance::null(), c"vkCreateDevice".as_ptr());
            let create: vk::PFN_vkCreateDevice = transmute(create);
            let result = create(physical, info, allocator, out);
            set_table((*out).as_raw(), table());
            result
        }
    }
    // SAFETY: the layer passes a C string.
    unsafe {
        match CStr::from_ptr(name).to_bytes() {
            b"vkCreateInstance" => {
                transmute::<vk::PFN_vkCreateInstance, vk::PFN_vkVoidFunction>(create_instance)
            }
            b"vkCreateDevice" => transmute::<vk::PFN_vkCreateDevice, vk::PFN_vkVoidFunction>(create_device),
            _ => zinc_mock_driver::get_instance_proc_addr(instance, name),
        }
    }
}

/// A device under the layer.
pub struct App {
    instance: vk::Instance,
    destroy_instance: vk::PFN_vkDestroyInstance,
    /// The device, through the layer.
    pub device: ash::Device,
    get_instance: vk::PFN_vkGetInstanceProcAddr,
    get: vk::PFN_vkGetDeviceProcAddr,
    table: usize,
}

impl App {
    /// Makes an instance and a device.
    pub fn new(negotiate: Negotiate) -> App {
        App::with(negotiate, &[], false)
    }

    /// The same, with settings of the layer by their names in `VK_EXT_layer_settings`; `robust` enables
    /// `robustBufferAccess`.
    pub fn with(negotiate: Negotiate, settings: &[(&str, &str)], robust: bool) -> App {
        App::asking(negotiate, settings, robust, &[], std::ptr::null())
    }

    /// The same, with extensions of the device and a list that follows the loader's own structure.
    pub fn asking(
        negotiate: Negotiate,
        settings: &[(&str, &str)],
        robust: bool,
        extensions: &[&CStr],
        list: *const c_void,
    ) -> App {
        zinc_mock_driver::start_log();
        let mut interface = Interface {
            s_type: 1,
            next: std::ptr::null_mut(),
            version: 2,
            instance: None,
            device: None,
            physical: std::ptr::null(),
        };
        // SAFETY: the loader's part of the interface, played by its rules.
        unsafe {
            assert_eq!(negotiate((&raw mut interface).cast()), vk::Result::SUCCESS);
            let (get_instance, get_device) = (interface.instance.unwrap(), interface.device.unwrap());
            let mut link = Link { next: std::ptr::null_mut(), instance: end, other: None };
            let texts =
                settings.iter().map(|(name, value)| [*name, *value].map(|t| CString::new(t).unwrap()));
            let texts: Vec<[CString; 2]> = texts.collect();
            let values: Vec<*const c_char> = texts.iter().map(|[_, value]| value.as_ptr()).collect();
            let said: Vec<_> = std::iter::zip(&texts, &values)
                .map(|([name, _], value)| vk::LayerSettingEXT {
                    p_layer_name: c"zinc_barrier".as_ptr(),
                    p_setting_name: name.as_ptr(),
                    ty: vk::LayerSettingTypeEXT::STRING,
                    value_count: 1,
                    p_values: std::ptr::from_ref(value).cast(),
                    ..Default::default()
                })
                .collect();
            let layer_settings = vk::LayerSettingsCreateInfoEXT::default().settings(&said);
            let next =
                if settings.is_empty() { std::ptr::null() } else { (&raw const layer_settings).cast() };
            let chained = LayerInfo { s_type: 47, next, function: 0, link: &raw mut link };
            let info = vk::InstanceCreateInfo { p_next: (&raw const chained).cast(), ..Default::default() };
            let create = get_instance(vk::Instance::null(), c"vkCreateInstance".as_ptr());
            let create: vk::PFN_vkCreateInstance = transmute(create);
            let mut instance = vk::Instance::null();
            assert_eq!(create(&raw const info, std::ptr::null(), &raw mut instance), vk::Result::SUCCESS);
            let destroy_instance: vk::PFN_vkDestroyInstance =
                transmute(get_instance(instance, c"vkDestroyInstance".as_ptr()));

            let enumerate: vk::PFN_vkEnumeratePhysicalDevices =
                transmute(get_instance(instance, c"vkEnumeratePhysicalDevices".as_ptr()));
            let (mut count, mut physical) = (1, vk::PhysicalDevice::null());
            assert_eq!(enumerate(instance, &raw mut count, &raw mut physical), vk::Result::SUCCESS);
            // The driver has one physical device for all instances; each loader makes an object of its own of it.
            let mut object = Box::new((*(instance.as_raw() as *const usize), physical));
            let physical = vk::PhysicalDevice::from_raw(&raw mut *object as u64);

            let mut link = Link {
                next: std::ptr::null_mut(),
                instance: end,
                other: Some(zinc_mock_driver::get_device_proc_addr),
            };
            let chained = LayerInfo { s_type: 48, next: list, function: 0, link: &raw mut link };
            let features = vk::PhysicalDeviceFeatures::default().robust_buffer_access(robust);
            let names: Vec<*const c_char> = extensions.iter().map(|name| name.as_ptr()).collect();
            let info = vk::DeviceCreateInfo {
                p_next: (&raw const chained).cast(),
                enabled_extension_count: names.len() as u32,
                pp_enabled_extension_names: names.as_ptr(),
                p_enabled_features: &raw const features,
                ..Default::default()
            };
            let create: vk::PFN_vkCreateDevice =
                transmute(get_instance(instance, c"vkCreateDevice".as_ptr()));
            let mut device = vk::Device::null();
            assert_eq!(
                create(physical, &raw const info, std::ptr::null(), &raw mut device),
                vk::Result::SUCCESS
            );
            let table = *(device.as_raw() as *const usize);
            let functions = ash::Device::load_with(
                |name| transmute::<vk::PFN_vkVoidFunction, *const c_void>(get_device(device, name.as_ptr())),
                device,
            );
            App { instance, destroy_instance, device: functions, get_instance, get: get_device, table }
        }
    }

    /// A function of the device by name and type.
    ///
    /// # Safety
    ///
    /// `F` must be the function pointer type that the name stands for.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: by the caller.
        unsafe {
            let found = (self.get)(self.device.handle(), name.as_ptr());
            assert!(found.is_some(), "no {name:?}");
            std::mem::transmute_copy(&found)
        }
    }

    /// What the layer answers for the name of a function of the device, and of the instance, as an address.
    pub fn answers(&self, name: &CStr) -> [usize; 2] {
        // SAFETY: the layer's functions, with its own objects.
        let found = unsafe {
            [
                (self.get)(self.device.handle(), name.as_ptr()),
                (self.get_instance)(self.instance, name.as_ptr()),
            ]
        };
        found.map(|function| function.map_or(0, |f| f as usize))
    }

    /// The tools that are active on the physical device, with `room` for so many: what the call returns, how many, and
    /// the first one's name.
    pub fn tools(&self, room: Option<u32>) -> (vk::Result, u32, String) {
        // SAFETY: the name's type; the physical device's first word is the instance's, as a loader has it.
        unsafe {
            let get: vk::PFN_vkGetPhysicalDeviceToolProperties =
                transmute((self.get_instance)(self.instance, c"vkGetPhysicalDeviceToolProperties".as_ptr()));
            let mut object = Box::new(*(self.instance.as_raw() as *const usize));
            let physical = vk::PhysicalDevice::from_raw(&raw mut *object as u64);
            let mut list = vec![vk::PhysicalDeviceToolProperties::default(); room.unwrap_or(0) as usize];
            let mut count = room.unwrap_or(0);
            let out = if room.is_some() { list.as_mut_ptr() } else { std::ptr::null_mut() };
            let result = get(physical, &raw mut count, out);
            let name = list
                .first()
                .map_or(String::new(), |t| CStr::from_ptr(t.name.as_ptr()).to_string_lossy().into_owned());
            (result, count, name)
        }
    }

    /// A buffer of `size` bytes with an allocation of its own.
    pub fn buffer(&self, size: u64) -> vk::Buffer {
        // SAFETY: as everywhere here: arguments outlive the calls, and objects are the device's.
        unsafe {
            let info = vk::BufferCreateInfo::default().size(size).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
            let buffer = self.device.create_buffer(&info, None).unwrap();
            let memory = self
                .device
                .allocate_memory(&vk::MemoryAllocateInfo::default().allocation_size(size), None)
                .unwrap();
            self.device.bind_buffer_memory(buffer, memory, 0).unwrap();
            buffer
        }
    }

    /// A layout of `count` bindings of one type, made with `flags`.
    pub fn set_layout(
        &self,
        ty: vk::DescriptorType,
        count: u32,
        flags: vk::DescriptorSetLayoutCreateFlags,
    ) -> vk::DescriptorSetLayout {
        let bindings: Vec<_> = (0..count)
            .map(|i| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(i)
                    .descriptor_type(ty)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).flags(flags);
        // SAFETY: as above.
        unsafe { self.device.create_descriptor_set_layout(&info, None).unwrap() }
    }

    /// A pipeline layout of these sets.
    pub fn pipeline_layout(&self, sets: &[vk::DescriptorSetLayout]) -> vk::PipelineLayout {
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(sets);
        // SAFETY: as above.
        unsafe { self.device.create_pipeline_layout(&info, None).unwrap() }
    }

    /// A pipeline of a shader's words.
    pub fn pipeline(&self, layout: vk::PipelineLayout, words: &[u32]) -> vk::Pipeline {
        // SAFETY: as above.
        unsafe {
            let module = self
                .device
                .create_shader_module(&vk::ShaderModuleCreateInfo::default().code(words), None)
                .unwrap();
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            self.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None).unwrap()[0]
        }
    }

    /// Sets of a layout.
    pub fn sets(&self, layout: vk::DescriptorSetLayout, count: usize) -> Vec<vk::DescriptorSet> {
        // SAFETY: as above.
        unsafe {
            let pool = self
                .device
                .create_descriptor_pool(&vk::DescriptorPoolCreateInfo::default().max_sets(count as u32), None)
                .unwrap();
            let layouts = vec![layout; count];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            self.device.allocate_descriptor_sets(&info).unwrap()
        }
    }

    /// Writes the storage buffers of a set, from binding 0 on.
    pub fn write(&self, set: vk::DescriptorSet, buffers: &[vk::Buffer]) {
        let infos: Vec<_> = buffers
            .iter()
            .map(|b| vk::DescriptorBufferInfo::default().buffer(*b).range(vk::WHOLE_SIZE))
            .collect();
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&infos);
        // SAFETY: as above.
        unsafe { self.device.update_descriptor_sets(&[write], &[]) };
    }

    /// A command buffer.
    pub fn commands(&self) -> vk::CommandBuffer {
        // SAFETY: as above; the loader puts the device's table into the buffer.
        unsafe {
            let pool = self.device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap();
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let buffer = self.device.allocate_command_buffers(&info).unwrap()[0];
            set_table(buffer.as_raw(), self.table);
            buffer
        }
    }

    /// A command buffer of a pool, with the device's table where the loader puts it.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn commands_of(
        &self,
        pool: vk::CommandPool,
        level: vk::CommandBufferLevel,
    ) -> Result<vk::CommandBuffer, vk::Result> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: as above.
        unsafe {
            let buffer = self.device.allocate_command_buffers(&info.level(level))?[0];
            set_table(buffer.as_raw(), self.table);
            Ok(buffer)
        }
    }

    /// The queue, with the device's table where the loader puts it. There is one in the process: whoever takes it last has it.
    pub fn queue(&self) -> vk::Queue {
        // SAFETY: as above.
        unsafe {
            let queue = self.device.get_device_queue(0, 0);
            set_table(queue.as_raw(), self.table);
            queue
        }
    }

    /// Submits a command buffer.
    pub fn submit(&self, commands: vk::CommandBuffer) {
        let buffers = [commands];
        let info = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: as above.
        unsafe { self.device.queue_submit(self.queue(), &info, vk::Fence::null()).unwrap() }
    }

    /// Begins a recording in which the prefix needs no barrier any more: what is logged after it is the test's own.
    pub fn begin(&self, buffer: vk::CommandBuffer) {
        // SAFETY: as above.
        unsafe { self.device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()).unwrap() }
    }

    /// Asks for the usual barrier between compute shaders.
    pub fn barrier(&self, buffer: vk::CommandBuffer) {
        let access = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
        let barrier = [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
        let (stage, none) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::DependencyFlags::empty());
        // SAFETY: as above.
        unsafe { self.device.cmd_pipeline_barrier(buffer, stage, stage, none, &barrier, &[], &[]) };
    }

    /// Ends a recording. What reached the driver: `B` for a barrier, the x size for a dispatch, other commands not.
    pub fn end(&self, buffer: vk::CommandBuffer) -> String {
        // SAFETY: as above.
        let calls = unsafe {
            self.device.end_command_buffer(buffer).unwrap();
            calls(buffer)
        };
        let words = calls.iter().filter_map(|call| match call {
            Call::Barrier { .. } => Some("B".to_string()),
            Call::Dispatch([x, ..]) => Some(x.to_string()),
            _ => None,
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // SAFETY: the test is done with it.
        unsafe {
            self.device.destroy_device(None);
            (self.destroy_instance)(self.instance, std::ptr::null());
        }
    }
}
