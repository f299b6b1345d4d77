//! The kernel that takes writes away and gives them back (`masks.comp`), and how it is recorded.

use super::delay::Bytes;
use super::memory::{Alias, LARGEST_BINDING, Slot};
use ash::prelude::VkResult;
use ash::vk;

/// What bytes hold that were written and that nobody may see yet: no number, read as f32 or as two f16, and far out of
/// bounds, read as an index.
pub const POISON: u32 = 0x7fc0_7fc1;

/// The largest `minStorageBufferOffsetAlignment` that a device may have.
const ALIGNMENT: u64 = 256;

/// Sets in a descriptor pool.
const SETS: u32 = 512;

/// What to do with the bytes of a write; the numbers are those of `masks.comp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Written twice, over [`POISON`] and over its opposite: find out which bytes, and take them away.
    TakeWritten = 0,
    /// Written over what was there: find out which bytes have changed, and take them away.
    TakeChanged = 1,
    /// Give them back.
    Show = 2,
    /// Take them away again.
    Hide = 3,
}

/// The compiled kernel.
#[derive(Debug)]
pub struct Kernel {
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

/// Descriptor pools of one submission.
#[derive(Debug, Default)]
pub struct Pools {
    pools: Vec<vk::DescriptorPool>,
    /// Pools that are used up, and sets used of the next.
    used: (usize, u32),
}

/// A file of SPIR-V as words.
pub fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

impl Kernel {
    /// Compiles it.
    ///
    /// # Errors
    ///
    /// Those of the device.
    ///
    /// # Safety
    ///
    /// The device must be alive.
    pub unsafe fn new(vk: &ash::Device) -> VkResult<Kernel> {
        let words = words_of(include_bytes!(concat!(env!("OUT_DIR"), "/masks.spv")));
        let binding = |number| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(number)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings = [binding(0), binding(1)];
        let push = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(28)];
        // SAFETY: by the caller; all structures live through the calls. What was made before a failure is the price of it:
        // a device that can't make a pipeline is about to go.
        unsafe {
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set_layout = vk.create_descriptor_set_layout(&info, None)?;
            let layouts = [set_layout];
            let info =
                vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&push);
            let layout = vk.create_pipeline_layout(&info, None)?;
            let module =
                vk.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let made = vk.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            vk.destroy_shader_module(module, None);
            let pipeline = made.map_err(|(_, error)| error)?[0];
            Ok(Kernel { set_layout, layout, pipeline })
        }
    }

    /// Records the kernel for a write of `bytes`, which are kept in `slot`.
    ///
    /// # Errors
    ///
    /// Those of the device.
    ///
    /// # Safety
    ///
    /// `buffer` must be recording; alias and slot must be alive until it was executed, and `pools` be used for it alone.
    pub unsafe fn record(
        &self,
        vk: &ash::Device,
        (buffer, pools): (vk::CommandBuffer, &mut Pools),
        mode: Mode,
        (alias, bytes): (&Alias, Bytes),
        slot: &Slot,
    ) -> VkResult<()> {
        let start = bytes.start / ALIGNMENT * ALIGNMENT;
        let real = [vk::DescriptorBufferInfo::default()
            .buffer(alias.buffer)
            .offset(start)
            .range((bytes.end - start).min(LARGEST_BINDING))];
        let scratch = [vk::DescriptorBufferInfo::default()
            .buffer(slot.buffer)
            .range(slot.buffer_size.min(LARGEST_BINDING))];
        let words = [
            mode as u32,
            slot.words as u32,
            ((bytes.start - start) / 4) as u32,
            (slot.row(0) / 4) as u32,
            (slot.row(1) / 4) as u32,
            (slot.row(2) / 4) as u32,
            POISON,
        ];
        let constants: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: by the caller.
        unsafe {
            let set = pools.set(vk, self.set_layout)?;
            let write = |number, info| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(number)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(info)
            };
            vk.update_descriptor_sets(&[write(0, &real), write(1, &scratch)], &[]);
            const POINT: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;
            vk.cmd_bind_pipeline(buffer, POINT, self.pipeline);
            vk.cmd_bind_descriptor_sets(buffer, POINT, self.layout, 0, &[set], &[]);
            vk.cmd_push_constants(buffer, self.layout, vk::ShaderStageFlags::COMPUTE, 0, &constants);
            vk.cmd_dispatch(buffer, slot.words.div_ceil(64).clamp(1, 65_535) as u32, 1, 1);
        }
        Ok(())
    }

    /// Destroys it.
    ///
    /// # Safety
    ///
    /// Nothing that uses it may be executing.
    pub unsafe fn end(&self, vk: &ash::Device) {
        // SAFETY: by the caller.
        unsafe {
            vk.destroy_pipeline(self.pipeline, None);
            vk.destroy_pipeline_layout(self.layout, None);
            vk.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

impl Pools {
    /// A set of a layout with at most two storage buffers.
    ///
    /// # Errors
    ///
    /// Those of the device.
    ///
    /// # Safety
    ///
    /// The device and the layout must be alive.
    pub unsafe fn set(
        &mut self,
        vk: &ash::Device,
        layout: vk::DescriptorSetLayout,
    ) -> VkResult<vk::DescriptorSet> {
        if self.used.1 == SETS {
            self.used = (self.used.0 + 1, 0);
        }
        // SAFETY: by the caller.
        unsafe {
            if self.used.0 == self.pools.len() {
                let sizes = [vk::DescriptorPoolSize::default()
                    .ty(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(2 * SETS)];
                let info = vk::DescriptorPoolCreateInfo::default().max_sets(SETS).pool_sizes(&sizes);
                self.pools.push(vk.create_descriptor_pool(&info, None)?);
            }
            let layouts = [layout];
            let info = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(self.pools[self.used.0])
                .set_layouts(&layouts);
            let set = vk.allocate_descriptor_sets(&info)?[0];
            self.used.1 += 1;
            Ok(set)
        }
    }

    /// Makes all sets free.
    ///
    /// # Safety
    ///
    /// Nothing that uses them may be executing.
    pub unsafe fn reset(&mut self, vk: &ash::Device) {
        for pool in &self.pools {
            // A reset can't fail (it has no error of its own).
            // SAFETY: by the caller.
            let _ = unsafe { vk.reset_descriptor_pool(*pool, vk::DescriptorPoolResetFlags::empty()) };
        }
        self.used = (0, 0);
    }

    /// Destroys them.
    ///
    /// # Safety
    ///
    /// As for [`Pools::reset`].
    pub unsafe fn end(&mut self, vk: &ash::Device) {
        for pool in self.pools.drain(..) {
            // SAFETY: by the caller.
            unsafe { vk.destroy_descriptor_pool(pool, None) };
        }
    }
}
