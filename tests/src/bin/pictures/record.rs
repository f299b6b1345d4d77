//! Recording, in the words of scenes.
//!
//! Every method is one Vulkan command. A recorder issues barriers by either version of the command: scenes say which,
//! because a layer sees two different functions.

use ash::vk;

use crate::gpu::Gpu;
use crate::stage::{Buffer, Image};

/// A state of an image: its layout, and the stages and accesses that use it there.
#[derive(Clone, Copy)]
pub struct Use(pub vk::ImageLayout, pub vk::PipelineStageFlags, pub vk::AccessFlags);

/// Stages and accesses on one side of a barrier.
pub type Side = (vk::PipelineStageFlags, vk::AccessFlags);

/// Nothing yet.
pub const NEW: Use =
    Use(vk::ImageLayout::UNDEFINED, vk::PipelineStageFlags::TOP_OF_PIPE, vk::AccessFlags::empty());
/// Drawn to.
pub const DRAWN: Use = Use(
    vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL,
    vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT,
    vk::AccessFlags::from_raw(
        vk::AccessFlags::COLOR_ATTACHMENT_READ.as_raw() | vk::AccessFlags::COLOR_ATTACHMENT_WRITE.as_raw(),
    ),
);
/// Sampled while drawing.
pub const SAMPLED: Use = Use(
    vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
    vk::PipelineStageFlags::FRAGMENT_SHADER,
    vk::AccessFlags::SHADER_READ,
);
/// Sampled by a dispatch.
pub const COMPUTE_SAMPLED: Use = Use(
    vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
    vk::PipelineStageFlags::COMPUTE_SHADER,
    vk::AccessFlags::SHADER_READ,
);
/// Written by a dispatch.
pub const STORED: Use =
    Use(vk::ImageLayout::GENERAL, vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE);
/// Read by a copy or blit.
pub const FROM: Use = Use(
    vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
    vk::PipelineStageFlags::TRANSFER,
    vk::AccessFlags::TRANSFER_READ,
);
/// Written by a copy, blit or clear.
pub const TO: Use = Use(
    vk::ImageLayout::TRANSFER_DST_OPTIMAL,
    vk::PipelineStageFlags::TRANSFER,
    vk::AccessFlags::TRANSFER_WRITE,
);
/// Shown in a window.
pub const SHOWN: Use =
    Use(vk::ImageLayout::PRESENT_SRC_KHR, vk::PipelineStageFlags::BOTTOM_OF_PIPE, vk::AccessFlags::empty());

/// A dispatch writes a buffer.
pub const WRITTEN_BY_COMPUTE: Side = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE);
/// A dispatch reads a buffer.
pub const READ_BY_COMPUTE: Side = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_READ);
/// A transfer writes a buffer.
pub const WRITTEN_BY_TRANSFER: Side = (vk::PipelineStageFlags::TRANSFER, vk::AccessFlags::TRANSFER_WRITE);
/// A transfer reads a buffer.
pub const READ_BY_TRANSFER: Side = (vk::PipelineStageFlags::TRANSFER, vk::AccessFlags::TRANSFER_READ);
/// The host reads a buffer.
pub const READ_BY_HOST: Side = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);

/// A command buffer in the recording state.
pub struct Recorder<'g> {
    pub gpu: &'g Gpu,
    pub buffer: vk::CommandBuffer,
    second: std::cell::Cell<bool>,
}

// SAFETY of all blocks below: the command buffer is in the recording state, for a recorder exists only while
// `Stage::record` runs; handles come from the same stage, which keeps them until the device is idle; structures live
// through each call. That the commands are used as the specification wants is checked by running the scenes under
// Khronos validation.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all of them, above")]
impl<'g> Recorder<'g> {
    /// A recorder that uses the first version of barriers.
    pub fn new(gpu: &'g Gpu, buffer: vk::CommandBuffer) -> Recorder<'g> {
        Recorder { gpu, buffer, second: false.into() }
    }

    /// From here on barriers are those of synchronization2.
    pub fn use_synchronization2(&self) {
        self.second.set(true);
    }

    /// A memory barrier.
    pub fn barrier(&self, from: Side, to: Side) {
        let device = &self.gpu.device;
        if self.second.get() {
            let (from, to) = (second(from), second(to));
            let barrier = [vk::MemoryBarrier2::default()
                .src_stage_mask(from.0)
                .src_access_mask(from.1)
                .dst_stage_mask(to.0)
                .dst_access_mask(to.1)];
            let info = vk::DependencyInfo::default().memory_barriers(&barrier);
            unsafe { device.cmd_pipeline_barrier2(self.buffer, &info) };
        } else {
            let barrier = [vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1)];
            let none = vk::DependencyFlags::empty();
            unsafe { device.cmd_pipeline_barrier(self.buffer, from.0, to.0, none, &barrier, &[], &[]) };
        }
    }

