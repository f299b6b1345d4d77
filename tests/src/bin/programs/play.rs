//! Plays a program on a device: memory, sets and command buffers as the program has them, one to one.

mod binds;
mod memory;

use anyhow::{Context, Result};
use ash::vk;

use crate::barriers::BARRIERS;
use crate::gpu::{Gpu, Shape};
use crate::program::{BLOCK, Op, Place, Program, Recording, Step, update};

const COMPUTE: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;
/// A pointer that must not be followed.
const NOWHERE: usize = 0xdead_0000_beef;

/// Memory as it is on the device.
struct Memory {
    handle: vk::DeviceMemory,
    /// Where the first block is, for the host and in the allocation.
    at: *mut u8,
    base: u64,
}

/// What a program has made, and must destroy.
#[derive(Default)]
struct Made {
    layouts: Vec<vk::PipelineLayout>,
    templates: Vec<vk::DescriptorUpdateTemplate>,
    events: Vec<vk::Event>,
    semaphores: Vec<vk::Semaphore>,
    /// Whose memory was freed before.
    dead: Vec<vk::Buffer>,
}

struct Player<'a> {
    gpu: &'a Gpu,
    program: &'a Program,
    memories: Vec<Memory>,
    buffers: Vec<vk::Buffer>,
    host: Vec<(*mut u8, std::alloc::Layout)>,
    sets: [vk::DescriptorPool; 2],
    pool: vk::CommandPool,
    queries: vk::QueryPool,
    labels: ash::ext::debug_utils::Device,
    strange: vk::DescriptorSet,
    made: Made,
}

/// Plays a program; the result is what its stores hold. `None` where the device can't have what it needs.
///
/// # Errors
///
/// The device's.
pub fn play(gpu: &Gpu, program: &Program) -> Result<Option<Vec<Vec<u32>>>> {
    let mut player = Player::new(gpu, program)?;
    let played = player.all();
    let stores = player.stores();
    player.finish();
    played.map(|played| played.then_some(stores))
}

