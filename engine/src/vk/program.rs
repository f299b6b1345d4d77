//! A plan made executable: its buffers, descriptor sets and recorded commands.
//!
//! Descriptor sets are allocated and written once, one for each dispatch, with exactly the bytes that it may touch.
//! Recording walks the plan; it decides nothing. After each dispatch comes one global memory barrier from compute and
//! transfer to compute and transfer, the same that llama.cpp's Vulkan backend asks for, only after *every* dispatch:
//! the engine plays the naive application here. At the end a barrier to the host makes the logits readable.

use std::collections::BTreeMap;
use std::rc::Rc;

use ash::vk;

use super::error::During;
use super::pipeline::{Pipeline, Pipelines};
use super::stream::Stream;
use super::{Buffer, Device, Error, Use};
use crate::plan::{Dispatch, Plan, Space, Span, Work};

/// When commands are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Once; the same commands are submitted for every token. What moves lives in the step buffer.
    Reuse,
    /// Afresh for every token, as applications do that build a graph a token.
    Each,
}

/// What one run of the plan asks of the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// vkCmdDispatch.
    pub dispatches: u64,
    /// vkCmdPipelineBarrier.
    pub barriers: u64,
    /// vkQueueSubmit.
    pub submits: u64,
}

/// A plan with everything that it needs on a device.
pub struct Program {
    device: Rc<Device>,
    plan: Plan,
    buffers: BTreeMap<Space, Buffer>,
    _pipelines: Pipelines,
    sets: Sets,
    stream: Stream,
    record: Record,
    recorded: bool,
    counts: Counts,
}

impl Program {
    /// Makes buffers, pipelines and descriptor sets. `weights` are the filled buffers behind [`Space::Weights`].
    pub fn new(device: &Rc<Device>, plan: Plan, weights: Vec<Buffer>, record: Record) -> Result<Self, Error> {
        let mut buffers: BTreeMap<Space, Buffer> =
            weights.into_iter().enumerate().map(|(i, buffer)| (Space::Weights(i as u32), buffer)).collect();
        for &(space, bytes) in &plan.buffers {
            let usage = match space {
                Space::Step => Use::HostWrites,
                Space::Readback => Use::HostReads,
                _ => Use::Device,
            };
            buffers.insert(space, Buffer::new(device, bytes, usage)?);
        }
        let mut pipelines = Pipelines::new(device);
        let sets = Sets::new(device, &plan, &buffers, &mut pipelines)?;
        let stream = Stream::new(device)?;
        Ok(Self {
            device: Rc::clone(device),
            plan,
            buffers,
            _pipelines: pipelines,
            sets,
            stream,
            record,
            recorded: false,
            counts: Counts::default(),
        })
    }

    /// A buffer of the plan.
    ///
    /// # Panics
    ///
    /// If the plan has no such buffer: a mistake of the caller.
    pub fn buffer(&self, space: Space) -> &Buffer {
        &self.buffers[&space]
    }

    /// Writes what the kernels read as position and token. Nothing may be in flight.
    pub fn set_step(&mut self, position: u32, token: u32) {
        let words = [position.to_ne_bytes(), token.to_ne_bytes()].concat();
        self.buffers.get_mut(&Space::Step).expect("every plan has a step buffer").write(0, &words);
    }

    /// Records if that is due, and submits. [`Program::wait`] must follow.
    pub fn submit(&mut self) -> Result<(), Error> {
        if self.record == Record::Each || !self.recorded {
            self.record_commands()?;
        }
        self.stream.submit()
    }

