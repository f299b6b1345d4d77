//! Hyper-parameters: read from metadata, bounded once, with everything in which the architectures differ.
//!
//! Later code never asks which architecture a model is of. It asks for what follows from that: how pairs are rotated,
//! which activation gates, what a layer sees. The facts about each architecture are those of its published code and of
//! llama.cpp's loader for it (`src/models/*.cpp`).

use super::keys::Keys;
use super::{Error, LARGEST_DIMENSION, MOST_LAYERS, Tensors};
use crate::gguf::{Gguf, TensorInfo, Value};

/// What a model computes, as `general.architecture` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 1 to 3, SmolLM2, Mistral and others.
    Llama,
    /// Qwen2 and Qwen2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen3: queries and keys normed head by head.
    Qwen3,
    /// Gemma 3: scaled embeddings, norms behind each part too, GELU, and layers that see a window only.
    Gemma3,
}

impl Architecture {
    /// Every supported architecture.
    pub const ALL: [Self; 4] = [Self::Llama, Self::Qwen2, Self::Qwen3, Self::Gemma3];

    /// As GGUF spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
        }
    }

    /// All names, for messages.
    pub fn list() -> String {
        Self::ALL.map(|a| format!("{:?}", a.name())).join(", ")
    }

    pub(super) fn from_name(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|a| a.name() == name);
        found.ok_or_else(|| Error::Architecture(name.to_owned()))
    }
}

/// Which two elements of a head turn together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Elements 2i and 2i + 1.
    Neighbours,
    /// Elements i and i + rope_dim / 2 ("neox").
    Halves,
}

/// The gate's function in the feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x * sigmoid(x).
    Silu,
    /// GELU by its approximation with tanh.
    Gelu,
}

/// One way to turn positions into angles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Base of the rotation frequencies.
    pub base: f64,
    /// By which positions are multiplied: below 1 where a model's context was stretched.
    pub scale: f64,
    /// By which what was rotated is multiplied, and nothing else (`rope.scaling.attn_factor`); 1 in most models.
    pub magnitude: f64,
}

/// Hyper-parameters. All sizes are at least 1 and small enough that products of two fit 48 bits.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream; a multiple of 4.
    pub embedding: u32,
    /// Width of the hidden layer of the feed-forward network; a multiple of 4.
    pub feed_forward: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u32,
    /// Width of one head, of queries, keys and values alike; a multiple of 4.
    pub head_dim: u32,
    /// How many elements of each head are rotated; even, at most `head_dim`.
    pub rope_dim: u32,
    /// Which elements turn together.
    pub pairing: Pairing,
    /// The rotations that layers choose from: one, or for layers that see everything and layers with a window.
    pub ropes: Vec<Rope>,
    /// Divisors of the rotation frequencies, one a pair (`rope_freqs.weight`, as in Llama 3); all 1 if there are none.
    pub rope_factors: Vec<f32>,
    /// How many positions a layer with a window sees, its own included; 0 if no layer has one.
    pub window: u32,
    /// For each layer, if it sees a window only. Empty if no layer has one.
    pub windowed: Vec<bool>,
    /// Factor of the scores before the softmax.
    pub attention_scale: f64,
    /// Factor of the embeddings, if there is one.
    pub embedding_scale: Option<f32>,
    /// The gate's function.
    pub activation: Activation,
    /// Bound of the logits, if there is one: bound * tanh(logit / bound).
    pub logit_cap: Option<f32>,
    /// Added to the mean square in RMS norms.
    pub epsilon: f32,
    /// Number of tokens.
    pub vocabulary: u32,
    /// The context length that the model was trained for.
    pub context: u32,
}

impl Config {
    /// Width of all query heads together.
    pub fn q_dim(&self) -> u32 {
        self.heads * self.head_dim
    }

    /// Width of all key heads together.
    pub fn kv_dim(&self) -> u32 {
        self.kv_heads * self.head_dim
    }

    /// How many positions `layer` sees, its own included; `None` for all.
    pub fn layer_window(&self, layer: u32) -> Option<u32> {
        let windowed = self.windowed.get(layer as usize).copied().unwrap_or(false);
        (self.window > 0 && windowed).then_some(self.window)
    }

    /// Which of [`Config::ropes`] `layer` uses.
    pub fn layer_rope(&self, layer: u32) -> usize {
        usize::from(self.layer_window(layer).is_some()).min(self.ropes.len() - 1)
    }

    /// The angle by which pair `pair` of every head turns at `position` under `rope`: position * base^(-2 pair /
    /// rope_dim), scaled, and divided by the pair's factor.
    pub fn rope_angle(&self, rope: Rope, position: u32, pair: u32) -> f64 {
        let exponent = -2.0 * f64::from(pair) / f64::from(self.rope_dim);
        f64::from(position) * rope.scale * rope.base.powf(exponent)
            / f64::from(self.rope_factors[pair as usize])
    }

