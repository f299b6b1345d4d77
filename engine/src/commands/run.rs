//! `engine run`: prompt and generation, one token a step.

use std::io::Write;

use super::{decode_lines, device_line, load, model_line, open_device, open_model, print_json};
use crate::cli::{Common, RunArgs};
use crate::decode::{Session, argmax};
use crate::error::Error;
use crate::results::{self, SCHEMA};
use crate::tokenizer::Tokenizer;

pub(super) fn execute(common: &Common, args: &RunArgs) -> Result<(), Error> {
    let file = open_model(common)?;
    let loaded = load(&file)?;
    let prompt = match (&args.prompt, &args.prompt_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => super::read_file(path)?,
        (None, None) => Vec::new(),
    };
    let prompt_tokens = prompt_tokens(&loaded.tokenizer, &prompt)?;
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
    let mut session = Session::new(&device, &loaded.model, context, args.record.into())?;
    let mut next = 0;
    for &token in &prompt_tokens {
        next = argmax(session.step(token)?);
    }
    let mut out = std::io::stdout().lock();
    let mut tokens = Vec::new();
    let stopped = loop {
        tokens.push(next);
        if Some(next) == loaded.tokenizer.end_token() {
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
        next = argmax(session.step(next)?);
    };
    drop(out);
    let result = results::Run {
        schema: SCHEMA,
        command: "run".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        model: loaded.identity,
        text: String::from_utf8_lossy(&loaded.tokenizer.decode(&tokens)).into_owned(),
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

/// Tokens of the prompt; an empty one becomes the token that begins a text.
fn prompt_tokens(tokenizer: &Tokenizer, prompt: &[u8]) -> Result<Vec<u32>, Error> {
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
