//! What can go wrong between the engine and a driver, in words that name a remedy.

use ash::vk;

use super::requirements;
use crate::results::DeviceKind;

/// An error of a Vulkan call, or the lack of something to call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no Vulkan loader.
    #[error(
        "there is no Vulkan loader ({0}); install it (Debian and Ubuntu: apt-get install libvulkan1) and a driver \
         (without a GPU: mesa-vulkan-drivers, which has lavapipe)"
    )]
    NoLoader(String),
    /// The loader found no driver, or none that has a device.
    #[error(
        "the Vulkan loader found no driver with a device; install one (without a GPU: apt-get install \
         mesa-vulkan-drivers, which has lavapipe), and look whether VK_DRIVER_FILES or VK_ICD_FILENAMES hides it"
    )]
    NoDriver,
    /// `--device` names nothing that is there.
    #[error("there is no Vulkan device {asked:?}; there are: {available}")]
    NoSuchDevice {
        /// What was asked for.
        asked: String,
        /// All devices, with their numbers.
        available: String,
    },
    /// `--require` asks for a kind that is not there.
    #[error("a {required} was required, and there is none; there are: {available}")]
    WrongKind {
        /// What was asked for.
        required: &'static str,
        /// All devices, with their numbers.
        available: String,
    },
    /// The device named with `--device` is not of the kind that `--require` asks for.
    #[error("a {required} was required, and the device {name:?} is a {kind}")]
    NamedWrongKind {
        /// What was asked for.
        required: &'static str,
        /// The device.
        name: String,
        /// Its kind.
        kind: DeviceKind,
    },
    /// A driver that records commands and executes none, where a GPU is required.
    #[error(
        "a GPU was required, and {name:?} computes nothing: its driver records commands without executing them; choose \
         another device with --device, or leave --require out to count what is recorded"
    )]
    ComputesNothing {
        /// The device.
        name: String,
    },
    /// The device lacks something.
    #[error(transparent)]
    Missing(#[from] requirements::Missing),
    /// The device stopped answering.
    #[error(
        "the device was lost during {during}: the driver reset it, or it was removed; look into the kernel's log, and \
         try a smaller model or context"
    )]
    DeviceLost {
        /// The call that said so.
        during: &'static str,
    },
    /// A submission did not finish.
    #[error(
        "the device did not finish within {seconds} seconds; it may be hung, or far too slow for this model or batch: \
         --submit-timeout SECONDS allows more"
    )]
    Timeout {
        /// How long the engine waited.
        seconds: u64,
    },
    /// Memory ran out.
    #[error("out of {kind} memory during {during}; use a smaller model or context, or close other programs")]
    OutOfMemory {
        /// `device` or `host`.
        kind: &'static str,
        /// The call that said so, or what was to be allocated.
        during: String,
    },
    /// The queue has no clock.
    #[error("the device's compute queue has no timestamps, so nothing can be timed on it")]
    NoTimestamps,
    /// A kernel that needs what the device lacks.
    #[error(
        "the kernel {kernel} needs the SPIR-V capability {capability}, which this device does not have; use --fusion none"
    )]
    Capability {
        /// The kernel.
        kernel: &'static str,
        /// The capability's number.
        capability: u32,
    },
    /// A kernel with more bindings than the device has.
    #[error(
        "the kernel {kernel} binds {need} storage buffers, and this device allows {have} (maxPerStageDescriptorStorageBuffers); use --fusion none"
    )]
    Bindings {
        /// The kernel.
        kernel: &'static str,
        /// Bindings of the kernel.
        need: u32,
        /// The device's limit.
        have: u32,
    },
    /// No memory type serves a purpose.
    #[error("the device has no memory type for {0}")]
    NoMemoryType(&'static str),
    /// Any other failure.
    #[error("{call} failed: {result}")]
    Call {
        /// The call.
        call: &'static str,
        /// What it returned.
        result: vk::Result,
    },
}

impl Error {
    /// Sorts a result code of `call`.
    pub fn from_result(call: &'static str, result: vk::Result) -> Self {
        match result {
            vk::Result::ERROR_DEVICE_LOST => Self::DeviceLost { during: call },
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => {
                Self::OutOfMemory { kind: "device", during: call.to_owned() }
            }
            vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                Self::OutOfMemory { kind: "host", during: call.to_owned() }
            }
            result => Self::Call { call, result },
        }
    }

    /// Whether something that should have been installed or plugged in is missing.
    pub fn is_missing_device(&self) -> bool {
        matches!(
            self,
            Self::NoLoader(_)
                | Self::NoDriver
                | Self::NoSuchDevice { .. }
                | Self::WrongKind { .. }
                | Self::NamedWrongKind { .. }
                | Self::ComputesNothing { .. }
                | Self::Missing(_)
        )
    }
}

/// Names the call in the error of a Vulkan result.
pub(super) trait During<T> {
    /// The value, or the error of `call`.
    fn during(self, call: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, vk::Result> {
    fn during(self, call: &'static str) -> Result<T, Error> {
        self.map_err(|result| Error::from_result(call, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_device_is_called_lost_and_not_merely_a_failed_call() {
        let error = Error::from_result("vkQueueSubmit", vk::Result::ERROR_DEVICE_LOST);
        assert!(error.to_string().contains("device was lost during vkQueueSubmit"), "{error}");
        assert!(!error.is_missing_device());
    }
}
