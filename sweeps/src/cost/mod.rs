//! What a barrier costs on this machine, and what that lets one expect.
//!
//! ```text
//! scope (sorts of barriers, as data) ─▶ grid (which series) ─▶ measure ─▶ gpu (the commands, the clocks)
//!                                                                 └─▶ document (points, lines; fit) ─▶ words, plot
//! document + stream (a model's commands under stock) ─▶ predict ─▶ prediction.json ─▶ score (a report made later)
//! ```
//!
//! A rate under two policies says what both cost together with everything else. Here the barrier stands alone: a series
//! of dispatches with it and the same series without, run in turn, and the difference of the two by the number of
//! barriers.

pub mod arguments;
mod device;
pub mod document;
pub mod fit;
pub mod gpu;
pub mod grid;
pub mod measure;
pub mod plot;
pub mod predict;
pub mod scope;
pub mod score;
pub mod stream;
pub mod words;

use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zinc_engine::results::DeviceKind;
use zinc_engine::vk::{self, Device};

use crate::error::SweepError;
use crate::host;
use crate::limits::first_timeout;
use crate::output::Folder;
use crate::programs::{EMBEDDED, beside};
use crate::progress::Progress;
use crate::reading;
use crate::report::DeviceReport;
pub use arguments::CostArgs;
use document::{Clock, Cost, SCHEMA_VERSION};
use gpu::Gpu;
use grid::Grid;
use measure::{Stopped, measure};
use predict::Prediction;
use stream::Programs;

/// Measures, predicts or scores, as `args` ask, and writes what came of it; the text for the terminal.
///
/// # Errors
///
/// [`SweepError`]: `Missing` when a device, a model or a document is not there, `System` when a Vulkan call fails.
pub fn run(args: &CostArgs, stop: &AtomicBool) -> Result<String, SweepError> {
    if let Some(report) = &args.score {
        return scored(args, report);
    }
    let cost = match &args.from {
        Some(from) => {
            let cost = read(from)?;
            if !args.predict {
                // Nothing else is asked than to draw it anew.
                let folder = Folder::prepare(&args.out, &["cost.md", "cost.svg"])?;
                return draw(&cost, &folder).map(|()| words::render(&cost));
            }
            cost
        }
        None => {
            let made: &[&str] = if args.predict { &["cost.json", "prediction.json"] } else { &["cost.json"] };
            Folder::keeps(&args.out, made, args.force)?;
            let device = device::open(args)?;
            let folder = Folder::claim(&args.out, &["cost.json", "cost.md", "cost.svg"])?;
            Folder::keeps(&args.out, made, args.force)?;
            let cost = measured(args, &device, stop)?;
            folder.replace("cost.json", &cost.to_json())?;
            draw(&cost, &folder)?;
            cost
        }
    };
    let mut text = match args.from {
        Some(_) => String::new(),
        None => format!(
            "{}\n{} and cost.md, cost.svg beside it\n",
            words::render(&cost),
            args.out.join("cost.json").display()
        ),
    };
    if args.predict {
        let folder = Folder::claim(&args.out, &["prediction.json"])?;
        Folder::keeps(&args.out, &["prediction.json"], args.force)?;
        let prediction = predicted(args, &cost, stop)?;
        folder.replace("prediction.json", &prediction.to_json())?;
        text.push_str(&words::prediction(&prediction));
        text.push_str(&format!("\n{}\n", folder.path().join("prediction.json").display()));
    }
    Ok(text)
}

/// What people look at.
fn draw(cost: &Cost, folder: &Folder) -> Result<(), SweepError> {
    let svg = plot::svg(cost).map_err(|why| SweepError::System {
        what: "cannot draw cost.svg".into(),
        source: std::io::Error::other(why),
    })?;
    folder.replace("cost.md", &words::render(cost))?;
    folder.replace("cost.svg", &svg)
}

fn measured(args: &CostArgs, device: &Rc<Device>, stop: &AtomicBool) -> Result<Cost, SweepError> {
    let about = device.describe().clone();
    let proves_speed = about.kind.is_gpu();
    let grid = match about.kind {
        DeviceKind::Cpu => Grid::cpu(),
        _ => Grid::gpu(device.memory_available(), device.tuning().fused.resident_groups),
    };
    let mut gpu = Gpu::new(device, grid.window, grid.most_dirtied()).map_err(of_vulkan)?;
    let mut progress = Progress::new(u64::from(args.reps));
    progress.start("how long each series must be");
    let mut began = Instant::now();
    let samples = measure(&mut gpu, &grid, args.reps, stop, |round| {
        progress.finish(&format!("round {round}"), "done", began.elapsed());
        began = Instant::now();
    });
    progress.close();
    let samples = samples.map_err(|stopped| match stopped {
        Stopped::Interrupted => SweepError::Interrupted,
        Stopped::Device(error) => of_vulkan(error),
    })?;
    let clock = if device.handles().timestamp_bits > 0 { Clock::Device } else { Clock::Host };
    let points = document::points(&samples);
    Ok(Cost {
        schema: SCHEMA_VERSION,
        sweep_version: env!("CARGO_PKG_VERSION").into(),
        made_unix_s: host::now(),
        host: host::host(),
        proves_speed,
        clock,
        rounds: args.reps,
        fits: document::fits(&points),
        notes: document::notes(&points, proves_speed, clock, &about.name),
        points,
        device: DeviceReport {
            name: about.name,
            driver: about.driver,
            driver_version: about.driver_version,
            api_version: about.api_version,
            kind: about.kind.to_string(),
        },
    })
}

