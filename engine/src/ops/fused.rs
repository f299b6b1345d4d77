//! Cases of the fused kernels.
//!
//! A fused product quantises its activations. The expected values do the same, in double precision and with the same
//! rule, so that the tolerance is still one of roundings: of what the kernel adds up, and, where an activation lies
//! nearly in the middle between two steps, of the step.

use zinc_shaders::fused_matvec::{Bindings, Push};

use super::cases::{Maker, SIGN, U, some};
use super::{Case, Expected, Input, input};
use crate::plan::kernels::{self, Waiting};
use crate::plan::{Crew, Cut as Work, Tiling, chained_tiling};
use crate::quant::{SUPER_BLOCK, WeightType, dequantize_row};
use crate::reference;

/// One fused product.
pub(super) struct Product {
    pub(super) ty: WeightType,
    pub(super) native: bool,
    pub(super) columns: u32,
    pub(super) rows: u32,
    pub(super) norm: bool,
    /// As the kernel's EPILOGUE: 0 as it is, 1 residual, 2 SiLU gate, 3 GELU gate.
    pub(super) epilogue: u32,
    pub(super) bias: bool,
    /// As a step of a chain, whose values are all there.
    pub(super) chained: bool,
}

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    for ty in WeightType::ALL {
        let builds: &[bool] = if ty.is_quantized() { &[true, false] } else { &[false] };
        let wide = ty.block_elements() == SUPER_BLOCK as u64;
        for &native in builds {
            let shapes: [(u32, u32, bool, u32, bool); 7] = [
                (256, 33, true, 0, true),
                (if wide { 256 } else { 32 }, 1, false, 0, false),
                (512, 7, true, 2, false),
                (768, 19, false, 1, false),
                (1024, 257, true, 3, false),
                (14336, 3, false, 1, false),
                (2560, 5, true, 0, false),
            ];
            for chained in [false, true] {
                for (columns, rows, norm, epilogue, bias) in shapes {
                    let product = Product { ty, native, columns, rows, norm, epilogue, bias, chained };
                    cases.extend(maker.product(&product));
                }
                if chained {
                    cases.extend(maker.given_up(ty, native));
                }
            }
        }
    }
}

/// An activation as the kernels quantise it, and how far a step in doubt may move it.
fn quantised(x: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let (mut values, mut doubts) = (Vec::new(), Vec::new());
    for group in x.chunks(16) {
        let largest = group.iter().fold(0f32, |m, v| m.max(v.abs()));
        let scale = f64::from(largest) / 127.0;
        for v in group {
            let steps = if largest > 0.0 { f64::from(*v) / scale } else { 0.0 };
            let doubtful = (steps.fract().abs() - 0.5).abs() < 1e-3;
            values.push(steps.round_ties_even() * scale);
            doubts.push(if doubtful { scale } else { 0.0 });
        }
    }
    (values, doubts)
}

pub(super) const EPSILON: f32 = 1e-5;

/// What a case of a fused product is made of.
pub(super) struct Parts {
    product: kernels::Product,
    tiling: Tiling,
    push: Push,
    pub(super) bindings: Bindings<Input>,
    pub(super) label: String,
    pub(super) expected: Vec<Option<Expected>>,
}

impl Parts {
    /// The case, of a chain if it waits.
    pub(super) fn case(self, waiting: Option<Waiting>) -> Case {
        let dispatch = kernels::product(self.product, &self.tiling, waiting, self.push, self.bindings);
        Case::new(self.label, dispatch, self.expected)
    }
}

impl Maker {
    fn product(&mut self, p: &Product) -> Option<Case> {
        let waiting = p.chained.then(|| Waiting::new(true));
        let mut parts = self.product_parts(p)?;
        parts.bindings.x = parts.bindings.x.flipped(SIGN);
        Some(parts.case(waiting))
    }

