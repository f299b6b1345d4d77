//! `engine profile`: where a token's time goes, step by step, on the host's and the device's clock.
//!
//! Two timestamps around each step order the steps and cost time themselves. So beside the segments' sum stands a token
//! without any, measured in the same run: what the stamps cost is the difference, and it is printed rather than spread
//! over the rows.

use std::collections::BTreeMap;
use std::time::Instant;

use super::output::write_whole;
use super::{
    device_line, identity, model_line, open_device, open_model, parse, print_json, print_text, remark,
};
use crate::cli::{Common, ProfileArgs};
use crate::decode::{self, Session, argmax};
use crate::error::Error;
use crate::model::Model;
use crate::plan::{Plan, Space, Step, Work};
use crate::profile::segments::Segments;
use crate::profile::{self, Span, fit, trace};
use crate::results::{self, ProfileRow, SCHEMA, Spread};
use crate::vk::{self, Record};

/// Tokens in a trace: more would only repeat.
const TRACED: usize = 4;
/// By how many percent the segments' sum may miss an independently timed token before it is said.
const TOLERANCE: f64 = 5.0;

pub(super) fn execute(common: &Common, args: &ProfileArgs) -> Result<(), Error> {
    let file = open_model(common)?;
    let gguf = parse(&file)?;
    let model =
        Model::from_gguf(&gguf).map_err(|source| Error::Model { name: file.source().to_owned(), source })?;
    let context = super::context(&model, args.depth, args.tokens)?;
    let device = open_device(common)?;
    let mut setup = args.levers.setup(device.tuning())?;
    if setup.levers.record == Record::Ahead {
        setup.levers.record = Record::Reuse;
        remark("note: a profile reads the logits of every token, so --record ahead is measured as reuse");
    }
    let mut session = super::start(&device, &model, context, &setup, &args.levers)?;
    let token = |i: u32| (u64::from(i) * 7919 % u64::from(model.config.vocabulary)) as u32;
    for i in 0..args.depth {
        session.step(token(i))?;
    }
    let run = Run {
        depth: args.depth,
        tokens: args.tokens,
        sequences: setup.levers.sequences,
        vocabulary: model.config.vocabulary,
    };
    let plain = run.pass(&mut session)?;
    session.program().time_tokens().map_err(decode::Error::from)?;
    let timed = run.pass(&mut session)?;
    session.program().time_steps().map_err(decode::Error::from)?;
    let stamped = run.pass(&mut session)?;

    let program = session.program();
    let barriers = program.barriers_before();
    let names: Vec<String> = program.plan().steps.iter().map(Step::label).collect();
    let tokens: Vec<profile::Token> = stamped
        .iter()
        .map(|t| profile::Token::aligned(t.cpu.clone(), t.waited, &t.stamps, &names, &barriers))
        .collect();
    let each: Vec<f64> = (0..names.len())
        .map(|i| median(stamped.iter().map(|t| (t.stamps[3 + 2 * i] - t.stamps[2 + 2 * i]) / 1e3)))
        .collect();
    if let Some(path) = &args.trace {
        let events = trace::events(&tokens[..tokens.len().min(TRACED)], &device.describe().name);
        let text = serde_json::to_vec(&events).map_err(std::io::Error::from)?;
        write_whole(path, text.len() as u64, |out| out.write_all(&text))?;
    }
    let segments = Segments::mean(&tokens.iter().map(Segments::of).collect::<Vec<_>>());
    let n = tokens.len() as f64;
    let wall_us = plain.iter().map(Measured::wall_us).sum::<f64>() / plain.len() as f64;
    let stamped_wall_us = stamped.iter().map(Measured::wall_us).sum::<f64>() / n;
    let total: f64 = tokens.iter().map(profile::Token::length).sum();
    let plan = program.plan();
    let points: Vec<(f64, f64)> = plan
        .steps
        .iter()
        .zip(&each)
        .filter(|(step, _)| multiplies(step))
        .map(|(step, us)| (weight_bytes(step) as f64 / 1e6, *us))
        .collect();
    let result = results::Profile {
        schema: SCHEMA,
        command: "profile".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        model: identity(&file, &model),
        depth: args.depth.into(),
        token_us: median(timed.iter().map(|t| t.stamps[1] / 1e3)),
        stamped_token_us: median(stamped.iter().map(|t| t.stamps[1] / 1e3)),
        steps_us: each.iter().sum(),
        wall_us,
        stamped_wall_us,
        segments,
        difference_percent: (segments.sum() / wall_us - 1.0) * 100.0,
        gpu_idle: 1.0 - tokens.iter().map(profile::Token::on_device).sum::<f64>() / total,
        cpu_waits: tokens.iter().map(profile::Token::waited).sum::<f64>() / total,
        fit: fit::line(&points),
        rows: rows(plan, &each),
    };
    if common.json { print_json(&result) } else { print_text(&table(&result)) }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    Spread::of(&values.collect::<Vec<_>>()).map_or(0.0, |s| s.median)
}