impl<'a> Player<'a> {
    fn new(gpu: &'a Gpu, program: &'a Program) -> Result<Player<'a>> {
        let types = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::STORAGE_BUFFER_DYNAMIC];
        let sizes = types.map(|ty| vk::DescriptorPoolSize::default().ty(ty).descriptor_count(2048));
        let pool =
            |flags| vk::DescriptorPoolCreateInfo::default().flags(flags).max_sets(512).pool_sizes(&sizes);
        let queries = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
        let commands = vk::CommandPoolCreateInfo::default().queue_family_index(gpu.family);
        // SAFETY: the device is alive, structures live through the calls.
        unsafe {
            let device = &gpu.device;
            Ok(Player {
                gpu,
                program,
                memories: Vec::new(),
                buffers: Vec::new(),
                host: Vec::new(),
                sets: [
                    device.create_descriptor_pool(&pool(vk::DescriptorPoolCreateFlags::empty()), None)?,
                    device.create_descriptor_pool(
                        &pool(vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND),
                        None,
                    )?,
                ],
                pool: device.create_command_pool(&commands, None)?,
                queries: device.create_query_pool(&queries, None)?,
                labels: ash::ext::debug_utils::Device::new(&gpu.instance, device),
                strange: vk::DescriptorSet::null(),
                made: Made::default(),
            })
        }
    }

    /// Does all of it; says whether the device could.
    fn all(&mut self) -> Result<bool> {
        for number in 0..self.program.memories.len() {
            let Some(memory) = self.memory(number)? else { return Ok(false) };
            self.memories.push(memory);
        }
        for (store, words) in self.program.initial().iter().enumerate() {
            let memory = self.of_store(store);
            // SAFETY: the memory is mapped, and has room for its store.
            unsafe { memory.at.copy_from_nonoverlapping(words.as_ptr().cast(), words.len() * 4) };
        }
        for number in 0..self.program.buffers.len() {
            let Some(buffer) = self.buffer(number)? else { return Ok(false) };
            self.buffers.push(buffer);
        }
        self.strange = self.set(Shape::Strange, false, &[Place { buffer: 0, block: 0 }; 4], 0)?;
        let mut before = None;
        for (number, recording) in self.program.recordings.iter().enumerate() {
            for renewed in &recording.renewed {
                if !self.renew(*renewed)? {
                    return Ok(false);
                }
            }
            let commands = self.record(recording)?;
            // Allowed from the end of a recording on: what was recorded does not need them any more.
            for layout in std::mem::take(&mut self.made.layouts) {
                // SAFETY: no command buffer is being recorded.
                unsafe { self.gpu.device.destroy_pipeline_layout(layout, None) };
            }
            let next = self.program.recordings.get(number + 1);
            before = self.submit(recording, commands, before, next.is_some_and(|next| next.chained))?;
        }
        // SAFETY: the device is alive.
        unsafe { self.gpu.device.device_wait_idle()? };
        Ok(true)
    }

    fn record(&mut self, recording: &Recording) -> Result<vk::CommandBuffer> {
        let commands = self.commands(vk::CommandBufferLevel::PRIMARY)?;
        let mut begin = vk::CommandBufferBeginInfo::default();
        if recording.ignored {
            begin.flags = vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE;
            begin.p_inheritance_info = std::ptr::without_provenance(NOWHERE);
        }
        // SAFETY: as in `new`; of a primary command buffer neither of the two is looked at.
        unsafe { self.gpu.device.begin_command_buffer(commands, &begin)? };
        self.steps(commands, &recording.steps)?;
        // SAFETY: as above.
        unsafe { self.gpu.device.end_command_buffer(commands)? };
        Ok(commands)
    }

    fn commands(&self, level: vk::CommandBufferLevel) -> Result<vk::CommandBuffer> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(level)
            .command_buffer_count(1);
        // SAFETY: as in `new`.
        Ok(unsafe { self.gpu.device.allocate_command_buffers(&info)? }[0])
    }

    fn steps(&mut self, commands: vk::CommandBuffer, steps: &[Step]) -> Result<()> {
        let (label, mut open) = (vk::DebugUtilsLabelEXT::default().label_name(c"a label"), 0);
        for step in steps {
            // SAFETY: as in `new`; the command buffer is being recorded, and all handles live until it was executed.
            unsafe {
                match step {
                    Step::Op(op) => self.operation(commands, op)?,
                    Step::Barrier(kind) => BARRIERS[*kind].issue(&self.gpu.device, commands, &self.buffers),
                    Step::Event => self.event(commands)?,
                    Step::Timestamp(stage) => {
                        self.gpu.device.cmd_reset_query_pool(commands, self.queries, 0, 1);
                        self.gpu.device.cmd_write_timestamp(commands, *stage, self.queries, 0);
                    }
                    Step::Begin => {
                        self.labels.cmd_begin_debug_utils_label(commands, &label);
                        open += 1;
                    }
                    Step::End if open > 0 => {
                        self.labels.cmd_end_debug_utils_label(commands);
                        open -= 1;
                    }
                    Step::End => {}
                    Step::Label => self.labels.cmd_insert_debug_utils_label(commands, &label),
                    Step::Secondary(steps) => {
                        let secondary = self.commands(vk::CommandBufferLevel::SECONDARY)?;
                        let inheritance = vk::CommandBufferInheritanceInfo::default();
                        let begin = vk::CommandBufferBeginInfo::default().inheritance_info(&inheritance);
                        self.gpu.device.begin_command_buffer(secondary, &begin)?;
                        self.steps(secondary, steps)?;
                        self.gpu.device.end_command_buffer(secondary)?;
                        self.gpu.device.cmd_execute_commands(commands, &[secondary]);
                    }
                }
            }
        }
        for _ in 0..open {
            // SAFETY: as above.
            unsafe { self.labels.cmd_end_debug_utils_label(commands) };
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As in `steps`, here and below.
    unsafe fn event(&mut self, commands: vk::CommandBuffer) -> Result<()> {
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let memory = [vk::MemoryBarrier::default().src_access_mask(any).dst_access_mask(any)];
        // SAFETY: by the caller.
        unsafe {
            let event = self.gpu.device.create_event(&vk::EventCreateInfo::default(), None)?;
            self.made.events.push(event);
            self.gpu.device.cmd_set_event(commands, event, all);
            self.gpu.device.cmd_wait_events(commands, &[event], all, all, &memory, &[], &[]);
        }
        Ok(())
    }

    unsafe fn operation(&mut self, commands: vk::CommandBuffer, op: &Op) -> Result<()> {
        let offset = |place: &Place| place.block as u64 * BLOCK;
        // SAFETY: by the caller.
        unsafe {
            let device = &self.gpu.device;
            match op {
                Op::Copy { from, to, second: false } => {
                    let region =
                        [vk::BufferCopy { src_offset: offset(from), dst_offset: offset(to), size: BLOCK }];
                    let (from, to) = (self.buffers[from.buffer], self.buffers[to.buffer]);
                    device.cmd_copy_buffer(commands, from, to, &region);
                }
                Op::Copy { from, to, second: true } => {
                    let region = [vk::BufferCopy2::default()
                        .src_offset(offset(from))
                        .dst_offset(offset(to))
                        .size(BLOCK)];
                    let info = vk::CopyBufferInfo2::default()
                        .src_buffer(self.buffers[from.buffer])
                        .dst_buffer(self.buffers[to.buffer])
                        .regions(&region);
                    device.cmd_copy_buffer2(commands, &info);
                }
                Op::Fill(to, word) => {
                    device.cmd_fill_buffer(commands, self.buffers[to.buffer], offset(to), BLOCK, *word);
                }
                Op::Update(to, seed) => {
                    let bytes: Vec<u8> = update(*seed).iter().flat_map(|w| w.to_le_bytes()).collect();
                    device.cmd_update_buffer(commands, self.buffers[to.buffer], offset(to), &bytes);
                }
                Op::Dispatch { kernel, places, k, way, noise, short_lived, indirect } => {
                    let shape = Shape::of(*way);
                    let (pipeline, own) = self.gpu.pipeline(*kernel, shape)?;
                    device.cmd_bind_pipeline(commands, COMPUTE, pipeline);
                    let shapes = Gpu::shapes(*kernel, shape);
                    let layout = if *short_lived { self.layout(&shapes, true)? } else { own };
                    if shape == Shape::Push {
                        self.push(commands, (*way, layout), places)?;
                    } else {
                        self.sets(commands, (*kernel, *way, *noise), (layout, *short_lived), places)?;
                    }
                    self.constants(commands, layout, *kernel, *k, places);
                    let device = &self.gpu.device;
                    match indirect {
                        Some(place) => {
                            let buffer = self.buffers[place.buffer];
                            device.cmd_dispatch_indirect(commands, buffer, offset(place));
                        }
                        None => device.cmd_dispatch(commands, 1, 1, 1),
                    }
                }
            }
        }
        Ok(())
    }

    /// Submits; the result is the semaphore for the recording that follows, where that waits for one.
    fn submit(
        &mut self,
        recording: &Recording,
        commands: vk::CommandBuffer,
        before: Option<vk::Semaphore>,
        signals: bool,
    ) -> Result<Option<vk::Semaphore>> {
        let device = &self.gpu.device;
        let queue = self.gpu.queues[recording.queue];
        let all = [vk::PipelineStageFlags::ALL_COMMANDS];
        let (buffers, waits) = ([commands], before.into_iter().collect::<Vec<_>>());
        // SAFETY: as in `new`.
        unsafe {
            let signal = match signals {
                true => vec![device.create_semaphore(&vk::SemaphoreCreateInfo::default(), None)?],
                false => Vec::new(),
            };
            self.made.semaphores.extend(&signal);
            let info = vk::SubmitInfo::default()
                .command_buffers(&buffers)
                .wait_semaphores(&waits)
                .wait_dst_stage_mask(&all[..waits.len()])
                .signal_semaphores(&signal);
            device.queue_submit(queue, &[info], vk::Fence::null()).context("vkQueueSubmit")?;
            if !signals {
                device.device_wait_idle()?;
            }
            Ok(signal.first().copied())
        }
    }

    fn finish(self) {
        let device = &self.gpu.device;
        // SAFETY: the device is idle after this; each handle was made here and is destroyed once.
        unsafe {
            let _ = device.device_wait_idle();
            let Made { layouts, templates, events, semaphores, dead } = self.made;
            layouts.into_iter().for_each(|o| device.destroy_pipeline_layout(o, None));
            templates.into_iter().for_each(|o| device.destroy_descriptor_update_template(o, None));
            events.into_iter().for_each(|o| device.destroy_event(o, None));
            semaphores.into_iter().for_each(|o| device.destroy_semaphore(o, None));
            self.buffers.into_iter().chain(dead).for_each(|o| device.destroy_buffer(o, None));
            // Imports of what is mapped go before what they are imports of.
            self.memories.into_iter().rev().for_each(|o| device.free_memory(o.handle, None));
            self.host.into_iter().for_each(|(at, layout)| std::alloc::dealloc(at, layout));
            device.destroy_command_pool(self.pool, None);
            device.destroy_query_pool(self.queries, None);
            self.sets.into_iter().for_each(|o| device.destroy_descriptor_pool(o, None));
        }
    }
}
