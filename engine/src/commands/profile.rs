//! `engine profile`: where a token's time goes, step by step, on the host's and the device's clock.
//!
//! Two timestamps around each step order the steps and cost time themselves. Where that is much, each token gets few of
//! them, others each time, and the rows come from many tokens ([`sparse`]). Either way a token without any stands beside
//! the segments' sum, measured in the same run: what the stamps cost is the difference, and it is printed rather than
//! spread over the rows.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};

use super::output::write_whole;
use super::{
    device_line, identity, model_line, open_device, open_model, parse, print_json, print_text, remark,
};
use crate::cli::{Common, ProfileArgs};
use crate::decode::{self, Session, argmax};
use crate::error::Error;
use crate::model::Model;
use crate::plan::{Handoff, Plan, Space, Step, Work};
use crate::profile::segments::Segments;
use crate::profile::{self, Span, fit, picture, sparse, trace};
use crate::progress;
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
    if setup.handoff == Handoff::Values {
        remark(
            "note: a stamp between two steps that wait for values keeps the second from beginning before the first has ended",
        );
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
    // The first tokens are those of a device that has just woken up.
    run.pass(&mut session)?;
    let mut plain = run.pass(&mut session)?;
    session.program().time_tokens().map_err(decode::Error::from)?;
    let timed = run.pass(&mut session)?;
    session.program().time_steps().map_err(decode::Error::from)?;
    let stamped = run.pass(&mut session)?;
    let device_us = |all: &[Measured]| median(all.iter().map(|t| t.stamps[1] / 1e3));
    let (token_us, stamped_token_us) = (device_us(&timed), device_us(&stamped));
    let steps = session.program().plan().steps.len() as u32;
    // A CPU writes a stamp in passing, and no two of its tokens take equally long.
    let ratio = match device.describe().kind {
        results::DeviceKind::Cpu => 1.0,
        _ => stamped_token_us / token_us,
    };
    let every = args.stamp_every.unwrap_or_else(|| sparse::every(steps, ratio));
    let every = every.clamp(1, steps.max(1));
    let sparsely = if every == 1 { None } else { Some(run.sparsely(&mut session, every)?) };
    // Again, so that a clock that drifts does so to both sides.
    session.program().time_nothing();
    plain.extend(run.pass(&mut session)?);

    super::remark_on_device(&device, &mut session)?;
    let program = session.program();
    let barriers = program.barriers_before();
    let names: Vec<String> = program.plan().steps.iter().map(Step::label).collect();
    let token_of =
        |t: &Measured| profile::Token::aligned(t.cpu.clone(), t.began(), &t.stamps, &names, &barriers);
    let all: Vec<profile::Token> = stamped.iter().map(token_of).collect();
    // What the rows and segments are made of: every stamped token, or the one that many with few stamps give.
    let (tokens, measured) = match &sparsely {
        Some(many) => {
            let one = together(many);
            (vec![token_of(&one)], vec![one])
        }
        None => (all.clone(), stamped),
    };
    let each: Vec<f64> = (0..names.len())
        .map(|i| median(measured.iter().map(|t| (t.stamps[3 + 2 * i] - t.stamps[2 + 2 * i]) / 1e3)))
        .collect();
    let name = &device.describe().name;
    let calibrated = measured.iter().all(|t| t.first.is_some());
    if let Some(path) = &args.trace {
        let alignment = if calibrated { trace::CALIBRATED } else { trace::BY_WAIT };
        let shown = if sparsely.is_some() { &tokens } else { &all };
        let events = trace::events(&shown[..shown.len().min(TRACED)], name, alignment);
        let text = serde_json::to_vec(&events).map_err(std::io::Error::from)?;
        write_whole(path, text.len() as u64, |out| out.write_all(&text))?;
    }
    if let (Some(path), Some(token)) = (&args.svg, tokens.last()) {
        let picture = picture::svg(token, name).map_err(std::io::Error::other)?;
        write_whole(path, picture.len() as u64, |out| out.write_all(picture.as_bytes()))?;
    }
    let segments = Segments::mean(&tokens.iter().map(Segments::of).collect::<Vec<_>>());
    let n = tokens.len() as f64;
    let wall_us = plain.iter().map(Measured::wall_us).sum::<f64>() / plain.len() as f64;
    let stamped_wall_us = measured.iter().map(Measured::wall_us).sum::<f64>() / n;
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
        token_us,
        all_stamps_token_us: stamped_token_us,
        stamp_every: every,
        stamped_token_us: device_us(&measured),
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
    /// When the device began, on the host's clock, where it can tell.
    first: Option<f64>,
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the one that a device's clock can be read together with.
fn now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// One token of many that have few stamps each: their mean on the host, and the places of all stamps.
fn together(many: &[Measured]) -> Measured {
    let n = many.len().max(1) as f64;
    let mean = |f: &dyn Fn(&Measured) -> f64| many.iter().map(f).sum::<f64>() / n;
    let parts = many.first().map_or(0, |m| m.cpu.len());
    let mut end = 0.0;
    let cpu: Vec<Span> = (0..parts)
        .map(|part| {
            let begin = end;
            end += mean(&|m| m.cpu[part].length());
            Span { begin, end, ..many[0].cpu[part].clone() }
        })
        .collect();
    let waited = cpu.iter().find(|span| span.name == "wait").map_or(0.0, |span| span.end);
    let first = many
        .iter()
        .all(|m| m.first.is_some())
        .then(|| mean(&|m| m.first.unwrap_or(0.0) - m.cpu.first().map_or(0.0, |span| span.begin)));
    let stamps: Vec<&[f64]> = many.iter().map(|m| m.stamps.as_slice()).collect();
    Measured { cpu, waited, stamps: sparse::composite(&stamps), first }
}

impl Measured {
    fn wall_us(&self) -> f64 {
        self.cpu.iter().map(Span::length).sum::<f64>() / 1e3
    }

    /// When the device began, on the host's clock: as it was read, or so that the wait ends with the device's work.
    fn began(&self) -> f64 {
        self.first.unwrap_or(self.waited - self.stamps.get(1).copied().unwrap_or(0.0))
    }
}

impl Run {
    /// All tokens once, after one that is not counted: it pays for the recording that the others use again, and finds out
    /// whether a resident kernel gives up.
    fn pass(&self, session: &mut Session) -> Result<Vec<Measured>, Error> {
        session.rewind(self.depth);
        session.step(0)?;
        let mut logits = vec![0f32; self.vocabulary as usize];
        let zero = now();
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
        zero: f64,
    ) -> Result<Measured, vk::Error> {
        let program = session.program();
        let mut cpu: Vec<Span> = Vec::with_capacity(5);
        let mut begin = now() - zero;
        let mut done = |name: &str| {
            let end = now() - zero;
            cpu.push(Span { name: name.to_owned(), kind: "host", begin, end });
            begin = end;
            end
        };
        for sequence in 0..self.sequences {
            let own = (u64::from(*token) + u64::from(sequence)) % u64::from(self.vocabulary);
            program.set_step(sequence, &[position, own as u32]);
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
        let first = program.began()?.map(|t| t - zero);
        Ok(Measured { cpu, waited, stamps: program.times()?, first })
    }

    /// As many passes as it takes for every stamp to have been in some, each `every`th in each.
    fn sparsely(&self, session: &mut Session, every: u32) -> Result<Vec<Measured>, Error> {
        let progress = progress::count(u64::from(every), "passes");
        let mut measured = Vec::new();
        for first in 0..every {
            session.program().time_some_steps(first, every).map_err(decode::Error::from)?;
            measured.extend(self.pass(session)?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(measured)
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
                (d.call.kernel.name, format!("{}x{} of {}", d.grid[0], d.grid[1], d.call.workgroup()))
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
        let rate = if row.us > 0.0 { format!("{:.0}", mb * 1e3 / each) } else { "-".to_owned() };
        lines.push(format!(
            "{:22} {:24} {:18} {:>5} {:>9.1} {:>8.2} {:>9.3} {rate:>8}",
            row.step, row.kernel, row.shape, row.count, row.us, each, mb,
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
            "warning     the sum misses the token by more than {TOLERANCE} percent: the machine was busy, or stamps cost that much \
             here; try more tokens (-n), and fewer stamps in each (--stamp-every)"
        ));
    }
    lines.push(format!(
        "overhead    stamps make a token {:.3} times as long for the host, {:.3} times on the device ({:.1} us to {:.1} us)",
        r.stamped_wall_us / r.wall_us,
        r.stamped_token_us / r.token_us,
        r.token_us,
        r.stamped_token_us
    ));
    if r.stamp_every > 1 {
        lines.push(format!(
            "            with stamps at one step in {} (others in each of as many passes); all at once would make it {:.2} times as long",
            r.stamp_every,
            r.all_stamps_token_us / r.token_us
        ));
    }
    let (idle, waits) = (r.gpu_idle * 100.0, r.cpu_waits * 100.0);
    let who = if waits > idle { "the CPU waits for the GPU" } else { "the GPU waits for the CPU" };
    lines.push(format!(
        "waiting     {who}: the GPU is idle for {idle:.1}% of a token, the CPU waits for {waits:.1}%"
    ));
    lines.join("\n")
}
