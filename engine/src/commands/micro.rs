//! `engine micro`: each kind of step alone, fused and unfused, against the memory's own speed.
//!
//! A kernel is judged by how near it comes to a kernel that only reads, on the same weights in the same run. So each kind of
//! step runs for all layers in turn (other weights each time, so no cache holds them), and beside a fused step stand the
//! unfused ones that do the same work. Several tunings share one upload of the weights: a run compares dozens of them.

use std::collections::BTreeMap;
use std::rc::Rc;

use zinc_shaders::stream;

use super::{
    device_line, identity, model_line, open_device_by, open_model, parse, print_json, print_text, progress,
};
use crate::cli::{Common, MicroArgs};
use crate::decode::{self, Session, Setup};
use crate::error::Error;
use crate::levers::parse_tuning;
use crate::model::Model;
use crate::plan::{Dispatch, Fusion, Plan, Space, Span, Step, Work, kernels};
use crate::results::{self, MicroRow, MicroTuning, SCHEMA, Spread};
use crate::vk::{Buffer, Device, Levers, Program};

/// Steps of a stretch at least, so that its beginning and end do not count.
const STRETCH: usize = 100;

/// The unfused steps that a fused one stands for.
const PARTS: [(&str, &[&str]); 6] = [
    (
        "attn_qkv",
        &[
            "attn_norm",
            "attn_norm_weight",
            "attn_q",
            "attn_k",
            "attn_v",
            "attn_q_bias",
            "attn_k_bias",
            "attn_v_bias",
        ],
    ),
    (
        "attention",
        &[
            "attn_q_norm",
            "attn_q_norm_weight",
            "attn_k_norm",
            "attn_k_norm_weight",
            "rope_q",
            "rope_k",
            "write_k",
            "write_v",
            "scores",
            "softmax",
            "weighted_sum",
        ],
    ),
    ("attn_output", &["attn_output", "attn_output_bias", "attn_residual"]),
    (
        "ffn_gate_up",
        &["ffn_norm", "ffn_norm_weight", "ffn_gate", "ffn_up", "ffn_silu", "ffn_gelu", "ffn_multiply"],
    ),
    ("ffn_down", &["ffn_down", "ffn_residual"]),
    ("output", &["output_norm", "output_norm_weight", "output"]),
];

