//! The CPU reference: the same network in plain Rust, for comparison only.
//!
//! It shares nothing with the kernels: not their layout of weights, not their order of operations, not their tables.
//! Weights are dequantised straight from the file; every sum and every function is computed in double precision and
//! rounded once to f32 where the kernels store an intermediate. It is the standard that kernels are measured against,
//! so it is written to be obviously right rather than fast.

use crate::model::{Activation, Config, Layer, Matrix, Model, Pairing, Rope};
use crate::quant::dequantize_row;

/// Plain matrix: dequantised rows.
struct Dense {
    rows: Vec<Vec<f32>>,
}

impl Dense {
    fn new(matrix: &Matrix<'_>) -> Self {
        let row = |r| {
            let mut out = Vec::with_capacity(matrix.columns as usize);
            dequantize_row(matrix.ty, matrix.row(r), &mut out);
            out
        };
        Self { rows: (0..matrix.rows).map(row).collect() }
    }

    fn times(&self, x: &[f32]) -> Vec<f32> {
        self.rows.iter().map(|row| dot(row, x) as f32).collect()
    }

    fn vector(matrix: &Matrix<'_>) -> Vec<f32> {
        Self::new(matrix).rows.remove(0)
    }
}

/// A projection with what may follow it: a bias, and a norm of each head.
struct Projection {
    matrix: Dense,
    bias: Option<Vec<f32>>,
    head_norm: Option<Vec<f32>>,
}

impl Projection {
    fn new(matrix: &Matrix<'_>, bias: Option<&Matrix<'_>>, head_norm: Option<&Matrix<'_>>) -> Self {
        Self {
            matrix: Dense::new(matrix),
            bias: bias.map(Dense::vector),
            head_norm: head_norm.map(Dense::vector),
        }
    }

    fn times(&self, x: &[f32], epsilon: f32) -> Vec<f32> {
        let mut y = self.matrix.times(x);
        if let Some(bias) = &self.bias {
            y = add(&y, bias);
        }
        match &self.head_norm {
            None => y,
            Some(weight) => {
                y.chunks_exact(weight.len()).flat_map(|head| rms_norm(head, weight, epsilon)).collect()
            }
        }
    }
}

/// One layer with its cache.
struct DenseLayer {
    attn_norm: Vec<f32>,
    q: Projection,
    k: Projection,
    v: Projection,
    output: Projection,
    attn_post_norm: Option<Vec<f32>>,
    ffn_norm: Vec<f32>,
    gate: Dense,
    up: Dense,
    down: Dense,
    ffn_post_norm: Option<Vec<f32>>,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl DenseLayer {
    fn new(layer: &Layer<'_>) -> Self {
        Self {
            attn_norm: Dense::vector(&layer.attn_norm),
            q: Projection::new(&layer.attn_q, layer.attn_q_bias.as_ref(), layer.attn_q_norm.as_ref()),
            k: Projection::new(&layer.attn_k, layer.attn_k_bias.as_ref(), layer.attn_k_norm.as_ref()),
            v: Projection::new(&layer.attn_v, layer.attn_v_bias.as_ref(), None),
            output: Projection::new(&layer.attn_output, layer.attn_output_bias.as_ref(), None),
            attn_post_norm: layer.attn_post_norm.as_ref().map(Dense::vector),
            ffn_norm: Dense::vector(&layer.ffn_norm),
            gate: Dense::new(&layer.ffn_gate),
            up: Dense::new(&layer.ffn_up),
            down: Dense::new(&layer.ffn_down),
            ffn_post_norm: layer.ffn_post_norm.as_ref().map(Dense::vector),
            keys: Vec::new(),
            values: Vec::new(),
        }
    }
}

/// A model held in f32 with the state of one sequence.
pub struct Reference {
    config: Config,
    embedding: Dense,
    layers: Vec<DenseLayer>,
    output_norm: Vec<f32>,
    /// `None` where the embedding serves as the output head.
    output: Option<Dense>,
}

impl Reference {
    /// Dequantises all weights: four bytes each.
    pub fn new(model: &Model<'_>) -> Self {
        Self {
            config: model.config.clone(),
            embedding: Dense::new(&model.embedding),
            layers: model.layers.iter().map(DenseLayer::new).collect(),
            output_norm: Dense::vector(&model.output_norm),
            output: (!model.tied()).then(|| Dense::new(&model.output)),
        }
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        for layer in &mut self.layers {
            layer.keys.clear();
            layer.values.clear();
        }
    }

