//! `engine profile`: where a token's time goes, step by step, on the device's own clock.
//!
//! Two timestamps around each step order the steps and cost time themselves. So the table says how long each step takes
//! alone, barrier included, and beside their sum stands the time of a token without them, measured in the same run: what
//! the steps overlap or the stamps cost is the difference, and it is printed rather than spread over the rows.

use std::collections::BTreeMap;

use super::{device_line, identity, model_line, open_device, open_model, parse, print_json, print_text};
use crate::cli::{Common, ProfileArgs};
use crate::decode::Session;
use crate::error::Error;
use crate::model::Model;
use crate::plan::{Plan, Space, Step, Work};
use crate::results::{self, ProfileRow, SCHEMA, Spread};
use crate::vk::Record;

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
    }
    let mut session = Session::with(&device, &model, context, &setup)?;
    let token = |i: u32| (u64::from(i) * 7919 % u64::from(model.config.vocabulary)) as u32;
    for i in 0..args.depth {
        session.step(token(i))?;
    }
    session.time_tokens()?;
    let mut whole = Vec::new();
    for i in 0..args.tokens {
        session.step(token(args.depth + i))?;
        whole.push(session.program().times()?[1] / 1e3);
    }
    session.rewind(args.depth);
    session.program().time_steps()?;
    let mut stamped = Vec::new();
    let steps = session.program().plan().steps.len();
    let mut each: Vec<Vec<f64>> = vec![Vec::new(); steps];
    for i in 0..args.tokens {
        session.step(token(args.depth + i))?;
        let times = session.program().times()?;
        stamped.push(times[1] / 1e3);
        for (step, times) in each.iter_mut().zip(times[2..].chunks_exact(2)) {
            step.push((times[1] - times[0]) / 1e3);
        }
    }
    let median = |values: &[f64]| Spread::of(values).map_or(0.0, |s| s.median);
    let each: Vec<f64> = each.iter().map(|values| median(values)).collect();
    let result = results::Profile {
        schema: SCHEMA,
        command: "profile".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        model: identity(&file, &model),
        depth: args.depth.into(),
        token_us: median(&whole),
        stamped_token_us: median(&stamped),
        steps_us: each.iter().sum(),
        rows: rows(session.program().plan(), &each),
    };
    if common.json { print_json(&result) } else { print_text(&table(&result)) }
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
    lines.push(format!(
        "token       {:.1} us without stamps between steps, {:.1} us with them; the steps' sum is {:.1} us ({:+.1}%)",
        r.token_us,
        r.stamped_token_us,
        r.steps_us,
        (r.steps_us / r.token_us - 1.0) * 100.0
    ));
    lines.join("\n")
}
