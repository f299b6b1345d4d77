//! Compiles every kernel on the first device of the loader and asks the driver what it made of it.
//!
//! `VK_KHR_pipeline_executable_properties` is the driver's own account: registers, spills, code size, in words and
//! numbers of its own. The kernels are whatever `zinc_shaders` lists. All features that the device has are enabled, so
//! that a kernel that needs one compiles here if it compiles anywhere.

use std::ffi::CStr;

use anyhow::{Context, Result, ensure};
use ash::{Device, Entry, Instance, khr, vk};
use serde_json::{Value, json};
use zinc_shaders::{Capability, KERNELS, Kernel};

/// The engine's shapes on a GPU: a matrix-vector kernel, a kernel whose workgroup works together, one on cooperative matrices
/// (four subgroups of 64, in its default tile), any other.
const MATVEC: [u32; 2] = [64, 2];
const REDUCE: [u32; 2] = [256, 1];
const COOPERATIVE: [u32; 2] = [256, 1];
const ELEMENT: [u32; 2] = [64, 1];

/// The account of every kernel as JSON: `device`, and `kernels` with `name`, `workgroup`, `rows` and either
/// `statistics` (name to number) or `refused`.
pub fn account() -> Result<Value> {
    // SAFETY: the loader is a well-behaved library that outlives everything here.
    let entry = unsafe { Entry::load() }.context("cannot load the Vulkan loader")?;
    let application =
        vk::ApplicationInfo::default().application_name(c"shader-stats").api_version(vk::API_VERSION_1_3);
    let create = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structures live through the call. Neither instance nor device is destroyed: the process ends soon.
    let instance = unsafe { entry.create_instance(&create, None) }.context("vkCreateInstance")?;
    let (physical, device) = open(&instance)?;
    // SAFETY: the handle comes from this instance.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    let executable = khr::pipeline_executable_properties::Device::new(&instance, &device);
    // SAFETY: as above.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical)? };
    let matrices = has(&extensions, khr::cooperative_matrix::NAME);
    let mut kernels = Vec::new();
    for kernel in KERNELS {
        if kernel.capabilities.contains(&Capability::CooperativeMatrixKHR) && !matrices {
            let why = "no VK_KHR_cooperative_matrix";
            kernels
                .push(json!({"name": kernel.name, "workgroup": COOPERATIVE[0], "rows": 1, "refused": why}));
            continue;
        }
        let [workgroup, rows] = shape(kernel);
        let mut row = json!({"name": kernel.name, "workgroup": workgroup, "rows": rows});
        match statistics(&device, &executable, kernel, [workgroup, rows]) {
            Ok(numbers) => row["statistics"] = numbers,
            Err(result) => row["refused"] = json!(result.to_string()),
        }
        kernels.push(row);
    }
    let name = properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy();
    Ok(json!({"device": name, "kernels": kernels}))
}

fn open(instance: &Instance) -> Result<(vk::PhysicalDevice, Device)> {
    // SAFETY: handles come from this instance, and all structures live through the calls. What is enabled is what the
    // device has said that it has.
    unsafe {
        let devices = instance.enumerate_physical_devices().context("vkEnumeratePhysicalDevices")?;
        let physical = *devices.first().context("the loader shows no device")?;
        let extensions = instance.enumerate_device_extension_properties(physical)?;
        let wanted = khr::pipeline_executable_properties::NAME;
        ensure!(
            has(&extensions, wanted),
            "the driver gives no account of its shaders: it lacks {}",
            wanted.to_string_lossy()
        );
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut account = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13)
            .push_next(&mut account);
        let mut names = vec![wanted.as_ptr()];
        let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        if has(&extensions, khr::cooperative_matrix::NAME) {
            features = features.push_next(&mut matrices);
            names.push(khr::cooperative_matrix::NAME.as_ptr());
        }
        instance.get_physical_device_features2(physical, &mut features);
        let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queue)
            .enabled_extension_names(&names)
            .push_next(&mut features);
        Ok((physical, instance.create_device(physical, &create, None).context("vkCreateDevice")?))
    }
}

fn has(extensions: &[vk::ExtensionProperties], name: &CStr) -> bool {
    extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name))
}