    /// Waits until the submission has finished.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.stream.wait()
    }

    /// Copies bytes of the readback buffer out.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        self.buffer(Space::Readback).read(offset, out);
    }

    /// What was recorded; zero before the first submission.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn record_commands(&mut self) -> Result<(), Error> {
        self.recorded = false;
        self.stream.begin(self.record == Record::Each)?;
        let mut counts = Counts { submits: 1, ..Counts::default() };
        let mut sets = self.sets.made.iter();
        for step in &self.plan.steps {
            match &step.work {
                Work::Dispatch(dispatch) => {
                    let (pipeline, set) = sets.next().expect("one set was made for each dispatch");
                    self.dispatch(dispatch, pipeline, *set);
                    self.barrier(
                        COMPUTE_OR_TRANSFER,
                        READS_AND_WRITES,
                        COMPUTE_OR_TRANSFER,
                        READS_AND_WRITES,
                    );
                    counts.dispatches += 1;
                }
                Work::Copy { from, to } => {
                    self.copy(*from, *to);
                    self.barrier(
                        vk::PipelineStageFlags::TRANSFER,
                        vk::AccessFlags::TRANSFER_WRITE,
                        vk::PipelineStageFlags::HOST,
                        vk::AccessFlags::HOST_READ,
                    );
                }
            }
            counts.barriers += 1;
        }
        self.stream.end()?;
        self.counts = counts;
        self.recorded = true;
        Ok(())
    }

    fn dispatch(&self, dispatch: &Dispatch, pipeline: &Pipeline, set: vk::DescriptorSet) {
        let commands = self.stream.commands;
        let device = &self.device.raw;
        let push: Vec<u8> = dispatch.push.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: the command buffer is recording; pipeline, layout and set were made for each other and stay alive as
        // long as this program; the push constants have the size that the layout names; the grid is within limits.
        unsafe {
            device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline.pipeline);
            device.cmd_bind_descriptor_sets(
                commands,
                vk::PipelineBindPoint::COMPUTE,
                pipeline.layout,
                0,
                &[set],
                &[],
            );
            device.cmd_push_constants(commands, pipeline.layout, vk::ShaderStageFlags::COMPUTE, 0, &push);
            device.cmd_dispatch(commands, dispatch.grid[0], dispatch.grid[1], 1);
        }
    }

    fn copy(&self, from: Span, to: Span) {
        let regions = [vk::BufferCopy { src_offset: from.offset, dst_offset: to.offset, size: from.bytes }];
        let (source, target) = (self.buffer(from.space).raw, self.buffer(to.space).raw);
        // SAFETY: recording; spans of a plan lie within their buffers, which live as long as this program.
        unsafe { self.device.raw.cmd_copy_buffer(self.stream.commands, source, target, &regions) };
    }

    fn barrier(
        &self,
        from: vk::PipelineStageFlags,
        from_access: vk::AccessFlags,
        to: vk::PipelineStageFlags,
        to_access: vk::AccessFlags,
    ) {
        let barriers = [vk::MemoryBarrier::default().src_access_mask(from_access).dst_access_mask(to_access)];
        // SAFETY: recording; the masks fit the stages, and a compute queue has these stages.
        unsafe {
            self.device.raw.cmd_pipeline_barrier(
                self.stream.commands,
                from,
                to,
                vk::DependencyFlags::empty(),
                &barriers,
                &[],
                &[],
            );
        }
    }
}

const COMPUTE_OR_TRANSFER: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);

const READS_AND_WRITES: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_READ.as_raw()
        | vk::AccessFlags::SHADER_WRITE.as_raw()
        | vk::AccessFlags::TRANSFER_READ.as_raw()
        | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
);

/// Descriptor sets, one for each dispatch of a plan, in its order.
struct Sets {
    device: Rc<Device>,
    pool: vk::DescriptorPool,
    made: Vec<(Pipeline, vk::DescriptorSet)>,
}

impl Sets {
    fn new(
        device: &Rc<Device>,
        plan: &Plan,
        buffers: &BTreeMap<Space, Buffer>,
        pipelines: &mut Pipelines,
    ) -> Result<Self, Error> {
        let dispatches: Vec<&Dispatch> = plan
            .steps
            .iter()
            .filter_map(|step| if let Work::Dispatch(dispatch) = &step.work { Some(dispatch) } else { None })
            .collect();
        let bindings: usize = dispatches.iter().map(|dispatch| dispatch.bindings.len()).sum();
        let sizes = [vk::DescriptorPoolSize {
            ty: vk::DescriptorType::STORAGE_BUFFER,
            descriptor_count: bindings.max(1) as u32,
        }];
        let info = vk::DescriptorPoolCreateInfo::default()
            .max_sets(dispatches.len().max(1) as u32)
            .pool_sizes(&sizes);
        // SAFETY: the device is alive; structures live until the call returns.
        let pool =
            unsafe { device.raw.create_descriptor_pool(&info, None) }.during("vkCreateDescriptorPool")?;
        let mut sets = Self { device: Rc::clone(device), pool, made: Vec::with_capacity(dispatches.len()) };
        for dispatch in dispatches {
            let pipeline = pipelines.get(dispatch.kernel, dispatch.shape)?;
            let layouts = [pipeline.set_layout];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            // SAFETY: the pool was sized for all sets of the plan; the layout belongs to this device.
            let allocated = unsafe { device.raw.allocate_descriptor_sets(&info) };
            let set = allocated.during("vkAllocateDescriptorSets")?[0];
            write_set(device, set, &dispatch.bindings, buffers);
            sets.made.push((pipeline, set));
        }
        Ok(sets)
    }
}

fn write_set(device: &Device, set: vk::DescriptorSet, spans: &[Span], buffers: &BTreeMap<Space, Buffer>) {
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
