//! Descriptor sets, one for each dispatch of a plan and each sequence, with exactly the bytes that it may touch.

use std::collections::BTreeMap;
use std::rc::Rc;

use ash::vk;

use super::error::During;
use super::pipeline::Pipelines;
use super::{Buffer, Device, Error};
use crate::plan::{Dispatch, Plan, Space, Span, Work};

/// A pool with its sets, in the order of the plan's dispatches, sequence by sequence within each.
pub(super) struct Sets {
    device: Rc<Device>,
    pool: vk::DescriptorPool,
    pub(super) made: Vec<vk::DescriptorSet>,
}

/// The dispatches of a plan.
pub(super) fn dispatches(plan: &Plan) -> impl Iterator<Item = &Dispatch> {
    plan.steps.iter().filter_map(|step| match &step.work {
        Work::Dispatch(dispatch) => Some(dispatch),
        Work::Copy { .. } => None,
    })
}

impl Sets {
    /// A pool for the plan's sets, without them.
    pub(super) fn new(device: &Rc<Device>, plan: &Plan, sequences: u32) -> Result<Self, Error> {
        let count = dispatches(plan).count() as u32 * sequences;
        let bindings = dispatches(plan).map(|d| d.call.bindings.len() as u32).sum::<u32>() * sequences;
        let sizes = [vk::DescriptorPoolSize {
            ty: vk::DescriptorType::STORAGE_BUFFER,
            descriptor_count: bindings.max(1),
        }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(count.max(1)).pool_sizes(&sizes);
        // SAFETY: the device is alive; structures live until the call returns.
        let pool =
            unsafe { device.raw.create_descriptor_pool(&info, None) }.during("vkCreateDescriptorPool")?;
        Ok(Self { device: Rc::clone(device), pool, made: Vec::with_capacity(count as usize) })
    }

    /// Allocates and writes all sets, after giving back those that there are. Nothing may be pending.
    pub(super) fn fill(
        &mut self,
        plan: &Plan,
        pipelines: &mut Pipelines,
        buffers: &BTreeMap<Space, Rc<Buffer>>,
        sequences: u32,
        place: impl Fn(Span, u32) -> Span,
    ) -> Result<(), Error> {
        if !self.made.is_empty() {
            self.made.clear();
            // SAFETY: nothing is pending, so no set is in use.
            unsafe {
                self.device.raw.reset_descriptor_pool(self.pool, vk::DescriptorPoolResetFlags::empty())
            }
            .during("vkResetDescriptorPool")?;
        }
        for dispatch in dispatches(plan) {
            let pipeline = pipelines.get(dispatch)?;
            let layouts = [pipeline.set_layout];
            for sequence in 0..sequences {
                let info =
                    vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(&layouts);
                // SAFETY: the pool was sized for all sets of the plan; the layout belongs to this device.
                let allocated = unsafe { self.device.raw.allocate_descriptor_sets(&info) };
                let set = allocated.during("vkAllocateDescriptorSets")?[0];
                let spans: Vec<Span> =
                    dispatch.call.bindings.iter().map(|span| place(*span, sequence)).collect();
                write_set(&self.device, set, &spans, buffers);
                self.made.push(set);
            }
        }
        Ok(())
    }
}

fn write_set(device: &Device, set: vk::DescriptorSet, spans: &[Span], buffers: &BTreeMap<Space, Rc<Buffer>>) {
    let infos: Vec<[vk::DescriptorBufferInfo; 1]> = spans
        .iter()
        .map(|span| {
            let buffer = &buffers[&span.space];
            assert!(span.offset + span.bytes <= buffer.bytes(), "a plan's span is outside its buffer");
            [vk::DescriptorBufferInfo { buffer: buffer.raw, offset: span.offset, range: span.bytes }]
        })
        .collect();
    let writes: Vec<_> = infos
        .iter()
        .enumerate()
        .map(|(binding, info)| {
            vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(binding as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(info)
        })
        .collect();
    // SAFETY: the set is new and in no command buffer yet; ranges lie within live buffers and respect the alignment.
    unsafe { device.raw.update_descriptor_sets(&writes, &[]) };
}

impl Drop for Sets {
    fn drop(&mut self) {
        if self.device.idle() {
            // SAFETY: nothing is pending; destroying the pool frees its sets.
            unsafe { self.device.raw.destroy_descriptor_pool(self.pool, None) };
        }
    }
}