    /// Cosine and sine of that angle, times the rotation's magnitude.
    pub fn rope_cos_sin(&self, rope: Rope, position: u32, pair: u32) -> [f64; 2] {
        let (sin, cos) = self.rope_angle(rope, position, pair).sin_cos();
        [cos * rope.magnitude, sin * rope.magnitude]
    }
}

/// How positions become angles of rotation, from the keys below `rope.`, with llama.cpp's defaults and precedence: a file
/// without a type is scaled linearly, a factor of zero means none, and `scale_linear` is the old name of the factor.
fn rope(keys: &Keys<'_, '_>) -> Result<Rope, Error> {
    let factor = match (keys.f64("rope.scaling.factor")?, keys.f64("rope.scale_linear")?) {
        (Some(_), _) => keys.optional("rope.scaling.factor")?,
        (None, _) => keys.optional("rope.scale_linear")?,
    };
    let scale = match keys.string("rope.scaling.type")? {
        Some("none") => 1.0,
        None | Some("linear") => 1.0 / factor.unwrap_or(1.0),
        Some(other) => return Err(Error::Unsupported(format!("rope scaling of the type {other:?}"))),
    };
    Ok(Rope {
        base: keys.positive("rope.freq_base", Some(1e4))?,
        scale,
        magnitude: keys.positive("rope.scaling.attn_factor", Some(1.0))?,
    })
}

pub(super) fn read<'a>(
    gguf: &Gguf<'a>,
    architecture: Architecture,
    tensors: &mut Tensors<'_, 'a>,
) -> Result<Config, Error> {
    let keys = Keys::new(gguf, architecture.name());
    let layers = keys.size("block_count", None, MOST_LAYERS, 1)?;
    let embedding = keys.size("embedding_length", None, LARGEST_DIMENSION, 4)?;
    let feed_forward = keys.layer_size("feed_forward_length", None, LARGEST_DIMENSION, 4, layers)?;
    let (heads, kv_heads, head_dim) = heads(&keys, layers, embedding)?;
    let rope_dim = keys.size("rope.dimension_count", Some(head_dim.into()), head_dim.into(), 2)?;
    let mut config = Config {
        layers,
        embedding,
        feed_forward,
        heads,
        kv_heads,
        head_dim,
        rope_dim,
        pairing: if architecture == Architecture::Llama { Pairing::Neighbours } else { Pairing::Halves },
        ropes: vec![rope(&keys)?],
        rope_factors: vec![1.0; rope_dim as usize / 2],
        window: 0,
        windowed: Vec::new(),
        attention_scale: 1.0 / f64::from(head_dim).sqrt(),
        embedding_scale: None,
        activation: Activation::Silu,
        logit_cap: None,
        epsilon: keys.positive("attention.layer_norm_rms_epsilon", None)? as f32,
        vocabulary: vocabulary(gguf)?,
        context: keys.size("context_length", None, LARGEST_DIMENSION, 1)?,
    };
    if gguf.tensor("rope_freqs.weight").is_some() {
        config.rope_factors = rope_factors(tensors, rope_dim)?;
    }
    if architecture == Architecture::Gemma3 {
        gemma3(&keys, &mut config)?;
    }
    refuse_differences(&keys, &config)?;
    keys.refuse_unread()?;
    Ok(config)
}

/// Query heads, heads of keys and values, and the width of each.
fn heads(keys: &Keys<'_, '_>, layers: u32, embedding: u32) -> Result<(u32, u32, u32), Error> {
    let heads = keys.layer_size("attention.head_count", None, 1 << 16, 1, layers)?;
    let (key, most) = ("attention.head_count_kv", u64::from(heads));
    let kv_heads = keys.layer_size(key, Some(most), most, 1, layers)?;
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("expected a divisor of the {heads} query heads");
        return Err(Error::Parameter { key: keys.key(key), value: kv_heads.to_string(), expected });
    }
    let head_dim = keys.size("attention.key_length", Some((embedding / heads).into()), 4096, 4)?;
    let value_dim = keys.size("attention.value_length", Some((embedding / heads).into()), 4096, 4)?;
    if value_dim != head_dim {
        return Err(Error::Unsupported(format!(
            "a value width of {value_dim} next to a key width of {head_dim}"
        )));
    }
    if u64::from(heads) * u64::from(head_dim) > LARGEST_DIMENSION {
        return Err(Error::Unsupported(format!("{heads} heads of width {head_dim}")));
    }
    Ok((heads, kv_heads, head_dim))
}

