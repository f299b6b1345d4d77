//! Plays a program: what the host does, statement by statement.

use anyhow::{Context, Result, bail, ensure};
use ash::vk;

use crate::gpu::{Gpu, IMAGE_SIDE};
use crate::language::{Api, Data, Recording, Statement};
use crate::objects::{Buffer, CommandBuffer, Image, Objects, Set};
use crate::record::record;

/// A buffer's contents at the end.
pub struct Contents {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Plays all statements, waits, and returns what every buffer that is left contains, by name.
pub fn play(gpu: &Gpu, program: &[(usize, Statement)]) -> Result<Vec<Contents>> {
    let mut player = Player { gpu, objects: Objects::default() };
    let played = player.all(program);
    let contents = player.contents();
    player.finish();
    played?;
    contents
}

struct Player<'a> {
    gpu: &'a Gpu,
    objects: Objects,
}

impl Player<'_> {
    fn all(&mut self, program: &[(usize, Statement)]) -> Result<()> {
        for (line, statement) in program {
            self.statement(statement).with_context(|| format!("line {line}"))?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        let device = &self.gpu.device;
        match statement {
            Statement::Memory { name, size } => {
                let memory = self.gpu.allocate(*size, u32::MAX)?;
                ensure!(
                    self.objects.memories.insert(name.clone(), memory).is_none(),
                    "'{name}' exists already"
                );
            }
            Statement::Buffer { name, size, place } => self.buffer(name, *size, place.as_ref())?,
            Statement::Destroy(name) => {
                let buffer =
                    self.objects.buffers.remove(name).with_context(|| format!("no buffer '{name}'"))?;
                self.destroy(buffer);
            }
            Statement::Data { buffer, data } => {
                let buffer = Objects::find(&self.objects.buffers, "buffer", buffer)?;
                for i in 0..buffer.size / 4 {
                    let word = match data {
                        Data::Iota => i as u32,
                        Data::Words(words) => words[i as usize % words.len()],
                    };
                    let at = buffer.bytes().wrapping_add(4 * i as usize).cast::<[u8; 4]>();
                    // SAFETY: inside the buffer's mapped memory; the stream's author waits before the host writes.
                    unsafe { at.write(word.to_le_bytes()) };
                }
            }
            Statement::Image(name) => self.image(name)?,
            Statement::Event(name) => {
                // SAFETY: the device is valid.
                let event = unsafe { device.create_event(&vk::EventCreateInfo::default(), None) }?;
                ensure!(self.objects.events.insert(name.clone(), event).is_none(), "'{name}' exists already");
            }
            Statement::Set { name, dynamic } => {
                let set = Set { handle: self.gpu.set(*dynamic)?, dynamic: *dynamic };
                self.objects.sets.insert(name.clone(), set);
            }
            Statement::Write { set, binding, parts } => {
                let set = Objects::find(&self.objects.sets, "set", set)?;
                self.objects.write(self.gpu, set, *binding, parts)?;
            }
            Statement::CopySet { from, to, count } => {
                let copy = vk::CopyDescriptorSet::default()
                    .src_set(Objects::find(&self.objects.sets, "set", &from.0)?.handle)
                    .src_binding(from.1)
                    .dst_set(Objects::find(&self.objects.sets, "set", &to.0)?.handle)
                    .dst_binding(to.1)
                    .descriptor_count(*count);
                // SAFETY: both sets are alive and not in use.
                unsafe { device.update_descriptor_sets(&[], &[copy]) };
            }
            Statement::Record(recording) => {
                self.command_buffer(recording)?;
                record(self.gpu, &self.objects, recording)?;
            }
            Statement::Threads(recordings) => self.threads(recordings)?,
            Statement::Reset(name) => {
                let commands = Objects::find(&self.objects.commands, "command buffer", name)?;
                let flags = vk::CommandBufferResetFlags::empty();
                // SAFETY: the command buffer is not pending.
                unsafe { device.reset_command_buffer(commands.handle, flags) }?;
            }
            Statement::Submit { api, names } => self.submit(*api, names)?,
            Statement::Wait => {
                // SAFETY: one thread uses the queue.
                unsafe { device.queue_wait_idle(self.gpu.queue) }.context("vkQueueWaitIdle")?;
            }
        }
        Ok(())
    }

    fn buffer(&mut self, name: &str, size: u64, place: Option<&(String, u64)>) -> Result<()> {
        ensure!(!self.objects.buffers.contains_key(name), "'{name}' exists already");
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::INDIRECT_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | match self.gpu.addresses {
                true => vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS,
                false => vk::BufferUsageFlags::empty(),
            };
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        let device = &self.gpu.device;
        // SAFETY: the device is valid; the place is checked to lie inside its memory before it is bound.
        unsafe {
            let handle = device.create_buffer(&info, None).context("vkCreateBuffer")?;
            let needs = device.get_buffer_memory_requirements(handle);
            let (memory, offset) = match place {
                None => (self.gpu.allocate(needs.size, needs.memory_type_bits)?, 0),
                Some((memory, offset)) => (Objects::find(&self.objects.memories, "memory", memory)?, *offset),
            };
            let inside = offset.checked_add(needs.size).is_some_and(|end| end <= memory.size);
            ensure!(
                inside && offset % needs.alignment == 0,
                "it does not fit at {offset} (alignment {})",
                needs.alignment
            );
            device.bind_buffer_memory(handle, memory.handle, offset).context("vkBindBufferMemory")?;
            let buffer = Buffer { handle, size, memory, offset, owns_memory: place.is_none() };
            self.objects.buffers.insert(name.into(), buffer);
        }
        Ok(())
    }

    fn image(&mut self, name: &str) -> Result<()> {
        ensure!(!self.objects.images.contains_key(name), "'{name}' exists already");
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R32_UINT)
            .extent(vk::Extent3D { width: IMAGE_SIDE, height: IMAGE_SIDE, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST);
        let device = &self.gpu.device;
        // SAFETY: the device is valid; the type is one that the image allows.
        unsafe {
            let handle = device.create_image(&info, None).context("vkCreateImage")?;
            let needs = device.get_image_memory_requirements(handle);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(needs.memory_type_bits.trailing_zeros());
            let memory = device.allocate_memory(&info, None).context("vkAllocateMemory")?;
            device.bind_image_memory(handle, memory, 0).context("vkBindImageMemory")?;
            self.objects.images.insert(name.into(), Image { handle, memory });
        }
        Ok(())
    }

    /// Makes the command buffer of a recording, unless an earlier recording has made it.
    fn command_buffer(&mut self, recording: &Recording) -> Result<()> {
        if self.objects.commands.contains_key(&recording.name) {
            return Ok(());
        }
        let level = match recording.usage.secondary {
            true => vk::CommandBufferLevel::SECONDARY,
            false => vk::CommandBufferLevel::PRIMARY,
        };
        let pool = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(self.gpu.family);
        // SAFETY: the device is valid, the family was asked for when it was created.
        unsafe {
            let pool = self.gpu.device.create_command_pool(&pool, None).context("vkCreateCommandPool")?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .level(level)
                .command_buffer_count(1);
            let handle =
                self.gpu.device.allocate_command_buffers(&info).context("vkAllocateCommandBuffers")?[0];
            self.objects.commands.insert(recording.name.clone(), CommandBuffer { handle, pool });
        }
        Ok(())
    }

    fn threads(&mut self, recordings: &[Recording]) -> Result<()> {
        for recording in recordings {
            self.command_buffer(recording)?;
        }
        let (gpu, objects) = (self.gpu, &self.objects);
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                recordings.iter().map(|r| scope.spawn(move || record(gpu, objects, r))).collect();
            for thread in threads {
                match thread.join() {
                    Ok(recorded) => recorded?,
                    Err(_) => bail!("a recording thread panicked"),
                }
            }
            Ok(())
        })
    }

    fn submit(&self, api: Api, names: &[String]) -> Result<()> {
        let buffers: Vec<_> = names
            .iter()
            .map(|name| Ok(Objects::find(&self.objects.commands, "command buffer", name)?.handle))
            .collect::<Result<_>>()?;
        let (device, queue) = (&self.gpu.device, self.gpu.queue);
        // SAFETY: the command buffers are alive and recorded; one thread uses the queue.
        unsafe {
            match api {
                Api::First => {
                    let info = vk::SubmitInfo::default().command_buffers(&buffers);
                    device.queue_submit(queue, &[info], vk::Fence::null()).context("vkQueueSubmit")
                }
                Api::Second => {
                    let infos: Vec<_> = buffers
                        .iter()
                        .map(|b| vk::CommandBufferSubmitInfo::default().command_buffer(*b))
                        .collect();
                    let info = vk::SubmitInfo2::default().command_buffer_infos(&infos);
                    device.queue_submit2(queue, &[info], vk::Fence::null()).context("vkQueueSubmit2")
                }
            }
        }
    }

    /// Waits for the device and reads all buffers.
    fn contents(&self) -> Result<Vec<Contents>> {
        // SAFETY: one thread uses the device.
        unsafe { self.gpu.device.device_wait_idle() }.context("vkDeviceWaitIdle")?;
        let read = |(name, buffer): (&String, &Buffer)| {
            // SAFETY: the memory is mapped and coherent, the device is idle, and the buffer lies inside it.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.bytes(), buffer.size as usize) };
            Contents { name: name.clone(), bytes: bytes.to_vec() }
        };
        Ok(self.objects.buffers.iter().map(read).collect())
    }

    fn destroy(&self, buffer: Buffer) {
        // SAFETY: the stream's author waits before a buffer is destroyed; it is out of the table.
        unsafe {
            self.gpu.device.destroy_buffer(buffer.handle, None);
            if buffer.owns_memory {
                self.gpu.device.free_memory(buffer.memory.handle, None);
            }
        }
    }

    /// Destroys all objects; the device must be idle.
    fn finish(self) {
        for buffer in self.objects.buffers.values() {
            self.destroy(*buffer);
        }
        let device = &self.gpu.device;
        // SAFETY: each handle was made from this device and is destroyed once; the device is idle.
        unsafe {
            for image in self.objects.images.values() {
                device.destroy_image(image.handle, None);
                device.free_memory(image.memory, None);
            }
            for event in self.objects.events.values() {
                device.destroy_event(*event, None);
            }
            for commands in self.objects.commands.values() {
                device.destroy_command_pool(commands.pool, None);
            }
            for memory in self.objects.memories.values() {
                device.free_memory(memory.handle, None);
            }
        }
    }
}
