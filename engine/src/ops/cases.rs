//! The cases of `engine ops`: shapes, inputs, expected outputs, derived tolerances.
//!
//! Tolerances. With u = 2^-24, one rounding of v errs by at most u|v|. A sum of terms t in which each term passes
//! through at most d additions errs by at most (d + 1) u sum|t| (the one is the product's rounding). The kernels' depth
//! is known: the terms that one invocation adds, then a tree. Where Vulkan promises a function only to some ULP
//! (division 2.5, square root and its inverse 2 each, exp 3 + 2|x|), that is used; one ULP of v is at most 2u|v|.

use zinc_shaders as k;

use super::{Case, Expected};
use crate::plan::{Shape, Tuning, matvec_dispatch};
use crate::quant::{BLOCK, WeightType, dequantize_row, repack};
use crate::reference;

const U: f64 = 1.0 / 16_777_216.0;

/// All cases for the workgroup shapes of a device, kernel by kernel; each kernel's first case serves as its control.
pub(super) fn all(tuning: &Tuning) -> Vec<Case> {
    let mut maker = Maker { rng: fastrand::Rng::with_seed(20_260_101), tuning: *tuning };
    let mut cases = Vec::new();
    for ty in WeightType::ALL {
        let extra: &[(u32, u32)] = if ty == WeightType::F32 { &[(4, 1), (36, 5), (100, 9)] } else { &[] };
        let shapes = [(192, 257), (32, 1), (64, 3), (96, 7), (576, 192), (1024, 33), (4096, 5), (14336, 3)];
        cases.extend(shapes.iter().chain(extra).map(|&(columns, rows)| maker.matvec(ty, columns, rows)));
    }
    for ty in WeightType::ALL {
        let shapes = [(192, 257, 256), (32, 1, 0), (32, 7, 3), (64, 5, 4), (576, 9, 1), (4096, 3, 2)];
        cases.extend(shapes.map(|(columns, rows, token)| maker.get_rows(ty, columns, rows, token)));
    }
    cases.extend([192, 1, 5, 32, 577, 2560, 14336].map(|count| maker.rms_norm(count)));
    for kernel in [&k::ADD, &k::MUL] {
        cases.extend([576, 1, 31, 64, 65, 4099].map(|count| maker.binary(kernel, count)));
    }
    cases.extend([576, 1, 31, 64, 65, 4099].map(|count| maker.silu(count)));
    let ropes =
        [(6, 32, 32, 255), (1, 4, 4, 0), (3, 8, 4, 1), (2, 32, 32, 1023), (9, 64, 64, 77), (5, 80, 20, 31)];
    cases.extend(ropes.map(|(heads, dim, rope_dim, position)| maker.rope(heads, dim, rope_dim, position)));
    let writes = [(64, 3, 4), (64, 0, 4), (192, 17, 32), (4, 255, 256), (100, 6, 7)];
    cases.extend(writes.map(|(count, position, context)| maker.kv_write(count, position, context)));
    let attention: [Attention; 7] = [
        Attention { heads: 6, kv_heads: 2, head_dim: 32, context: 256, position: 200 },
        Attention { heads: 1, kv_heads: 1, head_dim: 4, context: 1, position: 0 },
        Attention { heads: 6, kv_heads: 2, head_dim: 32, context: 256, position: 0 },
        Attention { heads: 6, kv_heads: 2, head_dim: 32, context: 256, position: 255 },
        Attention { heads: 9, kv_heads: 3, head_dim: 64, context: 100, position: 63 },
        Attention { heads: 4, kv_heads: 4, head_dim: 8, context: 65, position: 64 },
        Attention { heads: 2, kv_heads: 1, head_dim: 128, context: 2048, position: 1500 },
    ];
    cases.extend(attention.iter().map(|a| maker.scores(a)));
    cases.extend(attention.iter().map(|a| maker.softmax(a)));
    cases.extend(attention.iter().map(|a| maker.weighted_sum(a)));
    cases
}

struct Attention {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    context: u32,
    position: u32,
}

impl Attention {
    fn label(&self) -> String {
        let Self { heads, kv_heads, head_dim, context, position } = self;
        format!("heads={heads} kv_heads={kv_heads} head_dim={head_dim} context={context} position={position}")
    }

    fn kv_dim(&self) -> usize {
        (self.kv_heads * self.head_dim) as usize
    }

    /// Offset of a head's group in a row of the cache.
    fn group(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads) as usize * self.head_dim as usize
    }

    fn push(&self) -> Vec<u32> {
        vec![self.heads, self.kv_heads, self.head_dim, self.context]
    }
}

struct Maker {
    rng: fastrand::Rng,
    tuning: Tuning,
}

/// Changes the sign of the float (or the top bit of the byte) at this place.
const FLIP: u8 = 0x80;

