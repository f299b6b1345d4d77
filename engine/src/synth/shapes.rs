//! The shapes of published models, from the configuration files that were published with them.

use super::vocabulary::Kind;
use crate::model::Architecture;

/// Hyper-parameters of a model that is to be written.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the hyper-parameter of that name in `Config`
pub struct Shape {
    pub architecture: Architecture,
    pub layers: u32,
    pub embedding: u32,
    pub feed_forward: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub rope_dim: u32,
    pub rope_base: f32,
    /// Whether frequencies are divided as in Llama 3.
    pub rope_factors: bool,
    /// By what positions are divided; 1 for not.
    pub rope_linear: f32,
    pub window: u32,
    pub logit_cap: Option<f32>,
    pub epsilon: f32,
    pub context: u32,
    pub vocabulary: u32,
    /// Whether the output head is the embedding matrix.
    pub tied: bool,
    /// Whether attention's output has a bias, as in some models that call themselves `llama`.
    pub output_bias: bool,
}

/// A published shape and its name.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// As the command takes it.
    pub name: &'static str,
    /// Whose vocabulary the model has, or one that stands in for it.
    pub vocabulary: Kind,
    architecture: Architecture,
    /// Layers, embedding, feed-forward, heads, heads of keys and values, width of a head.
    sizes: [u32; 6],
    rope_base: f32,
    context: u32,
    tokens: u32,
    tied: bool,
    window: u32,
    rope_linear: f32,
}

impl Published {
    /// The shape of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PUBLISHED.iter().find(|published| published.name == name)
    }

    /// All names, for messages.
    pub fn list() -> String {
        PUBLISHED.iter().map(|published| published.name).collect::<Vec<_>>().join(", ")
    }

    /// The hyper-parameters.
    pub fn shape(&self) -> Shape {
        let [layers, embedding, feed_forward, heads, kv_heads, head_dim] = self.sizes;
        let llama3 = self.vocabulary == Kind::Llama3 && self.context > 8192;
        Shape {
            architecture: self.architecture,
            layers,
            embedding,
            feed_forward,
            heads,
            kv_heads,
            head_dim,
            rope_dim: head_dim,
            rope_base: self.rope_base,
            rope_factors: llama3,
            rope_linear: self.rope_linear,
            window: self.window,
            logit_cap: None,
            epsilon: if self.vocabulary == Kind::Smollm2 || llama3 { 1e-5 } else { 1e-6 },
            context: self.context,
            vocabulary: self.tokens,
            tied: self.tied,
            output_bias: false,
        }
    }
}

const fn llama(
    name: &'static str,
    vocabulary: Kind,
    sizes: [u32; 6],
    rope_base: f32,
    context: u32,
) -> Published {
    let tokens = if matches!(vocabulary, Kind::Llama3) { 128_256 } else { 49_152 };
    let architecture = Architecture::Llama;
    Published {
        name,
        vocabulary,
        architecture,
        sizes,
        rope_base,
        context,
        tokens,
        tied: true,
        window: 0,
        rope_linear: 1.0,
    }
}

const fn qwen(name: &'static str, architecture: Architecture, sizes: [u32; 6], tied: bool) -> Published {
    let context = if matches!(architecture, Architecture::Qwen2) { 32_768 } else { 40_960 };
    Published { architecture, tokens: 151_936, tied, ..llama(name, Kind::Qwen, sizes, 1e6, context) }
}

const fn gemma3(
    name: &'static str,
    sizes: [u32; 6],
    context: u32,
    window: u32,
    rope_linear: f32,
) -> Published {
    let architecture = Architecture::Gemma3;
    let base = llama(name, Kind::Gemma3, sizes, 1e6, context);
    Published { architecture, tokens: 262_144, window, rope_linear, ..base }
}

/// A shape that nobody published, for tests: some hundred thousand weights, rows of whole blocks of every format.
const fn tiny(name: &'static str, architecture: Architecture, layers: u32) -> Published {
    let window = if matches!(architecture, Architecture::Gemma3) { 16 } else { 0 };
    let base = llama(name, Kind::Bytes, [layers, 256, 512, 4, 2, 64], 1e4, 4096);
    Published { architecture, tokens: 512, window, ..base }
}

/// Every shape that the command knows.
pub const PUBLISHED: [Published; 19] = [
    tiny("tiny-llama", Architecture::Llama, 2),
    tiny("tiny-qwen2", Architecture::Qwen2, 2),
    tiny("tiny-qwen3", Architecture::Qwen3, 2),
    tiny("tiny-gemma3", Architecture::Gemma3, 7),
    llama("smollm2-135m", Kind::Smollm2, [30, 576, 1536, 9, 3, 64], 1e5, 8192),
    llama("smollm2-360m", Kind::Smollm2, [32, 960, 2560, 15, 5, 64], 1e5, 8192),
    llama("smollm2-1.7b", Kind::Smollm2, [24, 2048, 8192, 32, 32, 64], 1.3e5, 8192),
    llama("llama-1b", Kind::Llama3, [16, 2048, 8192, 32, 8, 64], 5e5, 131_072),
    llama("llama-3b", Kind::Llama3, [28, 3072, 8192, 24, 8, 128], 5e5, 131_072),
    Published { tied: false, ..llama("llama-8b", Kind::Llama3, [32, 4096, 14336, 32, 8, 128], 5e5, 131_072) },
    // Its own vocabulary of 64,000 tokens is in no package; another one is filled up to that size.
    Published {
        tied: false,
        tokens: 64_000,
        ..llama("yi-9b", Kind::Smollm2, [48, 4096, 11008, 32, 4, 128], 5e6, 4096)
    },
    qwen("qwen2.5-0.5b", Architecture::Qwen2, [24, 896, 4864, 14, 2, 64], true),
    qwen("qwen2.5-1.5b", Architecture::Qwen2, [28, 1536, 8960, 12, 2, 128], true),
    qwen("qwen3-0.6b", Architecture::Qwen3, [28, 1024, 3072, 16, 8, 128], true),
    qwen("qwen3-4b", Architecture::Qwen3, [36, 2560, 9728, 32, 8, 128], true),
    qwen("qwen3-8b", Architecture::Qwen3, [36, 4096, 12288, 32, 8, 128], false),
    gemma3("gemma3-270m", [18, 640, 2048, 4, 1, 256], 32_768, 512, 1.0),
    gemma3("gemma3-1b", [26, 1152, 6912, 4, 1, 256], 32_768, 512, 1.0),
    gemma3("gemma3-4b", [34, 2560, 10240, 8, 4, 256], 131_072, 1024, 8.0),
];
