//! Cases of the kernels that multiply a matrix with all vectors of a batch, with float arithmetic and on cooperative matrices, and
//! of the one that makes halves of the vectors for the latter.

use half::f16;
use zinc_shaders as k;

use super::cases::{Maker, SIGN, U, some};
use super::matrices::magnitudes;
use super::{Case, Input, input};
use crate::plan::{CoopTile, CoopTuning, Cooperative, Fragment, Tuning, kernels};
use crate::quant::{SUPER_BLOCK, WeightType, dequantize_row};
use crate::reference;

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    for ty in WeightType::ALL {
        let wide = ty.block_elements() == SUPER_BLOCK as u64;
        // Columns, rows, tokens of the batch, tokens that the plan allows: tiles are 32 columns, 64 rows, 16 or 64 tokens.
        let shapes: &[(u32, u32, u32, u32)] = if wide {
            &[(256, 67, 5, 7), (512, 1, 1, 1), (768, 130, 66, 80)]
        } else {
            &[(96, 67, 5, 7), (32, 1, 1, 1), (576, 130, 66, 80)]
        };
        let extra: &[(u32, u32, u32, u32)] =
            if ty.is_quantized() { &[] } else { &[(4, 3, 2, 2), (100, 9, 17, 17)] };
        cases.extend(shapes.iter().chain(extra).map(|&shape| maker.matmul(ty, shape, None)));
    }
    if let Cooperative::Has(shapes) = maker.cooperative {
        cooperative(maker, shapes.product, cases);
    }
    let widths = [(576, 3, 5), (4, 1, 1), (36, 17, 17), (4100, 2, 3)];
    cases.extend(widths.map(|shape| maker.batch_halves(shape)));
}

/// Each format in a tile of the device's own, and one format in each of the tiles that fit it.
fn cooperative(maker: &mut Maker, fragment: Fragment, cases: &mut Vec<Case>) {
    // A driver with few invocations in step is one on a CPU: it takes minutes to compile large tiles, and chooses none.
    let own = if fragment.subgroup < 16 { CoopTuning::SMALLEST } else { maker.tuning.coop };
    let tiles =
        [(32, 32, 16, 16), (64, 64, 32, 16), (64, 128, 32, 32), (64, 128, 32, 64), (128, 128, 64, 32)];
    let tunings = tiles.into_iter().flat_map(|(rows, tokens, sub_rows, sub_tokens)| {
        [32, 64].map(|depth| CoopTuning { rows, tokens, sub_rows, sub_tokens, depth, ..own })
    });
    let mut tuned: Vec<(WeightType, CoopTuning)> = WeightType::ALL.map(|ty| (ty, own)).into();
    // Kernels stand together: the one format's tiles come right behind its own.
    let at = tuned.iter().position(|(ty, _)| *ty == WeightType::Q4_0).map_or(0, |at| at + 1);
    if own.largest > 0 {
        tuned.splice(at..at, tunings.map(|tuning| (WeightType::Q4_0, tuning)));
    }
    for (ty, coop) in tuned {
        let tuning = Tuning { coop, ..maker.tuning };
        let unit = if ty.block_elements() == SUPER_BLOCK as u64 { 8 } else { 1 };
        let mut shapes = vec![(96 * unit, 67, 5, 7), (32 * unit, 1, 1, 1), (64 * unit, 130, 66, 80)];
        if !ty.is_quantized() {
            shapes.extend([(4, 3, 2, 2), (100, 9, 17, 17)]);
        }
        for shape in shapes {
            if let Ok(tile) = CoopTile::choose(shape.1, shape.3, fragment, &tuning, &maker.limits) {
                cases.push(maker.matmul(ty, shape, Some(tile)));
            }
        }
    }
}

/// What batch_halves.comp makes of a vector: the factor that undoes its own, and halves in pairs of words.
fn halved(x: &[f32]) -> Vec<u32> {
    let most = x.iter().fold(0f32, |most, v| most.max(v.abs()));
    // A power of two 2^14 times below the largest element, and never a subnormal.
    let scale = f32::from_bits(((most.to_bits() >> 23).max(15) - 14) << 23);
    let mut words = vec![scale.to_bits(), 0, 0, 0];
    for octet in x.chunks(8) {
        let half = |i: usize| octet.get(i).map_or(0, |v| u32::from(f16::from_f32(v / scale).to_bits()));
        words.extend((0..4).map(|i| half(2 * i) | half(2 * i + 1) << 16));
    }
    words
}