impl Maker {
    /// Floats between -1 and 1, away from zero so that none is subnormal.
    fn floats(&mut self, count: usize) -> Vec<f32> {
        let one = |rng: &mut fastrand::Rng| {
            let sign = if rng.bool() { 1.0 } else { -1.0 };
            sign * (rng.f32() * 0.99 + 0.01)
        };
        (0..count).map(|_| one(&mut self.rng)).collect()
    }

    /// Blocks as they are in a file, with small, large and subnormal scales of either sign.
    fn blocks(&mut self, ty: WeightType, elements: usize) -> Vec<u8> {
        if ty == WeightType::F32 {
            return bytes(&self.floats(elements));
        }
        let mut data = Vec::new();
        for block in 0..elements / BLOCK {
            let scale = match block % 5 {
                4 => half::f16::from_bits(self.rng.u16(1..0x3ff)), // subnormal
                _ => half::f16::from_f32(self.floats(1)[0] * 0.1),
            };
            data.extend(scale.to_le_bytes());
            let quant_bytes = ty.tensor_type().block_bytes() as usize - 2;
            data.extend((0..quant_bytes).map(|_| self.rng.u8(..)));
        }
        data
    }

    /// The inputs that hold a matrix: quants and, where there are any, scales.
    fn repacked(&self, ty: WeightType, data: &[u8], elements: usize) -> Vec<Vec<u8>> {
        let mut quants = vec![0; ty.quant_bytes(elements as u64) as usize];
        let mut scales = vec![0; ty.scale_bytes(elements as u64) as usize];
        repack(ty, data, &mut quants, &mut scales).expect("the cases have finite scales");
        if scales.is_empty() { vec![quants] } else { vec![quants, scales] }
    }

    fn element(&self) -> Shape {
        Shape { workgroup: self.tuning.element, rows: 1 }
    }

    fn reduce(&self) -> Shape {
        Shape { workgroup: self.tuning.reduce, rows: 1 }
    }

    fn over_elements(&self, count: u32) -> [u32; 2] {
        [count.div_ceil(self.tuning.element), 1]
    }

    fn matvec(&mut self, ty: WeightType, columns: u32, rows: u32) -> Case {
        let shape = self.tuning.matvec;
        let elements = (columns * rows) as usize;
        let data = self.blocks(ty, elements);
        let x = self.floats(columns as usize);
        let row_bytes = data.len() / rows as usize;
        let depth = summation_depth(columns, shape.workgroup) + 4.0;
        let expected = data.chunks_exact(row_bytes).map(|row| {
            let mut w = Vec::new();
            dequantize_row(ty, row, &mut w);
            let terms: f64 = w.iter().zip(&x).map(|(w, x)| f64::from(w * x).abs()).sum();
            // The reference rounds scale times quant, the kernel does not: one more u.
            some(reference::dot(&w, &x), (depth + 2.0) * U * terms)
        });
        let expected = expected.collect();
        let (kernel, grid) = matvec_dispatch(ty, rows, shape, 65535);
        let mut inputs = self.repacked(ty, &data, elements);
        let scale_input = inputs.len() - 1;
        inputs.push(bytes(&x));
        Case {
            kernel,
            shape,
            label: format!("columns={columns} rows={rows}"),
            step: [0, 0],
            push: vec![columns, rows, grid[0] as u32],
            grid: [grid[0] as u32, grid[1] as u32],
            expected,
            // Sign of the first weight, or of the first scale.
            control: (scale_input, if ty == WeightType::F32 { 3 } else { 1 }, FLIP),
            inputs,
        }
    }

    fn get_rows(&mut self, ty: WeightType, columns: u32, rows: u32, token: u32) -> Case {
        let elements = (columns * rows) as usize;
        let data = self.blocks(ty, elements);
        let row_bytes = data.len() / rows as usize;
        let mut row = Vec::new();
        dequantize_row(ty, &data[token as usize * row_bytes..][..row_bytes], &mut row);
        // One product, one rounding: to nearest, or by an implementation's leave within one ULP.
        let expected = row.iter().map(|v| some(f64::from(*v), 2.0 * U * f64::from(v.abs()))).collect();
        let (kernel, count) = match ty {
            WeightType::F32 => (&k::GET_ROWS_F32, columns),
            WeightType::Q8_0 => (&k::GET_ROWS_Q8_0, columns / 4),
            WeightType::Q4_0 => (&k::GET_ROWS_Q4_0, columns / 8),
        };
        let inputs = self.repacked(ty, &data, elements);
        let row_quants = inputs[0].len() / rows as usize;
        Case {
            kernel,
            shape: self.element(),
            label: format!("columns={columns} rows={rows} token={token}"),
            step: [0, token],
            push: vec![columns],
            grid: self.over_elements(count),
            expected,
            control: (0, (token as usize + 1) * row_quants - 1, FLIP),
            inputs,
        }
    }

