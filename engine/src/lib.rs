//! A decode engine for GGUF language models on Vulkan compute, built to be measured.

pub mod gguf;
pub mod model;
pub mod quant;
pub mod results;
pub mod tokenizer;
