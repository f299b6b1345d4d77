//! The cases of `engine ops`: shapes, inputs, expected outputs, derived tolerances.
//!
//! Tolerances. With u = 2^-24, one rounding of v errs by at most u|v|. A sum of terms t in which each term passes
//! through at most d additions errs by at most (d + 1) u sum|t| (the one is the product's rounding). The kernels' depth
//! is known: the terms that one invocation adds, then a tree. Where Vulkan promises a function only to some ULP
//! (division 2.5, square root and its inverse 2 each, exp 3 + 2|x|), that is used; one ULP of v is at most 2u|v|.

use zinc_shaders as k;

use super::{Case, Expected, Input, attention, batch, chain, fused, input, matrices, prompt, variants};
use crate::model::{Activation, Pairing};
use crate::plan::kernels::{self, Gridded};
use crate::plan::{Cooperative, Limits, Tuning};
use crate::reference;

pub(super) const U: f64 = 1.0 / 16_777_216.0;

/// All cases for the workgroup shapes and limits of a device, kernel by kernel; each kernel's first case serves as its control.
pub(super) fn all(
    tuning: &Tuning,
    limits: &Limits,
    cooperative: Cooperative,
    places: Option<Vec<u32>>,
) -> Vec<Case> {
    let mut maker = Maker {
        rng: fastrand::Rng::with_seed(20_260_101),
        tuning: *tuning,
        limits: *limits,
        cooperative,
        places,
    };
    let mut cases = Vec::new();
    matrices::add(&mut maker, &mut cases);
    cases.extend([192, 1, 5, 32, 577, 2560, 14336].map(|count| maker.rms_norm(count)));
    for build in [k::pairwise::Build::ADD, k::pairwise::Build::MUL] {
        cases.extend([576, 1, 31, 64, 65, 4099].map(|count| maker.binary(build, count)));
    }
    cases.extend([576, 1, 31, 64, 65, 4099].map(|count| maker.silu(count)));
    let ropes =
        [(6, 32, 32, 255), (1, 4, 4, 0), (3, 8, 4, 1), (2, 32, 32, 1023), (9, 64, 64, 77), (5, 80, 20, 31)];
    cases.extend(ropes.map(|shape| maker.rope(Pairing::Neighbours, 1e4, shape)));
    let writes = [(64, 3, 4), (64, 0, 4), (192, 17, 32), (4, 255, 256), (100, 6, 7)];
    cases.extend(writes.map(|(count, position, context)| maker.kv_write(count, position, context)));
    let attention: [Attention; 11] = [
        Attention { heads: 6, kv_heads: 2, head_dim: 32, context: 256, position: 200, window: 256 },
        Attention { heads: 1, kv_heads: 1, head_dim: 4, context: 1, position: 0, window: 1 },
        Attention { heads: 6, kv_heads: 2, head_dim: 32, context: 256, position: 0, window: 256 },
        Attention { heads: 6, kv_heads: 2, head_dim: 32, context: 256, position: 255, window: 256 },
        Attention { heads: 9, kv_heads: 3, head_dim: 64, context: 100, position: 63, window: 100 },
        Attention { heads: 4, kv_heads: 4, head_dim: 8, context: 65, position: 64, window: 65 },
        Attention { heads: 2, kv_heads: 1, head_dim: 128, context: 2048, position: 1500, window: 2048 },
        Attention { heads: 2, kv_heads: 1, head_dim: 64, context: 32768, position: 32767, window: 32768 },
        Attention { heads: 4, kv_heads: 1, head_dim: 256, context: 100, position: 99, window: 33 },
        Attention { heads: 4, kv_heads: 2, head_dim: 8, context: 70, position: 69, window: 1 },
        Attention { heads: 4, kv_heads: 2, head_dim: 8, context: 70, position: 20, window: 21 },
    ];
    cases.extend(attention.iter().map(|a| maker.scores(a)));
    cases.extend(attention.iter().map(|a| maker.softmax(a)));
    cases.extend(attention.iter().map(|a| maker.weighted_sum(a)));
    variants::add(&mut maker, &mut cases);
    fused::add(&mut maker, &mut cases);
    attention::add(&mut maker, &mut cases);
    chain::add(&mut maker, &mut cases);
    batch::add(&mut maker, &mut cases);
    prompt::add(&mut maker, &mut cases);
    cases
}

struct Attention {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    context: u32,
    position: u32,
    /// Positions seen; the context for all.
    window: u32,
}

