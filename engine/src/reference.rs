//! The CPU reference: the same network in plain Rust, for comparison only.
//!
//! It shares nothing with the kernels: not their layout of weights, not their order of operations, not their tables.
//! Weights are dequantised straight from the file; every sum and every function is computed in double precision and
//! rounded once to f32 where the kernels store an intermediate. It is the standard that kernels are measured against,
//! so it is written to be obviously right rather than fast.

use crate::model::{Config, Layer, Matrix, Model};
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

/// One layer with its cache.
struct DenseLayer {
    attn_norm: Vec<f32>,
    q: Dense,
    k: Dense,
    v: Dense,
    output: Dense,
    ffn_norm: Vec<f32>,
    gate: Dense,
    up: Dense,
    down: Dense,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl DenseLayer {
    fn new(layer: &Layer<'_>) -> Self {
        Self {
            attn_norm: Dense::vector(&layer.attn_norm),
            q: Dense::new(&layer.attn_q),
            k: Dense::new(&layer.attn_k),
            v: Dense::new(&layer.attn_v),
            output: Dense::new(&layer.attn_output),
            ffn_norm: Dense::vector(&layer.ffn_norm),
            gate: Dense::new(&layer.ffn_gate),
            up: Dense::new(&layer.ffn_up),
            down: Dense::new(&layer.ffn_down),
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
        for layer in &mut self.layers {
            let position = layer.keys.len() as u32;
            let h = rms_norm(&x, &layer.attn_norm, c.epsilon);
            let q = rope(c, position, &layer.q.times(&h));
            layer.keys.push(rope(c, position, &layer.k.times(&h)));
            layer.values.push(layer.v.times(&h));
            let attended = attention(c, &q, &layer.keys, &layer.values);
            let x2 = add(&x, &layer.output.times(&attended));
            let h = rms_norm(&x2, &layer.ffn_norm, c.epsilon);
            let gate = layer.gate.times(&h);
            let up = layer.up.times(&h);
            let hidden: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| silu(*g) * u).collect();
            x = add(&x2, &layer.down.times(&hidden));
        }
        let h = rms_norm(&x, &self.output_norm, c.epsilon);
        self.output.as_ref().unwrap_or(&self.embedding).times(&h)
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

/// Turns elements 2i and 2i+1 of each head by [`Config::rope_angle`].
pub fn rope(c: &Config, position: u32, x: &[f32]) -> Vec<f32> {
    let mut out = x.to_vec();
    for head in out.chunks_exact_mut(c.head_dim as usize) {
        for (pair, v) in head[..c.rope_dim as usize].chunks_exact_mut(2).enumerate() {
            let (sin, cos) = c.rope_angle(position, pair as u32).sin_cos();
            let (a, b) = (f64::from(v[0]), f64::from(v[1]));
            v[0] = (a * cos - b * sin) as f32;
            v[1] = (a * sin + b * cos) as f32;
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
        let scores: Vec<f64> =
            keys.iter().map(|k| dot(q, &k[at..at + dim]) / f64::from(c.head_dim).sqrt()).collect();
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
