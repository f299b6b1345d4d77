//! `engine bench`: the decode rate, repeated, with its spread.
//!
//! Each repetition fills a sequence to the depth, restarts the clock, and times single-token steps. One repetition comes
//! first and is thrown away: it pays for cold caches and for a GPU that raises its clocks.

use super::{
    decode_lines, device_line, load, model_line, open_device, open_model, print_json, print_text, progress,
};
use crate::cli::{BenchArgs, Common};
use crate::decode::{self, Session};
use crate::embedded;
use crate::error::Error;
use crate::plan;
use crate::results::{self, SCHEMA, Spread};

pub(super) fn execute(common: &Common, args: &BenchArgs) -> Result<(), Error> {
    let file = open_model(common)?;
    let loaded = load(&file)?;
    let trained = loaded.model.config.context;
    let context = args.depth.saturating_add(args.tokens);
    if context > trained {
        return Err(decode::Error::from(plan::Error::Context { asked: context, trained }).into());
    }
    // What the tokens are makes no difference to the time; real text keeps the numbers in a usual range.
    let text = loaded.tokenizer.encode(embedded::HELD_OUT_TEXT)?;
    let device = open_device(common)?;
    let mut session = Session::new(&device, &loaded.model, context, args.record.into())?;
    let bar = progress(u64::from(args.reps) + 1, "repetitions");
    let mut rates = Vec::new();
    let mut total: Option<results::Decode> = None;
    for repetition in 0..=args.reps {
        session.reset();
        let mut tokens = text.iter().copied().cycle();
        for token in tokens.by_ref().take(args.depth as usize) {
            session.step(token)?;
        }
        session.restart_clock();
        for token in tokens.take(args.tokens as usize) {
            session.step(token)?;
        }
        bar.inc(1);
        if repetition > 0 {
            let decode = session.decode();
            rates.push(decode.tok_s);
            total = Some(match total {
                None => decode,
                Some(so_far) => join(so_far, decode),
            });
        }
    }
    bar.finish_and_clear();
    let (Some(decode), Some(tok_s)) = (total, Spread::of(&rates)) else {
        return Err(Error::Usage("nothing was measured: use --reps 1 or more".to_owned()));
    };
    let result = results::Bench {
        schema: SCHEMA,
        command: "bench".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        bytes_per_token: loaded.model.bytes_per_token(args.depth + args.tokens / 2),
        model: loaded.identity,
        depth: args.depth.into(),
        tokens: args.tokens.into(),
        tok_s,
        decode,
    };
    if common.json { print_json(&result) } else { print_text(&table(&result)) }
}

/// Two stretches of steps as one; counts a token are the same in both.
fn join(a: results::Decode, b: results::Decode) -> results::Decode {
    let tokens = a.tokens + b.tokens;
    let seconds = a.seconds + b.seconds;
    let cpu = a.cpu_us_per_token * a.tokens as f64 + b.cpu_us_per_token * b.tokens as f64;
    let tok_s = if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    results::Decode { tokens, seconds, tok_s, cpu_us_per_token: cpu / tokens as f64, ..b }
}

fn table(r: &results::Bench) -> String {
    let Spread { median, lo, hi, n } = r.tok_s;
    [
        model_line(&r.model),
        device_line(&r.device),
        format!("rate        {median:.1} tok/s at depth {} (median of {n}; {lo:.1} to {hi:.1})", r.depth),
        format!(
            "reads       {:.2} MB a token, so {:.2} GB/s",
            r.bytes_per_token as f64 / 1e6,
            r.bytes_per_token as f64 * median / 1e9
        ),
        decode_lines(&r.decode),
    ]
    .join("\n")
}