/// Refuses keys that are allowed to say what the engine computes anyway, where they say something else.
fn refuse_differences(keys: &Keys<'_, '_>, c: &Config) -> Result<(), Error> {
    for (suffix, width) in [
        ("attention.key_length_swa", c.head_dim),
        ("attention.value_length_swa", c.head_dim),
        ("rope.dimension_count_swa", c.rope_dim),
        ("embedding_length_out", c.embedding),
    ] {
        let width = f64::from(width);
        keys.must_be(suffix, |value| value == 0.0 || value == width, width)?;
    }
    // The saver writes the scale as a 32-bit float, and zero for the usual one.
    let scale = c.attention_scale;
    keys.must_be("attention.scale", |value| value == 0.0 || (value / scale - 1.0).abs() < 1e-6, scale)?;
    if c.window == 0 {
        // A window as long as the context hides nothing.
        let context = f64::from(c.context);
        let unseen = |value: f64| value == 0.0 || value >= context;
        keys.must_be("attention.sliding_window", unseen, 0.0)?;
    }
    let names: &[&str] = match c.activation {
        Activation::Silu => &["silu", "swish"],
        Activation::Gelu => &["gelu", "gelu_tanh", "gelu_pytorch_tanh"],
    };
    match keys.string("hidden_activation")? {
        Some(other) if !names.contains(&other) => {
            Err(Error::Unsupported(format!("{} {other:?}", keys.key("hidden_activation"))))
        }
        _ => Ok(()),
    }
}

/// What is peculiar to Gemma 3: layers with a window and a rotation of their own, as a rule five to one that sees
/// everything.
fn gemma3(keys: &Keys<'_, '_>, c: &mut Config) -> Result<(), Error> {
    /// The 27B model, known by its layers, scales its queries by the width of the stream a head.
    const LAYERS_OF_27B: u32 = 62;
    c.embedding_scale = Some((c.embedding as f32).sqrt());
    c.activation = Activation::Gelu;
    c.logit_cap = keys.optional("final_logit_softcapping")?.map(|cap| cap as f32);
    if c.layers == LAYERS_OF_27B {
        c.attention_scale = 1.0 / f64::from(c.embedding / c.heads).sqrt();
    }
    if keys.u64("attention.sliding_window")?.is_some_and(|w| w > 0) {
        c.window = keys.size("attention.sliding_window", None, LARGEST_DIMENSION, 1)?;
        c.windowed = windowed(keys, c.layers)?;
        let base = keys.positive("rope.freq_base_swa", Some(1e4))?;
        c.ropes.push(Rope { base, scale: 1.0, magnitude: c.ropes[0].magnitude });
    }
    Ok(())
}

/// Which layers see a window: a flag for each, or a period, whose last layer sees everything. A period of zero means that
/// none does.
fn windowed(keys: &Keys<'_, '_>, layers: u32) -> Result<Vec<bool>, Error> {
    let key = keys.key("attention.sliding_window_pattern");
    if let Some(each) = keys.per_layer(&key, layers)? {
        return each
            .iter()
            .map(|value| match value {
                Value::Bool(flag) => Ok(*flag),
                number => number.as_u64().map(|n| n != 0).ok_or_else(|| Error::Parameter {
                    key: key.clone(),
                    value: number.plain(),
                    expected: "expected a flag for each layer".to_owned(),
                }),
            })
            .collect();
    }
    let period = keys.u64("attention.sliding_window_pattern")?.unwrap_or(6);
    Ok((1..=u64::from(layers)).map(|number| period == 0 || !number.is_multiple_of(period)).collect())
}

fn vocabulary(gguf: &Gguf<'_>) -> Result<u32, Error> {
    let rows = gguf.tensor("token_embd.weight").map(TensorInfo::rows);
    let vocabulary = rows.ok_or_else(|| Error::MissingTensor("token_embd.weight".to_owned()))?;
    if vocabulary == 0 || vocabulary > LARGEST_DIMENSION {
        return Err(Error::Unsupported(format!("a vocabulary of {vocabulary} tokens")));
    }
    Ok(vocabulary as u32)
}

fn rope_factors(tensors: &mut Tensors<'_, '_>, rope_dim: u32) -> Result<Vec<f32>, Error> {
    let mut factors = Vec::new();
    let tensor = tensors.vector("rope_freqs.weight", rope_dim / 2)?;
    crate::quant::dequantize_row(tensor.ty, tensor.data, &mut factors);
    if let Some(bad) = factors.iter().find(|f| !f.is_finite() || **f <= 0.0) {
        return Err(Error::Parameter {
            key: "rope_freqs.weight".to_owned(),
            value: bad.to_string(),
            expected: "expected above zero".to_owned(),
        });
    }
    Ok(factors)
}
