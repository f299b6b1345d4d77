//! Render passes in the old style: attachments, subpasses and their dependencies are declared beforehand.

use anyhow::Result;
use ash::vk;

use crate::gpu::{FORMAT, SIZE};
use crate::pipeline::{Drawing, FULL, graphics};
use crate::record::{READ_BY_TRANSFER, WRITTEN_BY_TRANSFER};
use crate::stage::{Bind, Image, ImageKind, PICTURE, Stage};

const SAMPLES: vk::SampleCountFlags = vk::SampleCountFlags::TYPE_4;
const DEPTH: vk::Format = vk::Format::D32_SFLOAT;
const DRAWN: vk::ImageLayout = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;

fn attachment(
    format: vk::Format,
    samples: vk::SampleCountFlags,
    last: vk::ImageLayout,
) -> vk::AttachmentDescription {
    vk::AttachmentDescription::default()
        .format(format)
        .samples(samples)
        .load_op(vk::AttachmentLoadOp::CLEAR)
        .store_op(vk::AttachmentStoreOp::STORE)
        .final_layout(last)
}

fn reference(attachment: u32, layout: vk::ImageLayout) -> vk::AttachmentReference {
    vk::AttachmentReference { attachment, layout }
}

fn clear_values(depth_at: Option<usize>, count: usize) -> Vec<vk::ClearValue> {
    (0..count)
        .map(|i| match depth_at {
            Some(at) if at == i => {
                vk::ClearValue { depth_stencil: vk::ClearDepthStencilValue { depth: 1.0, stencil: 0 } }
            }
            _ => vk::ClearValue { color: vk::ClearColorValue { float32: [0.08, 0.1, 0.16, 1.0] } },
        })
        .collect()
}

/// What follows the pass copies the picture.
fn to_copies(from: u32) -> vk::SubpassDependency {
    vk::SubpassDependency::default()
        .src_subpass(from)
        .dst_subpass(vk::SUBPASS_EXTERNAL)
        .src_stage_mask(vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT)
        .src_access_mask(vk::AccessFlags::COLOR_ATTACHMENT_WRITE)
        .dst_stage_mask(vk::PipelineStageFlags::TRANSFER)
        .dst_access_mask(vk::AccessFlags::TRANSFER_READ)
}

/// Two cubes that cut each other, four samples a texel, with depth.
pub fn cube(stage: &Stage) -> Result<Image> {
    let corners: Vec<[f32; 8]> = (0..8)
        .map(|i| {
            let bit = |n: u32| ((i >> n) & 1) as f32;
            let (x, y, z) = (bit(0), bit(1), bit(2));
            [x * 2.0 - 1.0, y * 2.0 - 1.0, z * 2.0 - 1.0, 1.0, x, y, 0.3 + 0.7 * z, 1.0]
        })
        .collect();
    let indices: [u16; 36] = [
        0, 1, 3, 0, 3, 2, 4, 6, 7, 4, 7, 5, 0, 4, 5, 0, 5, 1, 2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 5, 7, 1,
        7, 3,
    ];
    let (staging, indices) = (stage.filled(&corners)?, stage.filled(&indices)?);
    let (middle, vertices) = (stage.buffer(staging.size)?, stage.buffer(staging.size)?);

    let multi = ImageKind { samples: SAMPLES, usage: vk::ImageUsageFlags::COLOR_ATTACHMENT, ..PICTURE };
    let depth_usage = vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT;
    let depth = stage.image(ImageKind { format: DEPTH, usage: depth_usage, ..multi })?;
    let (multi, picture) = (stage.image(multi)?, stage.image(PICTURE)?);
    let depth_layout = vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL;
    let attachments = [
        attachment(FORMAT, SAMPLES, DRAWN),
        attachment(DEPTH, SAMPLES, depth_layout),
        attachment(FORMAT, vk::SampleCountFlags::TYPE_1, vk::ImageLayout::TRANSFER_SRC_OPTIMAL),
    ];
    let (colour, resolve) = ([reference(0, DRAWN)], [reference(2, DRAWN)]);
    let depth_reference = reference(1, depth_layout);
    let subpass = [vk::SubpassDescription::default()
        .color_attachments(&colour)
        .resolve_attachments(&resolve)
        .depth_stencil_attachment(&depth_reference)];
    let dependencies = [to_copies(0)];
    let info = vk::RenderPassCreateInfo::default()
        .attachments(&attachments)
        .subpasses(&subpass)
        .dependencies(&dependencies);
    let (pass, framebuffer) = stage.render_pass(&info, &[multi.view, depth.view, picture.view])?;
    let pipeline = graphics(
        stage,
        Drawing {
            vertex: "mesh.vert",
            fragment: "colour.frag",
            buffer: true,
            depth: true,
            samples: SAMPLES,
            pass: Some((pass, 0)),
            ..FULL
        },
    )?;

    let aspect = SIZE.width as f32 / SIZE.height as f32;
    stage.run(|c| {
        c.copy(&staging, &middle);
        c.buffer_barrier(&middle, WRITTEN_BY_TRANSFER, READ_BY_TRANSFER);
        c.copy(&middle, &vertices);
        let read = (vk::PipelineStageFlags::VERTEX_INPUT, vk::AccessFlags::VERTEX_ATTRIBUTE_READ);
        c.buffer_barrier(&vertices, WRITTEN_BY_TRANSFER, read);
        c.begin_pass(pass, framebuffer, &clear_values(Some(1), 3));
        for (turn, tilt, shift) in [(0.6, 0.5, -0.4), (1.5, -0.4, 0.7)] {
            c.use_to_draw(pipeline, None, SIZE, [[turn, tilt, shift, 0.0], [aspect, 0.0, 0.0, 0.0]]);
            c.vertices(&vertices, 0);
            c.draw_indexed(&indices, 36);
        }
        c.end_pass();
    })?;
    Ok(picture)
}

