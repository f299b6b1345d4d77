//! `engine bench`: the decode rate, repeated, with its spread.
//!
//! A sequence is filled to the depth once; each repetition goes back there, restarts the clock, and times single-token
//! steps. Some steps come first and are thrown away: they pay for cold caches and for a GPU that raises its clocks. Their
//! number does not depend on how many are timed, since what is counted from outside is the difference of runs of two lengths.

use super::{
    batches_text, decode_lines, device_line, identity, model_line, open_device, open_model, parse,
    print_json, print_text, progress,
};
use crate::cli::{BenchArgs, Common};
use crate::decode::Session;
use crate::error::Error;
use crate::model::Model;
use crate::results::{self, SCHEMA, Spread};
use crate::vk::Record;

pub(super) fn execute(common: &Common, args: &BenchArgs) -> Result<(), Error> {
    let file = open_model(common)?;
    let gguf = parse(&file)?;
    let model =
        Model::from_gguf(&gguf).map_err(|source| Error::Model { name: file.source().to_owned(), source })?;
    let context =
        super::context(&model, args.depth, args.tokens)?.max(super::context(&model, 0, args.prompt)?);
    // No model is refused for the sake of tokens that do not count.
    let warm_up = args.warm_up.min(model.config.context.saturating_sub(args.depth));
    let context = context.max(args.depth + warm_up);
    let device = open_device(common)?;
    let setup = args.levers.setup(device.tuning())?;
    let mut session = super::start(&device, &model, context, &setup, &args.levers)?;
    let run = Run {
        vocabulary: model.config.vocabulary,
        depth: args.depth,
        tokens: args.tokens,
        ahead: setup.levers.record == Record::Ahead,
    };
    let mut prompt = prompt_rate(&run, &mut session, args)?;
    session.reset();
    let bar = progress(u64::from(args.reps), "repetitions");
    run.fill(&mut session)?;
    if warm_up > 0 {
        Run { tokens: warm_up, ..run }.once(&mut session)?;
    }
    let mut rates = Vec::new();
    let mut total: Option<results::Decode> = None;
    for _ in 0..args.reps {
        run.once(&mut session)?;
        bar.inc(1);
        let decode = session.decode();
        rates.push(decode.tok_s);
        total = Some(match total {
            None => decode,
            Some(so_far) => join(so_far, decode),
        });
    }
    bar.finish_and_clear();
    if args.gpu_time {
        session.time_tokens()?;
        let timed = Run { ahead: false, ..run };
        timed.once(&mut session)?;
        if let Some(total) = &mut total {
            total.gpu_us_per_token = session.decode().gpu_us_per_token;
        }
        if let Some(prompt) = &mut prompt {
            session.reset();
            prompt.steps = session.time_prompt(&run.prompt(args.prompt))?;
        }
    }
    super::remark_on_device(&device, &mut session)?;
    let (Some(decode), Some(tok_s)) = (total, Spread::of(&rates)) else {
        return Err(Error::Usage("nothing was measured: use --reps 1 or more".to_owned()));
    };
    let result = results::Bench {
        schema: SCHEMA,
        command: "bench".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        bytes_per_token: model.bytes_per_token(args.depth + args.tokens / 2),
        model: identity(&file, &model),
        depth: args.depth.into(),
        tokens: args.tokens.into(),
        tok_s,
        decode,
        prompt,
    };
    if common.json { print_json(&result) } else { print_text(&table(&result)) }
}