impl Attention {
    fn label(&self) -> String {
        let Self { heads, kv_heads, head_dim, context, position, window } = self;
        format!(
            "heads={heads} kv_heads={kv_heads} head_dim={head_dim} context={context} position={position} \
             window={window}"
        )
    }

    fn step(&self) -> Input {
        Input::Step(vec![self.position, 0])
    }

    /// The positions that are seen.
    fn seen(&self) -> std::ops::RangeInclusive<usize> {
        (self.position + 1).saturating_sub(self.window) as usize..=self.position as usize
    }

    fn kv_dim(&self) -> usize {
        (self.kv_heads * self.head_dim) as usize
    }

    /// Offset of a head's group in a row of the cache.
    fn group(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads) as usize * self.head_dim as usize
    }
}

pub(super) struct Maker {
    pub(super) rng: fastrand::Rng,
    pub(super) tuning: Tuning,
    pub(super) limits: Limits,
    pub(super) cooperative: Cooperative,
    /// How the device deals the elements of a factor out.
    pub(super) places: Option<Vec<u32>>,
}

/// The last byte of a float, with its sign.
pub(super) const SIGN: usize = 3;

impl Maker {
    /// Floats between -1 and 1, away from zero so that none is subnormal.
    pub(super) fn floats(&mut self, count: usize) -> Vec<f32> {
        let one = |rng: &mut fastrand::Rng| {
            let sign = if rng.bool() { 1.0 } else { -1.0 };
            sign * (rng.f32() * 0.99 + 0.01)
        };
        (0..count).map(|_| one(&mut self.rng)).collect()
    }

    /// A case of a kernel with one invocation for each element.
    pub(super) fn elements<P: Gridded<Constants: From<u32>>>(
        &self,
        label: String,
        build: impl Into<P::Build>,
        push: P,
        bindings: P::Bindings<Input>,
        expected: Vec<Option<Expected>>,
    ) -> Case {
        Case::new(label, kernels::dispatch(build, self.tuning.element, 1, push, bindings), expected)
    }

    /// A case of a kernel with one workgroup for each of `rows`.
    pub(super) fn reduce<P: Gridded<Build: From<()>, Constants: From<u32>>>(
        &self,
        label: String,
        rows: u32,
        push: P,
        bindings: P::Bindings<Input>,
        expected: Vec<Option<Expected>>,
    ) -> Case {
        Case::new(label, kernels::dispatch((), self.tuning.reduce, rows, push, bindings), expected)
    }

    fn rms_norm(&mut self, count: u32) -> Case {
        let (x, epsilon) = (self.floats(count as usize), 1e-5f32);
        let mean = reference::dot(&x, &x) / f64::from(count);
        let scale = 1.0 / (mean + f64::from(epsilon)).sqrt();
        let relative = norm_error(count, self.tuning.reduce);
        let value = |x: &f32| some(f64::from(*x) * scale, relative * U * f64::from(x.abs()) * scale);
        let bindings = k::rms_norm::Bindings { x: input(&x).flipped(SIGN), result: Input::Result };
        let (push, expected) = (k::rms_norm::Push { count, epsilon }, x.iter().map(value).collect());
        self.reduce(format!("count={count}"), 1, push, bindings, expected)
    }

    fn binary(&mut self, build: k::pairwise::Build, count: u32) -> Case {
        let (a, b) = (self.floats(count as usize), self.floats(count as usize));
        let value = |(a, b): (&f32, &f32)| {
            let (a, b) = (f64::from(*a), f64::from(*b));
            let exact = if build == k::pairwise::Build::ADD { a + b } else { a * b };
            some(exact, 2.0 * U * exact.abs())
        };
        let expected = a.iter().zip(&b).map(value).collect();
        let bindings =
            k::pairwise::Bindings { a: input(&a), b: input(&b).flipped(SIGN), result: Input::Result };
        self.elements(format!("count={count}"), build, k::pairwise::Push { count }, bindings, expected)
    }

    fn silu(&mut self, count: u32) -> Case {
        // From deep in the flat tail to where it is the identity.
        let x: Vec<f32> = self.floats(count as usize).iter().map(|v| v * 60.0).collect();
        self.activation(Activation::Silu, &x, |x| {
            let exact = x / (1.0 + (-x).exp());
            // exp (3 + 2|x| ULP), addition, division (2.5 ULP).
            some(exact, (2.0 * (3.0 + 2.0 * x.abs()) + 1.0 + 5.0) * U * exact.abs())
        })
    }

