//! Models with random weights in any shape.
//!
//! Speed depends on a model's shape and formats, not on what it has learned. So a file with the shape of a published
//! model, its kinds of tensors and a vocabulary of its size can stand in for it where nothing can be downloaded, and a
//! tiny one gives every architecture and format a test. Weights are scaled so that activations keep their size from
//! layer to layer: logits are finite, and a wrong kernel shows. The same seed gives the same bytes.

mod random;
mod shapes;
mod vocabulary;

pub use shapes::{PUBLISHED, Published, Shape};
pub use vocabulary::{Error as VocabularyError, Kind as VocabularyKind, Vocabulary};

use std::io::{self, Write};

use crate::gguf::{TensorType, Value, Writer};
use crate::model::Architecture;
use crate::quant::WeightType;

/// What a model is made of beside its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types {
    /// Matrices of the layers.
    pub weights: WeightType,
    /// Embeddings and output head.
    pub head: WeightType,
}

impl Types {
    /// The types that llama.cpp's quantiser gives a file of this type: embeddings and head in Q6_K where the layers have
    /// about four bits.
    pub fn usual(weights: WeightType) -> Self {
        let head = match weights {
            WeightType::Q4_0 | WeightType::Q4_1 | WeightType::Q5_0 | WeightType::Q4_K => WeightType::Q6_K,
            other => other,
        };
        Self { weights, head }
    }
}

/// One tensor of a model that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// As in [`crate::gguf::TensorInfo::dims`].
    pub dims: Vec<u64>,
    /// Its type.
    pub ty: TensorType,
    contents: Contents,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    Weights,
    /// Between a half and one and a half.
    Norm,
    /// Small, of either sign.
    Bias,
    /// What Llama 3 divides its rotation frequencies by.
    RopeFactors,
}

impl Tensor {
    /// Bytes of its data.
    pub fn bytes(&self) -> u64 {
        self.ty.bytes_for(self.dims.iter().product()).unwrap_or(0)
    }
}

/// A type that rows of `columns` weights can have: the wanted one, or the one that llama.cpp falls back to where rows
/// are not whole blocks.
fn fitting(wanted: WeightType, columns: u32) -> WeightType {
    let fits = |ty: &WeightType| u64::from(columns).is_multiple_of(ty.block_elements());
    let fallback = match wanted {
        WeightType::Q4_K => WeightType::Q5_0,
        WeightType::Q6_K => WeightType::Q8_0,
        other => other,
    };
    [wanted, fallback].into_iter().find(fits).unwrap_or(WeightType::F16)
}

/// A model that is to be written.
#[derive(Debug, Clone)]
pub struct Synth<'v> {
    /// `general.name`.
    pub name: String,
    /// Hyper-parameters.
    pub shape: Shape,
    /// Formats.
    pub types: Types,
    /// Tokens; must be as many as the shape says.
    pub vocabulary: &'v Vocabulary,
    /// Where random numbers begin.
    pub seed: u64,
}

