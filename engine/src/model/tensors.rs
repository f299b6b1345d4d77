//! Weights: looked up by name, checked for shape and type, and remembered, so that none is left unused.

use std::collections::HashSet;

use super::{Architecture, Config, Error, Layer, Matrix};
use crate::gguf::{Gguf, TensorInfo};
use crate::quant::WeightType;

/// Looks tensors up, checks them, and remembers which were asked for.
pub(super) struct Tensors<'g, 'a> {
    gguf: &'g Gguf<'a>,
    used: HashSet<&'a str>,
}

impl<'g, 'a> Tensors<'g, 'a> {
    pub(super) fn new(gguf: &'g Gguf<'a>) -> Self {
        Self { gguf, used: HashSet::new() }
    }

    /// The first tensor that nobody asked for.
    pub(super) fn unused(&self) -> Option<&'g TensorInfo<'a>> {
        self.gguf.tensors().iter().find(|tensor| !self.used.contains(tensor.name))
    }

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

    pub(super) fn matrix(&mut self, name: &str, columns: u32, rows: u32) -> Result<Matrix<'a>, Error> {
        self.find(name, &[columns.into(), rows.into()])
    }

    pub(super) fn vector(&mut self, name: &str, len: u32) -> Result<Matrix<'a>, Error> {
        let vector = self.find(name, &[len.into()])?;
        if vector.ty != WeightType::F32 {
            return Err(Error::Unsupported(format!(
                "tensor {name} in the type {} (a norm weight or bias must be F32)",
                vector.ty
            )));
        }
        Ok(vector)
    }

    fn optional(&mut self, name: &str, len: u32) -> Result<Option<Matrix<'a>>, Error> {
        if self.gguf.tensor(name).is_none() { Ok(None) } else { self.vector(name, len).map(Some) }
    }

    pub(super) fn layer(
        &mut self,
        architecture: Architecture,
        c: &Config,
        layer: u32,
    ) -> Result<Layer<'a>, Error> {
        use Architecture::{Gemma3, Llama, Qwen3};
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let bias = |part: &str| format!("blk.{layer}.{part}.bias");
        let mut needed = |part: &str, len: u32, by: &[Architecture]| {
            by.contains(&architecture).then(|| self.vector(&name(part), len)).transpose()
        };
        let attn_q_norm = needed("attn_q_norm", c.head_dim, &[Qwen3, Gemma3])?;
        let attn_k_norm = needed("attn_k_norm", c.head_dim, &[Qwen3, Gemma3])?;
        let attn_post_norm = needed("post_attention_norm", c.embedding, &[Gemma3])?;
        let ffn_post_norm = needed("post_ffw_norm", c.embedding, &[Gemma3])?;
        Ok(Layer {
            attn_norm: self.vector(&name("attn_norm"), c.embedding)?,
            attn_q: self.matrix(&name("attn_q"), c.embedding, c.q_dim())?,
            attn_q_bias: self.optional(&bias("attn_q"), c.q_dim())?,
            attn_q_norm,
            attn_k: self.matrix(&name("attn_k"), c.embedding, c.kv_dim())?,
            attn_k_bias: self.optional(&bias("attn_k"), c.kv_dim())?,
            attn_k_norm,
            attn_v: self.matrix(&name("attn_v"), c.embedding, c.kv_dim())?,
            attn_v_bias: self.optional(&bias("attn_v"), c.kv_dim())?,
            attn_output: self.matrix(&name("attn_output"), c.q_dim(), c.embedding)?,
            // The other architectures have none: there it is refused with every tensor that was not asked for.
            attn_output_bias: match architecture {
                Llama => self.optional(&bias("attn_output"), c.embedding)?,
                _ => None,
            },
            attn_post_norm,
            ffn_norm: self.vector(&name("ffn_norm"), c.embedding)?,
            ffn_gate: self.matrix(&name("ffn_gate"), c.embedding, c.feed_forward)?,
            ffn_up: self.matrix(&name("ffn_up"), c.embedding, c.feed_forward)?,
            ffn_down: self.matrix(&name("ffn_down"), c.feed_forward, c.embedding)?,
            ffn_post_norm,
        })
    }
}