    fn rms_norm(&mut self, count: u32) -> Case {
        let x = self.floats(count as usize);
        let epsilon = 1e-5f32;
        let mean = reference::dot(&x, &x) / f64::from(count);
        let scale = 1.0 / (mean + f64::from(epsilon)).sqrt();
        // Sum, division (2.5 ULP), epsilon, root (2 + 2.5 ULP, halved before), 1/x (2.5 ULP), product.
        let relative = (summation_depth(count, self.tuning.reduce) + 1.0 + 5.0 + 1.0) / 2.0 + 9.0 + 5.0 + 1.0;
        let value = |x: &f32| some(f64::from(*x) * scale, relative * U * f64::from(x.abs()) * scale);
        Case {
            kernel: &k::RMS_NORM,
            shape: self.reduce(),
            label: format!("count={count}"),
            step: [0, 0],
            expected: x.iter().map(value).collect(),
            inputs: vec![bytes(&x)],
            push: vec![count, epsilon.to_bits()],
            grid: [1, 1],
            control: (0, 3, FLIP),
        }
    }

    fn binary(&mut self, kernel: &'static k::Kernel, count: u32) -> Case {
        let (a, b) = (self.floats(count as usize), self.floats(count as usize));
        let value = |(a, b): (&f32, &f32)| {
            let (a, b) = (f64::from(*a), f64::from(*b));
            let exact = if kernel == &k::ADD { a + b } else { a * b };
            some(exact, 2.0 * U * exact.abs())
        };
        Case {
            kernel,
            shape: self.element(),
            label: format!("count={count}"),
            step: [0, 0],
            expected: a.iter().zip(&b).map(value).collect(),
            inputs: vec![bytes(&a), bytes(&b)],
            push: vec![count],
            grid: self.over_elements(count),
            control: (1, 3, FLIP),
        }
    }

    fn silu(&mut self, count: u32) -> Case {
        // From deep in the flat tail to where it is the identity.
        let x: Vec<f32> = self.floats(count as usize).iter().map(|v| v * 60.0).collect();
        let value = |x: &f32| {
            let exact = f64::from(*x) / (1.0 + (-f64::from(*x)).exp());
            // exp (3 + 2|x| ULP), addition, division (2.5 ULP).
            some(exact, (2.0 * (3.0 + 2.0 * f64::from(x.abs())) + 1.0 + 5.0) * U * exact.abs())
        };
        Case {
            kernel: &k::SILU,
            shape: self.element(),
            label: format!("count={count}"),
            step: [0, 0],
            expected: x.iter().map(value).collect(),
            inputs: vec![bytes(&x)],
            push: vec![count],
            grid: self.over_elements(count),
            control: (0, 3, FLIP),
        }
    }

    fn rope(&mut self, heads: u32, head_dim: u32, rope_dim: u32, position: u32) -> Case {
        let pairs = rope_dim / 2;
        let angle = |position: u32, pair: u32| {
            f64::from(position) * 10000f64.powf(-2.0 * f64::from(pair) / f64::from(rope_dim))
        };
        let table: Vec<f32> = (0..=position)
            .flat_map(|p| (0..pairs).map(move |pair| angle(p, pair).sin_cos()))
            .flat_map(|(sin, cos)| [cos as f32, sin as f32])
            .collect();
        let x = self.floats((heads * head_dim) as usize);
        let mut expected = Vec::new();
        for head in x.chunks_exact(head_dim as usize) {
            for (pair, v) in head.chunks_exact(2).enumerate() {
                let (a, b) = (f64::from(v[0]), f64::from(v[1]));
                if pair as u32 >= pairs {
                    expected.extend([some(a, 0.0), some(b, 0.0)]);
                    continue;
                }
                let (sin, cos) = angle(position, pair as u32).sin_cos();
                // Table, product, sum: three roundings of each term.
                expected.push(some(a * cos - b * sin, 3.0 * U * ((a * cos).abs() + (b * sin).abs())));
                expected.push(some(a * sin + b * cos, 3.0 * U * ((a * sin).abs() + (b * cos).abs())));
            }
        }
        Case {
            kernel: &k::ROPE,
            shape: self.element(),
            label: format!("heads={heads} head_dim={head_dim} rope_dim={rope_dim} position={position}"),
            step: [position, 0],
            inputs: vec![bytes(&table), bytes(&x)],
            push: vec![heads, head_dim, rope_dim],
            grid: self.over_elements(heads * head_dim / 2),
            expected,
            control: (1, 3, FLIP),
        }
    }

