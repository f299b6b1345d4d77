//! Whether a device multiplies matrices of halves, and in which shape.
//!
//! VK_KHR_cooperative_matrix lists the shapes that a device knows. The engine's kernels take those that multiply halves and add
//! floats, a subgroup each: a prompt's products a large one, attention of one token one with few columns. It also needs to know how many invocations a subgroup has, so that a workgroup is made of whole ones.

use ash::{khr, vk};

use super::Instance;
use crate::plan::{Cooperative, Fragment, Shapes};

/// `VK_KHR_cooperative_matrix`.
pub(super) const EXTENSION: &std::ffi::CStr = khr::cooperative_matrix::NAME;

/// What the device has. `memory_model` says whether it has the Vulkan memory model, which such kernels are written in.
pub(super) fn find(
    instance: &Instance,
    device: vk::PhysicalDevice,
    api: u32,
    memory_model: bool,
) -> Cooperative {
    if api < vk::API_VERSION_1_3 {
        return Cooperative::Lacks("the device is older than Vulkan 1.3");
    }
    if !instance.has_extension(device, EXTENSION) {
        return Cooperative::Lacks("the device has no VK_KHR_cooperative_matrix");
    }
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut half = vk::PhysicalDeviceShaderFloat16Int8Features::default();
    let mut size = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default()
        .push_next(&mut matrix)
        .push_next(&mut half)
        .push_next(&mut size);
    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut control = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut properties =
        vk::PhysicalDeviceProperties2::default().push_next(&mut subgroup).push_next(&mut control);
    // SAFETY: the structures belong to Vulkan 1.3 and to an extension that the device has.
    unsafe {
        instance.raw.get_physical_device_features2(device, &mut features);
        instance.raw.get_physical_device_properties2(device, &mut properties);
    }
    if matrix.cooperative_matrix != vk::TRUE || half.shader_float16 != vk::TRUE || !memory_model {
        return Cooperative::Lacks(
            "the device has VK_KHR_cooperative_matrix without cooperativeMatrix, shaderFloat16 or vulkanMemoryModel",
        );
    }
    if size.subgroup_size_control != vk::TRUE
        || size.compute_full_subgroups != vk::TRUE
        || !control.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE)
    {
        return Cooperative::Lacks("the device does not let a kernel ask for whole subgroups of one size");
    }
    let commands = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the device has the extension, so its instance-level command may be called on it.
    let shapes = unsafe { commands.get_physical_device_cooperative_matrix_properties(device) };
    let Ok(shapes) = shapes else {
        return Cooperative::Lacks("the device does not tell the shapes of its cooperative matrices");
    };
    let (half, float) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
    let mut usable: Vec<Fragment> = shapes
        .iter()
        .filter(|s| s.scope == vk::ScopeKHR::SUBGROUP && (s.a_type, s.b_type) == (half, half))
        .filter(|s| (s.c_type, s.result_type) == (float, float) && s.saturating_accumulation == vk::FALSE)
        .filter(|s| [s.m_size, s.n_size, s.k_size].iter().all(|n| matches!(n, 8 | 16 | 32)))
        .map(|s| Fragment { m: s.m_size, n: s.n_size, k: s.k_size, subgroup: subgroup.subgroup_size })
        .collect();
    // The largest that is not above 16 x 16 x 16, the shape that most devices have.
    usable.sort_by_key(|f| (f.m.max(f.n).max(f.k) > 16, std::cmp::Reverse(f.m * f.n * f.k)));
    let Some(&product) = usable.first() else {
        return Cooperative::Lacks("the device has no cooperative matrices of halves that add floats");
    };
    let reduces = subgroup.supported_operations.contains(vk::SubgroupFeatureFlags::ARITHMETIC);
    // A token has few query heads to a key, and what an invocation loads of the cache, sixteen bytes, is its part of a factor.
    let suits = |f: &&Fragment| reduces && f.m * f.k == 8 * f.subgroup;
    let attention = usable.iter().filter(suits).min_by_key(|f| f.n).copied();
    Cooperative::Has(Shapes { product, attention })
}
