//! The device on which pictures are drawn, and what all scenes share of it.
//!
//! All scenes use one pipeline layout: bindings 0 to 2 are storage buffers, 3 and 4 sampled images, 5 a storage image,
//! 6 an input attachment, and there are two vectors of push constants. What a scene does not need holds
//! things that it does not use (`Stage::set`).

use anyhow::{Context, Result, bail, ensure};
use ash::{Device, Entry, Instance, khr, vk};
use raw_window_handle::{RawDisplayHandle, RawWindowHandle};

/// The format of every picture.
pub const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;
/// Width and height of every picture, in texels.
pub const SIZE: vk::Extent2D = vk::Extent2D { width: 320, height: 240 };

/// The descriptor types of the layout that all pipelines share, by binding.
pub const BINDINGS: [vk::DescriptorType; 7] = [
    vk::DescriptorType::STORAGE_BUFFER,
    vk::DescriptorType::STORAGE_BUFFER,
    vk::DescriptorType::STORAGE_BUFFER,
    vk::DescriptorType::COMBINED_IMAGE_SAMPLER,
    vk::DescriptorType::COMBINED_IMAGE_SAMPLER,
    vk::DescriptorType::STORAGE_IMAGE,
    vk::DescriptorType::INPUT_ATTACHMENT,
];

/// A device with one queue that draws, computes and, where there is a window, presents.
pub struct Gpu {
    _entry: Entry,
    pub instance: Instance,
    pub physical: vk::PhysicalDevice,
    pub device: Device,
    pub queue: vk::Queue,
    pub name: String,
    pub commands: vk::CommandPool,
    pub set_layout: vk::DescriptorSetLayout,
    pub layout: vk::PipelineLayout,
    /// Linear between texels and levels, repeating.
    pub sampler: vk::Sampler,
    /// The window's surface and the functions for it.
    pub surface: Option<(khr::surface::Instance, vk::SurfaceKHR)>,
    pub memory_types: vk::PhysicalDeviceMemoryProperties,
}

impl Gpu {
    /// Opens the first device with Vulkan 1.3 that can draw, and whose name contains `wanted`. Given a window, it can
    /// also present there.
    ///
    /// # Errors
    /// When there is no loader or no such device.
    pub fn open(wanted: &str, window: Option<(RawDisplayHandle, RawWindowHandle)>) -> Result<Gpu> {
        // SAFETY: the loader is a well-behaved library, and outlives every use in the struct that keeps it.
        let entry = unsafe { Entry::load() }.context("cannot load the Vulkan loader: run tests/setup")?;
        let extensions = match window {
            Some((display, _)) => ash_window::enumerate_required_extensions(display)?,
            None => &[],
        };
        let application =
            vk::ApplicationInfo::default().application_name(c"pictures").api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_extension_names(extensions);
        // SAFETY: the structures live through the call; `Gpu::drop` destroys the instance before the entry goes. An
        // error further down ends the program, and everything with it.
        let instance = unsafe { entry.create_instance(&create, None) }.with_context(|| match window {
            Some(_) => "vkCreateInstance (does the driver lack VK_KHR_surface or VK_KHR_xcb_surface?)",
            None => "vkCreateInstance",
        })?;
        let surface = match window {
            Some((display, window)) => {
                // SAFETY: whoever called owns the connection and the window, and keeps them longer than the device.
                let handle = unsafe { ash_window::create_surface(&entry, &instance, display, window, None) }
                    .context("ash_window::create_surface")?;
                Some((khr::surface::Instance::new(&entry, &instance), handle))
            }
            None => None,
        };
        let (physical, family, name) = choose(&instance, wanted, surface.as_ref())?;
        let device = open_device(&instance, physical, family, surface.is_some())?;
        // SAFETY: the device is valid and the structures live through the calls.
        unsafe {
            let queue = device.get_device_queue(family, 0);
            let pool = vk::CommandPoolCreateInfo::default().queue_family_index(family);
            let commands = device.create_command_pool(&pool, None)?;
            let (set_layout, layout) = layouts(&device)?;
            let sampler = vk::SamplerCreateInfo::default()
                .mag_filter(vk::Filter::LINEAR)
                .min_filter(vk::Filter::LINEAR)
                .mipmap_mode(vk::SamplerMipmapMode::LINEAR)
                .max_lod(vk::LOD_CLAMP_NONE);
            let sampler = device.create_sampler(&sampler, None)?;
            let memory_types = instance.get_physical_device_memory_properties(physical);
            Ok(Gpu {
                _entry: entry,
                instance,
                physical,
                device,
                queue,
                name,
                commands,
                set_layout,
                layout,
                sampler,
                surface,
                memory_types,
            })
        }
    }

