//! The device's clock and the host's, read at one moment.
//!
//! Without it a token's two timelines could only be laid side by side where both sides must have been at one point, such as
//! the end of a wait, whose own latency is then hidden in the picture. VK_EXT_calibrated_timestamps reads both clocks
//! together and says how far apart the readings may lie.

use ash::{ext, vk};

use super::error::During;
use super::{Error, Instance};

/// `VK_EXT_calibrated_timestamps`.
pub(super) const EXTENSION: &std::ffi::CStr = ext::calibrated_timestamps::NAME;

/// Whether this device reads its own clock together with `CLOCK_MONOTONIC`.
pub(super) fn has(instance: &Instance, device: vk::PhysicalDevice) -> bool {
    if !instance.has_extension(device, EXTENSION) {
        return false;
    }
    let clocks = ext::calibrated_timestamps::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the device has the extension, so its instance-level command may be called on it.
    let domains = unsafe { clocks.get_physical_device_calibrateable_time_domains(device) };
    domains.is_ok_and(|d| DOMAINS.iter().all(|domain| d.contains(domain)))
}

const DOMAINS: [vk::TimeDomainEXT; 2] = [vk::TimeDomainEXT::DEVICE, vk::TimeDomainEXT::CLOCK_MONOTONIC];

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Ticks of the device.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub host: u64,
}

/// Reads both clocks.
pub(super) struct Clocks(ext::calibrated_timestamps::Device);

impl Clocks {
    /// The extension must have been enabled on the device.
    pub(super) fn new(instance: &ash::Instance, device: &ash::Device) -> Self {
        Self(ext::calibrated_timestamps::Device::new(instance, device))
    }

    /// Now: of several readings the one with the smallest deviation, since a thread may be put to sleep between clocks.
    pub(super) fn now(&self) -> Result<Moment, Error> {
        let wanted = DOMAINS.map(|domain| vk::CalibratedTimestampInfoEXT::default().time_domain(domain));
        let mut best: Option<(u64, Moment)> = None;
        for _ in 0..5 {
            // SAFETY: the extension is enabled, and the device has both domains (checked in `has`).
            let (clocks, deviation) = unsafe { self.0.get_calibrated_timestamps(&wanted) }
                .during("vkGetCalibratedTimestampsEXT")?;
            if best.is_none_or(|(least, _)| deviation < least) {
                best = Some((deviation, Moment { ticks: clocks[0], host: clocks[1] }));
            }
        }
        Ok(best.map_or(Moment { ticks: 0, host: 0 }, |(_, moment)| moment))
    }
}
