//! The model: hyper-parameters and weights, checked against each other.
//!
//! This is the gate between "a well-formed GGUF file" and "a network that the plan can be made of". Everything that
//! later code multiplies, divides by or uses as a size is bounded here, once; every weight that the architecture needs
//! is present with exactly the expected shape; and a tensor that would be *ignored* is an error too, since a bias that
//! is silently left out gives a model that talks nonsense quite fluently.

use std::collections::HashSet;

use crate::gguf::{self, Gguf, TensorInfo};
use crate::quant::WeightType;

/// No dimension of a published model comes near; keeps every product of two dimensions far from overflow.
const LARGEST_DIMENSION: u64 = 1 << 24;
/// Most layers.
const MOST_LAYERS: u64 = 1 << 12;

/// Why a file cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The metadata cannot be read.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// Another architecture.
    #[error("the architecture {0:?} is not supported; supported is \"llama\"")]
    Architecture(String),
    /// A variant of the architecture that is not computed.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A hyper-parameter outside what makes sense.
    #[error("{key} is {value}: {expected}")]
    Parameter {
        /// The metadata key.
        key: String,
        /// What it says.
        value: String,
        /// What it should say.
        expected: String,
    },
    /// A tensor is not there.
    #[error("the model has no tensor {0}")]
    MissingTensor(String),
    /// A tensor that the engine does not know.
    #[error("the model has a tensor {0}, which this engine would ignore: its results would be wrong")]
    UnexpectedTensor(String),
    /// A tensor with another shape than the hyper-parameters ask for.
    #[error("tensor {name} is {found:?}, expected {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its dimensions, fastest first.
        found: Vec<u64>,
        /// What they should be.
        expected: Vec<u64>,
    },
    /// A tensor type that the engine does not compute with.
    #[error(
        "tensor {name} has the type {ty}, which is not supported; supported are {supported}",
        supported = WeightType::ALL.map(|t| t.to_string()).join(", ")
    )]
    Type {
        /// The tensor.
        name: String,
        /// Its type.
        ty: String,
    },
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
    /// Base of the rotation frequencies.
    pub rope_base: f64,
    /// Divisors of the rotation frequencies, one a pair (`rope_freqs.weight`, as in Llama 3); all 1 if there are none.
    pub rope_factors: Vec<f32>,
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

    /// The angle by which pair `pair` of every head turns at `position`: position * base^(-2 pair / rope_dim),
    /// divided by the pair's factor.
    pub fn rope_angle(&self, position: u32, pair: u32) -> f64 {
        let exponent = -2.0 * f64::from(pair) / f64::from(self.rope_dim);
        f64::from(position) * self.rope_base.powf(exponent) / f64::from(self.rope_factors[pair as usize])
    }
}

/// A weight matrix: `rows` outputs of `columns` inputs each, row after row in blocks of its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matrix<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// Number of rows: outputs.
    pub rows: u32,
    /// Number of columns: inputs.
    pub columns: u32,
    /// Format.
    pub ty: WeightType,
    /// The blocks as they are in the file.
    pub data: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// The blocks of one row.
    pub fn row(&self, row: u32) -> &'a [u8] {
        let bytes = self.data.len() / self.rows as usize;
        &self.data[row as usize * bytes..][..bytes]
    }

    /// Number of weights.
    pub fn elements(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }
}

/// Weights of one layer. Norm weights are matrices with one row, always F32.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the tensor of that name in GGUF's naming
pub struct Layer<'a> {
    pub attn_norm: Matrix<'a>,
    pub attn_q: Matrix<'a>,
    pub attn_k: Matrix<'a>,
    pub attn_v: Matrix<'a>,
    pub attn_output: Matrix<'a>,
    pub ffn_norm: Matrix<'a>,
    pub ffn_gate: Matrix<'a>,
    pub ffn_up: Matrix<'a>,
    pub ffn_down: Matrix<'a>,
}

impl<'a> Layer<'a> {
    /// All weights, in the order in which a token meets them.
    pub fn matrices(&self) -> [Matrix<'a>; 9] {
        [
            self.attn_norm,
            self.attn_q,
            self.attn_k,
            self.attn_v,
            self.attn_output,
            self.ffn_norm,
            self.ffn_gate,
            self.ffn_up,
            self.ffn_down,
        ]
    }
}

/// A complete model; weights borrow from the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Model<'a> {
    /// Hyper-parameters.
    pub config: Config,
    /// `general.architecture`.
    pub architecture: &'a str,
    /// `general.name`, if the file has one.
    pub name: Option<&'a str>,
    /// Token embeddings, one row a token.
    pub embedding: Matrix<'a>,
    /// Layers, first to last.
    pub layers: Vec<Layer<'a>>,
    /// Weight of the last norm.
    pub output_norm: Matrix<'a>,
    /// Output head: the embedding matrix itself where the model ties them.
    pub output: Matrix<'a>,
    /// Number of weights in the file.
    pub parameters: u64,
}