/// Whether a step is a product of a matrix: its weights are more than a vector's, and read once.
fn multiplies(step: &Step) -> bool {
    let name = step.name;
    weight_bytes(step) > 0
        && (name == "output" || name.starts_with("attn_") || name.starts_with("ffn_"))
        && !["_weight", "_bias", "_norm"].iter().any(|end| name.ends_with(end))
}

/// What each pass does.
struct Run {
    depth: u32,
    tokens: u32,
    sequences: u32,
    vocabulary: u32,
}

/// A token as both sides saw it.
struct Measured {
    cpu: Vec<Span>,
    waited: f64,
    stamps: Vec<f64>,
}

impl Measured {
    fn wall_us(&self) -> f64 {
        self.cpu.iter().map(Span::length).sum::<f64>() / 1e3
    }
}

impl Run {
    /// All tokens once, after one that is not counted: it pays for the recording that the others use again, and finds out
    /// whether a resident kernel gives up.
    fn pass(&self, session: &mut Session) -> Result<Vec<Measured>, Error> {
        session.rewind(self.depth);
        session.step(0)?;
        let mut logits = vec![0f32; self.vocabulary as usize];
        let zero = Instant::now();
        let mut token = 0;
        let mut measured = Vec::new();
        for i in 0..self.tokens {
            let m = self.token(session, self.depth + i, &mut token, &mut logits, zero);
            measured.push(m.map_err(decode::Error::from)?);
        }
        session.rewind(self.depth);
        session.step(0)?;
        Ok(measured)
    }

    /// One token, as [`Session::step`] does it, with a look at the clock between its parts.
    fn token(
        &self,
        session: &mut Session,
        position: u32,
        token: &mut u32,
        logits: &mut [f32],
        zero: Instant,
    ) -> Result<Measured, vk::Error> {
        let program = session.program();
        let mut cpu: Vec<Span> = Vec::with_capacity(5);
        let mut begin = zero.elapsed().as_nanos() as f64;
        let mut done = |name: &str| {
            let end = zero.elapsed().as_nanos() as f64;
            cpu.push(Span { name: name.to_owned(), kind: "host", begin, end });
            begin = end;
            end
        };
        for sequence in 0..self.sequences {
            let own = (u64::from(*token) + u64::from(sequence)) % u64::from(self.vocabulary);
            program.set_step(sequence, position, own as u32);
        }
        program.prepare(position + 1, 1, true)?;
        done("record");
        program.hand_over(1)?;
        done("submit");
        program.wait()?;
        let waited = done("wait");
        program.read(Space::Readback, 0, 0, bytemuck::cast_slice_mut(logits));
        done("host read");
        *token = argmax(logits);
        done("sampling");
        Ok(Measured { cpu, waited, stamps: program.times()? })
    }
}

