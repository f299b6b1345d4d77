//! What the engine needs of a device, checked in one place and without Vulkan.
//!
//! The kernels need no optional feature and no extension; they do need Vulkan 1.2, a compute queue and a few limits that
//! nearly every device has. A device that falls short is refused with the name of what it lacks, before anything is
//! created on it.

use crate::plan::{Cooperative, Features, Tuning};
use crate::results::DeviceKind;

/// What matters of a device's properties.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// `deviceName`.
    pub name: String,
    /// `deviceType`.
    pub kind: DeviceKind,
    /// (major, minor) of `apiVersion`.
    pub api_version: (u32, u32),
    /// The first queue family that computes.
    pub compute_family: Option<u32>,
    /// `maxComputeWorkGroupInvocations`.
    pub workgroup_invocations: u32,
    /// `maxComputeWorkGroupSize[0]`.
    pub workgroup_size_x: u32,
    /// `maxComputeSharedMemorySize`, bytes.
    pub shared_memory: u32,
    /// `maxComputeWorkGroupCount`, x and y.
    pub grid: [u32; 2],
    /// `maxPerStageDescriptorStorageBuffers`.
    pub storage_buffers: u32,
    /// `maxPushConstantsSize`, bytes.
    pub push_constants: u32,
    /// `maxStorageBufferRange`, bytes.
    pub storage_range: u64,
    /// `maxMemoryAllocationSize`, bytes.
    pub allocation: u64,
    /// `minStorageBufferOffsetAlignment`, bytes.
    pub alignment: u64,
    /// Optional features that fused kernels use.
    pub features: Features,
    /// NVIDIA's own driver.
    pub nvidia: bool,
    /// Cooperative matrices, which a prompt's kernels use.
    pub cooperative: Cooperative,
    /// `timestampValidBits` of the queue family.
    pub timestamp_bits: u32,
    /// `timestampPeriod`, nanoseconds.
    pub timestamp_period: f32,
}

/// Something that a device lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the device {device:?} cannot run this engine: {feature} is {have}, needed is {need}; {remedy}")]
pub struct Missing {
    /// The device.
    pub device: String,
    /// The feature or limit, in Vulkan's words.
    pub feature: &'static str,
    /// What it has.
    pub have: String,
    /// What is needed.
    pub need: String,
    /// What a user can do.
    pub remedy: &'static str,
}

/// Lowest Vulkan version: 1.2 has the driver's name, and every driver of the last years has 1.2.
pub const API_VERSION: (u32, u32) = (1, 2);
/// Most storage buffers that one kernel binds.
const STORAGE_BUFFERS: u32 = 4;
/// Largest push-constant block of a kernel.
const PUSH_CONSTANTS: u32 = 24;

const OTHER_DEVICE: &str = "choose another device with --device";
const NEWER_DRIVER: &str = "install a newer driver, or choose another device with --device";

/// The workgroup shapes for a kind of device.
pub fn tuning(kind: DeviceKind) -> Tuning {
    if kind == DeviceKind::Cpu { Tuning::CPU } else { Tuning::GPU }
}

/// Whether the engine can run on a device; the error names the first thing that is missing.
pub fn check(caps: &Caps) -> Result<(), Missing> {
    let tuning = tuning(caps.kind);
    let largest = tuning.element.max(tuning.reduce).max(tuning.matvec.workgroup);
    let shared = 4 * tuning.reduce.max(tuning.matvec.workgroup * tuning.matvec.rows);
    let fail = |feature, have: String, need: String, remedy| {
        Err(Missing { device: caps.name.clone(), feature, have, need, remedy })
    };
    if caps.api_version < API_VERSION {
        let version = |v: (u32, u32)| format!("{}.{}", v.0, v.1);
        return fail("apiVersion", version(caps.api_version), version(API_VERSION), NEWER_DRIVER);
    }
    if caps.compute_family.is_none() {
        return fail("a queue family with VK_QUEUE_COMPUTE_BIT", "absent".into(), "one".into(), OTHER_DEVICE);
    }
    let limits = [
        ("maxComputeWorkGroupInvocations", caps.workgroup_invocations, largest),
        ("maxComputeWorkGroupSize[0]", caps.workgroup_size_x, largest),
        ("maxComputeSharedMemorySize", caps.shared_memory, shared),
        ("maxPerStageDescriptorStorageBuffers", caps.storage_buffers, STORAGE_BUFFERS),
        ("maxPushConstantsSize", caps.push_constants, PUSH_CONSTANTS),
    ];
    for (feature, have, need) in limits {
        if have < need {
            return fail(feature, have.to_string(), need.to_string(), OTHER_DEVICE);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Caps {
        Caps {
            name: "Test Device".to_owned(),
            kind: DeviceKind::DiscreteGpu,
            api_version: (1, 3),
            compute_family: Some(0),
            workgroup_invocations: 1024,
            workgroup_size_x: 1024,
            shared_memory: 32768,
            grid: [65535, 65535],
            storage_buffers: 8,
            push_constants: 128,
            storage_range: 1 << 27,
            allocation: 1 << 30,
            alignment: 16,
            features: Features::default(),
            nvidia: false,
            cooperative: Cooperative::Lacks("it is a test"),
            timestamp_bits: 64,
            timestamp_period: 1.0,
        }
    }

    #[test]
    fn a_usual_device_is_accepted() {
        assert_eq!(check(&good()), Ok(()));
    }

    #[test]
    fn each_thing_that_is_missing_is_named_with_the_device_and_a_remedy() {
        type Breakage = fn(&mut Caps);
        let broken: [(&str, Breakage); 7] = [
            ("apiVersion", |c| c.api_version = (1, 1)),
            ("VK_QUEUE_COMPUTE_BIT", |c| c.compute_family = None),
            ("maxComputeWorkGroupInvocations", |c| c.workgroup_invocations = 128),
            ("maxComputeWorkGroupSize[0]", |c| c.workgroup_size_x = 128),
            ("maxComputeSharedMemorySize", |c| c.shared_memory = 256),
            ("maxPerStageDescriptorStorageBuffers", |c| c.storage_buffers = 3),
            ("maxPushConstantsSize", |c| c.push_constants = 16),
        ];
        for (feature, breakage) in broken {
            let mut caps = good();
            breakage(&mut caps);
            let message = check(&caps).unwrap_err().to_string();
            assert!(message.contains(feature), "{message}");
            assert!(message.contains("Test Device") && message.contains("--device"), "{message}");
        }
    }

    #[test]
    fn the_constants_here_are_what_the_plain_kernels_really_need() {
        // What fused and batched kernels need beyond that is checked when one is used.
        let plain = || {
            let fused = |k: &&&zinc_shaders::Kernel| {
                !["fused_", "chained_", "persistent", "batch_", "matmul_"]
                    .iter()
                    .any(|name| k.name.starts_with(name))
            };
            zinc_shaders::KERNELS.iter().filter(fused)
        };
        assert_eq!(plain().map(|k| k.bindings.len()).max(), Some(STORAGE_BUFFERS as usize));
        assert_eq!(plain().map(|k| k.push_bytes).max(), Some(PUSH_CONSTANTS));
    }
}
