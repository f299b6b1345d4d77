//! One random command into a command buffer.

use ash::vk;
use fastrand::Rng;

use crate::mock::App;
use crate::objects::{Commands, Objects};

const COMPUTE: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;

fn stages(rng: &mut Rng) -> vk::PipelineStageFlags {
    [
        vk::PipelineStageFlags::COMPUTE_SHADER,
        vk::PipelineStageFlags::TRANSFER,
        vk::PipelineStageFlags::ALL_COMMANDS,
        vk::PipelineStageFlags::HOST,
        vk::PipelineStageFlags::from_raw(rng.u32(..)),
    ][rng.usize(0..5)]
}

fn access(rng: &mut Rng) -> vk::AccessFlags {
    [
        vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE,
        vk::AccessFlags::SHADER_WRITE,
        vk::AccessFlags::MEMORY_WRITE,
        vk::AccessFlags::empty(),
        vk::AccessFlags::from_raw(rng.u32(..)),
    ][rng.usize(0..5)]
}

fn barrier(app: &App, objects: &Objects, commands: vk::CommandBuffer, rng: &mut Rng) {
    let memory = [vk::MemoryBarrier::default().src_access_mask(access(rng)).dst_access_mask(access(rng))];
    let buffer = [vk::BufferMemoryBarrier::default()
        .src_access_mask(access(rng))
        .dst_access_mask(access(rng))
        .buffer(objects.buffers.any(rng))
        .size([vk::WHOLE_SIZE, 0, 64][rng.usize(0..3)])];
    let image = [vk::ImageMemoryBarrier::default()
        .src_access_mask(access(rng))
        .image(objects.images.any(rng))
        .new_layout(vk::ImageLayout::GENERAL)];
    let flags = vk::DependencyFlags::empty();
    let (from, to) = (stages(rng), stages(rng));
    // SAFETY: arrays are as long as they say.
    unsafe {
        match rng.u32(0..10) {
            0 => app.device.cmd_pipeline_barrier(commands, from, to, flags, &[], &buffer, &[]),
            1 => app.device.cmd_pipeline_barrier(commands, from, to, flags, &[], &[], &image),
            2 => app.device.cmd_pipeline_barrier(commands, from, to, flags, &[], &[], &[]),
            3 | 4 => {
                let memory = [vk::MemoryBarrier2::default()
                    .src_stage_mask(vk::PipelineStageFlags2::from_raw(u64::from(from.as_raw())))
                    .src_access_mask(vk::AccessFlags2::from_raw(rng.u64(..)))
                    .dst_stage_mask(vk::PipelineStageFlags2::COMPUTE_SHADER)
                    .dst_access_mask(vk::AccessFlags2::SHADER_STORAGE_READ)];
                let info = vk::DependencyInfo::default().memory_barriers(&memory);
                app.device.cmd_pipeline_barrier2(commands, &info);
            }
            _ => app.device.cmd_pipeline_barrier(commands, from, to, flags, &memory, &[], &[]),
        }
    }
}

/// Pushes a descriptor, alone or behind others, with any layout.
fn push(app: &App, objects: &Objects, commands: vk::CommandBuffer, rng: &mut Rng) {
    let infos: Vec<_> = (0..rng.usize(1..4))
        .map(|_| vk::DescriptorBufferInfo::default().buffer(objects.buffers.any(rng)).range(64))
        .collect();
    let write = vk::WriteDescriptorSet::default()
        .dst_binding(rng.u32(0..4))
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .buffer_info(&infos);
    // SAFETY: the name's type; arrays are as long as they say.
    unsafe {
        let push: vk::PFN_vkCmdPushDescriptorSetKHR = app.function(c"vkCmdPushDescriptorSetKHR");
        push(commands, COMPUTE, objects.layouts.any(rng), rng.u32(0..3), 1, &raw const write);
    }
}

/// Records one command, or begins, ends or resets the recording.
///
/// # Errors
///
/// The driver's.
pub fn command(app: &App, objects: &Objects, one: Commands, rng: &mut Rng) -> Result<(), vk::Result> {
    let what = rng.u32(0..40);
    command_of(what, app, objects, one, rng)
}

/// Begins, records some commands that `seed` decides, and ends.
///
/// # Errors
///
/// The driver's.
pub fn whole(app: &App, objects: &Objects, one: Commands, seed: u64) -> Result<(), vk::Result> {
    let mut rng = Rng::with_seed(seed);
    // SAFETY: command buffers live.
    unsafe {
        app.device.begin_command_buffer(one.handle, &vk::CommandBufferBeginInfo::default())?;
        for _ in 0..rng.u32(2..24) {
            // All but what begins, ends or resets it.
            let what = rng.u32(0..36);
            command_of(what, app, objects, one, &mut rng)?;
        }
        app.device.end_command_buffer(one.handle)
    }
}

