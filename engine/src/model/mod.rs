//! The model: hyper-parameters and weights, checked against each other.
//!
//! This is the gate between "a well-formed GGUF file" and "a network that the plan can be made of". Everything that
//! later code multiplies, divides by or uses as a size is bounded here, once; every weight that the architecture needs
//! is present with exactly the expected shape; and a tensor that would be *ignored* is an error too, since a bias that
//! is silently left out gives a model that talks nonsense quite fluently.

mod config;
mod harmless;
mod keys;
mod refuse;
mod tensors;

pub use config::{Activation, Architecture, Config, Pairing, Rope};

use crate::gguf::{self, Gguf, TensorInfo};
use crate::quant::WeightType;
use tensors::Tensors;

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
    #[error("the architecture {0:?} is not supported; supported are {known}", known = Architecture::list())]
    Architecture(String),
    /// Something else than a model.
    #[error("this is {0}")]
    NoModel(String),
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
    /// A metadata key below the architecture's name that the engine does not know.
    #[error(
        "the metadata key {key} is {value}, which this engine would ignore: its results would be wrong; there is no way \
         to run this model here"
    )]
    UnexpectedKey {
        /// The key.
        key: String,
        /// What it says.
        value: String,
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

/// Weights of one layer. Norm weights and biases are matrices with one row, always F32. What is optional is there in
/// the architectures that have it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the tensor of that name in GGUF's naming
pub struct Layer<'a> {
    pub attn_norm: Matrix<'a>,
    pub attn_q: Matrix<'a>,
    pub attn_q_bias: Option<Matrix<'a>>,
    pub attn_q_norm: Option<Matrix<'a>>,
    pub attn_k: Matrix<'a>,
    pub attn_k_bias: Option<Matrix<'a>>,
    pub attn_k_norm: Option<Matrix<'a>>,
    pub attn_v: Matrix<'a>,
    pub attn_v_bias: Option<Matrix<'a>>,
    pub attn_output: Matrix<'a>,
    pub attn_output_bias: Option<Matrix<'a>>,
    /// `post_attention_norm`.
    pub attn_post_norm: Option<Matrix<'a>>,
    pub ffn_norm: Matrix<'a>,
    pub ffn_gate: Matrix<'a>,
    pub ffn_up: Matrix<'a>,
    pub ffn_down: Matrix<'a>,
    /// `post_ffw_norm`.
    pub ffn_post_norm: Option<Matrix<'a>>,
}

impl<'a> Layer<'a> {
    /// All weights, in the order in which a token meets them.
    pub fn matrices(&self) -> impl Iterator<Item = Matrix<'a>> + use<'a> {
        [
            Some(self.attn_norm),
            Some(self.attn_q),
            self.attn_q_bias,
            Some(self.attn_k),
            self.attn_k_bias,
            Some(self.attn_v),
            self.attn_v_bias,
            self.attn_q_norm,
            self.attn_k_norm,
            Some(self.attn_output),
            self.attn_output_bias,
            self.attn_post_norm,
            Some(self.ffn_norm),
            Some(self.ffn_gate),
            Some(self.ffn_up),
            Some(self.ffn_down),
            self.ffn_post_norm,
        ]
        .into_iter()
        .flatten()
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
        let (architecture, kind) = Self::refuse(gguf)?;
        let mut tensors = Tensors::new(gguf);
        let config = config::read(gguf, kind, &mut tensors)?;
        let embedding = tensors.matrix("token_embd.weight", config.embedding, config.vocabulary)?;
        let layers = (0..config.layers)
            .map(|layer| tensors.layer(kind, &config, layer))
            .collect::<Result<Vec<_>, _>>()?;
        let output_norm = tensors.vector("output_norm.weight", config.embedding)?;
        let output = if gguf.tensor("output.weight").is_some() {
            tensors.matrix("output.weight", config.embedding, config.vocabulary)?
        } else {
            embedding
        };
        if let Some(extra) = tensors.unused() {
            return Err(Error::UnexpectedTensor(extra.name.to_owned()));
        }
        let parameters = gguf.tensors().iter().map(TensorInfo::elements).sum();
        let name = gguf.string("general.name")?;
        Ok(Self { config, architecture, name, embedding, layers, output_norm, output, parameters })
    }

    /// Refuses what is no model, or one that is recognised as not supported, without a look at its weights; so a file whose
    /// tensors cannot be read is refused for what it is, by [`Gguf::metadata_of`].
    pub fn refuse(gguf: &Gguf<'a>) -> Result<(&'a str, Architecture), Error> {
        refuse::refuse_other_files(gguf)?;
        let architecture = gguf::required(gguf.string("general.architecture")?, "general.architecture")?;
        refuse::refuse_variants(gguf, architecture)?;
        Ok((architecture, Architecture::from_name(architecture)?))
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
        let seen = |layer| (position + 1).min(self.config.layer_window(layer).unwrap_or(u32::MAX));
        let positions: u64 = (0..self.config.layers).map(|layer| u64::from(seen(layer))).sum();
        let cache = 2 * 4 * u64::from(self.config.kv_dim()) * positions;
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
