//! Dynamic rendering, and secondary command buffers inside it.

use anyhow::Result;
use ash::vk;

use crate::gpu::{FORMAT, SIZE};
use crate::pipeline::{Drawing, FULL, VERTEX, graphics};
use crate::record::{DRAWN, FROM, NEW, WRITTEN_BY_TRANSFER};
use crate::stage::{Image, PICTURE, Stage};

/// A fan of blended triangles, half of them from each of two secondary command buffers; then, in a second rendering over
/// the first one, a triangle of a primary.
///
/// The vertices are filled with ones first and updated then, so that the order of the two transfers shows.
pub fn secondaries(stage: &Stage) -> Result<Image> {
    const TRIANGLES: usize = 12;
    let vertices: Vec<[f32; 8]> = (0..TRIANGLES)
        .flat_map(|i| {
            let at = |turn: f32, r: f32| {
                let angle = (i as f32 + turn) * std::f32::consts::TAU / TRIANGLES as f32;
                let part = i as f32 / TRIANGLES as f32;
                [r * angle.cos(), r * angle.sin(), 0.0, 1.0, part, 1.0 - part, 0.5, 0.7]
            };
            [at(0.0, 0.0), at(0.0, 0.9), at(1.7, 0.8)]
        })
        .collect();
    let buffer = stage.buffer(vertices.len() as u64 * u64::from(VERTEX))?;
    let picture = stage.image(PICTURE)?;
    let fan = graphics(
        stage,
        Drawing { vertex: "flat.vert", fragment: "colour.frag", buffer: true, blend: true, ..FULL },
    )?;
    let half = vertices.len() as u32 / 2;
    let halves = [0, 1]
        .map(|i| {
            stage.record_secondary(&[FORMAT], |c| {
                c.use_to_draw(fan, None, SIZE, [[0.0; 4]; 2]);
                c.vertices(&buffer, u64::from(i * half * VERTEX));
                c.draw(half);
            })
        })
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    stage.run(|c| {
        c.use_synchronization2();
        c.fill(&buffer, 1.0f32.to_bits());
        let write = (vk::PipelineStageFlags::TRANSFER, vk::AccessFlags::TRANSFER_WRITE);
        c.barrier(write, write);
        c.update(&buffer, 0, bytemuck::cast_slice(&vertices));
        let read = (vk::PipelineStageFlags::VERTEX_INPUT, vk::AccessFlags::VERTEX_ATTRIBUTE_READ);
        c.barrier(WRITTEN_BY_TRANSFER, read);
        c.turn(&picture, NEW, DRAWN);
        let flags = vk::RenderingFlags::CONTENTS_SECONDARY_COMMAND_BUFFERS;
        c.render_with(&picture, Some([0.95, 0.92, 0.85, 1.0]), flags, |c| c.execute(&halves));
        c.turn(&picture, DRAWN, DRAWN);
        c.render(&picture, None, |c| {
            c.use_to_draw(fan, None, SIZE, [[0.0; 4]; 2]);
            c.vertices(&buffer, u64::from(9 * VERTEX));
            c.draw(3);
        });
        c.turn(&picture, DRAWN, FROM);
    })?;
    Ok(picture)
}