/// One subpass draws, with a barrier in its midst; the next reads what it drew as an input attachment.
pub fn subpasses(stage: &Stage) -> Result<Image> {
    let usage = vk::ImageUsageFlags::COLOR_ATTACHMENT | vk::ImageUsageFlags::INPUT_ATTACHMENT;
    let (first, picture) = (stage.image(ImageKind { usage, ..PICTURE })?, stage.image(PICTURE)?);
    let read = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
    let one = vk::SampleCountFlags::TYPE_1;
    let attachments =
        [attachment(FORMAT, one, read), attachment(FORMAT, one, vk::ImageLayout::TRANSFER_SRC_OPTIMAL)];
    let (colours, inputs) = ([[reference(0, DRAWN)], [reference(1, DRAWN)]], [reference(0, read)]);
    let subpasses = [
        vk::SubpassDescription::default().color_attachments(&colours[0]),
        vk::SubpassDescription::default().color_attachments(&colours[1]).input_attachments(&inputs),
    ];
    let output = vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT;
    let written = vk::AccessFlags::COLOR_ATTACHMENT_WRITE;
    let both = written | vk::AccessFlags::COLOR_ATTACHMENT_READ;
    let within = vk::SubpassDependency::default()
        .src_stage_mask(output)
        .src_access_mask(written)
        .dependency_flags(vk::DependencyFlags::BY_REGION);
    let dependencies = [
        within.dst_stage_mask(output).dst_access_mask(both),
        within
            .dst_subpass(1)
            .dst_stage_mask(vk::PipelineStageFlags::FRAGMENT_SHADER)
            .dst_access_mask(vk::AccessFlags::INPUT_ATTACHMENT_READ),
        to_copies(1),
    ];
    let info = vk::RenderPassCreateInfo::default()
        .attachments(&attachments)
        .subpasses(&subpasses)
        .dependencies(&dependencies);
    let (pass, framebuffer) = stage.render_pass(&info, &[first.view, picture.view])?;
    let rings = graphics(stage, Drawing { pass: Some((pass, 0)), ..FULL })?;
    let triangle = graphics(
        stage,
        Drawing {
            vertex: "flat.vert",
            fragment: "colour.frag",
            buffer: true,
            blend: true,
            pass: Some((pass, 0)),
            ..FULL
        },
    )?;
    let other = graphics(stage, Drawing { fragment: "attachment.frag", pass: Some((pass, 1)), ..FULL })?;
    let vertices = stage.filled(&[
        [-0.8f32, 0.7, 0.0, 1.0, 1.0, 0.2, 0.1, 0.8],
        [0.0, -0.8, 0.0, 1.0, 0.1, 1.0, 0.2, 0.8],
        [0.8, 0.7, 0.0, 1.0, 0.2, 0.1, 1.0, 0.8],
    ])?;
    let set = stage.set(&[(6, Bind::Attachment(&first))])?;
    stage.run(|c| {
        c.begin_pass(pass, framebuffer, &clear_values(None, 2));
        c.use_to_draw(rings, None, SIZE, [[0.9, 0.6, 0.2, 0.4], [5.0, 0.0, 0.0, 0.0]]);
        c.draw(3);
        c.barrier_by_region((output, written), (output, both));
        c.use_to_draw(triangle, None, SIZE, [[0.0; 4]; 2]);
        c.vertices(&vertices, 0);
        c.draw(3);
        c.next_subpass();
        c.use_to_draw(other, Some(set), SIZE, [[0.0; 4]; 2]);
        c.draw(3);
        c.end_pass();
    })?;
    Ok(picture)
}
