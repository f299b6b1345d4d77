//! The named objects of a stream, and how a name becomes a handle.
//!
//! Kept apart from the player so that several threads can look names up while they record.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use ash::vk;

use crate::gpu::{BINDINGS, GROUP, Gpu, Memory};
use crate::language::Part;

/// A buffer, and where it lies.
#[derive(Clone, Copy)]
pub struct Buffer {
    pub handle: vk::Buffer,
    pub size: u64,
    pub memory: Memory,
    pub offset: u64,
    /// Whether the memory belongs to this buffer alone.
    pub owns_memory: bool,
}

impl Buffer {
    /// Where the host sees the buffer's bytes.
    pub fn bytes(&self) -> *mut u8 {
        self.memory.address.wrapping_add(self.offset as usize)
    }
}

/// A command buffer with the pool of its own from which it comes.
#[derive(Clone, Copy)]
pub struct CommandBuffer {
    pub handle: vk::CommandBuffer,
    pub pool: vk::CommandPool,
}

/// An image with its memory.
#[derive(Clone, Copy)]
pub struct Image {
    pub handle: vk::Image,
    pub memory: vk::DeviceMemory,
}

/// A descriptor set, plain or dynamic.
#[derive(Clone, Copy)]
pub struct Set {
    pub handle: vk::DescriptorSet,
    pub dynamic: bool,
}

/// Everything that has a name.
#[derive(Default)]
pub struct Objects {
    pub memories: BTreeMap<String, Memory>,
    pub buffers: BTreeMap<String, Buffer>,
    pub images: BTreeMap<String, Image>,
    pub events: BTreeMap<String, vk::Event>,
    pub sets: BTreeMap<String, Set>,
    pub commands: BTreeMap<String, CommandBuffer>,
}

// SAFETY: the only field that is not Send and Sync is the address of mapped memory. Recording threads never read or
// write through it; only the player does, and only while no thread of its own runs.
unsafe impl Sync for Objects {}

impl Objects {
    /// The object of one kind with this name.
    pub fn find<T: Copy>(map: &BTreeMap<String, T>, what: &str, name: &str) -> Result<T> {
        map.get(name).copied().with_context(|| format!("there is no {what} '{name}'"))
    }

    /// The buffer and the offset and size of a part, checked to lie inside it.
    pub fn part(&self, part: &Part) -> Result<(Buffer, u64, u64)> {
        let buffer = Objects::find(&self.buffers, "buffer", &part.buffer)?;
        let size = part.size.unwrap_or(buffer.size.saturating_sub(part.offset));
        let inside = part.offset.checked_add(size).is_some_and(|end| end <= buffer.size) && size > 0;
        ensure!(
            inside,
            "bytes {}..+{size} are not inside buffer '{}' of {}",
            part.offset,
            part.buffer,
            buffer.size
        );
        Ok((buffer, part.offset, size))
    }

    /// Descriptor contents for a part; an open end stays VK_WHOLE_SIZE, since the layer has to understand that too.
    pub fn descriptor(&self, part: &Part) -> Result<vk::DescriptorBufferInfo> {
        let (buffer, offset, _) = self.part(part)?;
        let range = part.size.unwrap_or(vk::WHOLE_SIZE);
        Ok(vk::DescriptorBufferInfo { buffer: buffer.handle, offset, range })
    }

    /// Workgroups that cover the largest of some parts.
    pub fn groups(&self, parts: &[Part]) -> Result<u32> {
        let mut most = 1;
        for part in parts {
            most = most.max(self.part(part)?.2.div_ceil(4 * GROUP));
        }
        u32::try_from(most).context("too many workgroups")
    }

    /// Writes descriptors with *one* VkWriteDescriptorSet, which spills from binding to binding when there are
    /// several.
    pub fn write(&self, gpu: &Gpu, set: Set, binding: u32, parts: &[Part]) -> Result<()> {
        if binding as usize + parts.len() > BINDINGS as usize {
            bail!("a set has {BINDINGS} bindings");
        }
        let infos: Vec<_> = parts.iter().map(|part| self.descriptor(part)).collect::<Result<_>>()?;
        let ty = match set.dynamic {
            true => vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
            false => vk::DescriptorType::STORAGE_BUFFER,
        };
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set.handle)
            .dst_binding(binding)
            .descriptor_type(ty)
            .buffer_info(&infos);
        // SAFETY: handles are alive; the stream's author sees to it that the set is not in use.
        unsafe { gpu.device.update_descriptor_sets(&[write], &[]) };
        Ok(())
    }
}