impl<'a> Model<'a> {
    /// Takes the model out of a parsed file.
    pub fn from_gguf(gguf: &Gguf<'a>) -> Result<Self, Error> {
        let architecture = gguf::required(gguf.string("general.architecture")?, "general.architecture")?;
        if architecture != "llama" {
            return Err(Error::Architecture(architecture.to_owned()));
        }
        let mut tensors = Tensors { gguf, used: HashSet::new() };
        let config = config(gguf, architecture, &mut tensors)?;
        let embedding = tensors.matrix("token_embd.weight", config.embedding, config.vocabulary)?;
        let layers =
            (0..config.layers).map(|layer| tensors.layer(&config, layer)).collect::<Result<Vec<_>, _>>()?;
        let output_norm = tensors.vector("output_norm.weight", config.embedding)?;
        let output = if gguf.tensor("output.weight").is_some() {
            tensors.matrix("output.weight", config.embedding, config.vocabulary)?
        } else {
            embedding
        };
        if let Some(extra) = gguf.tensors().iter().find(|tensor| !tensors.used.contains(tensor.name)) {
            return Err(Error::UnexpectedTensor(extra.name.to_owned()));
        }
        let parameters = gguf.tensors().iter().map(TensorInfo::elements).sum();
        let name = gguf.string("general.name")?;
        Ok(Self { config, architecture, name, embedding, layers, output_norm, output, parameters })
    }

    /// Whether the output head is the embedding matrix.
    pub fn tied(&self) -> bool {
        self.output.name == self.embedding.name
    }

    /// Bytes that one decode token at `position` must read: each weight that it meets, one row of the embedding, and
    /// the f32 keys and values of all positions up to its own.
    pub fn bytes_per_token(&self, position: u32) -> u64 {
        let bytes = |matrix: &Matrix<'_>| matrix.data.len() as u64;
        let layers: u64 = self.layers.iter().flat_map(Layer::matrices).map(|matrix| bytes(&matrix)).sum();
        let cache = 2
            * 4
            * u64::from(self.config.layers)
            * u64::from(self.config.kv_dim())
            * (u64::from(position) + 1);
        self.embedding.row(0).len() as u64 + layers + bytes(&self.output_norm) + bytes(&self.output) + cache
    }

    /// Every distinct matrix, in the order in which a token meets them.
    pub fn matrices(&self) -> Vec<Matrix<'a>> {
        let mut all = vec![self.embedding];
        all.extend(self.layers.iter().flat_map(Layer::matrices));
        all.push(self.output_norm);
        if !self.tied() {
            all.push(self.output);
        }
        all
    }
}

/// Looks tensors up, checks them, and remembers which were asked for.
struct Tensors<'g, 'a> {
    gguf: &'g Gguf<'a>,
    used: HashSet<&'a str>,
}

impl<'a> Tensors<'_, 'a> {
    fn find(&mut self, name: &str, expected: &[u64]) -> Result<Matrix<'a>, Error> {
        let tensor = self.gguf.tensor(name).ok_or_else(|| Error::MissingTensor(name.to_owned()))?;
        self.used.insert(tensor.name);
        if tensor.dims != expected {
            return Err(Error::Shape {
                name: name.to_owned(),
                found: tensor.dims.clone(),
                expected: expected.to_vec(),
            });
        }
        let ty = WeightType::from_tensor(tensor.ty)
            .ok_or_else(|| Error::Type { name: name.to_owned(), ty: tensor.ty.to_string() })?;
        // Both were compared with dimensions below LARGEST_DIMENSION.
        let (columns, rows) = (tensor.columns() as u32, tensor.rows() as u32);
        Ok(Matrix { name: tensor.name, rows, columns, ty, data: tensor.data })
    }

    fn matrix(&mut self, name: &str, columns: u32, rows: u32) -> Result<Matrix<'a>, Error> {
        self.find(name, &[columns.into(), rows.into()])
    }

    fn vector(&mut self, name: &str, len: u32) -> Result<Matrix<'a>, Error> {
        let vector = self.find(name, &[len.into()])?;
        if vector.ty != WeightType::F32 {
            return Err(Error::Unsupported(format!(
                "tensor {name} in the type {} (a norm weight must be F32)",
                vector.ty
            )));
        }
        Ok(vector)
    }

    fn layer(&mut self, c: &Config, layer: u32) -> Result<Layer<'a>, Error> {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        Ok(Layer {
            attn_norm: self.vector(&name("attn_norm"), c.embedding)?,
            attn_q: self.matrix(&name("attn_q"), c.embedding, c.q_dim())?,
            attn_k: self.matrix(&name("attn_k"), c.embedding, c.kv_dim())?,
            attn_v: self.matrix(&name("attn_v"), c.embedding, c.kv_dim())?,
            attn_output: self.matrix(&name("attn_output"), c.q_dim(), c.embedding)?,
            ffn_norm: self.vector(&name("ffn_norm"), c.embedding)?,
            ffn_gate: self.matrix(&name("ffn_gate"), c.embedding, c.feed_forward)?,
            ffn_up: self.matrix(&name("ffn_up"), c.embedding, c.feed_forward)?,
            ffn_down: self.matrix(&name("ffn_down"), c.feed_forward, c.embedding)?,
        })
    }
}

