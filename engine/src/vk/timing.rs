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
    /// For each stamp that can be asked for, its query.
    slots: Vec<Option<u32>>,
    /// Number of queries.
    count: u32,
}

impl Queries {
    /// For `stamps` stamps, of which only the chosen are taken; the first always is.
    pub(super) fn new(device: &Rc<Device>, stamps: u32, chosen: impl Fn(u32) -> bool) -> Result<Self, Error> {
        if device.timestamp_bits() == 0 {
            return Err(Error::NoTimestamps);
        }
        let mut count = 0;
        let mut next = || {
            count += 1;
            count - 1
        };
        let slots: Vec<_> = (0..stamps).map(|stamp| (stamp == 0 || chosen(stamp)).then(&mut next)).collect();
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count);
        // SAFETY: the device is alive; the structure lives until the call returns.
        let pool = unsafe { device.raw.create_query_pool(&info, None) }.during("vkCreateQueryPool")?;
        Ok(Self { device: Rc::clone(device), pool, slots, count })
    }

    pub(super) fn reset(&self, commands: vk::CommandBuffer) {
        // SAFETY: recording outside a render pass; the pool has so many queries.
        unsafe { self.device.raw.cmd_reset_query_pool(commands, self.pool, 0, self.count) };
    }

    /// Stamps when all earlier commands are done, if this stamp was chosen.
    pub(super) fn stamp(&self, commands: vk::CommandBuffer, index: u32) {
        let Some(&Some(query)) = self.slots.get(index as usize) else { return };
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: recording; the queue writes timestamps (checked in `new`), and the query was reset.
        unsafe { self.device.raw.cmd_write_timestamp(commands, stage, self.pool, query) };
    }

    /// All stamps, nanoseconds after the first, NaN where it was not chosen. The submission that wrote them must have finished.
    pub(super) fn read(&self) -> Result<Vec<f64>, Error> {
        let ticks = self.ticks()?;
        let after = |slot: u32| self.nanoseconds(ticks[0], ticks[slot as usize]);
        Ok(self.slots.iter().map(|slot| slot.map_or(f64::NAN, after)).collect())
    }

    /// The first stamp on the host's `CLOCK_MONOTONIC`, nanoseconds, where both clocks can be read together.
    pub(super) fn began(&self) -> Result<Option<f64>, Error> {
        let Some(clocks) = &self.device.clocks else { return Ok(None) };
        let ticks = self.ticks()?;
        let now = clocks.now()?;
        Ok(Some(now.host as f64 - self.nanoseconds(ticks[0], now.ticks)))
    }

    /// From one reading of the device's clock to a later one.
    fn nanoseconds(&self, from: u64, to: u64) -> f64 {
        let bits = self.device.timestamp_bits();
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        (to.wrapping_sub(from) & mask) as f64 * f64::from(self.device.timestamp_period())
    }

    fn ticks(&self) -> Result<Vec<u64>, Error> {
        let mut ticks = vec![0u64; self.count as usize];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the slice has room for one 64-bit result a query.
        unsafe { self.device.raw.get_query_pool_results(self.pool, 0, &mut ticks, flags) }
            .during("vkGetQueryPoolResults")?;
        Ok(ticks)
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
