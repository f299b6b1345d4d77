//! `engine run`: a prompt, at once or token by token, and generation, one token a step.

use std::io::Write;

use super::{decode_lines, device_line, load, model_line, open_device, open_model, print_json};
use crate::chat;
use crate::cli::{Common, RunArgs};
use crate::error::Error;
use crate::results::{self, SCHEMA};
use crate::sampling::Sampler;
use crate::tokenizer::Tokenizer;

pub(super) fn execute(common: &Common, args: &RunArgs) -> Result<(), Error> {
    let file = open_model(common)?;
    let loaded = load(&file)?;
    let prompt = match (&args.prompt, &args.prompt_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => super::read_file(path)?,
        (None, None) => Vec::new(),
    };
    let prompt_tokens = prompt_tokens(&loaded.tokenizer, &prompt, args)?;
    let trained = loaded.model.config.context;
    let length = prompt_tokens.len() as u64;
    if length > u64::from(trained) {
        return Err(Error::Usage(format!(
            "the prompt has {length} tokens, and this model's context holds {trained}; shorten the prompt"
        )));
    }
    // The last token that is generated is not fed again.
    let context = (length + u64::from(args.tokens) - 1).min(trained.into()) as u32;

    let device = open_device(common)?;
    let setup = args.levers.setup(device.tuning())?;
    let mut session = super::start(&device, &loaded.model, context, &setup, &args.levers)?;
    session.prompt(&prompt_tokens)?;
    let mut sampler = Sampler::new(&args.sampling);
    check(session.logits(), session.position())?;
    let mut next = sampler.choose(session.logits());
    let mut margins = vec![margin(session.logits())];
    let mut out = std::io::stdout().lock();
    let mut tokens = Vec::new();
    let stopped = loop {
        tokens.push(next);
        if loaded.tokenizer.is_end(next) {
            break "end-of-text";
        }
        if !common.json {
            out.write_all(loaded.tokenizer.bytes(next))?;
            out.flush()?;
        }
        if tokens.len() as u64 >= args.tokens.into() {
            break "length";
        }
        if session.position() >= trained {
            break "context-full";
        }
        session.step(next)?;
        check(session.logits(), session.position())?;
        next = sampler.choose(session.logits());
        margins.push(margin(session.logits()));
    };
    drop(out);
    super::remark_on_device(&device, &mut session)?;
    let result = results::Run {
        schema: SCHEMA,
        command: "run".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        model: loaded.identity,
        text: String::from_utf8_lossy(&loaded.tokenizer.decode(&tokens)).into_owned(),
        pieces: tokens
            .iter()
            .map(|token| String::from_utf8_lossy(loaded.tokenizer.bytes(*token)).into_owned())
            .collect(),
        margins,
        prompt_tokens,
        tokens,
        stopped: stopped.to_owned(),
        logits_digest: session.digest(),
        decode: session.decode(),
    };
    if common.json {
        return print_json(&result);
    }
    super::print_text("")?;
    super::remark(&model_line(&result.model));
    super::remark(&device_line(&result.device));
    super::remark(&decode_lines(&result.decode));
    Ok(())
}

/// Refuses logits of which none can be the largest: some are undefined, or none is finite.
fn check(logits: &[f32], position: u32) -> Result<(), Error> {
    let undefined = logits.iter().filter(|logit| logit.is_nan()).count();
    if undefined == 0 && logits.iter().any(|logit| logit.is_finite()) {
        return Ok(());
    }
    let what = format!("{undefined} of {} logits behind token {position} are not numbers", logits.len());
    Err(Error::NotNumbers { what })
}

/// By how much the largest logit exceeds the second.
fn margin(logits: &[f32]) -> Option<f64> {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &value in logits {
        if value.is_nan() {
            return None;
        }
        if value > first {
            (first, second) = (value, first);
        } else {
            second = second.max(value);
        }
    }
    Some(f64::from(first) - f64::from(second)).filter(|margin| margin.is_finite())
}

/// Tokens of the prompt, in the form of a conversation if the model has one; an empty prompt becomes the token that
/// begins a text.
fn prompt_tokens(tokenizer: &Tokenizer, prompt: &[u8], args: &RunArgs) -> Result<Vec<u32>, Error> {
    if !args.raw && !prompt.is_empty() {
        match chat::question(tokenizer, args.system.as_deref(), prompt)? {
            Some(text) => return Ok(tokenizer.encode_marked(&text)?),
            None if args.system.is_some() => {
                let text = "this model has no chat template, so --system cannot be heeded: leave it out";
                return Err(Error::Usage(text.to_owned()));
            }
            None => {}
        }
    }
    let tokens = tokenizer.encode(prompt)?;
    if !tokens.is_empty() {
        return Ok(tokens);
    }
    let first = tokenizer.first_token();
    first.map(|token| vec![token]).ok_or_else(|| {
        Error::Usage(
            "this model has no token that begins a text: give a --prompt or --prompt-file".to_owned(),
        )
    })
}
