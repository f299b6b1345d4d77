//! Turns the commands of one recording into Vulkan calls, one to one.

use anyhow::{Context, Result};
use ash::vk;
use zinc_hazard::{Barrier, Scope};

use crate::gpu::{ADDRESS_AT, Gpu, IMAGE_SIDE};
use crate::language::{Api, Command, Groups, Layout, Part, Recording, Subject};
use crate::objects::{Objects, Set};

/// Records `recording` into its command buffer, which must exist.
pub fn record(gpu: &Gpu, objects: &Objects, recording: &Recording) -> Result<()> {
    let commands = Objects::find(&objects.commands, "command buffer", &recording.name)?.handle;
    let mut flags = vk::CommandBufferUsageFlags::empty();
    if recording.usage.once {
        flags |= vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT;
    }
    if recording.usage.simultaneous {
        flags |= vk::CommandBufferUsageFlags::SIMULTANEOUS_USE;
    }
    let inheritance = vk::CommandBufferInheritanceInfo::default();
    let begin = vk::CommandBufferBeginInfo::default().flags(flags).inheritance_info(&inheritance);
    // SAFETY: the command buffer is not pending (the stream's author waits) and its pool is used by this thread only.
    unsafe { gpu.device.begin_command_buffer(commands, &begin) }.context("vkBeginCommandBuffer")?;
    let mut recorder = Recorder { gpu, objects, commands, dynamic: false };
    for (line, command) in &recording.commands {
        recorder.command(command).with_context(|| format!("line {line}"))?;
    }
    // SAFETY: as above.
    unsafe { gpu.device.end_command_buffer(commands) }.context("vkEndCommandBuffer")
}

struct Recorder<'a> {
    gpu: &'a Gpu,
    objects: &'a Objects,
    commands: vk::CommandBuffer,
    /// Which of the two pipeline layouts the pipeline bound last has.
    dynamic: bool,
}