/// Times whole prompts, each from an empty sequence; one that comes first, records and warms up, is not counted.
fn prompt_rate(
    run: &Run,
    session: &mut Session,
    args: &BenchArgs,
) -> Result<Option<results::PromptRate>, Error> {
    if args.prompt == 0 {
        return Ok(None);
    }
    let tokens = run.prompt(args.prompt);
    let mut once = || -> Result<f64, Error> {
        session.reset();
        session.restart_clock();
        session.prompt(&tokens)?;
        Ok(session.decode().tok_s)
    };
    if args.warm_up > 0 {
        once()?;
    }
    let rates = (0..args.reps).map(|_| once()).collect::<Result<Vec<_>, _>>()?;
    Ok(Spread::of(&rates).map(|tok_s| results::PromptRate {
        tokens: args.prompt.into(),
        tok_s,
        batches: session.batches(),
        steps: Vec::new(),
    }))
}

/// What each repetition does.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Tokens that there are.
    pub vocabulary: u32,
    /// Tokens in the sequence before the clock starts.
    pub depth: u32,
    /// Tokens timed.
    pub tokens: u32,
    /// Whether the device chooses them.
    pub ahead: bool,
}

impl Run {
    /// Token number `i`. What the tokens are makes no difference to the time.
    pub fn token(&self, i: u32) -> u32 {
        (u64::from(i) * 7919 % u64::from(self.vocabulary)) as u32
    }

    /// The first tokens.
    fn prompt(&self, count: u32) -> Vec<u32> {
        (0..count).map(|i| self.token(i)).collect()
    }

    /// Fills the sequence up to the depth.
    pub fn fill(&self, session: &mut Session) -> Result<(), Error> {
        let missing = self.depth.saturating_sub(session.position());
        if self.ahead && missing > 0 {
            session.ahead(self.token(session.position()), missing, false)?;
        }
        for i in session.position()..self.depth {
            session.step(self.token(i))?;
        }
        Ok(())
    }

    /// The timed steps, from the depth on.
    pub fn once(&self, session: &mut Session) -> Result<(), Error> {
        session.rewind(self.depth);
        session.restart_clock();
        if self.ahead {
            session.ahead(self.token(self.depth), self.tokens, false)?;
            return Ok(());
        }
        for i in 0..self.tokens {
            session.step(self.token(self.depth + i))?;
        }
        Ok(())
    }
}

/// Two stretches of steps as one; counts a token are the same in both.
fn join(a: results::Decode, b: results::Decode) -> results::Decode {
    let tokens = a.tokens + b.tokens;
    let seconds = a.seconds + b.seconds;
    let cpu = a.cpu_us_per_token * a.tokens as f64 + b.cpu_us_per_token * b.tokens as f64;
    let tok_s = if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    results::Decode { tokens, seconds, tok_s, cpu_us_per_token: cpu / tokens as f64, ..b }
}

/// A prompt's steps by what they cost.
fn step_lines(prompt: &results::PromptRate) -> String {
    let all: f64 = prompt.steps.iter().map(|step| step.us).sum();
    let mut steps: Vec<_> = prompt.steps.iter().collect();
    steps.sort_by(|a, b| b.us.total_cmp(&a.us));
    let line = |s: &&results::PromptStep| {
        let (each, share) = (s.us / s.count as f64, 100.0 * s.us / all);
        format!("  {:22} {:>5} x {each:>9.1} us = {:>10.1} us {share:>5.1}%", s.step, s.count, s.us)
    };
    steps.iter().map(line).collect::<Vec<_>>().join("\n")
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
        r.prompt.as_ref().map_or(String::new(), |p| {
            let how = p.batches.as_ref().map_or("token by token".to_owned(), batches_text);
            let Spread { median, lo, hi, n } = p.tok_s;
            format!(
                "prompt      {median:.1} tok/s over {} tokens (median of {n}; {lo:.1} to {hi:.1}), {how}",
                p.tokens
            )
        }),
        r.prompt.as_ref().map_or(String::new(), step_lines),
        decode_lines(&r.decode),
        r.decode
            .gpu_us_per_token
            .map_or(String::new(), |us| format!("device      {us:.1} us a token on its own clock")),
    ]
    .into_iter()
    .filter(|line| !line.is_empty())
    .collect::<Vec<_>>()
    .join("\n")
}