    /// Appends `token` to the sequence and returns its logits.
    ///
    /// # Panics
    ///
    /// If `token` is not below the vocabulary size.
    pub fn step(&mut self, token: u32) -> Vec<f32> {
        let c = &self.config;
        let mut x = self.embedding.rows[token as usize].clone();
        if let Some(factor) = c.embedding_scale {
            x.iter_mut().for_each(|v| *v *= factor);
        }
        for (index, layer) in (0..).zip(&mut self.layers) {
            let position = layer.keys.len() as u32;
            let turn = c.ropes[c.layer_rope(index)];
            let h = rms_norm(&x, &layer.attn_norm, c.epsilon);
            let q = rope(c, turn, position, &layer.q.times(&h, c.epsilon));
            layer.keys.push(rope(c, turn, position, &layer.k.times(&h, c.epsilon)));
            layer.values.push(layer.v.times(&h, c.epsilon));
            let seen = c.layer_window(index).map_or(layer.keys.len(), |window| window as usize);
            let first = layer.keys.len().saturating_sub(seen);
            let attended = attention(c, &q, &layer.keys[first..], &layer.values[first..]);
            let projected = layer.output.times(&attended, c.epsilon);
            let x2 = add(&x, &post_norm(projected, layer.attn_post_norm.as_deref(), c.epsilon));
            let h = rms_norm(&x2, &layer.ffn_norm, c.epsilon);
            let gate = layer.gate.times(&h);
            let up = layer.up.times(&h);
            let activation = match c.activation {
                Activation::Silu => silu,
                Activation::Gelu => gelu,
            };
            let hidden: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| activation(*g) * u).collect();
            let down = layer.down.times(&hidden);
            x = add(&x2, &post_norm(down, layer.ffn_post_norm.as_deref(), c.epsilon));
        }
        let h = rms_norm(&x, &self.output_norm, c.epsilon);
        let mut logits = self.output.as_ref().unwrap_or(&self.embedding).times(&h);
        if let Some(cap) = c.logit_cap {
            logits.iter_mut().for_each(|logit| *logit = softcap(*logit, cap));
        }
        logits
    }
}

/// Sum of products in double precision.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// x / sqrt(mean(x^2) + epsilon) * weight.
pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let scale = 1.0 / (dot(x, x) / x.len() as f64 + f64::from(epsilon)).sqrt();
    x.iter().zip(weight).map(|(x, w)| (f64::from(*x) * scale) as f32 * w).collect()
}

/// x * sigmoid(x).
pub fn silu(x: f32) -> f32 {
    let x = f64::from(x);
    (x / (1.0 + (-x).exp())) as f32
}

/// GELU by its approximation with tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
pub fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    (0.5 * x * (1.0 + inner.tanh())) as f32
}

/// cap * tanh(x / cap).
pub fn softcap(x: f32, cap: f32) -> f32 {
    (f64::from(cap) * (f64::from(x) / f64::from(cap)).tanh()) as f32
}

/// The norm behind a part of a layer, where a model has one.
fn post_norm(x: Vec<f32>, weight: Option<&[f32]>, epsilon: f32) -> Vec<f32> {
    weight.map_or_else(|| x.clone(), |weight| rms_norm(&x, weight, epsilon))
}

/// Turns the elements of each pair of each head by [`Config::rope_angle`], times the rotation's magnitude.
pub fn rope(c: &Config, rope: Rope, position: u32, x: &[f32]) -> Vec<f32> {
    let mut out = x.to_vec();
    let pairs = c.rope_dim as usize / 2;
    for head in out.chunks_exact_mut(c.head_dim as usize) {
        for pair in 0..pairs {
            let (i, j) = match c.pairing {
                Pairing::Neighbours => (2 * pair, 2 * pair + 1),
                Pairing::Halves => (pair, pair + pairs),
            };
            let [cos, sin] = c.rope_cos_sin(rope, position, pair as u32);
            let (a, b) = (f64::from(head[i]), f64::from(head[j]));
            head[i] = (a * cos - b * sin) as f32;
            head[j] = (a * sin + b * cos) as f32;
        }
    }
    out
}

/// Softmax in double precision.
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

/// Attention of one token over all keys and values so far.
pub fn attention(c: &Config, q: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f32> {
    let dim = c.head_dim as usize;
    let group = (c.heads / c.kv_heads) as usize;
    let mut out = Vec::with_capacity(q.len());
    for (head, q) in q.chunks_exact(dim).enumerate() {
        let at = head / group * dim;
        let scores: Vec<f64> = keys.iter().map(|k| dot(q, &k[at..at + dim]) * c.attention_scale).collect();
        let weights = softmax(&scores);
        for d in 0..dim {
            let sum: f64 = weights.iter().zip(values).map(|(w, v)| w * f64::from(v[at + d])).sum();
            out.push(sum as f32);
        }
    }
    out
}

fn add(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}