fn predicted(args: &CostArgs, cost: &Cost, stop: &AtomicBool) -> Result<Prediction, SweepError> {
    let engine = beside(args.engine.as_deref(), "engine", "the engine", "--engine")?;
    let layer = beside(args.layer.as_deref(), "libzinc_barrier.so", "the layer's library", "--layer")?;
    let digest = |role: &str, path: &Path| Some((role.to_string(), host::blake3_of(path)?));
    let mut digests: Vec<Option<(String, String)>> = vec![digest("engine", &engine), digest("layer", &layer)];
    digests.push(Some(("cost".into(), blake3::hash(cost.to_json().as_bytes()).to_hex().to_string())));
    let programs = Programs {
        engine,
        layer,
        device: cost.device.name.clone(),
        timeout: args.timeout.unwrap_or_else(first_timeout),
        stop,
    };
    let own = [None];
    let given: Vec<Option<&Path>> = args.models.iter().map(|m| Some(m.as_path())).collect();
    let mut models = Vec::new();
    for model in if given.is_empty() { &own[..] } else { &given[..] } {
        let name = match model {
            Some(path) => path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
            None => EMBEDDED.into(),
        };
        let (stream, blake3) = programs.stream(*model, args.tokens, args.chunk())?;
        digests.push(Some((name.clone(), blake3)));
        let of_model = predict::of_model(cost, &name, args.tokens, args.chunk(), &stream);
        models.push(of_model.ok_or_else(|| {
            SweepError::Missing(format!(
                "model {name} asks for barriers whose cost was not measured; measure again without --from"
            ))
        })?);
    }
    Ok(Prediction {
        schema: predict::SCHEMA_VERSION,
        sweep_version: env!("CARGO_PKG_VERSION").into(),
        made_unix_s: host::now(),
        device: cost.device.clone(),
        proves_speed: cost.proves_speed,
        blake3: digests.into_iter().flatten().collect(),
        models,
    })
}

fn scored(args: &CostArgs, report: &Path) -> Result<String, SweepError> {
    let report = reading::report(report)?;
    let path = args.out.join("prediction.json");
    let prediction: Prediction = document(&path, predict::SCHEMA_VERSION)?;
    let score = score::score(&prediction, &report)
        .map_err(|why| SweepError::Missing(format!("'{}' cannot be scored: {why}", path.display())))?;
    let folder = Folder::prepare(&args.out, &["score.json", "score.md"])?;
    let mut json = serde_json::to_string_pretty(&score).unwrap_or_default();
    json.push('\n');
    folder.replace("score.json", &json)?;
    folder.replace("score.md", &score.render())?;
    Ok(format!("{}\n{} and score.md beside it\n", score.render(), args.out.join("score.json").display()))
}

/// A `prediction.json`.
///
/// # Errors
///
/// [`SweepError::Missing`] naming the file.
pub fn prediction(path: &Path) -> Result<Prediction, SweepError> {
    document(path, predict::SCHEMA_VERSION)
}

/// `cost.json` in a folder, or that file.
fn read(path: &Path) -> Result<Cost, SweepError> {
    document(&if path.is_dir() { path.join("cost.json") } else { path.to_path_buf() }, SCHEMA_VERSION)
}

/// A document of a version.
fn document<T: serde::de::DeserializeOwned>(path: &Path, version: u32) -> Result<T, SweepError> {
    let missing = |why: String| SweepError::Missing(format!("'{}' cannot be read: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| missing(e.to_string()))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| missing(e.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(n) if n == u64::from(version) => {
            serde_json::from_value(value).map_err(|e| missing(e.to_string()))
        }
        other => Err(missing(format!("its schema is {other:?}, and this program reads {version}"))),
    }
}

fn of_vulkan(error: vk::Error) -> SweepError {
    if error.is_missing_device() {
        SweepError::Missing(error.to_string())
    } else {
        SweepError::System { what: "cannot measure".into(), source: std::io::Error::other(error) }
    }
}
