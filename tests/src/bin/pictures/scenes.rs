//! The scenes, by name.

mod computed;
mod dynamic;
mod passes;
mod textures;

use anyhow::Result;

use crate::stage::{Image, Stage};

/// A scene: draws one picture, which it leaves in the use `FROM` (to be copied).
#[derive(Clone, Copy)]
pub struct Scene {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether the picture goes wrong when the layer issues in reverse what no barrier orders, on a device that executes
    /// in order: then the scene is a control.
    pub shows_lost_order: bool,
    pub draw: fn(&Stage) -> Result<Image>,
}

/// All scenes, in the order in which they are drawn.
pub const SCENES: [Scene; 9] = [
    Scene {
        name: "cube",
        about: "a render pass with depth and resolved samples; vertices come through two copies",
        shows_lost_order: true,
        draw: passes::cube,
    },
    Scene {
        name: "subpasses",
        about: "two subpasses, an input attachment, a barrier inside a subpass",
        shows_lost_order: false,
        draw: passes::subpasses,
    },
    Scene {
        name: "dynamic",
        about: "dynamic rendering from secondary command buffers, blended; vertices by update and fill",
        shows_lost_order: true,
        draw: dynamic::secondaries,
    },
    Scene {
        name: "blits",
        about: "blits that scale and mirror, copies of images, clears",
        shows_lost_order: false,
        draw: textures::blits,
    },
    Scene {
        name: "mips",
        about: "an uploaded texture, its mip levels by blits, a floor to the horizon",
        shows_lost_order: false,
        draw: textures::mips,
    },
    Scene {
        name: "texture",
        about: "render to texture, twice",
        shows_lost_order: false,
        draw: textures::rendered,
    },
    Scene {
        name: "particles",
        about: "compute to draw: three dispatches make vertices and the arguments of an indirect draw",
        shows_lost_order: true,
        draw: computed::particles,
    },
    Scene {
        name: "edges",
        about: "draw to compute: a drawn picture through four dispatches into a storage image",
        shows_lost_order: true,
        draw: computed::edges,
    },
    Scene {
        name: "life",
        about: "both, over eight frames: the same command buffers again and again, semaphores between some",
        shows_lost_order: true,
        draw: computed::life,
    },
];