impl Recorder<'_> {
    fn command(&mut self, command: &Command) -> Result<()> {
        let (device, commands, objects) = (&self.gpu.device, self.commands, self.objects);
        match command {
            Command::Barrier { api, subject, barrier } => return self.barrier(*api, subject, *barrier),
            Command::Dispatch { kernel, parts, groups, k } => {
                let set = Set { handle: self.gpu.set(false)?, dynamic: false };
                objects.write(self.gpu, set, 0, parts)?;
                self.bind(kernel, false, matches!(groups, Groups::Base(..)))?;
                self.bind_set(set, &[]);
                self.push(*k);
                return match groups {
                    Groups::Count(None) => self.go(&Groups::Count(Some(objects.groups(parts)?))),
                    groups => self.go(groups),
                };
            }
            Command::Bind { kernel, dynamic } => return self.bind(kernel, *dynamic, false),
            Command::Use { set, offsets } => {
                self.bind_set(Objects::find(&objects.sets, "set", set)?, offsets);
                return Ok(());
            }
            Command::Push(k) => {
                self.push(*k);
                return Ok(());
            }
            Command::PushAddress(part) => return self.push_address(part),
            Command::Go(groups) => return self.go(groups),
            _ => {}
        }
        // SAFETY: all handles were looked up and are alive, parts were checked to lie inside their buffers, and the
        // command buffer is recording. What a stream may not do by Vulkan's rules is its author's concern; the tests
        // run every stream under Khronos validation.
        unsafe {
            match command {
                Command::Copy { api, from, to } => {
                    let (source, src_offset, size) = objects.part(from)?;
                    let (target, dst_offset, room) = objects.part(to)?;
                    let size = size.min(room);
                    match api {
                        Api::First => {
                            let region = vk::BufferCopy { src_offset, dst_offset, size };
                            device.cmd_copy_buffer(commands, source.handle, target.handle, &[region]);
                        }
                        Api::Second => {
                            let region = [vk::BufferCopy2::default()
                                .src_offset(src_offset)
                                .dst_offset(dst_offset)
                                .size(size)];
                            let info = vk::CopyBufferInfo2::default()
                                .src_buffer(source.handle)
                                .dst_buffer(target.handle)
                                .regions(&region);
                            device.cmd_copy_buffer2(commands, &info);
                        }
                    }
                }
                Command::Fill(part, word) => {
                    let (buffer, offset, _) = objects.part(part)?;
                    let size = part.size.unwrap_or(vk::WHOLE_SIZE);
                    device.cmd_fill_buffer(commands, buffer.handle, offset, size, *word);
                }
                Command::Update(part, words) => {
                    let (buffer, offset, _) = objects.part(part)?;
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                    device.cmd_update_buffer(commands, buffer.handle, offset, &bytes);
                }
                Command::CopyToImage(part, image) => {
                    let (buffer, offset, _) = objects.part(part)?;
                    let image = Objects::find(&objects.images, "image", image)?.handle;
                    let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
                    device.cmd_copy_buffer_to_image(
                        commands,
                        buffer.handle,
                        image,
                        layout,
                        &[whole_image(offset)],
                    );
                }
                Command::CopyFromImage(image, part) => {
                    let (buffer, offset, _) = objects.part(part)?;
                    let image = Objects::find(&objects.images, "image", image)?.handle;
                    let layout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
                    device.cmd_copy_image_to_buffer(
                        commands,
                        image,
                        layout,
                        buffer.handle,
                        &[whole_image(offset)],
                    );
                }
                Command::SetEvent(event, stages) => {
                    let event = Objects::find(&objects.events, "event", event)?;
                    device.cmd_set_event(
                        commands,
                        event,
                        vk::PipelineStageFlags::from_raw(stages.bits() as u32),
                    );
                }
                Command::WaitEvent(event, barrier) => {
                    let event = [Objects::find(&objects.events, "event", event)?];
                    let ((src, src_access), (dst, dst_access)) = (first(barrier.src), first(barrier.dst));
                    let memory = [vk::MemoryBarrier::default()
                        .src_access_mask(src_access)
                        .dst_access_mask(dst_access)];
                    device.cmd_wait_events(commands, &event, src, dst, &memory, &[], &[]);
                }
                Command::ResetQueries => device.cmd_reset_query_pool(commands, self.gpu.queries, 0, 2),
                Command::Timestamp => {
                    let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
                    device.cmd_write_timestamp(commands, stage, self.gpu.queries, 0);
                }
                Command::Execute(names) => {
                    let buffers: Vec<_> = names
                        .iter()
                        .map(|name| Ok(Objects::find(&objects.commands, "command buffer", name)?.handle))
                        .collect::<Result<_>>()?;
                    device.cmd_execute_commands(commands, &buffers);
                }
                Command::Barrier { .. }
                | Command::Dispatch { .. }
                | Command::Bind { .. }
                | Command::Use { .. }
                | Command::Push(_)
                | Command::PushAddress(_)
                | Command::Go(_) => {}
            }
        }
        Ok(())
    }

    fn bind(&mut self, kernel: &str, dynamic: bool, base: bool) -> Result<()> {
        let pipeline = self.gpu.pipeline(kernel, dynamic, base)?;
        self.dynamic = dynamic;
        // SAFETY: the pipeline is alive and the command buffer is recording.
        unsafe { self.gpu.device.cmd_bind_pipeline(self.commands, vk::PipelineBindPoint::COMPUTE, pipeline) };
        Ok(())
    }

    fn bind_set(&self, set: Set, offsets: &[u32]) {
        let layout = self.gpu.layouts(set.dynamic).pipeline;
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: as in `bind`; the set's layout is the pipeline layout's first.
        unsafe {
            self.gpu.device.cmd_bind_descriptor_sets(self.commands, point, layout, 0, &[set.handle], offsets)
        };
    }

    fn push(&self, k: u32) {
        let layout = self.gpu.layouts(self.dynamic).pipeline;
        let stage = vk::ShaderStageFlags::COMPUTE;
        // Up to where an address begins: the layer does not look behind a gap.
        let bytes = u64::from(k).to_le_bytes();
        let bytes = if self.gpu.addresses { &bytes[..] } else { &bytes[..4] };
        // SAFETY: as in `bind`; the layout has as many bytes of push constants.
        unsafe { self.gpu.device.cmd_push_constants(self.commands, layout, stage, 0, bytes) };
    }

    fn push_address(&self, part: &Part) -> Result<()> {
        let (buffer, offset, _) = self.objects.part(part)?;
        let layout = self.gpu.layouts(self.dynamic).pipeline;
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer.handle);
        // SAFETY: as in `bind`; a stream with this command has buffers with addresses and room for one (`Gpu::open`).
        unsafe {
            let address = self.gpu.device.get_buffer_device_address(&info) + offset;
            let stage = vk::ShaderStageFlags::COMPUTE;
            let bytes = address.to_le_bytes();
            self.gpu.device.cmd_push_constants(self.commands, layout, stage, ADDRESS_AT, &bytes);
        }
        Ok(())
    }

    fn go(&self, groups: &Groups) -> Result<()> {
        let (device, commands) = (&self.gpu.device, self.commands);
        // SAFETY: as in `bind`; kernels guard against elements beyond their buffers.
        unsafe {
            match groups {
                Groups::Count(count) => device.cmd_dispatch(commands, count.unwrap_or(1), 1, 1),
                Groups::Base(first, count) => device.cmd_dispatch_base(commands, *first, 0, 0, *count, 1, 1),
                Groups::Indirect(part) => {
                    let (buffer, offset, _) = self.objects.part(part)?;
                    device.cmd_dispatch_indirect(commands, buffer.handle, offset);
                }
            }
        }
        Ok(())
    }

    fn barrier(&self, api: Api, subject: &Subject, barrier: Barrier) -> Result<()> {
        // Only one of the three arrays is filled, as the subject says.
        let (mut buffer, mut image) = (None, None);
        match subject {
            Subject::Memory => {}
            Subject::Buffer(part) => {
                let (found, offset, _) = self.objects.part(part)?;
                buffer = Some((found.handle, offset, part.size.unwrap_or(vk::WHOLE_SIZE)));
            }
            Subject::Image(name, old, new) => {
                let found = Objects::find(&self.objects.images, "image", name)?;
                image = Some((found.handle, layout(*old), layout(*new)));
            }
        }
        match api {
            Api::First => self.barrier_first(barrier, buffer, image),
            Api::Second => self.barrier_second(barrier, buffer, image),
        }
        Ok(())
    }

    fn barrier_first(&self, barrier: Barrier, buffer: Option<BufferRange>, image: Option<Transition>) {
        let ((src, src_access), (dst, dst_access)) = (first(barrier.src), first(barrier.dst));
        let memory = [vk::MemoryBarrier::default().src_access_mask(src_access).dst_access_mask(dst_access)];
        let memory = if buffer.is_none() && image.is_none() { memory.as_slice() } else { &[] };
        let buffers = buffer.map(|(buffer, offset, size)| {
            vk::BufferMemoryBarrier::default()
                .src_access_mask(src_access)
                .dst_access_mask(dst_access)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .buffer(buffer)
                .offset(offset)
                .size(size)
        });
        let images = image.map(|(image, old, new)| {
            vk::ImageMemoryBarrier::default()
                .src_access_mask(src_access)
                .dst_access_mask(dst_access)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .image(image)
                .old_layout(old)
                .new_layout(new)
                .subresource_range(WHOLE)
        });
        let flags = vk::DependencyFlags::empty();
        let (buffers, images) = (buffers.as_slice(), images.as_slice());
        // SAFETY: handles are alive, the command buffer is recording.
        unsafe {
            self.gpu.device.cmd_pipeline_barrier(self.commands, src, dst, flags, memory, buffers, images)
        };
    }

    fn barrier_second(&self, barrier: Barrier, buffer: Option<BufferRange>, image: Option<Transition>) {
        let stage = |scope: Scope| vk::PipelineStageFlags2::from_raw(scope.stages.bits());
        let access = |scope: Scope| vk::AccessFlags2::from_raw(scope.flags.bits());
        let memory = [vk::MemoryBarrier2::default()
            .src_stage_mask(stage(barrier.src))
            .src_access_mask(access(barrier.src))
            .dst_stage_mask(stage(barrier.dst))
            .dst_access_mask(access(barrier.dst))];
        let memory = if buffer.is_none() && image.is_none() { memory.as_slice() } else { &[] };
        let buffers = buffer.map(|(buffer, offset, size)| {
            vk::BufferMemoryBarrier2::default()
                .src_stage_mask(stage(barrier.src))
                .src_access_mask(access(barrier.src))
                .dst_stage_mask(stage(barrier.dst))
                .dst_access_mask(access(barrier.dst))
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .buffer(buffer)
                .offset(offset)
                .size(size)
        });
        let images = image.map(|(image, old, new)| {
            vk::ImageMemoryBarrier2::default()
                .src_stage_mask(stage(barrier.src))
                .src_access_mask(access(barrier.src))
                .dst_stage_mask(stage(barrier.dst))
                .dst_access_mask(access(barrier.dst))
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .image(image)
                .old_layout(old)
                .new_layout(new)
                .subresource_range(WHOLE)
        });
        let info = vk::DependencyInfo::default()
            .memory_barriers(memory)
            .buffer_memory_barriers(buffers.as_slice())
            .image_memory_barriers(images.as_slice());
        // SAFETY: handles are alive, the command buffer is recording, synchronization2 is enabled.
        unsafe { self.gpu.device.cmd_pipeline_barrier2(self.commands, &info) };
    }
}

