//! The commands that are timed: a thin shell around Vulkan.
//!
//! One command buffer holds the whole series between two timestamps, so that nothing of submission is in the device's
//! time. The host's clock is read around recording and around submit and wait: what the processor pays stands beside what
//! the device pays, and is never mixed with it.

use std::rc::Rc;
use std::time::Instant;

use ash::vk;
use zinc_engine::vk::{Buffer, Device, Error, Use};
use zinc_shaders::{COST_RESIDENT, COST_STREAM, Capability, Kernel, Takes as _, cost_resident, cost_stream};

use super::scope::{Commands, Masks, Scope};

/// Bytes of a unit that an invocation reads or writes at once.
pub const UNIT: u64 = 16;

/// Polls of the counter after which a resident workgroup gives up: far more than any barrier takes.
const SPINS: u32 = 4_000_000;

/// What each dispatch of a series does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Work {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub dirtied: u64,
    /// Workgroups.
    pub groups: u32,
}

/// A series: so many dispatches, and after each `beside` of them what is to be timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
    /// What stands in between.
    pub scope: Scope,
    /// Each dispatch.
    pub work: Work,
    /// Dispatches, a multiple of `beside`.
    pub dispatches: u32,
    /// Dispatches that nothing separates.
    pub beside: u32,
    /// All in one resident dispatch; with [`Scope::None`], without its barrier.
    pub resident: bool,
}

impl Series {
    /// How often the thing to be timed stands in the series.
    pub fn barriers(&self) -> u32 {
        match self.scope {
            Scope::None | Scope::NoneAgain => 0,
            _ => self.dispatches / self.beside,
        }
    }
}

/// What one execution took, microseconds for the whole series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// On the device's clock; `None` where the queue has none.
    pub device: Option<f64>,
    /// From submission to the fence, on the host's clock.
    pub wall: f64,
    /// Recording, on the host's clock.
    pub record: f64,
}

struct Pipeline {
    pipeline: vk::Pipeline,
    layout: vk::PipelineLayout,
}

/// A device made ready.
pub struct Gpu {
    device: Rc<Device>,
    set_layout: vk::DescriptorSetLayout,
    descriptors: vk::DescriptorPool,
    set: vk::DescriptorSet,
    stream: Pipeline,
    /// With its barrier and without; `None` where the device lacks the memory model.
    resident: Option<[Pipeline; 2]>,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    queries: vk::QueryPool,
    events: Vec<vk::Event>,
    source: Buffer,
    sink: Buffer,
    control: Buffer,
    told: Buffer,
}

/// Invocations in a workgroup.
pub const INVOCATIONS: u32 = 256;

impl Gpu {
    /// Makes buffers of `window` bytes to read from and twice `dirtied` to write to, and all else.
    ///
    /// # Errors
    ///
    /// [`Error`], naming the call, or what the device lacks.
    pub fn new(device: &Rc<Device>, window: u64, dirtied: u64) -> Result<Gpu, Error> {
        let mut gpu = Gpu {
            device: Rc::clone(device),
            set_layout: vk::DescriptorSetLayout::null(),
            descriptors: vk::DescriptorPool::null(),
            set: vk::DescriptorSet::null(),
            stream: Pipeline { pipeline: vk::Pipeline::null(), layout: vk::PipelineLayout::null() },
            resident: None,
            pool: vk::CommandPool::null(),
            commands: vk::CommandBuffer::null(),
            fence: vk::Fence::null(),
            queries: vk::QueryPool::null(),
            events: Vec::new(),
            source: Buffer::new(device, window, Use::Device)?,
            sink: Buffer::new(device, 2 * dirtied.max(UNIT), Use::Device)?,
            control: Buffer::new(device, 8, Use::Device)?,
            told: Buffer::new(device, 8, Use::HostReads)?,
        };
        gpu.make_commands()?;
        gpu.make_set()?;
        let constants = cost_stream::Constants { workgroup: INVOCATIONS };
        gpu.stream = gpu.pipeline(&COST_STREAM, &constants.entries())?;
        let model = [Capability::VulkanMemoryModel, Capability::VulkanMemoryModelDeviceScope];
        let needs = |c: &Capability| model.contains(c) || *c == Capability::Shader;
        if device.features().memory_model && COST_RESIDENT.capabilities.iter().all(needs) {
            let constants = |barriers| {
                cost_resident::Constants { workgroup: INVOCATIONS, barriers, spins: SPINS }.entries()
            };
            let with = gpu.pipeline(&COST_RESIDENT, &constants(true))?;
            let without = gpu.pipeline(&COST_RESIDENT, &constants(false))?;
            gpu.resident = Some([with, without]);
        }
        gpu.clear()?;
        Ok(gpu)
    }

