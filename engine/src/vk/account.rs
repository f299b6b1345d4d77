//! What the driver says of a kernel that it compiled: registers, spills, size.
//!
//! `VK_KHR_pipeline_executable_properties` is the driver's own account, in words of its own. The extension is enabled only for who
//! asks for accounts, and a pipeline of its own is made for each, since a driver that keeps statistics may compile otherwise or
//! leave out its cache: what is measured is never such a pipeline.

use std::collections::BTreeMap;
use std::ffi::CStr;

use ash::{khr, vk};

use super::error::During;
use super::pipeline::Unshared;
use super::{Device, Error, Instance};
use crate::plan::Dispatch;

/// `VK_KHR_pipeline_executable_properties`.
pub(super) const EXTENSION: &CStr = khr::pipeline_executable_properties::NAME;

/// Whether this device tells.
pub(super) fn has(instance: &Instance, device: vk::PhysicalDevice) -> bool {
    if !instance.has_extension(device, EXTENSION) {
        return false;
    }
    let mut told = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut told);
    // SAFETY: the handle was enumerated from this instance; the structures live until the call returns.
    unsafe { instance.raw.get_physical_device_features2(device, &mut features) };
    told.pipeline_executable_info == vk::TRUE
}

/// Asks for accounts.
pub(super) struct Accounts(khr::pipeline_executable_properties::Device);

impl Accounts {
    /// The extension must have been enabled on the device.
    pub(super) fn new(instance: &ash::Instance, device: &ash::Device) -> Self {
        Self(khr::pipeline_executable_properties::Device::new(instance, device))
    }
}

impl Device {
    /// What the driver says of a dispatch's kernel, by its own names; `None` if the device was not made to tell, or can't.
    /// Where it made several programs of one kernel, each number is their sum.
    pub fn account(&self, dispatch: &Dispatch) -> Result<Option<BTreeMap<String, u64>>, Error> {
        let Some(accounts) = &self.accounts else { return Ok(None) };
        self.check_kernel(dispatch.call.kernel)?;
        let made = Unshared::new(self, dispatch, vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)?;
        let info = vk::PipelineInfoKHR::default().pipeline(made.pipeline());
        // SAFETY: the pipeline is alive, and was made with the flag that this wants; structures live until each call returns.
        let programs = unsafe { accounts.0.get_pipeline_executable_properties(&info) }
            .during("vkGetPipelineExecutablePropertiesKHR")?;
        let mut numbers = BTreeMap::new();
        for index in 0..programs.len() as u32 {
            let info =
                vk::PipelineExecutableInfoKHR::default().pipeline(made.pipeline()).executable_index(index);
            // SAFETY: as above.
            let told = unsafe { accounts.0.get_pipeline_executable_statistics(&info) }
                .during("vkGetPipelineExecutableStatisticsKHR")?;
            for statistic in &told {
                let Some(number) = number(statistic) else { continue };
                let name = statistic.name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned();
                *numbers.entry(name).or_insert(0) += number;
            }
        }
        Ok(Some(numbers))
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