    pub(super) fn product_parts(&mut self, p: &Product) -> Option<Parts> {
        let &Product { ty, columns, rows, norm, epilogue, bias, .. } = p;
        let gated = epilogue >= 2;
        let tuning = self.tuning.fused;
        let work = Work { ty, columns, rows, gated, norm };
        let tiling = match p.chained {
            false => Tiling::new(&work, Crew::Own, &tuning),
            true => chained_tiling(&work, &tuning, &self.limits),
        }?;
        let matrix_rows = if gated { 2 * rows } else { rows };
        let elements = (columns * matrix_rows) as usize;
        let blocks = self.blocks(ty, elements);
        let x = self.floats(columns as usize);
        let weight = self.floats(columns as usize);
        let residual = self.floats(rows as usize);
        let biases = self.floats(rows as usize);
        let mut weights = Vec::new();
        dequantize_row(ty, &blocks, &mut weights);

        let normed: Vec<f32> =
            if norm { x.iter().zip(&weight).map(|(x, w)| x * w).collect() } else { x.clone() };
        let (values, doubts) = if ty.is_quantized() {
            quantised(&normed)
        } else {
            (normed.iter().map(|v| f64::from(*v)).collect(), vec![0.0; normed.len()])
        };
        let square = reference::dot(&x, &x) / f64::from(columns);
        let factor = if norm { 1.0 / (square + f64::from(EPSILON)).sqrt() } else { 1.0 };
        let depth = f64::from(columns) / 32.0 + f64::from(columns) / f64::from(tiling.threads) + 40.0;
        let results: Vec<(f64, f64)> = weights
            .chunks_exact(columns as usize)
            .map(|row| {
                // Products with an offset or a minimum cancel; no term is above the row's largest weight.
                let most = row.iter().fold(0f32, |m, w| m.max(w.abs()));
                let (mut sum, mut size, mut doubt) = (0.0, 0.0, 0.0);
                for ((w, v), d) in row.iter().zip(&values).zip(&doubts) {
                    sum += f64::from(*w) * v;
                    size += 2.0 * f64::from(most) * v.abs();
                    doubt += f64::from(w.abs()) * d;
                }
                (factor * sum, factor * (depth * U * size + 1.01 * doubt))
            })
            .collect();
        let expected = (0..rows as usize)
            .map(|r| {
                let (value, tolerance) = results[r];
                match epilogue {
                    0 if bias => {
                        some(value + f64::from(biases[r]), tolerance + 2.0 * U * (value.abs() + 1.0))
                    }
                    0 => some(value, tolerance),
                    1 => some(value + f64::from(residual[r]), tolerance + 2.0 * U * (value.abs() + 1.0)),
                    _ => {
                        let (up, up_tolerance) = results[rows as usize + r];
                        let gate = |v: f64| {
                            if epilogue == 2 {
                                v / (1.0 + (-v).exp())
                            } else {
                                0.5 * v * (1.0 + (0.7978845608028654 * (v + 0.044715 * v * v * v)).tanh())
                            }
                        };
                        // Neither slope is above 1.2; exp errs by 3 + 2|x| ULP of a factor that is at most 1.
                        let own = 1.2 * tolerance + (40.0 + 8.0 * value.abs()) * U * value.abs().max(1e-3);
                        let g = gate(value);
                        some(
                            g * up,
                            own * (up.abs() + up_tolerance)
                                + g.abs() * up_tolerance
                                + 4.0 * U * (g * up).abs(),
                        )
                    }
                }
            })
            .collect();

        let per_matrix = u64::from(columns) * u64::from(rows);
        let (mut quants, mut scales) = self.repacked(ty, &blocks, elements);
        if gated && ty.is_quantized() {
            // Two matrices, each repacked by itself: their scales lie one behind the other, from a whole word on.
            let (first, second) = blocks.split_at(blocks.len() / 2);
            let [a, b] = [first, second].map(|half| self.repacked(ty, half, per_matrix as usize));
            quants = [a.0, b.0].concat();
            scales = a.1.zip(b.1).map(|(a, b)| [a, b].concat());
        }
        let quants_b = if gated { (ty.quant_bytes(per_matrix) / 16) as u32 } else { 0 };
        let scales_b = if gated && ty.is_quantized() { (ty.scale_bytes(per_matrix) / 4) as u32 } else { 0 };
        let push = Push {
            rows_a: rows,
            rows_ab: rows,
            rows,
            quants_a: 0,
            quants_b,
            quants_c: 0,
            scales_a: 0,
            scales_b,
            scales_c: 0,
            bias_a: 0,
            bias_b: 0,
            bias_c: 0,
            gap_b: 0,
            gap_c: 0,
            epsilon: EPSILON,
        };
        let bindings = Bindings {
            weights: input(&quants),
            scales: input(&scales.unwrap_or_else(|| vec![0; 16])),
            x: input(&x),
            norm: input(&weight),
            residual: input(&residual),
            bias: input(&biases),
            result: Input::Result,
            chain: p.chained.then(|| input(&[0u32])),
        };
        Some(Parts {
            product: kernels::Product { work, epilogue, bias, native_dot: p.native },
            tiling,
            push,
            bindings,
            label: format!("columns={columns} rows={rows} norm={norm} epilogue={epilogue} bias={bias}"),
            expected,
        })
    }
}