    /// The gate's function of each of `x`, which is what `value` says.
    pub(super) fn activation(
        &self,
        function: Activation,
        x: &[f32],
        value: impl Fn(f64) -> Option<Expected>,
    ) -> Case {
        let count = x.len() as u32;
        let bindings = k::activation::Bindings { x: input(x).flipped(SIGN), result: Input::Result };
        let expected = x.iter().map(|x| value(f64::from(*x))).collect();
        self.elements(format!("count={count}"), function, k::activation::Push { count }, bindings, expected)
    }

    pub(super) fn rope(
        &mut self,
        pairing: Pairing,
        base: f64,
        (heads, head_dim, rope_dim, position): (u32, u32, u32, u32),
    ) -> Case {
        let rotation = Rotation { pairing, base, head_dim, rope_dim };
        let x = self.floats((heads * head_dim) as usize);
        let expected = rotation.of(position, &x);
        let bindings = k::rope::Bindings {
            step: Input::Step(vec![position, 0]),
            table: input(&rotation.table(position + 1)),
            x: input(&x).flipped(SIGN),
            result: Input::Result,
        };
        let label = format!("heads={heads} head_dim={head_dim} rope_dim={rope_dim} position={position}");
        self.elements(label, pairing, k::rope::Push { heads, head_dim, rope_dim }, bindings, expected)
    }

    fn kv_write(&mut self, count: u32, position: u32, context: u32) -> Case {
        let x = self.floats(count as usize);
        let mut expected = vec![None; (count * context) as usize];
        for (slot, v) in expected[(position * count) as usize..].iter_mut().zip(&x) {
            *slot = some(f64::from(*v), 0.0);
        }
        let (step, x) = (Input::Step(vec![position, 0]), input(&x).flipped(SIGN));
        let bindings = k::kv_write::Bindings { step, x, cache: Input::Result };
        let label = format!("count={count} context={context} position={position}");
        self.elements(label, (), k::kv_write::Push { count }, bindings, expected)
    }

    fn scores(&mut self, a: &Attention) -> Case {
        let dim = a.head_dim as usize;
        let q = self.floats(a.heads as usize * dim);
        let keys = self.floats(a.context as usize * a.kv_dim());
        let scale = (1.0 / f64::from(a.head_dim).sqrt()) as f32;
        let mut expected = vec![None; (a.heads * a.context) as usize];
        for (head, q) in q.chunks_exact(dim).enumerate() {
            for t in a.seen() {
                let key = &keys[t * a.kv_dim() + a.group(head)..][..dim];
                let terms: f64 = q.iter().zip(key).map(|(q, k)| f64::from(q * k).abs()).sum();
                let factor = f64::from(scale);
                let tolerance = (f64::from(a.head_dim) + 2.0) * U * terms * factor;
                expected[head * a.context as usize + t] = some(reference::dot(q, key) * factor, tolerance);
            }
        }
        let &Attention { heads, kv_heads, head_dim, context, window, .. } = a;
        let push = k::scores::Push { heads, kv_heads, head_dim, context, scale, window };
        let (q, keys) = (input(&q), input(&keys).flipped(SIGN));
        let bindings = k::scores::Bindings { step: a.step(), q, keys, result: Input::Result };
        Case::new(a.label(), kernels::scores(self.tuning.element, push, bindings), expected)
    }

    fn softmax(&mut self, a: &Attention) -> Case {
        let scores: Vec<f32> = self.floats((a.heads * a.context) as usize).iter().map(|v| v * 8.0).collect();
        let mut expected = vec![None; scores.len()];
        for (head, row) in scores.chunks_exact(a.context as usize).enumerate() {
            let row: Vec<f64> = row[a.seen()].iter().map(|v| f64::from(*v)).collect();
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let p = reference::softmax(&row);
            // exp of d errs by (3 + 2|d|) ULP, and by |d| u for the rounding of d itself.
            let exp = |v: f64| 2.0 * (3.0 + 2.0 * (largest - v)) + (largest - v);
            let average: f64 = row.iter().zip(&p).map(|(v, p)| p * exp(*v)).sum();
            let sum = average + summation_depth(row.len() as u32, self.tuning.reduce);
            for (t, (v, p)) in a.seen().zip(row.iter().zip(&p)) {
                // Numerator, denominator, division (2.5 ULP), product.
                let tolerance = (exp(*v) + sum + 5.0 + 1.0) * U * p;
                expected[head * a.context as usize + t] = some(*p, tolerance);
            }
        }
        let push = k::softmax::Push { context: a.context, window: a.window };
        let scores = input(&scores).flipped(SIGN);
        let bindings = k::softmax::Bindings { step: a.step(), scores, result: Input::Result };
        self.reduce(a.label(), a.heads, push, bindings, expected)
    }