    /// Whether the barrier within a kernel can be timed here.
    pub fn has_resident(&self) -> bool {
        self.resident.is_some()
    }

    fn raw(&self) -> &ash::Device {
        self.device.handles().device
    }

    fn make_commands(&mut self) -> Result<(), Error> {
        let handles = self.device.handles();
        let (raw, family, clock) = (handles.device, handles.family, handles.timestamp_bits > 0);
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(family);
        // SAFETY: the device lives as long as this value; structures live until each call returns.
        let pool = unsafe { raw.create_command_pool(&info, None) };
        self.pool = pool.map_err(during("vkCreateCommandPool"))?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: as above; the pool was just made.
        let commands = unsafe { self.raw().allocate_command_buffers(&info) };
        self.commands = commands.map_err(during("vkAllocateCommandBuffers"))?[0];
        // SAFETY: as above.
        let fence = unsafe { self.raw().create_fence(&vk::FenceCreateInfo::default(), None) };
        self.fence = fence.map_err(during("vkCreateFence"))?;
        if clock {
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
            // SAFETY: as above; the family writes timestamps.
            let queries = unsafe { self.raw().create_query_pool(&info, None) };
            self.queries = queries.map_err(during("vkCreateQueryPool"))?;
        }
        Ok(())
    }

    fn make_set(&mut self) -> Result<(), Error> {
        let bindings: Vec<_> = (0..3)
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device lives as long as this value; structures live until each call returns.
        let layout = unsafe { self.raw().create_descriptor_set_layout(&info, None) };
        self.set_layout = layout.map_err(during("vkCreateDescriptorSetLayout"))?;
        let sizes = [vk::DescriptorPoolSize { ty: vk::DescriptorType::STORAGE_BUFFER, descriptor_count: 3 }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: as above.
        let pool = unsafe { self.raw().create_descriptor_pool(&info, None) };
        self.descriptors = pool.map_err(during("vkCreateDescriptorPool"))?;
        let layouts = [self.set_layout];
        let info =
            vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.descriptors).set_layouts(&layouts);
        // SAFETY: as above; pool and layout were just made, and the pool has room for this set.
        let sets = unsafe { self.raw().allocate_descriptor_sets(&info) };
        self.set = sets.map_err(during("vkAllocateDescriptorSets"))?[0];
        let buffers = [&self.source, &self.sink, &self.control]
            .map(|b| [vk::DescriptorBufferInfo::default().buffer(b.handle()).range(vk::WHOLE_SIZE)]);
        let writes: Vec<_> = (0..)
            .zip(&buffers)
            .map(|(binding, info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(self.set)
                    .dst_binding(binding)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(info)
            })
            .collect();
        // SAFETY: the set is not in use; set and buffers are alive.
        unsafe { self.raw().update_descriptor_sets(&writes, &[]) };
        Ok(())
    }