/// Reads metadata keys below `llama.` with bounds.
struct Keys<'g, 'a> {
    gguf: &'g Gguf<'a>,
    architecture: &'a str,
}

impl Keys<'_, '_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture)
    }

    fn size(&self, suffix: &str, default: Option<u64>, largest: u64, multiple: u64) -> Result<u32, Error> {
        let key = self.key(suffix);
        let value = gguf::required(self.gguf.u64(&key)?.or(default), &key)?;
        if value == 0 || value > largest || !value.is_multiple_of(multiple) {
            let kind = if multiple > 1 { format!(" and a multiple of {multiple}") } else { String::new() };
            let expected = format!("expected between 1 and {largest}{kind}");
            return Err(Error::Parameter { key, value: value.to_string(), expected });
        }
        Ok(value as u32)
    }

    fn positive(&self, suffix: &str, default: Option<f64>) -> Result<f64, Error> {
        let key = self.key(suffix);
        let value = gguf::required(self.gguf.f64(&key)?.or(default), &key)?;
        if !value.is_finite() || value <= 0.0 {
            return Err(Error::Parameter {
                key,
                value: value.to_string(),
                expected: "expected above zero".to_owned(),
            });
        }
        Ok(value)
    }
}

fn config<'a>(
    gguf: &Gguf<'a>,
    architecture: &'a str,
    tensors: &mut Tensors<'_, 'a>,
) -> Result<Config, Error> {
    let keys = Keys { gguf, architecture };
    if gguf.u64(&keys.key("expert_count"))?.is_some_and(|n| n > 0) {
        return Err(Error::Unsupported("a mixture of experts".to_owned()));
    }
    if let Some(scaling) = gguf.string(&keys.key("rope.scaling.type"))?.filter(|s| *s != "none") {
        return Err(Error::Unsupported(format!("rope scaling of the type {scaling:?}")));
    }
    let layers = keys.size("block_count", None, MOST_LAYERS, 1)?;
    let embedding = keys.size("embedding_length", None, LARGEST_DIMENSION, 4)?;
    let feed_forward = keys.size("feed_forward_length", None, LARGEST_DIMENSION, 4)?;
    let heads = keys.size("attention.head_count", None, 1 << 16, 1)?;
    let kv_heads = keys.size("attention.head_count_kv", Some(heads.into()), heads.into(), 1)?;
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("expected a divisor of the {heads} query heads");
        return Err(Error::Parameter {
            key: keys.key("attention.head_count_kv"),
            value: kv_heads.to_string(),
            expected,
        });
    }
    let head_dim = keys.size("attention.key_length", Some((embedding / heads).into()), 4096, 4)?;
    let value_dim = keys.size("attention.value_length", Some(head_dim.into()), 4096, 4)?;
    if value_dim != head_dim {
        return Err(Error::Unsupported(format!(
            "a value width of {value_dim} beside a key width of {head_dim}"
        )));
    }
    if u64::from(heads) * u64::from(head_dim) > LARGEST_DIMENSION {
        return Err(Error::Unsupported(format!("{heads} heads of width {head_dim}")));
    }
    let rope_dim = keys.size("rope.dimension_count", Some(head_dim.into()), head_dim.into(), 2)?;
    let rope_base = keys.positive("rope.freq_base", Some(10000.0))?;
    let epsilon = keys.positive("attention.layer_norm_rms_epsilon", None)? as f32;
    let context = keys.size("context_length", None, LARGEST_DIMENSION, 1)?;
    let rows = gguf.tensor("token_embd.weight").map(TensorInfo::rows);
    let vocabulary = rows.ok_or_else(|| Error::MissingTensor("token_embd.weight".to_owned()))?;
    if vocabulary == 0 || vocabulary > LARGEST_DIMENSION {
        return Err(Error::Unsupported(format!("a vocabulary of {vocabulary} tokens")));
    }
    let rope_factors = if gguf.tensor("rope_freqs.weight").is_some() {
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
        factors
    } else {
        vec![1.0; rope_dim as usize / 2]
    };
    Ok(Config {
        layers,
        embedding,
        feed_forward,
        heads,
        kv_heads,
        head_dim,
        rope_dim,
        rope_base,
        rope_factors,
        epsilon,
        vocabulary: vocabulary as u32,
        context,
    })
}