    fn weighted_sum(&mut self, a: &Attention) -> Case {
        let dim = a.head_dim as usize;
        let probabilities = self.floats((a.heads * a.context) as usize);
        let values = self.floats(a.context as usize * a.kv_dim());
        let mut expected = Vec::new();
        for (head, p) in probabilities.chunks_exact(a.context as usize).enumerate() {
            for d in 0..dim {
                let terms =
                    a.seen().map(|t| f64::from(p[t]) * f64::from(values[t * a.kv_dim() + a.group(head) + d]));
                let (sum, absolute) = terms.fold((0.0, 0.0), |(s, m), t| (s + t, m + t.abs()));
                expected.push(some(sum, (f64::from(a.position) + 2.0) * U * absolute));
            }
        }
        let &Attention { heads, kv_heads, head_dim, context, window, .. } = a;
        let push = k::weighted_sum::Push { heads, kv_heads, head_dim, context, window };
        let (probabilities, values) = (input(&probabilities), input(&values).flipped(SIGN));
        let bindings =
            k::weighted_sum::Bindings { step: a.step(), probabilities, values, result: Input::Result };
        self.elements(a.label(), (), push, bindings, expected)
    }
}

/// The rotation of heads.
pub(super) struct Rotation {
    pub(super) pairing: Pairing,
    /// Of the frequencies.
    pub(super) base: f64,
    pub(super) head_dim: u32,
    pub(super) rope_dim: u32,
}

impl Rotation {
    fn sin_cos(&self, position: u32, pair: u32) -> (f64, f64) {
        let exponent = -2.0 * f64::from(pair) / f64::from(self.rope_dim);
        (f64::from(position) * self.base.powf(exponent)).sin_cos()
    }

    /// Cosines and sines of so many positions.
    pub(super) fn table(&self, positions: u32) -> Vec<f32> {
        let pairs = (0..positions).flat_map(|p| (0..self.rope_dim / 2).map(move |pair| (p, pair)));
        pairs.map(|(p, pair)| self.sin_cos(p, pair)).flat_map(|(sin, cos)| [cos as f32, sin as f32]).collect()
    }

    /// The heads of one position, rotated.
    pub(super) fn of(&self, position: u32, x: &[f32]) -> Vec<Option<Expected>> {
        let mut expected: Vec<_> = x.iter().map(|v| some(f64::from(*v), 0.0)).collect();
        let (dim, pairs) = (self.head_dim as usize, self.rope_dim as usize / 2);
        for (head, out) in x.chunks_exact(dim).zip(expected.chunks_exact_mut(dim)) {
            for pair in 0..pairs {
                let (i, j) = match self.pairing {
                    Pairing::Halves => (pair, pair + pairs),
                    Pairing::Neighbours => (2 * pair, 2 * pair + 1),
                };
                let (a, b) = (f64::from(head[i]), f64::from(head[j]));
                let (sin, cos) = self.sin_cos(position, pair as u32);
                // Table, product, sum: three roundings of each term.
                out[i] = some(a * cos - b * sin, 3.0 * U * ((a * cos).abs() + (b * sin).abs()));
                out[j] = some(a * sin + b * cos, 3.0 * U * ((a * sin).abs() + (b * cos).abs()));
            }
        }
        expected
    }
}

/// Errors of an RMS norm in units of u: sum, division (2.5 ULP), epsilon, root (2 + 2.5 ULP, halved before), 1/x (2.5 ULP), product.
pub(super) fn norm_error(count: u32, workgroup: u32) -> f64 {
    (summation_depth(count, workgroup) + 1.0 + 5.0 + 1.0) / 2.0 + 9.0 + 5.0 + 1.0
}

/// Additions that a term passes through when `count` terms are split over a workgroup in pieces of at most 32, added
/// up, and reduced in a tree.
pub(super) fn summation_depth(count: u32, workgroup: u32) -> f64 {
    let pieces = count.div_ceil(32).div_ceil(workgroup);
    f64::from(pieces * 32) + f64::from(workgroup).log2() + 1.0
}

pub(super) fn some(value: f64, tolerance: f64) -> Option<Expected> {
    Some(Expected::Near { value, tolerance })
}
