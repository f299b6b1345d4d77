//! `engine tokenize`: the tokens of a text, without a device.

use std::path::PathBuf;

use clap::Args;

use super::{load, open_model, print_json, print_text, read_file};
use crate::cli::Common;
use crate::error::Error;

/// Options of `tokenize`.
#[derive(Debug, Args)]
pub struct TokenizeArgs {
    /// Text.
    #[arg(long, value_name = "TEXT", required_unless_present = "file", conflicts_with = "file")]
    pub prompt: Option<String>,
    /// File with the text (any bytes).
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Take control tokens that are spelled out in the text for what they are.
    #[arg(long)]
    pub marked: bool,
}

pub(super) fn execute(common: &Common, args: &TokenizeArgs) -> Result<(), Error> {
    let file = open_model(common)?;
    let loaded = load(&file)?;
    let text = match (&args.prompt, &args.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => read_file(path)?,
        (None, None) => Vec::new(),
    };
    let tokens =
        if args.marked { loaded.tokenizer.encode_marked(&text)? } else { loaded.tokenizer.encode(&text)? };
    if common.json {
        return print_json(&serde_json::json!({ "command": "tokenize", "tokens": tokens }));
    }
    for token in tokens {
        print_text(&format!("{token:7} {:?}", String::from_utf8_lossy(loaded.tokenizer.bytes(token))))?;
    }
    Ok(())
}