/// The shape in which the engine runs the kernel on a GPU, told from the module: whether it has a constant for rows, and
/// whether it has a barrier within the workgroup.
fn shape(kernel: &Kernel) -> [u32; 2] {
    if kernel.capabilities.contains(&Capability::CooperativeMatrixKHR) {
        return COOPERATIVE;
    }
    const OP_CONTROL_BARRIER: u32 = 224;
    let mut at = 5;
    let mut together = false;
    while let Some(word) = kernel.spirv.get(at) {
        let (count, opcode) = ((word >> 16) as usize, word & 0xffff);
        together |= opcode == OP_CONTROL_BARRIER;
        at += count.max(1);
    }
    let rows = kernel.constants.iter().any(|constant| constant.name == "ROWS");
    match (rows, together) {
        (true, _) => MATVEC,
        (false, true) => REDUCE,
        (false, false) => ELEMENT,
    }
}

/// What the driver says of the kernel in a shape, by the driver's own names. A pipeline of several executables gives the
/// sum of each number.
fn statistics(
    device: &Device,
    executable: &khr::pipeline_executable_properties::Device,
    kernel: &'static Kernel,
    shape: [u32; 2],
) -> Result<Value, vk::Result> {
    let bindings: Vec<_> = (0..kernel.bindings.len() as u32)
        .map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let push = [vk::PushConstantRange {
        stage_flags: vk::ShaderStageFlags::COMPUTE,
        offset: 0,
        size: kernel.push_bytes.max(4),
    }];
    // The size of a workgroup and, of the kernels that are cut by them, the rows of one; the tile of cooperative matrices stays.
    let cut = !kernel.capabilities.contains(&Capability::CooperativeMatrixKHR);
    let names = if cut { &["WORKGROUP", "ROWS"][..] } else { &["WORKGROUP"] };
    let given = names.iter().zip(shape);
    let given = given.filter_map(|(name, value)| {
        let constant = kernel.constants.iter().find(|constant| constant.name == *name)?;
        Some((constant.id, value))
    });
    let (ids, values): (Vec<_>, Vec<_>) = given.unzip();
    let entry =
        |(i, constant_id): (u32, u32)| vk::SpecializationMapEntry { constant_id, offset: 4 * i, size: 4 };
    let entries: Vec<_> = (0..).zip(ids).map(entry).collect();
    let data: Vec<u8> = values.into_iter().flat_map(u32::to_ne_bytes).collect();
    let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
    // SAFETY: the device is alive, all structures live through the calls, and the words are SPIR-V of the reference
    // compiler. What is made is not destroyed, since the process ends soon.
    unsafe {
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let sets = [device.create_descriptor_set_layout(&info, None)?];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&push);
        let layout = device.create_pipeline_layout(&info, None)?;
        let module =
            device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(kernel.spirv), None)?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&specialization);
        let info = [vk::ComputePipelineCreateInfo::default()
            .flags(vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)
            .stage(stage)
            .layout(layout)];
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &info, None);
        let pipeline = made.map_err(|(_, result)| result)?[0];
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
        let executables = executable.get_pipeline_executable_properties(&info)?;
        let mut numbers = serde_json::Map::new();
        for index in 0..executables.len() as u32 {
            let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(index);
            for statistic in executable.get_pipeline_executable_statistics(&info)? {
                let Some(n) = number(&statistic) else { continue };
                let name = CStr::from_ptr(statistic.name.as_ptr()).to_string_lossy().into_owned();
                let sum = numbers.get(&name).and_then(Value::as_u64).unwrap_or(0) + n;
                numbers.insert(name, json!(sum));
            }
        }
        Ok(Value::Object(numbers))
    }
}

/// A statistic that counts something.
fn number(statistic: &vk::PipelineExecutableStatisticKHR<'_>) -> Option<u64> {
    // SAFETY: the format says which member of the union the driver has written.
    unsafe {
        match statistic.format {
            vk::PipelineExecutableStatisticFormatKHR::UINT64 => Some(statistic.value.u64),
            vk::PipelineExecutableStatisticFormatKHR::INT64 => u64::try_from(statistic.value.i64).ok(),
            _ => None,
        }
    }
}