pub(super) fn execute(common: &Common, args: &MicroArgs) -> Result<(), Error> {
    let file = open_model(common)?;
    let gguf = parse(&file)?;
    let model =
        Model::from_gguf(&gguf).map_err(|source| Error::Model { name: file.source().to_owned(), source })?;
    let context = super::context(&model, args.depth, 1)?;
    let device = open_device_by(common, Device::that_tells)?;
    let mut texts = vec![String::new()];
    texts.extend(args.tuning.iter().cloned());
    let parse_one = |text: &String| {
        if text.is_empty() { Ok(device.tuning()) } else { parse_tuning(text, device.tuning()) }
    };
    let tunings = texts.iter().map(parse_one).collect::<Result<Vec<_>, _>>()?;
    let setup = |fusion, tuning| Setup { fusion, tuning: Some(tuning), ..Setup::default() };

    let bar = progress(tunings.len() as u64 + 2, "tunings");
    let mut plain = Session::with(&device, &model, context, &setup(Fusion::None, device.tuning()))?;
    super::remark_on_device(&device, &mut plain)?;
    let peak_bytes_s = peak(&device, plain.weights(), args.reps)?;
    bar.inc(1);
    let parts = unfused(&mut plain, args.depth, args.reps)?;
    bar.inc(1);
    let mut measured = Vec::new();
    for (text, tuning) in texts.into_iter().zip(tunings) {
        let mut session = plain.beside(&device, &model, context, &setup(Fusion::All, tuning))?;
        measured.push(fused(&mut session, (&device, args, &model), text, &parts)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let result = results::Micro {
        schema: SCHEMA,
        command: "micro".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        model: identity(&file, &model),
        depth: args.depth.into(),
        peak_bytes_s,
        tunings: measured,
    };
    if common.json { print_json(&result) } else { print_text(&table(&result)) }
}

/// Bytes a second of a kernel that reads the weights and adds them up.
fn peak(device: &Rc<Device>, weights: &[Rc<Buffer>], reps: u32) -> Result<f64, Error> {
    const WORKGROUP: u32 = 256;
    let limits = device.limits();
    let (index, largest) =
        weights.iter().enumerate().max_by_key(|(_, b)| b.bytes()).expect("a model has weights");
    let bytes = largest.bytes().min(limits.range) / 16 * 16;
    let count = (bytes / 16) as u32;
    let groups = count.div_ceil(16 * WORKGROUP).clamp(1, limits.grid[0]);
    let result = Span { space: Space::Arena, offset: 0, bytes: u64::from(4 * groups * WORKGROUP) };
    let x = Span { space: Space::Weights(index as u32), offset: 0, bytes };
    let every = kernels::dispatch((), WORKGROUP, 1, stream::Push { count }, stream::Bindings { x, result });
    let dispatch = Dispatch { grid: [groups, 1], ..every };
    let plan = Plan {
        steps: vec![Step { layer: None, name: "stream", work: Work::Dispatch(dispatch) }],
        buffers: vec![(Space::Arena, result.bytes)],
        uploads: Vec::new(),
        failed: None,
    };
    let mut program = Program::new(device, plan, weights, Levers::default()).map_err(decode::Error::from)?;
    let rounds = ((1u64 << 30) / bytes.max(1)).clamp(1, 64) as u32;
    let us = median(&mut program, &[0], 1, rounds, reps)?.median;
    let read = bytes.min(u64::from(groups * WORKGROUP) * 256);
    Ok(read as f64 * f64::from(rounds) / us * 1e6)
}

fn median(
    program: &mut Program,
    steps: &[usize],
    positions: u32,
    rounds: u32,
    reps: u32,
) -> Result<Spread, Error> {
    let mut times = Vec::new();
    for rep in 0..=reps {
        let us = program.measure(steps, positions, rounds).map_err(decode::Error::from)?;
        // The first one pays for cold caches and clocks.
        if rep > 0 {
            times.push(us);
        }
    }
    Spread::of(&times).ok_or_else(|| Error::Usage("nothing was measured: use --reps 1 or more".to_owned()))
}

/// Microseconds a layer (or a token, for the head) of the unfused steps of each fused one.
fn unfused(session: &mut Session, depth: u32, reps: u32) -> Result<BTreeMap<&'static str, f64>, Error> {
    let program = session.program();
    program.set_step(0, &[depth, 0]);
    let mut parts = BTreeMap::new();
    for (name, steps) in PARTS {
        let all = program.plan().steps.iter().enumerate();
        let of: Vec<(usize, Option<u32>)> =
            all.filter(|(_, step)| steps.contains(&step.name)).map(|(i, step)| (i, step.layer)).collect();
        let mut layers: Vec<_> = of.iter().map(|(_, layer)| layer).collect();
        layers.dedup();
        let count = layers.len().max(1);
        let places: Vec<usize> = of.iter().map(|(i, _)| *i).collect();
        if places.is_empty() {
            continue;
        }
        let rounds = STRETCH.div_ceil(places.len()) as u32;
        let us = median(program, &places, depth + 1, rounds, reps)?.median;
        parts.insert(name, us / (f64::from(rounds) * count as f64));
    }
    Ok(parts)
}

fn fused(
    session: &mut Session,
    (device, args, model): (&Device, &MicroArgs, &Model<'_>),
    tuning: String,
    parts: &BTreeMap<&'static str, f64>,
) -> Result<MicroTuning, Error> {
    let program = session.program();
    program.set_step(0, &[args.depth, 0]);
    let mut kinds: Vec<(&str, String, Vec<usize>)> = Vec::new();
    for (i, step) in program.plan().steps.iter().enumerate() {
        let Work::Dispatch(d) = &step.work else { continue };
        let grid = d.grid_at(args.depth + 1);
        let shape = format!("{}x{} of {}", grid[0], grid[1], d.call.workgroup());
        match kinds.iter_mut().find(|kind| kind.0 == step.name && kind.1 == shape) {
            Some(kind) => kind.2.push(i),
            None => kinds.push((step.name, shape, vec![i])),
        }
    }
    let kv = u64::from(model.config.kv_dim()) * 4 * u64::from(args.depth);
    let mut rows = Vec::new();
    for (name, shape, places) in kinds {
        let rounds = STRETCH.div_ceil(places.len()) as u32;
        let each = f64::from(rounds) * places.len() as f64;
        let us = median(program, &places, args.depth + 1, rounds, args.reps)?;
        let weights = super::profile::weight_bytes(&program.plan().steps[places[0]]);
        let driver = match &program.plan().steps[places[0]].work {
            Work::Dispatch(dispatch) => device.account(dispatch).map_err(decode::Error::from)?,
            Work::Copy { .. } => None,
        };
        rows.push(MicroRow {
            step: name.to_owned(),
            shape,
            count: places.len() as u64,
            us: Spread { median: us.median / each, lo: us.lo / each, hi: us.hi / each, n: us.n },
            bytes: if name == "attention" { kv } else { weights },
            parts_us: parts.get(name).copied(),
            driver,
        });
    }
    let all: Vec<usize> = (0..program.plan().steps.len()).collect();
    let rounds = 8;
    let token_us = median(program, &all, args.depth + 1, rounds, args.reps)?.median / f64::from(rounds);
    Ok(MicroTuning { tuning, rows, token_us })
}

fn table(r: &results::Micro) -> String {
    let mut lines = vec![
        model_line(&r.model),
        device_line(&r.device),
        format!("peak        {:.0} GB/s, read by a kernel that does nothing else", r.peak_bytes_s / 1e9),
    ];
    for tuning in &r.tunings {
        let name = if tuning.tuning.is_empty() { "the device's own" } else { &tuning.tuning };
        lines.push(format!(
            "tuning      {name}: the dispatches of a token take {:.1} us at depth {}",
            tuning.token_us, r.depth
        ));
        lines.push(format!(
            "{:16} {:16} {:>5} {:>9} {:>19} {:>8} {:>6} {:>6} {:>11}",
            "step", "grid", "count", "us each", "range", "MB", "GB/s", "peak", "unfused us"
        ));
        for row in &tuning.rows {
            let rate = row.bytes as f64 / row.us.median / 1e3;
            lines.push(format!(
                "{:16} {:16} {:>5} {:>9.2} {:>19} {:>8.3} {:>6.0} {:>5.0}% {:>11}",
                row.step,
                row.shape,
                row.count,
                row.us.median,
                format!("{:.2} to {:.2}", row.us.lo, row.us.hi),
                row.bytes as f64 / 1e6,
                rate,
                rate * 1e11 / r.peak_bytes_s,
                row.parts_us.map_or("-".to_owned(), |us| format!("{us:.2}"))
            ));
        }
        lines.extend(told(&tuning.rows));
    }
    lines.join("\n")
}

/// What of the driver's account matters for speed: what a kernel holds in registers, and what did not fit.
fn told(rows: &[MicroRow]) -> Vec<String> {
    const WORDS: [&str; 7] = ["register", "gpr", "spill", "fill", "scratch", "stack", "local"];
    let matters = |name: &str| WORDS.iter().any(|word| name.to_lowercase().contains(word));
    let mut lines = Vec::new();
    for row in rows {
        let Some(driver) = &row.driver else { continue };
        let some: Vec<_> =
            driver.iter().filter(|(name, _)| matters(name)).map(|(name, n)| format!("{name} {n}")).collect();
        lines.push(format!("driver      {}, {}: {}", row.step, row.shape, some.join(", ")));
    }
    if lines.is_empty() {
        lines.push("driver      does not tell what it made of the kernels".to_owned());
    }
    lines
}