fn command_of(
    what: u32,
    app: &App,
    objects: &Objects,
    one: Commands,
    rng: &mut Rng,
) -> Result<(), vk::Result> {
    let (device, commands) = (&app.device, one.handle);
    // SAFETY: command buffers live, arrays are as long as they say, and the driver looks at no other handle.
    unsafe {
        match what {
            0..=5 => device.cmd_bind_pipeline(commands, COMPUTE, objects.pipelines.any(rng)),
            6..=11 => {
                let sets: Vec<_> = (0..rng.u32(1..3)).map(|_| objects.sets.any(rng)).collect();
                let offsets: Vec<u32> = (0..rng.usize(0..3)).map(|_| rng.u32(0..512)).collect();
                let (layout, first) = (objects.layouts.any(rng), rng.u32(0..2));
                device.cmd_bind_descriptor_sets(commands, COMPUTE, layout, first, &sets, &offsets);
            }
            12..=20 => device.cmd_dispatch(commands, rng.u32(0..9), 1, rng.u32(0..3)),
            21 => device.cmd_dispatch_indirect(commands, objects.buffers.any(rng), rng.u64(0..64) * 4),
            22..=28 => barrier(app, objects, commands, rng),
            29 if rng.bool() => push(app, objects, commands, rng),
            29 => {
                let bytes: Vec<u8> = (0..rng.usize(1..9) * 4).map(|_| rng.u8(..)).collect();
                let (layout, stage) = (objects.layouts.any(rng), vk::ShaderStageFlags::COMPUTE);
                device.cmd_push_constants(commands, layout, stage, rng.u32(0..8) * 4, &bytes);
            }
            30 => {
                let size = [vk::WHOLE_SIZE, 16, 0][rng.usize(0..3)];
                device.cmd_fill_buffer(commands, objects.buffers.any(rng), rng.u64(0..4) * 4, size, 0);
            }
            31 => {
                let region =
                    vk::BufferCopy { src_offset: rng.u64(0..99), dst_offset: rng.u64(0..99), size: 64 };
                let (from, to) = (objects.buffers.any(rng), objects.buffers.any(rng));
                device.cmd_copy_buffer(commands, from, to, &[region]);
            }
            32 => device.cmd_update_buffer(commands, objects.buffers.any(rng), 0, &[0; 16]),
            33 => {
                let (stage, event) = (stages(rng), objects.events.any(rng));
                match rng.u32(0..3) {
                    0 => device.cmd_set_event(commands, event, stage),
                    1 => device.cmd_reset_event(commands, event, stage),
                    _ => device.cmd_wait_events(commands, &[event], stage, stage, &[], &[], &[]),
                }
            }
            34 => {
                let region = [vk::BufferImageCopy::default()];
                let (from, to) = (objects.buffers.any(rng), objects.images.any(rng));
                device.cmd_copy_buffer_to_image(commands, from, to, vk::ImageLayout::GENERAL, &region);
            }
            35 if !one.secondary => {
                let secondary = objects.commands.iter().filter(|one| one.secondary);
                let secondary: Vec<_> = secondary.map(|one| one.handle).collect();
                if !secondary.is_empty() {
                    device.cmd_execute_commands(commands, &secondary);
                }
            }
            36 => device.end_command_buffer(commands)?,
            37 => {
                let inheritance = vk::CommandBufferInheritanceInfo::default();
                let flags = vk::CommandBufferUsageFlags::from_raw(rng.u32(0..8));
                let mut info =
                    vk::CommandBufferBeginInfo::default().inheritance_info(&inheritance).flags(flags);
                if !one.secondary {
                    // Ignored, as the flag is that says that a render pass goes on.
                    info.p_inheritance_info = std::ptr::without_provenance(rng.usize(..));
                }
                device.begin_command_buffer(commands, &info)?;
            }
            38 => match rng.bool() {
                true => device.reset_command_buffer(commands, vk::CommandBufferResetFlags::empty())?,
                false => device.reset_command_pool(one.pool, vk::CommandPoolResetFlags::empty())?,
            },
            _ => {
                let future: unsafe extern "system" fn(vk::CommandBuffer) =
                    app.function(c"vkCmdFromTheFutureEXT");
                future(commands);
            }
        }
    }
    Ok(())
}
