//! Timestamps on the device's own clock.
//!
//! They order work and cost time themselves, so nothing takes them unless it was asked to.

use std::rc::Rc;

use ash::vk;

use super::error::During;
use super::{Device, Error};

/// A pool of timestamps.
pub(super) struct Queries {
    device: Rc<Device>,
    pool: vk::QueryPool,
    count: u32,
}

impl Queries {
    pub(super) fn new(device: &Rc<Device>, count: u32) -> Result<Self, Error> {
        if device.timestamp_bits() == 0 {
            return Err(Error::NoTimestamps);
        }
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count);
        // SAFETY: the device is alive; the structure lives until the call returns.
        let pool = unsafe { device.raw.create_query_pool(&info, None) }.during("vkCreateQueryPool")?;
        Ok(Self { device: Rc::clone(device), pool, count })
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn reset(&self, commands: vk::CommandBuffer) {
        // SAFETY: recording outside a render pass; the pool has so many queries.
        unsafe { self.device.raw.cmd_reset_query_pool(commands, self.pool, 0, self.count) };
    }

    /// Stamps when all earlier commands are done.
    pub(super) fn stamp(&self, commands: vk::CommandBuffer, index: u32) {
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: recording; the queue writes timestamps (checked in `new`), and the query was reset.
        unsafe { self.device.raw.cmd_write_timestamp(commands, stage, self.pool, index) };
    }

    /// All stamps, nanoseconds after the first. The submission that wrote them must have finished.
    pub(super) fn read(&self) -> Result<Vec<f64>, Error> {
        let mut ticks = vec![0u64; self.count as usize];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the slice has room for one 64-bit result a query.
        unsafe { self.device.raw.get_query_pool_results(self.pool, 0, &mut ticks, flags) }
            .during("vkGetQueryPoolResults")?;
        let bits = self.device.timestamp_bits();
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let first = ticks[0];
        let period = f64::from(self.device.timestamp_period());
        Ok(ticks.iter().map(|t| (t.wrapping_sub(first) & mask) as f64 * period).collect())
    }
}

impl Drop for Queries {
    fn drop(&mut self) {
        if self.device.idle() {
            // SAFETY: nothing that uses it is pending.
            unsafe { self.device.raw.destroy_query_pool(self.pool, None) };
        }
    }
}
