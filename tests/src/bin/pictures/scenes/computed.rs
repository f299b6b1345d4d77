//! Compute and drawing in one stream, each reading what the other wrote.
//!
//! Each scene has dispatches in a row that depend on one another. A driver that executes in order hides a missing barrier
//! between a dispatch and a draw, but where the layer may swap two dependent dispatches, the picture goes wrong.

use anyhow::Result;
use ash::vk;

use crate::gpu::SIZE;
use crate::pipeline::{Drawing, FULL, VERTEX, compute, graphics};
use crate::record::{
    COMPUTE_SAMPLED, DRAWN, FROM, NEW, READ_BY_COMPUTE, STORED, WRITTEN_BY_COMPUTE, WRITTEN_BY_TRANSFER,
};
use crate::stage::{Bind, Image, ImageKind, PICTURE, Stage};

/// Particles scattered, turned around the middle, made to triangles and drawn, as many as the device itself says.
pub fn particles(stage: &Stage) -> Result<Image> {
    const COUNT: u64 = 1500;
    let states = [stage.buffer(16 * (COUNT + 1))?, stage.buffer(16 * (COUNT + 1))?];
    let vertices = stage.buffer(COUNT * 3 * u64::from(VERTEX))?;
    let arguments = stage.buffer(16)?;
    let picture = stage.image(PICTURE)?;
    let shaders = ["scatter.comp", "swirl.comp", "triangles.comp"];
    let [scatter, swirl, triangles] = shaders.map(|name| compute(stage, name));
    let (scatter, swirl, triangles) = (scatter?, swirl?, triangles?);
    let draw =
        graphics(stage, Drawing { vertex: "flat.vert", fragment: "colour.frag", buffer: true, ..FULL })?;
    let [a, b] = states.each_ref().map(Bind::Storage);
    let scattered = stage.set(&[(0, a)])?;
    let swirled = stage.set(&[(0, a), (1, b)])?;
    let drawn = stage.set(&[(0, b), (1, Bind::Storage(&vertices)), (2, Bind::Storage(&arguments))])?;
    let push = [[0.0; 4], [COUNT as f32, 0.0, 0.0, 0.0]];
    let groups = [(COUNT as u32 + 1).div_ceil(64), 1];
    stage.run(|c| {
        c.dispatch(scatter, scattered, push, groups);
        c.barrier(WRITTEN_BY_COMPUTE, READ_BY_COMPUTE);
        c.dispatch(swirl, swirled, push, groups);
        c.barrier(WRITTEN_BY_COMPUTE, READ_BY_COMPUTE);
        c.dispatch(triangles, drawn, push, groups);
        let drawing = (
            vk::PipelineStageFlags::VERTEX_INPUT | vk::PipelineStageFlags::DRAW_INDIRECT,
            vk::AccessFlags::VERTEX_ATTRIBUTE_READ | vk::AccessFlags::INDIRECT_COMMAND_READ,
        );
        c.barrier(WRITTEN_BY_COMPUTE, drawing);
        c.turn(&picture, NEW, DRAWN);
        c.render(&picture, Some([0.02, 0.03, 0.08, 1.0]), |c| {
            c.use_to_draw(draw, None, SIZE, [[0.0; 4]; 2]);
            c.vertices(&vertices, 0);
            c.draw_indirect(&arguments);
        });
        c.turn(&picture, DRAWN, FROM);
    })?;
    Ok(picture)
}