    fn kv_write(&mut self, count: u32, position: u32, context: u32) -> Case {
        let x = self.floats(count as usize);
        let mut expected = vec![None; (count * context) as usize];
        for (slot, v) in expected[(position * count) as usize..].iter_mut().zip(&x) {
            *slot = some(f64::from(*v), 0.0);
        }
        Case {
            kernel: &k::KV_WRITE,
            shape: self.element(),
            label: format!("count={count} context={context} position={position}"),
            step: [position, 0],
            inputs: vec![bytes(&x)],
            push: vec![count],
            grid: self.over_elements(count),
            expected,
            control: (0, 3, FLIP),
        }
    }

    fn scores(&mut self, a: &Attention) -> Case {
        let dim = a.head_dim as usize;
        let q = self.floats(a.heads as usize * dim);
        let keys = self.floats(a.context as usize * a.kv_dim());
        let scale = (1.0 / f64::from(a.head_dim).sqrt()) as f32;
        let mut expected = vec![None; (a.heads * a.context) as usize];
        for (head, q) in q.chunks_exact(dim).enumerate() {
            for t in 0..=a.position as usize {
                let key = &keys[t * a.kv_dim() + a.group(head)..][..dim];
                let terms: f64 = q.iter().zip(key).map(|(q, k)| f64::from(q * k).abs()).sum();
                let factor = f64::from(scale);
                let tolerance = (f64::from(a.head_dim) + 2.0) * U * terms * factor;
                expected[head * a.context as usize + t] = some(reference::dot(q, key) * factor, tolerance);
            }
        }
        let mut push = a.push();
        push.push(scale.to_bits());
        Case {
            kernel: &k::SCORES,
            shape: self.element(),
            label: a.label(),
            step: [a.position, 0],
            inputs: vec![bytes(&q), bytes(&keys)],
            push,
            grid: [a.context.div_ceil(self.tuning.element), a.heads],
            expected,
            control: (1, 3, FLIP),
        }
    }

    fn softmax(&mut self, a: &Attention) -> Case {
        let count = a.position as usize + 1;
        let scores: Vec<f32> = self.floats((a.heads * a.context) as usize).iter().map(|v| v * 8.0).collect();
        let mut expected = vec![None; scores.len()];
        for (head, row) in scores.chunks_exact(a.context as usize).enumerate() {
            let row: Vec<f64> = row[..count].iter().map(|v| f64::from(*v)).collect();
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let p = reference::softmax(&row);
            // exp of d errs by (3 + 2|d|) ULP, and by |d| u for the rounding of d itself.
            let exp = |v: f64| 2.0 * (3.0 + 2.0 * (largest - v)) + (largest - v);
            let average: f64 = row.iter().zip(&p).map(|(v, p)| p * exp(*v)).sum();
            let sum = average + summation_depth(count as u32, self.tuning.reduce);
            for (t, (v, p)) in row.iter().zip(&p).enumerate() {
                // Numerator, denominator, division (2.5 ULP), product.
                let tolerance = (exp(*v) + sum + 5.0 + 1.0) * U * p;
                expected[head * a.context as usize + t] = some(*p, tolerance);
            }
        }
        Case {
            kernel: &k::SOFTMAX,
            shape: self.reduce(),
            label: a.label(),
            step: [a.position, 0],
            inputs: vec![bytes(&scores)],
            push: vec![a.context],
            grid: [a.heads, 1],
            expected,
            control: (0, 3, FLIP),
        }
    }

    fn weighted_sum(&mut self, a: &Attention) -> Case {
        let dim = a.head_dim as usize;
        let probabilities = self.floats((a.heads * a.context) as usize);
        let values = self.floats(a.context as usize * a.kv_dim());
        let mut expected = Vec::new();
        for (head, p) in probabilities.chunks_exact(a.context as usize).enumerate() {
            for d in 0..dim {
                let terms = (0..=a.position as usize)
                    .map(|t| f64::from(p[t]) * f64::from(values[t * a.kv_dim() + a.group(head) + d]));
                let (sum, absolute) = terms.fold((0.0, 0.0), |(s, m), t| (s + t, m + t.abs()));
                expected.push(some(sum, (f64::from(a.position) + 2.0) * U * absolute));
            }
        }
        Case {
            kernel: &k::WEIGHTED_SUM,
            shape: self.element(),
            label: a.label(),
            step: [a.position, 0],
            inputs: vec![bytes(&probabilities), bytes(&values)],
            push: a.push(),
            grid: self.over_elements(a.heads * a.head_dim),
            expected,
            control: (1, 3, FLIP),
        }
    }
}

/// Additions that a term passes through when `count` terms are split over a workgroup in pieces of at most 32, added
/// up, and reduced in a tree.
fn summation_depth(count: u32, workgroup: u32) -> f64 {
    let pieces = count.div_ceil(32).div_ceil(workgroup);
    f64::from(pieces * 32) + f64::from(workgroup).log2() + 1.0
}

fn some(value: f64, tolerance: f64) -> Option<Expected> {
    Some(Expected { value, tolerance })
}

fn bytes(values: &[f32]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}