type BufferRange = (vk::Buffer, u64, u64);
type Transition = (vk::Image, vk::ImageLayout, vk::ImageLayout);

const WHOLE: vk::ImageSubresourceRange = vk::ImageSubresourceRange {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    base_mip_level: 0,
    level_count: 1,
    base_array_layer: 0,
    layer_count: 1,
};

/// Masks of the first family of commands, whose bits are the low ones of the second's.
fn first(scope: Scope) -> (vk::PipelineStageFlags, vk::AccessFlags) {
    (
        vk::PipelineStageFlags::from_raw(scope.stages.bits() as u32),
        vk::AccessFlags::from_raw(scope.flags.bits() as u32),
    )
}

fn layout(layout: Layout) -> vk::ImageLayout {
    match layout {
        Layout::Undefined => vk::ImageLayout::UNDEFINED,
        Layout::General => vk::ImageLayout::GENERAL,
        Layout::TransferSrc => vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
        Layout::TransferDst => vk::ImageLayout::TRANSFER_DST_OPTIMAL,
    }
}

fn whole_image(buffer_offset: u64) -> vk::BufferImageCopy {
    vk::BufferImageCopy::default()
        .buffer_offset(buffer_offset)
        .image_subresource(vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: 0,
            base_array_layer: 0,
            layer_count: 1,
        })
        .image_extent(vk::Extent3D { width: IMAGE_SIDE, height: IMAGE_SIDE, depth: 1 })
}
