//! A decode engine for GGUF language models on Vulkan compute, built to be measured.
//!
//! How a token comes about, and where to look:
//!
//! ```text
//! file ─▶ gguf ─▶ model ─┬─▶ plan (steps, spans: pure data) ─▶ vk::Program ─▶ decode::Session ─▶ logits
//!            └─▶ tokenizer └─▶ reference (plain CPU code) ──────────────────────────────────────▶ logits
//! ```
//!
//! [`gguf`] reads files that may lie, [`model`] checks that they hold a network, [`plan`] turns one decode token into a
//! list of dispatches with exact byte ranges, and [`vk`] executes such a list; all of Vulkan and all of `unsafe` but a
//! file mapping is in there. [`mod@reference`] computes the same network in double precision and shares nothing with the
//! kernels; [`ops`] and the tests compare the two. [`results`] is what programs read.

pub mod chat;
pub mod cli;
pub mod commands;
pub mod decode;
pub mod embedded;
pub mod error;
pub mod gguf;
pub mod hub;
mod interrupt;
pub mod levers;
pub mod memory;
pub mod model;
pub mod ops;
pub mod packages;
pub mod perplexity;
pub mod plan;
pub mod probe;
pub mod profile;
mod progress;
pub mod quant;
pub mod reference;
pub mod results;
pub mod sampling;
pub mod synth;
pub mod tokenizer;
pub mod vk;
mod weights;
