//! Images that are sources of other images: copies, blits, mip levels, render to texture.

use anyhow::Result;
use ash::vk;

use crate::gpu::SIZE;
use crate::pipeline::{Drawing, FULL, graphics};
use crate::record::{DRAWN, FROM, NEW, Recorder, SAMPLED, TO};
use crate::stage::{Bind, Image, ImageKind, PICTURE, Stage};

/// Draws the pattern into a new image and leaves it in some use.
fn pattern(c: &Recorder, pipeline: vk::Pipeline, image: &Image, colour: [f32; 4], rings: f32) {
    c.turn(image, NEW, DRAWN);
    c.render(image, Some([0.0; 4]), |c| {
        c.use_to_draw(pipeline, None, image.extent, [colour, [rings, 0.0, 0.0, 0.0]]);
        c.draw(3);
    });
}

/// A small picture, blitted into four quarters (one mirrored each way) and copied into the middle.
pub fn blits(stage: &Stage) -> Result<Image> {
    let extent = vk::Extent2D { width: 64, height: 48 };
    let (small, picture) = (stage.image(ImageKind { extent, ..PICTURE })?, stage.image(PICTURE)?);
    let pipeline = graphics(stage, FULL)?;
    let (w, h) = (SIZE.width as i32, SIZE.height as i32);
    let (l, t, r, b) = (4, 4, w / 2 - 4, h / 2 - 4);
    stage.run(|c| {
        pattern(c, pipeline, &small, [0.2, 0.7, 0.9, 0.7], 3.0);
        c.turn(&small, DRAWN, FROM);
        c.turn(&picture, NEW, TO);
        c.clear(&picture, [0.3, 0.05, 0.1, 1.0]);
        c.turn(&picture, TO, TO);
        let quarters = [
            ([l, t, r, b], vk::Filter::NEAREST),
            ([w - l, t, w - r, b], vk::Filter::LINEAR),
            ([l, h - t, r, h - b], vk::Filter::LINEAR),
            ([w - l, h - t, w - r, h - b], vk::Filter::NEAREST),
        ];
        for (target, filter) in quarters {
            c.blit((&small, 0, [0, 0, 64, 48]), (&picture, 0, target), filter);
        }
        c.turn(&picture, TO, TO);
        c.copy_image(&small, &picture, [w / 2 - 32, h / 2 - 24], [64, 48]);
        c.turn(&picture, TO, FROM);
    })?;
    Ok(picture)
}

/// A chequered texture whose levels are made by blits from one another, on a floor.
pub fn mips(stage: &Stage) -> Result<Image> {
    const SIDE: u32 = 128;
    let texels: Vec<[u8; 4]> = (0..SIDE * SIDE)
        .map(|i| {
            let (x, y) = (i % SIDE, i / SIDE);
            let light = if (x / 16 + y / 16) % 2 == 0 { 230 } else { 40 };
            [light, (x * 2) as u8, (y * 2) as u8, 255]
        })
        .collect();
    let levels = SIDE.ilog2() + 1;
    let extent = vk::Extent2D { width: SIDE, height: SIDE };
    let texture = stage.image(ImageKind { extent, levels, ..PICTURE })?;
    let (upload, picture) = (stage.filled(&texels)?, stage.image(PICTURE)?);
    let pipeline = graphics(stage, Drawing { fragment: "floor.frag", ..FULL })?;
    let set = stage.set(&[(3, Bind::Sampled(&texture))])?;
    stage.run(|c| {
        c.use_synchronization2();
        c.turn(&texture, NEW, TO);
        c.copy_to_image(&upload, &texture);
        for level in 1..levels {
            c.turn_levels(&texture, level - 1, 1, TO, FROM);
            let (from, to) = ((SIDE >> (level - 1)) as i32, (SIDE >> level) as i32);
            c.blit(
                (&texture, level - 1, [0, 0, from, from]),
                (&texture, level, [0, 0, to, to]),
                vk::Filter::LINEAR,
            );
        }
        c.turn_levels(&texture, 0, levels - 1, FROM, SAMPLED);
        c.turn_levels(&texture, levels - 1, 1, TO, SAMPLED);
        c.turn(&picture, NEW, DRAWN);
        c.render(&picture, Some([0.0; 4]), |c| {
            c.use_to_draw(pipeline, Some(set), SIZE, [[0.0; 4]; 2]);
            c.draw(3);
        });
        c.turn(&picture, DRAWN, FROM);
    })?;
    Ok(picture)
}

/// A picture drawn into a texture, which is drawn bent into another one, which is drawn four times over.
pub fn rendered(stage: &Stage) -> Result<Image> {
    let extent = vk::Extent2D { width: 128, height: 128 };
    let square = ImageKind { extent, ..PICTURE };
    let (first, second, picture) = (stage.image(square)?, stage.image(square)?, stage.image(PICTURE)?);
    let rings = graphics(stage, FULL)?;
    let bent = graphics(stage, Drawing { fragment: "sampled.frag", ..FULL })?;
    let sets = [stage.set(&[(3, Bind::Sampled(&first))])?, stage.set(&[(3, Bind::Sampled(&second))])?];
    stage.run(|c| {
        pattern(c, rings, &first, [1.0, 0.5, 0.2, 1.3], 4.0);
        c.turn(&first, DRAWN, SAMPLED);
        for (set, to, times, bend) in [(sets[0], &second, 1.0, 0.05), (sets[1], &picture, 2.0, 0.01)] {
            c.turn(to, NEW, DRAWN);
            c.render(to, Some([0.0; 4]), |c| {
                c.use_to_draw(bent, Some(set), to.extent, [[times, bend, 0.0, 0.0], [0.0; 4]]);
                c.draw(3);
            });
            c.turn(to, DRAWN, if to.handle == picture.handle { FROM } else { SAMPLED });
        }
    })?;
    Ok(picture)
}