/// The edges of a drawn picture, blurred across and down, stored into an image.
pub fn edges(stage: &Stage) -> Result<Image> {
    let size = u64::from(SIZE.width * SIZE.height) * 16;
    let (a, b) = (stage.buffer(size)?, stage.buffer(size)?);
    let drawn = stage.image(PICTURE)?;
    let usage =
        vk::ImageUsageFlags::STORAGE | vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_SRC;
    let picture = stage.image(ImageKind { usage, ..PICTURE })?;
    let rings = graphics(stage, FULL)?;
    let shaders = ["edges.comp", "blur.comp", "store.comp"];
    let [edges, blur, store] = shaders.map(|name| compute(stage, name));
    let (edges, blur, store) = (edges?, blur?, store?);
    let found = stage.set(&[(3, Bind::Sampled(&drawn)), (0, Bind::Storage(&a))])?;
    let across = stage.set(&[(0, Bind::Storage(&a)), (1, Bind::Storage(&b))])?;
    let down = stage.set(&[(0, Bind::Storage(&b)), (1, Bind::Storage(&a))])?;
    let stored = stage.set(&[(0, Bind::Storage(&a)), (5, Bind::StorageImage(&picture))])?;
    let (w, h) = (SIZE.width as f32, SIZE.height as f32);
    let groups = [SIZE.width.div_ceil(8), SIZE.height.div_ceil(8)];
    // A blur down overwrites what the one across has read: both accesses on both sides.
    let both = (WRITTEN_BY_COMPUTE.0, WRITTEN_BY_COMPUTE.1 | READ_BY_COMPUTE.1);
    stage.run(|c| {
        c.use_synchronization2();
        c.turn(&drawn, NEW, DRAWN);
        c.render(&drawn, Some([0.0; 4]), |c| {
            c.use_to_draw(rings, None, SIZE, [[0.4, 0.9, 0.3, 0.2], [6.0, 0.0, 0.0, 0.0]]);
            c.draw(3);
        });
        c.turn(&drawn, DRAWN, COMPUTE_SAMPLED);
        c.turn(&picture, NEW, STORED);
        let size = [w, h, 0.0, 0.0];
        c.dispatch(edges, found, [[0.0; 4], size], groups);
        c.barrier(both, both);
        c.dispatch(blur, across, [[1.0, 0.0, 0.0, 0.0], size], groups);
        c.barrier(both, both);
        c.dispatch(blur, down, [[0.0, 1.0, 0.0, 0.0], size], groups);
        c.barrier(both, both);
        c.dispatch(store, stored, [[0.0; 4], size], groups);
        c.turn(&picture, STORED, FROM);
    })?;
    Ok(picture)
}

/// Sixteen generations of life in eight frames, each drawn faintly over the ones before.
///
/// Two command buffers, a step of two generations and a drawing, are submitted eight times without the host waiting in
/// between. Their barriers reach across submissions; semaphores order every other frame besides.
pub fn life(stage: &Stage) -> Result<Image> {
    const FIELD: [u32; 2] = [80, 60];
    let cells = FIELD[0] * FIELD[1];
    let mixed: Vec<u32> =
        (0..cells).map(|i| u32::from(i.wrapping_mul(2_654_435_769).rotate_left(13) % 7 < 2)).collect();
    let (seed, picture) = (stage.filled(&mixed)?, stage.image(PICTURE)?);
    let (a, b) = (stage.buffer(seed.size)?, stage.buffer(seed.size)?);
    let step = compute(stage, "life.comp")?;
    let draw = graphics(stage, Drawing { fragment: "cells.frag", blend: true, ..FULL })?;
    let forth = stage.set(&[(0, Bind::Storage(&a)), (1, Bind::Storage(&b))])?;
    let back = stage.set(&[(0, Bind::Storage(&b)), (1, Bind::Storage(&a))])?;
    let size = [FIELD[0] as f32, FIELD[1] as f32, 0.0, 0.0];
    let groups = [cells.div_ceil(64), 1];
    let both = (WRITTEN_BY_COMPUTE.0, WRITTEN_BY_COMPUTE.1 | READ_BY_COMPUTE.1);
    let shown = (vk::PipelineStageFlags::FRAGMENT_SHADER, vk::AccessFlags::SHADER_READ);
    let begin = stage.record(|c| {
        c.copy(&seed, &a);
        c.barrier(WRITTEN_BY_TRANSFER, both);
        c.turn(&picture, NEW, DRAWN);
        c.render(&picture, Some([0.0, 0.0, 0.0, 1.0]), |_| {});
    })?;
    let generations = stage.record(|c| {
        // After the drawing before this, which read what is now written.
        c.barrier(shown, WRITTEN_BY_COMPUTE);
        c.dispatch(step, forth, [[0.0; 4], size], groups);
        c.barrier(both, both);
        c.dispatch(step, back, [[0.0; 4], size], groups);
        c.barrier(both, both);
        c.barrier(WRITTEN_BY_COMPUTE, shown);
    })?;
    let drawing = stage.record(|c| {
        c.turn(&picture, DRAWN, DRAWN);
        c.render(&picture, None, |c| {
            c.use_to_draw(draw, Some(forth), SIZE, [[0.3, 1.0, 0.5, 0.3], size]);
            c.draw(3);
        });
    })?;
    let end = stage.record(|c| c.turn(&picture, DRAWN, FROM))?;
    stage.submit(&[begin], &[], &[])?;
    for _ in 0..4 {
        let semaphore = stage.semaphore()?;
        stage.submit(&[generations, drawing], &[], &[semaphore])?;
        stage.submit(&[generations, drawing], &[semaphore], &[])?;
    }
    stage.submit(&[end], &[], &[])?;
    stage.wait()?;
    Ok(picture)
}