    /// The first memory type in `allowed` with all of `wanted`.
    ///
    /// # Errors
    /// When there is none.
    pub fn memory_type(&self, allowed: u32, wanted: vk::MemoryPropertyFlags) -> Result<u32> {
        let mut types = (0u32..).zip(self.memory_types.memory_types_as_slice());
        let found = types.find(|(i, t)| allowed & (1 << i) != 0 && t.property_flags.contains(wanted));
        let (index, _) = found.with_context(|| format!("no memory type is {wanted:?}"))?;
        Ok(index)
    }
}

/// The device, its queue family and its name.
fn choose(
    instance: &Instance,
    wanted: &str,
    surface: Option<&(khr::surface::Instance, vk::SurfaceKHR)>,
) -> Result<(vk::PhysicalDevice, u32, String)> {
    let needed = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    let mut seen = Vec::new();
    // SAFETY: the instance is valid; all handles come from it.
    unsafe {
        for physical in instance.enumerate_physical_devices().context("vkEnumeratePhysicalDevices")? {
            let properties = instance.get_physical_device_properties(physical);
            let name = properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned();
            let families = instance.get_physical_device_queue_family_properties(physical);
            for (family, _) in
                (0u32..).zip(&families).filter(|(_, family)| family.queue_flags.contains(needed))
            {
                let presents = match surface {
                    Some((f, surface)) => {
                        f.get_physical_device_surface_support(physical, family, *surface)?
                    }
                    None => true,
                };
                if presents && properties.api_version >= vk::API_VERSION_1_3 && name.contains(wanted) {
                    return Ok((physical, family, name));
                }
            }
            seen.push(name);
        }
    }
    bail!(
        "no device called '{wanted}' draws with Vulkan 1.3{}; there are: {}",
        if surface.is_some() { " and presents in the window" } else { "" },
        seen.join(", ")
    )
}

fn open_device(
    instance: &Instance,
    physical: vk::PhysicalDevice,
    family: u32,
    presents: bool,
) -> Result<Device> {
    let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
    let swapchain = [khr::swapchain::NAME.as_ptr()];
    let mut features =
        vk::PhysicalDeviceVulkan13Features::default().synchronization2(true).dynamic_rendering(true);
    let mut offered = vk::PhysicalDeviceVulkan13Features::default();
    let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut offered);
    let mut create = vk::DeviceCreateInfo::default().queue_create_infos(&queue).push_next(&mut features);
    if presents {
        create = create.enabled_extension_names(&swapchain);
    }
    // SAFETY: the handles belong together and the structures live through the calls.
    unsafe {
        instance.get_physical_device_features2(physical, &mut all);
        ensure!(
            offered.synchronization2 != 0 && offered.dynamic_rendering != 0,
            "the device lacks synchronization2 or dynamicRendering"
        );
        instance.create_device(physical, &create, None).context("vkCreateDevice")
    }
}

fn layouts(device: &Device) -> Result<(vk::DescriptorSetLayout, vk::PipelineLayout)> {
    let bindings: Vec<_> = (0u32..)
        .zip(BINDINGS)
        .map(|(i, ty)| {
            let stages = match ty {
                vk::DescriptorType::INPUT_ATTACHMENT => vk::ShaderStageFlags::FRAGMENT,
                _ => vk::ShaderStageFlags::FRAGMENT | vk::ShaderStageFlags::COMPUTE,
            };
            vk::DescriptorSetLayoutBinding::default()
                .binding(i)
                .descriptor_type(ty)
                .descriptor_count(1)
                .stage_flags(stages)
        })
        .collect();
    let push = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::ALL).size(32)];
    // SAFETY: the device is valid, the structures live through the calls.
    unsafe {
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let set = device.create_descriptor_set_layout(&info, None)?;
        let sets = [set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&push);
        Ok((set, device.create_pipeline_layout(&info, None)?))
    }
}

/// Room in a descriptor pool for `sets` sets of the shared layout.
pub fn pool_sizes(sets: u32) -> Vec<vk::DescriptorPoolSize> {
    BINDINGS.map(|ty| vk::DescriptorPoolSize::default().ty(ty).descriptor_count(sets)).into()
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the device is idle afterwards, each handle was made from it and is destroyed once; stages and the
        // swapchain borrow the device and are gone.
        unsafe {
            // An error here leaves nothing better to do than to go on.
            let _ = self.device.device_wait_idle();
            self.device.destroy_sampler(self.sampler, None);
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
            self.device.destroy_command_pool(self.commands, None);
            self.device.destroy_device(None);
            if let Some((functions, surface)) = &self.surface {
                functions.destroy_surface(*surface, None);
            }
            self.instance.destroy_instance(None);
        }
    }
}
