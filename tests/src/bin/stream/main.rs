//! `stream FILE` plays a stream of Vulkan commands and prints what the memory holds afterwards, as JSON.
//!
//! It is an application like any other to the loader and its layers: it knows nothing of zinc_barrier. Tests run it
//! once without the layer and once with it, and compare.
#![allow(missing_docs, reason = "the modules are private; tests/README.md describes the language")]

mod gpu;
mod language;
mod objects;
mod player;
mod record;

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("stream: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Value> {
    let path = std::env::args().nth(1).context("usage: stream FILE, or stream - for standard input")?;
    let mut text = String::new();
    match path.as_str() {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()).context("standard input")?,
        _ => text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?,
    }
    let program = language::parse(&text)?;
    let gpu = gpu::Gpu::open(language::takes_addresses(&program))?;
    let contents = player::play(&gpu, &program)?;
    let mut all = blake3::Hasher::new();
    let mut buffers = Map::new();
    for buffer in contents {
        all.update(buffer.name.as_bytes())
            .update(&(buffer.bytes.len() as u64).to_le_bytes())
            .update(&buffer.bytes);
        let words: Vec<u32> =
            buffer.bytes.as_chunks::<4>().0.iter().take(4).map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let digest = blake3::hash(&buffer.bytes).to_hex().to_string();
        buffers.insert(buffer.name, json!({ "digest": digest, "words": words }));
    }
    Ok(json!({ "device": gpu.name, "digest": all.finalize().to_hex().to_string(), "buffers": buffers }))
}
