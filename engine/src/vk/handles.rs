//! The handles behind a device and a buffer, for programs that record commands of their own.
//!
//! The engine's own commands never need this. What measures single commands does, and choosing a device, making buffers
//! and naming what went wrong should not be written twice for it.

use ash::vk;

use super::{Buffer, Device};

/// What recording and submitting takes. The handles are good for as long as the device lives.
#[derive(Clone, Copy)]
pub struct Handles<'a> {
    /// Entry points of the device.
    pub device: &'a ash::Device,
    /// Its one queue.
    pub queue: vk::Queue,
    /// The queue's family.
    pub family: u32,
    /// `timestampValidBits` of that family; 0 where it has no clock.
    pub timestamp_bits: u32,
    /// `timestampPeriod`: nanoseconds of one tick.
    pub timestamp_period: f32,
}

impl Device {
    /// The handles of this device. Whoever submits work with them waits for it, or calls [`Device::abandon`], before
    /// anything of the device is dropped.
    pub fn handles(&self) -> Handles<'_> {
        Handles {
            device: &self.raw,
            queue: self.queue,
            family: self.family,
            timestamp_bits: self.timestamp_bits(),
            timestamp_period: self.timestamp_period(),
        }
    }
}

impl Buffer {
    /// The buffer's handle.
    pub fn handle(&self) -> vk::Buffer {
        self.raw
    }
}
