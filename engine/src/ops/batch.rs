//! Cases of the kernels that multiply a matrix with all vectors of a batch.

use super::Case;
use super::cases::{FLIP, Maker, U, bytes, some};
use super::matrices::magnitudes;
use crate::plan::{matmul_dispatch, matmul_shape};
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
        cases.extend(shapes.iter().chain(extra).map(|&shape| maker.matmul(ty, shape)));
    }
}

impl Maker {
    fn matmul(&mut self, ty: WeightType, (columns, rows, tokens, batch): (u32, u32, u32, u32)) -> Case {
        let shape = matmul_shape(self.tuning.reduce);
        let elements = (columns * rows) as usize;
        let data = self.blocks(ty, elements);
        let x = self.floats((columns * batch) as usize);
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
                let tolerance = (f64::from(columns) + 14.0) * U * terms;
                let at = token * stride as usize + first as usize + row;
                expected[at] = some(reference::dot(w, x), tolerance);
            }
        }
        let (kernel, grid) = matmul_dispatch(ty, rows, batch, shape);
        let mut inputs = self.repacked(ty, &data, elements);
        let scale_input = inputs.len() - 1;
        inputs.push(bytes(&x));
        Case {
            kernel,
            shape,
            label: format!("columns={columns} rows={rows} tokens={tokens} batch={batch}"),
            step: vec![0, tokens],
            push: vec![columns, rows, stride, first],
            grid,
            expected,
            constants: Vec::new(),
            control: (scale_input, if ty == WeightType::F32 { 3 } else { 1 }, FLIP),
            inputs,
        }
    }
}
