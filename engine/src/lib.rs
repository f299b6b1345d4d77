//! A decode engine for GGUF language models on Vulkan compute, built to be measured.

pub mod results;