impl Synth<'_> {
    /// All tensors, in the order of the file.
    pub fn tensors(&self) -> Vec<Tensor> {
        let s = &self.shape;
        let mut all = Vec::new();
        let mut matrix = |name: String, columns: u32, rows: u32, ty: WeightType| {
            let ty = fitting(ty, columns).tensor_type();
            let dims = vec![columns.into(), rows.into()];
            all.push(Tensor { name, dims, ty, contents: Contents::Weights });
        };
        matrix("token_embd.weight".to_owned(), s.embedding, s.vocabulary, self.types.head);
        if !s.tied {
            matrix("output.weight".to_owned(), s.embedding, s.vocabulary, self.types.head);
        }
        let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        for layer in 0..s.layers {
            let parts = [
                ("attn_q", s.embedding, q),
                ("attn_k", s.embedding, kv),
                ("attn_v", s.embedding, kv),
                ("attn_output", q, s.embedding),
                ("ffn_gate", s.embedding, s.feed_forward),
                ("ffn_up", s.embedding, s.feed_forward),
                ("ffn_down", s.feed_forward, s.embedding),
            ];
            for (part, columns, rows) in parts {
                matrix(format!("blk.{layer}.{part}.weight"), columns, rows, self.types.weights);
            }
        }
        let mut vector = |name: String, len: u32, contents: Contents| {
            all.push(Tensor { name, dims: vec![len.into()], ty: TensorType::F32, contents });
        };
        vector("output_norm.weight".to_owned(), s.embedding, Contents::Norm);
        if s.rope_factors {
            vector("rope_freqs.weight".to_owned(), s.rope_dim / 2, Contents::RopeFactors);
        }
        for layer in 0..s.layers {
            let mut norms = vec![("attn_norm", s.embedding), ("ffn_norm", s.embedding)];
            if matches!(s.architecture, Architecture::Qwen3 | Architecture::Gemma3) {
                norms.extend([("attn_q_norm", s.head_dim), ("attn_k_norm", s.head_dim)]);
            }
            if s.architecture == Architecture::Gemma3 {
                norms.extend([("post_attention_norm", s.embedding), ("post_ffw_norm", s.embedding)]);
            }
            for (part, len) in norms {
                vector(format!("blk.{layer}.{part}.weight"), len, Contents::Norm);
            }
            if s.output_bias {
                vector(format!("blk.{layer}.attn_output.bias"), s.embedding, Contents::Bias);
            }
            if s.architecture == Architecture::Qwen2 {
                for (part, len) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
                    vector(format!("blk.{layer}.{part}.bias"), len, Contents::Bias);
                }
            }
        }
        all
    }

    /// Bytes that the file will take, or a little less.
    pub fn bytes(&self) -> u64 {
        self.tensors().iter().map(|tensor| tensor.bytes().next_multiple_of(32)).sum()
    }

    /// Writes the file; `done` is told of each piece of tensor data.
    pub fn write(&self, out: &mut impl Write, mut done: impl FnMut(u64)) -> io::Result<()> {
        let s = &self.shape;
        let mut writer = Writer::new();
        let architecture = s.architecture.name();
        writer.put("general.architecture", Value::String(architecture));
        writer.put("general.name", Value::String(&self.name));
        writer.put("general.quantization_version", Value::U32(2));
        let sizes = [
            ("block_count", s.layers),
            ("embedding_length", s.embedding),
            ("feed_forward_length", s.feed_forward),
            ("attention.head_count", s.heads),
            ("attention.head_count_kv", s.kv_heads),
            ("attention.key_length", s.head_dim),
            ("attention.value_length", s.head_dim),
            ("rope.dimension_count", s.rope_dim),
            ("context_length", s.context),
            ("vocab_size", s.vocabulary),
        ];
        for (key, value) in sizes {
            writer.put(&format!("{architecture}.{key}"), Value::U32(value));
        }
        writer.put(&format!("{architecture}.rope.freq_base"), Value::F32(s.rope_base));
        writer.put(&format!("{architecture}.attention.layer_norm_rms_epsilon"), Value::F32(s.epsilon));
        if s.window > 0 {
            writer.put(&format!("{architecture}.attention.sliding_window"), Value::U32(s.window));
        }
        if s.rope_linear > 1.0 {
            writer.put(&format!("{architecture}.rope.scaling.type"), Value::String("linear"));
            writer.put(&format!("{architecture}.rope.scaling.factor"), Value::F32(s.rope_linear));
        }
        if let Some(cap) = s.logit_cap {
            writer.put(&format!("{architecture}.final_logit_softcapping"), Value::F32(cap));
        }
        self.vocabulary.put(&mut writer);
        let tensors = self.tensors();
        for tensor in &tensors {
            writer.tensor(&tensor.name, &tensor.dims, tensor.ty);
        }
        writer.write(out, |index, out| {
            let tensor = &tensors[index];
            random::fill(tensor.contents, tensor, self.seed, index as u64, &mut |bytes| {
                out.write_all(bytes)?;
                done(bytes.len() as u64);
                Ok(())
            })
        })
    }
}