/// Bytes of weights that a step reads: the spans that it binds of them, common bytes once.
pub(super) fn weight_bytes(step: &Step) -> u64 {
    let mut spans: Vec<_> = step.accesses().into_iter().map(|(span, _)| span).collect();
    spans.retain(|span| matches!(span.space, Space::Weights(_)));
    spans.sort_by_key(|span| (span.space, span.offset));
    let mut last = None;
    let mut bytes = 0;
    for span in spans {
        let from = match last {
            Some((space, end)) if space == span.space => span.offset.max(end),
            _ => span.offset,
        };
        let end = (span.offset + span.bytes).max(from);
        bytes += end - from;
        last = Some((span.space, end));
    }
    bytes
}

/// One row for each name and size of step, the most expensive first.
fn rows(plan: &Plan, each: &[f64]) -> Vec<ProfileRow> {
    let mut rows: BTreeMap<(&str, String), ProfileRow> = BTreeMap::new();
    for (step, us) in plan.steps.iter().zip(each) {
        let (kernel, shape) = match &step.work {
            Work::Dispatch(d) => {
                (d.kernel.name, format!("{}x{} of {}", d.grid[0], d.grid[1], d.shape.workgroup))
            }
            Work::Copy { to, .. } => ("copy", format!("{} bytes", to.bytes)),
        };
        let row = rows.entry((step.name, shape.clone())).or_insert_with(|| ProfileRow {
            step: step.name.to_owned(),
            kernel: kernel.to_owned(),
            shape,
            count: 0,
            us: 0.0,
            weight_bytes: weight_bytes(step),
        });
        row.count += 1;
        row.us += us;
    }
    let mut rows: Vec<ProfileRow> = rows.into_values().collect();
    rows.sort_by(|a, b| b.us.total_cmp(&a.us));
    rows
}

fn table(r: &results::Profile) -> String {
    let mut lines = vec![
        model_line(&r.model),
        device_line(&r.device),
        format!(
            "{:22} {:24} {:18} {:>5} {:>9} {:>8} {:>9} {:>8}",
            "step", "kernel", "grid", "count", "us", "us each", "MB each", "GB/s"
        ),
    ];
    for row in &r.rows {
        let each = row.us / row.count as f64;
        let mb = row.weight_bytes as f64 / 1e6;
        lines.push(format!(
            "{:22} {:24} {:18} {:>5} {:>9.1} {:>8.2} {:>9.3} {:>8.0}",
            row.step,
            row.kernel,
            row.shape,
            row.count,
            row.us,
            each,
            mb,
            mb * 1e3 / each
        ));
    }
    if let Some(f) = &r.fit {
        let rate = f.bytes_s.map_or("no growth with bytes".to_owned(), |b| format!("{:.1} GB/s", b / 1e9));
        lines.push(format!(
            "fit         {:.2} us a dispatch and {rate} over {} products of matrices; residual {:.2} us",
            f.fixed_us, f.steps, f.residual_us
        ));
    }
    for (name, us) in r.segments.named() {
        lines.push(format!("{name:22} {us:>9.1} us {:>5.1}%", us * 100.0 / r.segments.sum()));
    }
    lines.push(format!(
        "sum         {:.1} us; a token timed apart, without stamps, takes {:.1} us ({:+.1}%)",
        r.segments.sum(),
        r.wall_us,
        r.difference_percent
    ));
    if r.difference_percent.abs() > TOLERANCE {
        lines.push(format!(
            "warning     the sum misses the token by more than {TOLERANCE} percent: stamps between steps cost that much here, or \
             the machine was busy; more tokens (-n) help against the latter only"
        ));
    }
    lines.push(format!(
        "overhead    stamps make a token {:.2} times as long for the host, {:.2} times on the device ({:.1} us to {:.1} us)",
        r.stamped_wall_us / r.wall_us,
        r.stamped_token_us / r.token_us,
        r.token_us,
        r.stamped_token_us
    ));
    let (idle, waits) = (r.gpu_idle * 100.0, r.cpu_waits * 100.0);
    let who = if waits > idle { "the CPU waits for the GPU" } else { "the GPU waits for the CPU" };
    lines.push(format!(
        "waiting     {who}: the GPU is idle for {idle:.1}% of a token, the CPU waits for {waits:.1}%"
    ));
    lines.join("\n")
}