    /// A barrier for one buffer.
    pub fn buffer_barrier(&self, buffer: &Buffer, from: Side, to: Side) {
        let barrier = [vk::BufferMemoryBarrier::default()
            .src_access_mask(from.1)
            .dst_access_mask(to.1)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .buffer(buffer.handle)
            .size(vk::WHOLE_SIZE)];
        let none = vk::DependencyFlags::empty();
        let device = &self.gpu.device;
        unsafe { device.cmd_pipeline_barrier(self.buffer, from.0, to.0, none, &[], &barrier, &[]) };
    }

    /// A barrier inside a subpass, by region.
    pub fn barrier_by_region(&self, from: Side, to: Side) {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1)];
        let flags = vk::DependencyFlags::BY_REGION;
        let device = &self.gpu.device;
        unsafe { device.cmd_pipeline_barrier(self.buffer, from.0, to.0, flags, &barrier, &[], &[]) };
    }

    /// Turns all of an image from one use to another.
    pub fn turn(&self, image: &Image, from: Use, to: Use) {
        self.turn_levels(image, 0, image.levels, from, to);
    }

    /// Turns some levels of an image from one use to another.
    pub fn turn_levels(&self, image: &Image, first: u32, count: u32, from: Use, to: Use) {
        let (range, device) = (image.levels(first, count), &self.gpu.device);
        if self.second.get() {
            let (f, t) = (second((from.1, from.2)), second((to.1, to.2)));
            let barrier = [vk::ImageMemoryBarrier2::default()
                .src_stage_mask(f.0)
                .src_access_mask(f.1)
                .dst_stage_mask(t.0)
                .dst_access_mask(t.1)
                .old_layout(from.0)
                .new_layout(to.0)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .image(image.handle)
                .subresource_range(range)];
            let info = vk::DependencyInfo::default().image_memory_barriers(&barrier);
            unsafe { device.cmd_pipeline_barrier2(self.buffer, &info) };
        } else {
            let barrier = [vk::ImageMemoryBarrier::default()
                .src_access_mask(from.2)
                .dst_access_mask(to.2)
                .old_layout(from.0)
                .new_layout(to.0)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .image(image.handle)
                .subresource_range(range)];
            let none = vk::DependencyFlags::empty();
            unsafe { device.cmd_pipeline_barrier(self.buffer, from.1, to.1, none, &[], &[], &barrier) };
        }
    }

    /// Dynamic rendering to one image.
    pub fn render(&self, image: &Image, clear: Option<[f32; 4]>, draws: impl FnOnce(&Self)) {
        self.render_with(image, clear, vk::RenderingFlags::empty(), draws);
    }

    /// Dynamic rendering to one image, with flags.
    pub fn render_with(
        &self,
        image: &Image,
        clear: Option<[f32; 4]>,
        flags: vk::RenderingFlags,
        draws: impl FnOnce(&Self),
    ) {
        let load = if clear.is_some() { vk::AttachmentLoadOp::CLEAR } else { vk::AttachmentLoadOp::LOAD };
        let value = vk::ClearValue { color: vk::ClearColorValue { float32: clear.unwrap_or_default() } };
        let colour = [vk::RenderingAttachmentInfo::default()
            .image_view(image.view)
            .image_layout(vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL)
            .load_op(load)
            .store_op(vk::AttachmentStoreOp::STORE)
            .clear_value(value)];
        let info = vk::RenderingInfo::default()
            .flags(flags)
            .render_area(image.extent.into())
            .layer_count(1)
            .color_attachments(&colour);
        unsafe { self.gpu.device.cmd_begin_rendering(self.buffer, &info) };
        draws(self);
        unsafe { self.gpu.device.cmd_end_rendering(self.buffer) };
    }

    /// Begins a render pass over a whole picture.
    pub fn begin_pass(&self, pass: vk::RenderPass, framebuffer: vk::Framebuffer, clear: &[vk::ClearValue]) {
        let info = vk::RenderPassBeginInfo::default()
            .render_pass(pass)
            .framebuffer(framebuffer)
            .render_area(crate::gpu::SIZE.into())
            .clear_values(clear);
        let contents = vk::SubpassContents::INLINE;
        unsafe { self.gpu.device.cmd_begin_render_pass(self.buffer, &info, contents) };
    }

    pub fn next_subpass(&self) {
        unsafe { self.gpu.device.cmd_next_subpass(self.buffer, vk::SubpassContents::INLINE) };
    }

    pub fn end_pass(&self) {
        unsafe { self.gpu.device.cmd_end_render_pass(self.buffer) };
    }

    pub fn execute(&self, buffers: &[vk::CommandBuffer]) {
        unsafe { self.gpu.device.cmd_execute_commands(self.buffer, buffers) };
    }

    /// Binds a pipeline and sets its push constants, and a set where there is one.
    fn bind(
        &self,
        point: vk::PipelineBindPoint,
        pipeline: vk::Pipeline,
        set: Option<vk::DescriptorSet>,
        push: [[f32; 4]; 2],
    ) {
        let (device, layout) = (&self.gpu.device, self.gpu.layout);
        let bytes: &[u8] = bytemuck::cast_slice(&push);
        unsafe {
            device.cmd_bind_pipeline(self.buffer, point, pipeline);
            if let Some(set) = set {
                device.cmd_bind_descriptor_sets(self.buffer, point, layout, 0, &[set], &[]);
            }
            device.cmd_push_constants(self.buffer, layout, vk::ShaderStageFlags::ALL, 0, bytes);
        }
    }

    /// Binds what the next draws use; the viewport is `extent`.
    pub fn use_to_draw(
        &self,
        pipeline: vk::Pipeline,
        set: Option<vk::DescriptorSet>,
        extent: vk::Extent2D,
        push: [[f32; 4]; 2],
    ) {
        self.bind(vk::PipelineBindPoint::GRAPHICS, pipeline, set, push);
        let viewport = vk::Viewport {
            x: 0.0,
            y: 0.0,
            width: extent.width as f32,
            height: extent.height as f32,
            min_depth: 0.0,
            max_depth: 1.0,
        };
        unsafe {
            self.gpu.device.cmd_set_viewport(self.buffer, 0, &[viewport]);
            self.gpu.device.cmd_set_scissor(self.buffer, 0, &[extent.into()]);
        }
    }

    pub fn vertices(&self, buffer: &Buffer, offset: u64) {
        unsafe { self.gpu.device.cmd_bind_vertex_buffers(self.buffer, 0, &[buffer.handle], &[offset]) };
    }

    pub fn draw(&self, vertices: u32) {
        unsafe { self.gpu.device.cmd_draw(self.buffer, vertices, 1, 0, 0) };
    }

    /// Draws with 16-bit indices.
    pub fn draw_indexed(&self, indices: &Buffer, count: u32) {
        unsafe {
            self.gpu.device.cmd_bind_index_buffer(self.buffer, indices.handle, 0, vk::IndexType::UINT16);
            self.gpu.device.cmd_draw_indexed(self.buffer, count, 1, 0, 0, 0);
        }
    }

    pub fn draw_indirect(&self, arguments: &Buffer) {
        unsafe { self.gpu.device.cmd_draw_indirect(self.buffer, arguments.handle, 0, 1, 16) };
    }

    /// Binds and dispatches.
    pub fn dispatch(
        &self,
        pipeline: vk::Pipeline,
        set: vk::DescriptorSet,
        push: [[f32; 4]; 2],
        groups: [u32; 2],
    ) {
        self.bind(vk::PipelineBindPoint::COMPUTE, pipeline, Some(set), push);
        unsafe { self.gpu.device.cmd_dispatch(self.buffer, groups[0], groups[1], 1) };
    }

    /// Copies the whole of `from` into the beginning of `to`.
    pub fn copy(&self, from: &Buffer, to: &Buffer) {
        let region = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: from.size.min(to.size) }];
        unsafe { self.gpu.device.cmd_copy_buffer(self.buffer, from.handle, to.handle, &region) };
    }

    pub fn fill(&self, buffer: &Buffer, word: u32) {
        unsafe { self.gpu.device.cmd_fill_buffer(self.buffer, buffer.handle, 0, vk::WHOLE_SIZE, word) };
    }

    pub fn update(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) {
        unsafe { self.gpu.device.cmd_update_buffer(self.buffer, buffer.handle, offset, bytes) };
    }

    fn whole(image: &Image) -> vk::BufferImageCopy {
        vk::BufferImageCopy::default().image_subresource(image.level(0)).image_extent(image.extent.into())
    }

    /// Fills level 0 of an image that is in use `TO`.
    pub fn copy_to_image(&self, from: &Buffer, to: &Image) {
        let (region, layout) = ([Self::whole(to)], vk::ImageLayout::TRANSFER_DST_OPTIMAL);
        let device = &self.gpu.device;
        unsafe { device.cmd_copy_buffer_to_image(self.buffer, from.handle, to.handle, layout, &region) };
    }

    /// Reads level 0 of an image that is in use `FROM`.
    pub fn copy_from_image(&self, from: &Image, to: &Buffer) {
        let (region, layout) = ([Self::whole(from)], vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
        let device = &self.gpu.device;
        unsafe { device.cmd_copy_image_to_buffer(self.buffer, from.handle, layout, to.handle, &region) };
    }

    /// Copies `size` texels from the first corner of an image in use `FROM` to `at` of one in use `TO`.
    pub fn copy_image(&self, from: &Image, to: &Image, at: [i32; 2], size: [u32; 2]) {
        let region = [vk::ImageCopy::default()
            .src_subresource(from.level(0))
            .dst_subresource(to.level(0))
            .dst_offset(vk::Offset3D { x: at[0], y: at[1], z: 0 })
            .extent(vk::Extent3D { width: size[0], height: size[1], depth: 1 })];
        let (f, t) = (vk::ImageLayout::TRANSFER_SRC_OPTIMAL, vk::ImageLayout::TRANSFER_DST_OPTIMAL);
        unsafe { self.gpu.device.cmd_copy_image(self.buffer, from.handle, f, to.handle, t, &region) };
    }

    /// Blits a rectangle (left, top, right, bottom) of a level of an image in use `FROM` to one in use `TO`; a rectangle
    /// whose corners are swapped mirrors.
    pub fn blit(
        &self,
        (from, from_level, source): (&Image, u32, [i32; 4]),
        (to, to_level, target): (&Image, u32, [i32; 4]),
        filter: vk::Filter,
    ) {
        let corners =
            |[l, t, r, b]: [i32; 4]| [vk::Offset3D { x: l, y: t, z: 0 }, vk::Offset3D { x: r, y: b, z: 1 }];
        let region = [vk::ImageBlit::default()
            .src_subresource(from.level(from_level))
            .src_offsets(corners(source))
            .dst_subresource(to.level(to_level))
            .dst_offsets(corners(target))];
        let (f, t) = (vk::ImageLayout::TRANSFER_SRC_OPTIMAL, vk::ImageLayout::TRANSFER_DST_OPTIMAL);
        let device = &self.gpu.device;
        unsafe { device.cmd_blit_image(self.buffer, from.handle, f, to.handle, t, &region, filter) };
    }

    /// Clears an image that is in use `TO`.
    pub fn clear(&self, image: &Image, colour: [f32; 4]) {
        let value = vk::ClearColorValue { float32: colour };
        let (range, layout) = ([image.levels(0, image.levels)], vk::ImageLayout::TRANSFER_DST_OPTIMAL);
        unsafe {
            self.gpu.device.cmd_clear_color_image(self.buffer, image.handle, layout, &value, &range);
        }
    }
}

/// Masks of the first version in the second: all that scenes use have the same bits there.
fn second((stages, access): Side) -> (vk::PipelineStageFlags2, vk::AccessFlags2) {
    let stages = vk::PipelineStageFlags2::from_raw(u64::from(stages.as_raw()));
    (stages, vk::AccessFlags2::from_raw(u64::from(access.as_raw())))
}
