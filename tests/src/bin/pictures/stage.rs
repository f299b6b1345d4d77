//! What a scene is made of: buffers, images, sets, pipelines, recorded command buffers.
//!
//! Whatever a scene makes belongs to its stage, which destroys it in reverse order when the scene is over. So scenes say
//! only what is drawn, and a layer sees many objects come and go, and handles used again.

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result};
use ash::vk;

use crate::gpu::{BINDINGS, FORMAT, Gpu, SIZE, pool_sizes};
use crate::record::Recorder;

/// An image with one view of all its levels.
#[derive(Clone, Copy)]
pub struct Image {
    pub handle: vk::Image,
    pub view: vk::ImageView,
    pub aspect: vk::ImageAspectFlags,
    pub extent: vk::Extent2D,
    pub levels: u32,
}

/// What an image is like.
#[derive(Clone, Copy)]
pub struct ImageKind {
    pub format: vk::Format,
    pub extent: vk::Extent2D,
    pub levels: u32,
    pub samples: vk::SampleCountFlags,
    pub usage: vk::ImageUsageFlags,
}

/// A picture's image: scenes say what differs.
pub const PICTURE: ImageKind = ImageKind {
    format: FORMAT,
    extent: SIZE,
    levels: 1,
    samples: vk::SampleCountFlags::TYPE_1,
    usage: vk::ImageUsageFlags::from_raw(
        vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw()
            | vk::ImageUsageFlags::SAMPLED.as_raw()
            | vk::ImageUsageFlags::TRANSFER_SRC.as_raw()
            | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
    ),
};

/// A buffer that the host sees.
#[derive(Clone, Copy)]
pub struct Buffer {
    pub handle: vk::Buffer,
    pub size: u64,
    address: *mut u8,
}

