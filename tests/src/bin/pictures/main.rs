//! `pictures` draws scenes with Vulkan, off-screen or in a window, and prints a digest of each as JSON.
//!
//! It is an application like any other to the loader and its layers: it knows nothing of zinc_barrier. Whoever wants to
//! know whether a layer leaves pictures alone runs it without and with the layer and compares the digests, which
//! depend on the device and its driver, but on nothing else.
//!
//! Exit status: 0 all scenes drawn, 1 something went wrong, 2 usage, 3 no device or no X server.
#![allow(missing_docs, reason = "the modules are private")]

mod gpu;
mod pipeline;
mod record;
mod scenes;
mod stage;
mod swapchain;
mod window;

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::{Map, Value, json};

use gpu::{Gpu, SIZE};
use record::READ_BY_HOST;
use scenes::{SCENES, Scene};
use stage::{Image, Stage};
use swapchain::Swapchain;
use window::Window;

/// Draw scenes with Vulkan and print a digest of each, as JSON.
///
/// A scene's digest is BLAKE3 over its texels, four bytes each, red first. `shows_lost_order` marks the scenes that go
/// wrong, also on a device that executes in order, when dependent operations are swapped: under
/// ZINC_BARRIER_POLICY=none ZINC_BARRIER_SHUFFLE=reverse they must differ, or the comparison is blind.
#[derive(Parser)]
struct Arguments {
    /// Also show each picture in a window on the X server that DISPLAY names, and read it back from there
    #[arg(long)]
    window: bool,
    /// Only these scenes
    #[arg(long = "scene", value_name = "NAME", value_parser = SCENES.map(|scene| scene.name))]
    scenes: Vec<String>,
    /// The first device whose name contains this
    #[arg(long, default_value = "", hide_default_value = true)]
    device: String,
    /// Write the pictures into this folder as NAME.png
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Say what each scene is, and draw nothing
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for scene in SCENES {
            println!("{:10} {}", scene.name, scene.about);
        }
        return ExitCode::SUCCESS;
    }
    let fail = |code: u8, error: anyhow::Error| {
        eprintln!("pictures: {error:#}");
        ExitCode::from(code)
    };
    let opened = arguments.window.then(Window::open).transpose().and_then(|window| {
        let gpu = Gpu::open(&arguments.device, window.as_ref().map(Window::handles))?;
        Ok((window, gpu))
    });
    let (window, gpu) = match opened {
        Ok(opened) => opened,
        Err(error) => return fail(3, error),
    };
    let drawn = draw_all(&arguments, window.as_ref(), &gpu);
    // The surface goes with the device, before its window.
    drop(gpu);
    match drawn {
        Ok(value) => {
            println!("{value}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(1, error),
    }
}

fn draw_all(arguments: &Arguments, window: Option<&Window>, gpu: &Gpu) -> Result<Value> {
    if let Some(folder) = &arguments.out {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let shown = match window {
        Some(window) => Some((window, Swapchain::new(gpu)?)),
        None => None,
    };
    let mut digests = Map::new();
    let wanted = |scene: &&Scene| {
        arguments.scenes.is_empty() || arguments.scenes.iter().any(|name| name == scene.name)
    };
    for scene in SCENES.iter().filter(wanted) {
        let digest = draw(scene, arguments.out.as_deref(), shown.as_ref(), gpu)
            .with_context(|| format!("scene '{}'", scene.name))?;
        digests.insert(scene.name.into(), digest);
    }
    Ok(json!({
        "schema": 1,
        "device": gpu.name,
        "width": SIZE.width,
        "height": SIZE.height,
        "scenes": digests,
    }))
}

/// Draws a scene, reads it back, and shows it where there is a window.
fn draw(scene: &Scene, out: Option<&Path>, shown: Option<&(&Window, Swapchain)>, gpu: &Gpu) -> Result<Value> {
    let stage = Stage::new(gpu);
    let picture = (scene.draw)(&stage)?;
    let texels = read(&stage, &picture)?;
    if let Some(folder) = out {
        write(&folder.join(format!("{}.png", scene.name)), &texels)?;
    }
    let mut value = json!({ "digest": digest(&texels), "shows_lost_order": scene.shows_lost_order });
    if let Some((window, swapchain)) = shown {
        let seen = swapchain.show(window, &picture, &texels)?;
        value["window_digest"] = digest(&seen).into();
        if let Some(folder) = out {
            write(&folder.join(format!("{}-window.png", scene.name)), &seen)?;
        }
    }
    Ok(value)
}

fn digest(texels: &[u8]) -> String {
    blake3::hash(texels).to_hex().to_string()
}

/// The texels of a picture in the use `FROM`.
fn read(stage: &Stage, picture: &Image) -> Result<Vec<u8>> {
    let buffer = stage.buffer(u64::from(SIZE.width * SIZE.height) * 4)?;
    stage.run(|c| {
        c.copy_from_image(picture, &buffer);
        c.barrier(record::WRITTEN_BY_TRANSFER, READ_BY_HOST);
    })?;
    Ok(stage.read(&buffer))
}

fn write(path: &Path, texels: &[u8]) -> Result<()> {
    let what = || format!("cannot write {}", path.display());
    let file = fs::File::create(path).with_context(what)?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), SIZE.width, SIZE.height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(texels)).with_context(what)
}