    /// A pipeline with these specialization constants, by id.
    fn pipeline(&self, kernel: &Kernel, constants: &[(u32, u32)]) -> Result<Pipeline, Error> {
        let sets = [self.set_layout];
        let push = [vk::PushConstantRange {
            stage_flags: vk::ShaderStageFlags::COMPUTE,
            offset: 0,
            size: kernel.push_bytes,
        }];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&push);
        // SAFETY: the device lives as long as this value; structures live until each call returns.
        let layout = unsafe { self.raw().create_pipeline_layout(&info, None) };
        let layout = layout.map_err(during("vkCreatePipelineLayout"))?;
        let made = self.pipeline_of(kernel, constants, layout);
        if made.is_err() {
            // SAFETY: nothing uses the layout.
            unsafe { self.raw().destroy_pipeline_layout(layout, None) };
        }
        Ok(Pipeline { pipeline: made?, layout })
    }

    fn pipeline_of(
        &self,
        kernel: &Kernel,
        constants: &[(u32, u32)],
        layout: vk::PipelineLayout,
    ) -> Result<vk::Pipeline, Error> {
        let info = vk::ShaderModuleCreateInfo::default().code(kernel.spirv);
        // SAFETY: as in `pipeline`; the words are SPIR-V from the reference compiler.
        let module = unsafe { self.raw().create_shader_module(&info, None) };
        let module = module.map_err(during("vkCreateShaderModule"))?;
        let entry = |(offset, (id, _)): (u32, &(u32, u32))| vk::SpecializationMapEntry {
            constant_id: *id,
            offset: 4 * offset,
            size: 4,
        };
        let entries: Vec<_> = (0..).zip(constants).map(entry).collect();
        let data: Vec<u8> = constants.iter().flat_map(|(_, value)| value.to_ne_bytes()).collect();
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&specialization);
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        // SAFETY: as above; the engine refuses devices whose workgroups are smaller than these.
        let made = unsafe { self.raw().create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        // SAFETY: a module is not needed once its pipelines are made.
        unsafe { self.raw().destroy_shader_module(module, None) };
        Ok(made.map_err(|(_, result)| during("vkCreateComputePipelines")(result))?[0])
    }

    /// Fills what is read with zeros.
    fn clear(&mut self) -> Result<(), Error> {
        self.begin()?;
        // SAFETY: recording; the buffers are alive and may be filled.
        unsafe {
            for buffer in [&self.source, &self.sink] {
                self.raw().cmd_fill_buffer(self.commands, buffer.handle(), 0, vk::WHOLE_SIZE, 0);
            }
        }
        self.finish()
    }

    /// Executes a series once.
    ///
    /// # Errors
    ///
    /// [`Error`]; `Ok(None)` when the workgroups of a resident dispatch did not all become resident.
    pub fn run(&mut self, series: &Series) -> Result<Option<Times>, Error> {
        if series.scope == Scope::Event {
            self.events(series.barriers())?;
        }
        let began = Instant::now();
        self.begin()?;
        self.record_head();
        if series.resident {
            self.record_resident(series);
        } else {
            self.record_stream(series);
        }
        let raw = self.device.handles().device;
        if self.queries != vk::QueryPool::null() {
            // SAFETY: recording; the query was reset in the head.
            unsafe {
                raw.cmd_write_timestamp(
                    self.commands,
                    vk::PipelineStageFlags::BOTTOM_OF_PIPE,
                    self.queries,
                    1,
                );
            }
        }
        if series.resident {
            self.record_told();
        }
        let record = micros(began);
        let began = Instant::now();
        self.finish()?;
        let wall = micros(began);
        if series.resident {
            let mut told = [0; 8];
            self.told.read(0, &mut told);
            if told[4..] != [0; 4] {
                return Ok(None);
            }
        }
        Ok(Some(Times { device: self.stamps()?, wall, record }))
    }

    fn begin(&self) -> Result<(), Error> {
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer is not pending, since `finish` waits; its pool allows beginning it again.
        unsafe { self.raw().begin_command_buffer(self.commands, &info) }
            .map_err(during("vkBeginCommandBuffer"))
    }

    /// What comes before the series: the counter at zero, everything earlier done, the first stamp.
    fn record_head(&self) {
        let (raw, c) = (self.raw(), self.commands);
        let full = (
            vk::PipelineStageFlags::ALL_COMMANDS,
            vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE,
        );
        // SAFETY: recording; buffers and queries are alive.
        unsafe {
            raw.cmd_fill_buffer(c, self.control.handle(), 0, vk::WHOLE_SIZE, 0);
            if self.queries != vk::QueryPool::null() {
                raw.cmd_reset_query_pool(c, self.queries, 0, 2);
            }
        }
        self.barrier(&Masks { src: full, dst: full });
        if self.queries != vk::QueryPool::null() {
            // SAFETY: recording; the query was reset above.
            unsafe { raw.cmd_write_timestamp(c, vk::PipelineStageFlags::BOTTOM_OF_PIPE, self.queries, 0) };
        }
    }

    fn bind(&self, pipeline: &Pipeline) {
        // SAFETY: recording; pipeline, layout and set are alive and made for each other.
        unsafe {
            let point = vk::PipelineBindPoint::COMPUTE;
            self.raw().cmd_bind_pipeline(self.commands, point, pipeline.pipeline);
            self.raw().cmd_bind_descriptor_sets(self.commands, point, pipeline.layout, 0, &[self.set], &[]);
        }
    }

    fn push(&self, pipeline: &Pipeline, values: &[u32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let stage = vk::ShaderStageFlags::COMPUTE;
        // SAFETY: recording; the layout's range is as long as the kernel's block, which `values` fill.
        unsafe { self.raw().cmd_push_constants(self.commands, pipeline.layout, stage, 0, &bytes) };
    }

    fn record_stream(&self, series: &Series) {
        let (reads, writes) = (units(series.work.read), units(series.work.dirtied));
        let places = (self.source.bytes() / series.work.read.max(UNIT)).max(1);
        self.bind(&self.stream);
        let mut events = self.events.iter();
        for i in 0..series.dispatches {
            let read_at = (u64::from(i) % places) as u32 * reads;
            let push = cost_stream::Push { read_at, reads, write_at: i % 2 * writes, writes };
            self.push(&self.stream, &push.words());
            // SAFETY: recording; everything is bound, and reads and writes stay within the buffers: `places` whole
            // reads fit the source, two writes the sink.
            unsafe { self.raw().cmd_dispatch(self.commands, series.work.groups, 1, 1) };
            if (i + 1) % series.beside == 0 {
                self.separate(series.scope.commands(), &mut events);
            }
        }
    }

    fn separate<'e>(&self, commands: Commands, events: &mut impl Iterator<Item = &'e vk::Event>) {
        let (raw, c) = (self.raw(), self.commands);
        match commands {
            Commands::Nothing | Commands::InKernel => {}
            Commands::Memory(all) => all.iter().for_each(|masks| self.barrier(masks)),
            Commands::Buffer(m) => {
                let barrier = vk::BufferMemoryBarrier::default()
                    .src_access_mask(m.src.1)
                    .dst_access_mask(m.dst.1)
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .buffer(self.sink.handle())
                    .size(vk::WHOLE_SIZE);
                let none = vk::DependencyFlags::empty();
                // SAFETY: recording; the buffer is alive; masks fit stages.
                unsafe { raw.cmd_pipeline_barrier(c, m.src.0, m.dst.0, none, &[], &[barrier], &[]) };
            }
            Commands::Event(m) => {
                let Some(event) = events.next() else { return };
                let barrier = vk::MemoryBarrier::default().src_access_mask(m.src.1).dst_access_mask(m.dst.1);
                // SAFETY: recording; the event is alive, was reset by the host, and is set once.
                unsafe {
                    raw.cmd_set_event(c, *event, m.src.0);
                    raw.cmd_wait_events(c, &[*event], m.src.0, m.dst.0, &[barrier], &[], &[]);
                }
            }
        }
    }

    fn barrier(&self, m: &Masks) {
        let barrier = vk::MemoryBarrier::default().src_access_mask(m.src.1).dst_access_mask(m.dst.1);
        let none = vk::DependencyFlags::empty();
        // SAFETY: recording; masks fit stages.
        unsafe {
            self.raw().cmd_pipeline_barrier(self.commands, m.src.0, m.dst.0, none, &[barrier], &[], &[]);
        }
    }

    fn record_resident(&self, series: &Series) {
        let Some([with, without]) = &self.resident else { return };
        let pipeline = if series.scope == Scope::InKernel { with } else { without };
        let (reads, writes) = (units(series.work.read), units(series.work.dirtied));
        let window = units(self.source.bytes()) / reads.max(1) * reads;
        self.bind(pipeline);
        let steps = series.dispatches;
        let push = cost_resident::Push { window, reads, write_step: writes, writes, steps };
        self.push(pipeline, &push.words());
        // SAFETY: as for the stream's dispatches; the wait within the kernel is bounded.
        unsafe { self.raw().cmd_dispatch(self.commands, series.work.groups, 1, 1) };
    }

    /// Brings the counter to the host.
    fn record_told(&self) {
        let shader = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE);
        let copy = vk::PipelineStageFlags::TRANSFER;
        self.barrier(&Masks { src: shader, dst: (copy, vk::AccessFlags::TRANSFER_READ) });
        let region = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: 8 }];
        // SAFETY: recording; both buffers are alive and 8 bytes long.
        unsafe {
            self.raw().cmd_copy_buffer(self.commands, self.control.handle(), self.told.handle(), &region);
        }
        let host = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
        self.barrier(&Masks { src: (copy, vk::AccessFlags::TRANSFER_WRITE), dst: host });
    }

    /// So many events, not set.
    fn events(&mut self, count: u32) -> Result<(), Error> {
        while self.events.len() < count as usize {
            // SAFETY: the device lives as long as this value.
            let event = unsafe { self.raw().create_event(&vk::EventCreateInfo::default(), None) };
            self.events.push(event.map_err(during("vkCreateEvent"))?);
        }
        for event in &self.events[..count as usize] {
            // SAFETY: no submission is pending, so nothing uses the event.
            unsafe { self.raw().reset_event(*event) }.map_err(during("vkResetEvent"))?;
        }
        Ok(())
    }

    /// Ends, submits, and waits.
    fn finish(&self) -> Result<(), Error> {
        let handles = self.device.handles();
        let (raw, list, fences) = (handles.device, [self.commands], [self.fence]);
        // SAFETY: `begin` came before; the fence is not in use and unsignalled; structures live until the calls return.
        unsafe {
            raw.end_command_buffer(self.commands).map_err(during("vkEndCommandBuffer"))?;
            let submit = [vk::SubmitInfo::default().command_buffers(&list)];
            raw.queue_submit(handles.queue, &submit, self.fence).map_err(during("vkQueueSubmit"))?;
            match raw.wait_for_fences(&fences, true, self.device.patience_ns()) {
                Ok(()) => raw.reset_fences(&fences).map_err(during("vkResetFences")),
                Err(result) => {
                    // Whatever was submitted may still run, so nothing of this device may be destroyed.
                    self.device.abandon();
                    Err(match result {
                        vk::Result::TIMEOUT => Error::Timeout { seconds: self.device.patience().as_secs() },
                        result => during("vkWaitForFences")(result),
                    })
                }
            }
        }
    }

    /// Microseconds between the two stamps.
    fn stamps(&self) -> Result<Option<f64>, Error> {
        if self.queries == vk::QueryPool::null() {
            return Ok(None);
        }
        let handles = self.device.handles();
        let mut ticks = [0u64; 2];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the submission that wrote both queries has finished; there is room for one result a query.
        unsafe { handles.device.get_query_pool_results(self.queries, 0, &mut ticks, flags) }
            .map_err(during("vkGetQueryPoolResults"))?;
        let bits = handles.timestamp_bits;
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        Ok(Some(
            (ticks[1].wrapping_sub(ticks[0]) & mask) as f64 * f64::from(handles.timestamp_period) / 1000.0,
        ))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.device.idle() {
            return;
        }
        let raw = self.device.handles().device;
        // SAFETY: nothing is pending (see `finish`); null handles are ignored; freeing pools frees what came from them.
        unsafe {
            for pipeline in self.resident.iter().flatten().chain([&self.stream]) {
                raw.destroy_pipeline(pipeline.pipeline, None);
                raw.destroy_pipeline_layout(pipeline.layout, None);
            }
            self.events.iter().for_each(|event| raw.destroy_event(*event, None));
            raw.destroy_query_pool(self.queries, None);
            raw.destroy_fence(self.fence, None);
            raw.destroy_command_pool(self.pool, None);
            raw.destroy_descriptor_pool(self.descriptors, None);
            raw.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

fn units(bytes: u64) -> u32 {
    (bytes / UNIT) as u32
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn during(call: &'static str) -> impl Fn(vk::Result) -> Error {
    move |result| Error::from_result(call, result)
}