impl Maker {
    /// With float arithmetic, or on cooperative matrices in this tile.
    fn matmul(
        &mut self,
        ty: WeightType,
        (columns, rows, tokens, batch): (u32, u32, u32, u32),
        tile: Option<CoopTile>,
    ) -> Case {
        let elements = (columns * rows) as usize;
        let data = self.blocks(ty, elements);
        // Halves hold the vectors exactly; the weights are rounded.
        let x = match tile {
            None => self.floats((columns * batch) as usize),
            Some(_) => self.halves((columns * batch) as usize),
        };
        let row_bytes = data.len() / rows as usize;
        let weights: Vec<(Vec<f32>, Vec<f64>)> = data
            .chunks_exact(row_bytes)
            .map(|row| {
                let mut w = Vec::new();
                dequantize_row(ty, row, &mut w);
                let sizes = magnitudes(ty, row, &w);
                (w, sizes)
            })
            .collect();
        // The whole matrix has five rows more, of which two come first; they belong to other dispatches.
        let (stride, first) = (rows + 5, 2);
        let mut expected = vec![None; (stride * batch) as usize];
        for (token, x) in x.chunks_exact(columns as usize).take(tokens as usize).enumerate() {
            for (row, (w, sizes)) in weights.iter().enumerate() {
                let terms: f64 = sizes.iter().zip(x).map(|(w, x)| w * f64::from(x.abs())).sum();
                // One invocation adds up the whole row; each weight is rounded up to three times, here and there.
                let mut tolerance = (f64::from(columns) + 14.0) * U * terms;
                if tile.is_some() {
                    // A weight becomes a half, to nearest or towards zero: within 2^-10 of it, or within the smallest half.
                    let size: f64 = x.iter().map(|x| f64::from(x.abs())).sum();
                    let weights: f64 = w.iter().zip(x).map(|(w, x)| f64::from((w * x).abs())).sum();
                    tolerance += weights / 1024.0 + size * 2f64.powi(-24);
                }
                let at = token * stride as usize + first as usize + row;
                expected[at] = some(reference::dot(w, x), tolerance);
            }
        }
        let (quants, scales) = self.matrix(ty, &data, elements);
        let (step, result) = (Input::Step(vec![0, tokens]), Input::Result);
        let dispatch = match &tile {
            None => {
                let push = k::matmul::Push { columns, rows, stride, first };
                let bindings = k::matmul::Bindings { batch: step, quants, scales, x: input(&x), result };
                kernels::matmul(ty, self.tuning.reduce, batch, push, bindings)
            }
            Some(tile) => {
                let words: Vec<u32> = x.chunks_exact(columns as usize).flat_map(halved).collect();
                let x = input(&words);
                let push = k::matmul_coop::Push { columns, rows, stride, first };
                let bindings = k::matmul_coop::Bindings { batch: step, quants, scales, x, result };
                kernels::matmul_coop(ty, tile, batch, push, bindings)
            }
        };
        let tile = tile.map_or(String::new(), |tile| format!(" {tile}"));
        let label = format!("columns={columns} rows={rows} tokens={tokens} batch={batch}{tile}");
        Case::new(label, dispatch, expected)
    }

    /// Vectors of very different sizes, and one of zeros: each is brought to the same size, and no bit of it is lost.
    fn batch_halves(&mut self, (columns, tokens, batch): (u32, u32, u32)) -> Case {
        let mut x = self.halves((columns * batch) as usize);
        for (token, x) in x.chunks_exact_mut(columns as usize).enumerate() {
            let size = if token == 1 { 0.0 } else { 2f32.powi([0, 0, 20, -40, 90, -100][token % 6]) };
            x.iter_mut().for_each(|v| *v *= size);
        }
        let each = 4 * (1 + columns.div_ceil(8) as usize);
        let words = x.chunks_exact(columns as usize).take(tokens as usize).flat_map(halved);
        // Words are compared as the floats whose bits they are.
        let mut expected: Vec<_> = words.map(|word| some(f64::from(f32::from_bits(word)), 0.0)).collect();
        expected.resize(each * batch as usize, None);
        let bindings = k::batch_halves::Bindings {
            batch: Input::Step(vec![0, tokens]),
            x: input(&x).flipped(SIGN),
            result: Input::Result,
        };
        let push = k::batch_halves::Push { columns };
        let dispatch = kernels::batch_halves(self.tuning.reduce, batch, push, bindings);
        Case::new(format!("columns={columns} tokens={tokens} batch={batch}"), dispatch, expected)
    }
}