/// What a descriptor holds.
#[derive(Clone, Copy)]
pub enum Bind<'a> {
    Storage(&'a Buffer),
    Sampled(&'a Image),
    StorageImage(&'a Image),
    Attachment(&'a Image),
}

enum Made {
    Buffer(vk::Buffer),
    Image(vk::Image),
    View(vk::ImageView),
    Memory(vk::DeviceMemory),
    Pipeline(vk::Pipeline),
    RenderPass(vk::RenderPass),
    Framebuffer(vk::Framebuffer),
    Pool(vk::DescriptorPool),
    Commands(vk::CommandBuffer),
    Semaphore(vk::Semaphore),
}

/// The owner of all that a scene makes.
pub struct Stage<'g> {
    pub gpu: &'g Gpu,
    made: RefCell<Vec<Made>>,
    idle: Cell<Option<(Buffer, Image)>>,
}

impl<'g> Stage<'g> {
    /// An empty stage.
    pub fn new(gpu: &'g Gpu) -> Stage<'g> {
        Stage { gpu, made: RefCell::default(), idle: Cell::default() }
    }

    fn keep(&self, made: Made) {
        self.made.borrow_mut().push(made);
    }

    /// Destroys a pipeline with the stage.
    pub fn keep_pipeline(&self, pipeline: vk::Pipeline) -> vk::Pipeline {
        self.keep(Made::Pipeline(pipeline));
        pipeline
    }

    fn memory(
        &self,
        needs: vk::MemoryRequirements,
        wanted: vk::MemoryPropertyFlags,
    ) -> Result<vk::DeviceMemory> {
        let index = self.gpu.memory_type(needs.memory_type_bits, wanted)?;
        let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
        // SAFETY: the device is valid.
        let memory = unsafe { self.gpu.device.allocate_memory(&info, None) }.context("vkAllocateMemory")?;
        self.keep(Made::Memory(memory));
        Ok(memory)
    }

    /// A buffer of so many bytes, all zero, that can be anything a scene needs.
    pub fn buffer(&self, size: u64) -> Result<Buffer> {
        use vk::BufferUsageFlags as U;
        let usage = U::STORAGE_BUFFER
            | U::VERTEX_BUFFER
            | U::INDEX_BUFFER
            | U::INDIRECT_BUFFER
            | U::TRANSFER_SRC
            | U::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        let seen = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        // SAFETY: the device is valid; the whole of a fresh allocation of at least `size` bytes is mapped, and only the
        // host has seen it when it is written.
        unsafe {
            let device = &self.gpu.device;
            let handle = device.create_buffer(&info, None).context("vkCreateBuffer")?;
            self.keep(Made::Buffer(handle));
            let memory = self.memory(device.get_buffer_memory_requirements(handle), seen)?;
            device.bind_buffer_memory(handle, memory, 0)?;
            let address = device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?;
            let address = address.cast::<u8>();
            address.write_bytes(0, size as usize);
            Ok(Buffer { handle, size, address })
        }
    }

    /// A buffer with these contents.
    pub fn filled<T: bytemuck::Pod>(&self, contents: &[T]) -> Result<Buffer> {
        let bytes: &[u8] = bytemuck::cast_slice(contents);
        let buffer = self.buffer(bytes.len() as u64)?;
        // SAFETY: the buffer is as long as the contents, and the device has not seen it yet.
        unsafe { buffer.address.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(buffer)
    }

    /// The bytes of a buffer. Everything that writes it must have been waited for.
    pub fn read(&self, buffer: &Buffer) -> Vec<u8> {
        // SAFETY: the memory is mapped until the stage goes, and nobody writes it now.
        unsafe { std::slice::from_raw_parts(buffer.address, buffer.size as usize) }.to_vec()
    }

    /// An image with undefined contents.
    pub fn image(&self, kind: ImageKind) -> Result<Image> {
        let depth = kind.usage.contains(vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT);
        let aspect = if depth { vk::ImageAspectFlags::DEPTH } else { vk::ImageAspectFlags::COLOR };
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(kind.format)
            .extent(kind.extent.into())
            .mip_levels(kind.levels)
            .array_layers(1)
            .samples(kind.samples)
            .usage(kind.usage);
        // SAFETY: the device is valid, the structures live through the calls, and the memory is the image's alone.
        unsafe {
            let device = &self.gpu.device;
            let handle = device.create_image(&info, None).context("vkCreateImage")?;
            self.keep(Made::Image(handle));
            let needs = device.get_image_memory_requirements(handle);
            let memory = self.memory(needs, vk::MemoryPropertyFlags::empty())?;
            device.bind_image_memory(handle, memory, 0)?;
            let view = vk::ImageView::null();
            let image = Image { handle, view, aspect, extent: kind.extent, levels: kind.levels };
            self.with_view(image, kind.format)
        }
    }

    /// An image of somebody else's (a swapchain's), with a view of the stage's own.
    pub fn view_of(&self, handle: vk::Image, format: vk::Format, extent: vk::Extent2D) -> Result<Image> {
        let (view, aspect) = (vk::ImageView::null(), vk::ImageAspectFlags::COLOR);
        self.with_view(Image { handle, view, aspect, extent, levels: 1 }, format)
    }

    fn with_view(&self, image: Image, format: vk::Format) -> Result<Image> {
        let info = vk::ImageViewCreateInfo::default()
            .image(image.handle)
            .view_type(vk::ImageViewType::TYPE_2D)
            .format(format)
            .subresource_range(image.levels(0, image.levels));
        // SAFETY: the device and the image are valid.
        let view = unsafe { self.gpu.device.create_image_view(&info, None) }.context("vkCreateImageView")?;
        self.keep(Made::View(view));
        Ok(Image { view, ..image })
    }

    /// A descriptor set with these bindings. No shader uses the others, but older lavapipes look at all of them when
    /// they draw, and crash where there is nothing.
    pub fn set(&self, binds: &[(u32, Bind)]) -> Result<vk::DescriptorSet> {
        let (idle_buffer, idle_image) = self.idle()?;
        let sizes = pool_sizes(1);
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: the device is valid, the structures live through the calls, nobody uses the fresh set yet.
        unsafe {
            let device = &self.gpu.device;
            let pool = device.create_descriptor_pool(&pool, None).context("vkCreateDescriptorPool")?;
            self.keep(Made::Pool(pool));
            let layouts = [self.gpu.set_layout];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            let set = device.allocate_descriptor_sets(&info).context("vkAllocateDescriptorSets")?[0];
            for binding in 0..BINDINGS.len() as u32 {
                let bind = binds.iter().find(|(at, _)| *at == binding).map(|(_, bind)| *bind);
                let bind = bind.unwrap_or(match BINDINGS[binding as usize] {
                    vk::DescriptorType::STORAGE_BUFFER => Bind::Storage(&idle_buffer),
                    vk::DescriptorType::COMBINED_IMAGE_SAMPLER => Bind::Sampled(&idle_image),
                    vk::DescriptorType::STORAGE_IMAGE => Bind::StorageImage(&idle_image),
                    _ => Bind::Attachment(&idle_image),
                });
                self.write(set, binding, bind);
            }
            Ok(set)
        }
    }

    fn write(&self, set: vk::DescriptorSet, binding: u32, bind: Bind) {
        use vk::ImageLayout as L;
        let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding);
        let write = write.descriptor_type(BINDINGS[binding as usize]);
        let info = vk::DescriptorImageInfo::default().sampler(self.gpu.sampler);
        let (buffer, image);
        let write = match bind {
            Bind::Storage(b) => {
                buffer = [vk::DescriptorBufferInfo { buffer: b.handle, offset: 0, range: b.size }];
                write.buffer_info(&buffer)
            }
            Bind::Sampled(i) | Bind::Attachment(i) => {
                image = [info.image_view(i.view).image_layout(L::SHADER_READ_ONLY_OPTIMAL)];
                write.image_info(&image)
            }
            Bind::StorageImage(i) => {
                image = [info.image_view(i.view).image_layout(L::GENERAL)];
                write.image_info(&image)
            }
        };
        // SAFETY: the set is fresh, so nobody uses it; the structures live through the call.
        unsafe { self.gpu.device.update_descriptor_sets(&[write], &[]) };
    }

    /// What stands in bindings that a scene does not use, made when first needed.
    fn idle(&self) -> Result<(Buffer, Image)> {
        if let Some(idle) = self.idle.get() {
            return Ok(idle);
        }
        use vk::ImageUsageFlags as U;
        let usage = U::SAMPLED | U::STORAGE | U::INPUT_ATTACHMENT;
        let idle = (self.buffer(16)?, self.image(ImageKind { usage, ..PICTURE })?);
        self.idle.set(Some(idle));
        Ok(idle)
    }

    /// A render pass, and a framebuffer for it of a picture's size.
    pub fn render_pass(
        &self,
        info: &vk::RenderPassCreateInfo,
        views: &[vk::ImageView],
    ) -> Result<(vk::RenderPass, vk::Framebuffer)> {
        // SAFETY: the device is valid; the structures live through the calls.
        unsafe {
            let device = &self.gpu.device;
            let pass = device.create_render_pass(info, None).context("vkCreateRenderPass")?;
            self.keep(Made::RenderPass(pass));
            let info = vk::FramebufferCreateInfo::default()
                .render_pass(pass)
                .attachments(views)
                .width(SIZE.width)
                .height(SIZE.height)
                .layers(1);
            let framebuffer = device.create_framebuffer(&info, None).context("vkCreateFramebuffer")?;
            self.keep(Made::Framebuffer(framebuffer));
            Ok((pass, framebuffer))
        }
    }

    /// A semaphore that is not signalled.
    pub fn semaphore(&self) -> Result<vk::Semaphore> {
        // SAFETY: the device is valid.
        let made = unsafe { self.gpu.device.create_semaphore(&vk::SemaphoreCreateInfo::default(), None) };
        let semaphore = made.context("vkCreateSemaphore")?;
        self.keep(Made::Semaphore(semaphore));
        Ok(semaphore)
    }

    /// Records a command buffer that may be submitted again while it runs.
    pub fn record(&self, commands: impl FnOnce(&Recorder)) -> Result<vk::CommandBuffer> {
        self.record_as(
            vk::CommandBufferLevel::PRIMARY,
            &vk::CommandBufferInheritanceInfo::default(),
            commands,
        )
    }

    /// Records a command buffer for use inside rendering to images of these formats.
    pub fn record_secondary(
        &self,
        formats: &[vk::Format],
        commands: impl FnOnce(&Recorder),
    ) -> Result<vk::CommandBuffer> {
        let mut rendering = vk::CommandBufferInheritanceRenderingInfo::default()
            .color_attachment_formats(formats)
            .rasterization_samples(vk::SampleCountFlags::TYPE_1);
        let inherited = vk::CommandBufferInheritanceInfo::default().push_next(&mut rendering);
        self.record_as(vk::CommandBufferLevel::SECONDARY, &inherited, commands)
    }

    fn record_as(
        &self,
        level: vk::CommandBufferLevel,
        inherited: &vk::CommandBufferInheritanceInfo,
        commands: impl FnOnce(&Recorder),
    ) -> Result<vk::CommandBuffer> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.gpu.commands)
            .level(level)
            .command_buffer_count(1);
        let mut usage = vk::CommandBufferUsageFlags::SIMULTANEOUS_USE;
        if level == vk::CommandBufferLevel::SECONDARY {
            usage |= vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE;
        }
        // SAFETY: the pool is used by this thread only; the structures live through the calls.
        unsafe {
            let device = &self.gpu.device;
            let buffer = device.allocate_command_buffers(&info).context("vkAllocateCommandBuffers")?[0];
            self.keep(Made::Commands(buffer));
            let begin = vk::CommandBufferBeginInfo::default().flags(usage).inheritance_info(inherited);
            device.begin_command_buffer(buffer, &begin).context("vkBeginCommandBuffer")?;
            commands(&Recorder::new(self.gpu, buffer));
            device.end_command_buffer(buffer).context("vkEndCommandBuffer")?;
            Ok(buffer)
        }
    }

    /// Submits command buffers as one batch.
    pub fn submit(
        &self,
        buffers: &[vk::CommandBuffer],
        wait: &[vk::Semaphore],
        signal: &[vk::Semaphore],
    ) -> Result<()> {
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; wait.len()];
        let info = vk::SubmitInfo::default()
            .command_buffers(buffers)
            .wait_semaphores(wait)
            .wait_dst_stage_mask(&stages)
            .signal_semaphores(signal);
        // SAFETY: the queue is used by this thread only; what is submitted lives until the stage has waited.
        unsafe { self.gpu.device.queue_submit(self.gpu.queue, &[info], vk::Fence::null()) }
            .context("vkQueueSubmit")
    }

    /// Waits for all that was submitted.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the queue is used by this thread only.
        unsafe { self.gpu.device.queue_wait_idle(self.gpu.queue) }.context("vkQueueWaitIdle")
    }

    /// Records, submits and waits.
    pub fn run(&self, commands: impl FnOnce(&Recorder)) -> Result<()> {
        let buffer = self.record(commands)?;
        self.submit(&[buffer], &[], &[])?;
        self.wait()
    }
}

