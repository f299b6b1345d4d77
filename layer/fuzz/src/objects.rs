//! What a stream has made so far, and what it picks from.

use ash::vk::{self, Handle};
use fastrand::Rng;

/// Live objects of one type, and the handles of some that are gone.
pub struct Kind<T> {
    live: Vec<T>,
    gone: Vec<T>,
}

impl<T> Default for Kind<T> {
    fn default() -> Self {
        Kind { live: Vec::new(), gone: Vec::new() }
    }
}

impl<T: Handle + Copy> Kind<T> {
    /// A new one.
    pub fn add(&mut self, object: T) {
        self.live.push(object);
    }

    /// One that lives, or now and then what a broken application passes: one that is gone, null, or garbage.
    pub fn any(&self, rng: &mut Rng) -> T {
        match rng.u32(0..40) {
            0 if !self.gone.is_empty() => self.gone[rng.usize(0..self.gone.len())],
            1 => T::from_raw(0),
            2 => T::from_raw(rng.u64(..)),
            _ => self.alive(rng).unwrap_or(T::from_raw(0)),
        }
    }

    /// One that lives.
    pub fn alive(&self, rng: &mut Rng) -> Option<T> {
        (!self.live.is_empty()).then(|| self.live[rng.usize(0..self.live.len())])
    }

    /// Takes one out, to be destroyed.
    pub fn take(&mut self, rng: &mut Rng) -> Option<T> {
        let taken = (!self.live.is_empty()).then(|| self.live.swap_remove(rng.usize(0..self.live.len())))?;
        self.gone.push(taken);
        Some(taken)
    }

    /// Takes out all that live.
    pub fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut self.live)
    }
}

/// A command buffer: the one sort of handle that a layer may look into, so that only live ones are ever passed.
#[derive(Clone, Copy)]
pub struct Commands {
    /// Its handle.
    pub handle: vk::CommandBuffer,
    /// Its pool.
    pub pool: vk::CommandPool,
    /// Whether it is a secondary one.
    pub secondary: bool,
}

/// All objects of a stream.
#[derive(Default)]
#[allow(missing_docs, reason = "one field a type")]
pub struct Objects {
    pub buffers: Kind<vk::Buffer>,
    pub images: Kind<vk::Image>,
    pub views: Kind<vk::ImageView>,
    pub memory: Kind<vk::DeviceMemory>,
    pub set_layouts: Kind<vk::DescriptorSetLayout>,
    pub layouts: Kind<vk::PipelineLayout>,
    pub pools: Kind<vk::DescriptorPool>,
    pub sets: Kind<vk::DescriptorSet>,
    pub modules: Kind<vk::ShaderModule>,
    pub pipelines: Kind<vk::Pipeline>,
    pub events: Kind<vk::Event>,
    pub command_pools: Kind<vk::CommandPool>,
    pub commands: Vec<Commands>,
}
