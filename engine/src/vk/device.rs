//! A logical device with its one queue.

use std::cell::Cell;
use std::rc::Rc;

use ash::vk;

use super::error::During;
use super::requirements;
use super::{Error, Instance, Physical};
use crate::plan::{Limits, Tuning};
use crate::results;

/// A device that work can be submitted to.
pub struct Device {
    pub(super) raw: ash::Device,
    pub(super) queue: vk::Queue,
    pub(super) family: u32,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) physical: Physical,
    /// Set when a submission never finished: objects may then still be in use, and destroying them would be undefined.
    abandoned: Cell<bool>,
    pub(super) instance: Rc<Instance>,
}

impl Device {
    /// Creates a device without extensions and without optional features; robustBufferAccess stays off, so that
    /// nothing but the bound ranges says what a kernel touches.
    pub fn new(instance: Rc<Instance>, physical: Physical) -> Result<Rc<Self>, Error> {
        requirements::check(&physical.caps)?;
        let family = physical.caps.compute_family.unwrap_or(0);
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: the handle comes from this instance; `info` and what it points to live until the call returns.
        let raw =
            unsafe { instance.raw.create_device(physical.handle, &info, None) }.during("vkCreateDevice")?;
        // SAFETY: one queue of this family was asked for above.
        let queue = unsafe { raw.get_device_queue(family, 0) };
        // SAFETY: as for create_device.
        let memory = unsafe { instance.raw.get_physical_device_memory_properties(physical.handle) };
        let abandoned = Cell::new(false);
        Ok(Rc::new(Self { raw, queue, family, memory, physical, abandoned, instance }))
    }

    /// Identity, for results.
    pub fn describe(&self) -> &results::Device {
        &self.physical.device
    }

    /// What plans for this device must respect.
    pub fn limits(&self) -> Limits {
        let caps = &self.physical.caps;
        Limits {
            alignment: caps.alignment.max(Limits::ALIGNMENT),
            range: caps.storage_range,
            allocation: caps.allocation,
            grid: caps.grid,
        }
    }

    /// Workgroup shapes for this device.
    pub fn tuning(&self) -> Tuning {
        requirements::tuning(self.physical.caps.kind)
    }

    /// Notes that work may still be running: from now on nothing of this device is destroyed.
    pub(super) fn abandon(&self) {
        self.abandoned.set(true);
    }

    /// Whether objects of this device may be destroyed.
    pub(super) fn idle(&self) -> bool {
        !self.abandoned.get()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.idle() {
            // SAFETY: every object made from this device holds an Rc of it and was destroyed before.
            unsafe { self.raw.destroy_device(None) };
        }
    }
}