impl Image {
    /// A range of the image's levels.
    pub fn levels(&self, first: u32, count: u32) -> vk::ImageSubresourceRange {
        vk::ImageSubresourceRange::default()
            .aspect_mask(self.aspect)
            .base_mip_level(first)
            .level_count(count)
            .layer_count(1)
    }

    /// One level, for copies and blits.
    pub fn level(&self, level: u32) -> vk::ImageSubresourceLayers {
        vk::ImageSubresourceLayers::default().aspect_mask(self.aspect).mip_level(level).layer_count(1)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let device = &self.gpu.device;
        // SAFETY: everything was made from this device, is not in use once it is idle, and is destroyed once, what
        // depends on other things before these.
        unsafe {
            // An error here leaves nothing better to do than to go on.
            let _ = device.device_wait_idle();
            for made in self.made.get_mut().drain(..).rev() {
                match made {
                    Made::Buffer(handle) => device.destroy_buffer(handle, None),
                    Made::Image(handle) => device.destroy_image(handle, None),
                    Made::View(handle) => device.destroy_image_view(handle, None),
                    Made::Memory(handle) => device.free_memory(handle, None),
                    Made::Pipeline(handle) => device.destroy_pipeline(handle, None),
                    Made::RenderPass(handle) => device.destroy_render_pass(handle, None),
                    Made::Framebuffer(handle) => device.destroy_framebuffer(handle, None),
                    Made::Pool(handle) => device.destroy_descriptor_pool(handle, None),
                    Made::Commands(handle) => {
                        device.free_command_buffers(self.gpu.commands, &[handle]);
                    }
                    Made::Semaphore(handle) => device.destroy_semaphore(handle, None),
                }
            }
        }
    }
}
