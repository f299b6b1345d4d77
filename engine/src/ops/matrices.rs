//! Cases of the kernels that read weights: each format, straight from blocks as a file has them.

use zinc_shaders as k;

use super::cases::{Maker, SIGN, U, some, summation_depth};
use super::{Case, Input, input};
use crate::plan::kernels;
use crate::quant::{SUPER_BLOCK, WeightType, dequantize_row, repack};
use crate::reference;

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    for ty in WeightType::ALL {
        let wide = ty.block_elements() == SUPER_BLOCK as u64;
        let extra: &[(u32, u32)] = if ty.is_quantized() { &[] } else { &[(4, 1), (36, 5), (100, 9)] };
        let shapes: &[(u32, u32)] = if wide {
            &[(256, 257), (256, 1), (512, 3), (768, 7), (1024, 33), (4096, 5), (14336, 3)]
        } else {
            &[(192, 257), (32, 1), (64, 3), (96, 7), (576, 192), (1024, 33), (4096, 5), (14336, 3)]
        };
        cases.extend(shapes.iter().chain(extra).map(|&(columns, rows)| maker.matvec(ty, columns, rows)));
    }
    for ty in WeightType::ALL {
        let unit = if ty.block_elements() == SUPER_BLOCK as u64 { 8 } else { 1 };
        // Columns, rows, row, first row of the part.
        let shapes = [
            (192, 257, 256, 0),
            (32, 1, 0, 0),
            (32, 7, 3, 64),
            (64, 5, 4, 0),
            (576, 9, 1, 192),
            (4096, 3, 2, 1),
        ];
        let case = |(columns, rows, row, first): (u32, u32, u32, u32)| {
            let columns = if columns < 1024 { columns * unit } else { columns };
            maker.get_rows(ty, columns, rows, first + row, first)
        };
        cases.extend(shapes.map(case));
        // A token of another part: nothing may be written.
        cases.push(maker.get_rows(ty, 32 * unit, 5, 63, 64));
        cases.push(maker.get_rows(ty, 32 * unit, 5, 69, 64));
    }
}

/// Offsets of the halves in a block.
fn halves(ty: WeightType) -> &'static [usize] {
    match ty {
        WeightType::F32 | WeightType::F16 | WeightType::BF16 => &[],
        WeightType::Q8_0 | WeightType::Q5_0 | WeightType::Q4_0 => &[0],
        WeightType::Q4_1 | WeightType::Q4_K => &[0, 2],
        WeightType::Q6_K => &[208],
    }
}

/// For each weight of `blocks` the size of what its kernel adds up: where a minimum is subtracted, product and minimum
/// count separately, since they may cancel.
pub(super) fn magnitudes(ty: WeightType, blocks: &[u8], weights: &[f32]) -> Vec<f64> {
    let size = ty.block_bytes();
    let header = match ty {
        WeightType::Q4_1 => 4,
        WeightType::Q4_K => 16,
        _ => return weights.iter().map(|w| f64::from(w.abs())).collect(),
    };
    let mut zeroed = blocks.to_vec();
    zeroed.chunks_exact_mut(size).for_each(|block| block[header..].fill(0));
    let mut minimums = Vec::new();
    dequantize_row(ty, &zeroed, &mut minimums);
    let parts = |(w, m): (&f32, &f32)| f64::from(w - m).abs() + f64::from(m.abs());
    weights.iter().zip(&minimums).map(parts).collect()
}

impl Maker {
    /// Blocks as they are in a file, with small, large and subnormal scales of either sign.
    pub(super) fn blocks(&mut self, ty: WeightType, elements: usize) -> Vec<u8> {
        match ty {
            WeightType::F32 => return bytemuck::cast_slice(&self.floats(elements)).to_vec(),
            WeightType::F16 => {
                return (0..elements).flat_map(|i| self.half(i % 7 == 6, 1.0).to_le_bytes()).collect();
            }
            WeightType::BF16 => {
                let floats = self.floats(elements);
                return floats.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
            }
            _ => {}
        }
        let mut data = Vec::new();
        for index in 0..elements / ty.block_elements() as usize {
            let mut block: Vec<u8> = (0..ty.block_bytes()).map(|_| self.rng.u8(..)).collect();
            for at in halves(ty) {
                block[*at..at + 2].copy_from_slice(&self.half(index % 5 == 4, 0.1).to_le_bytes());
            }
            data.extend(block);
        }
        data
    }

    fn half(&mut self, subnormal: bool, size: f32) -> half::f16 {
        if subnormal {
            return half::f16::from_bits(self.rng.u16(1..0x3ff));
        }
        half::f16::from_f32(self.floats(1)[0] * size)
    }

    /// What holds a matrix: quants and, where there are any, scales.
    pub(super) fn repacked(
        &self,
        ty: WeightType,
        data: &[u8],
        elements: usize,
    ) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut quants = vec![0; ty.quant_bytes(elements as u64) as usize];
        let mut scales = vec![0; ty.scale_bytes(elements as u64) as usize];
        repack(ty, data, &mut quants, &mut scales).expect("the cases have finite scales");
        (quants, Some(scales).filter(|scales| !scales.is_empty()))
    }

    /// The same as inputs, of which the control changes the sign of the first weight, or a high bit of the first scale.
    pub(super) fn matrix(&self, ty: WeightType, data: &[u8], elements: usize) -> (Input, Option<Input>) {
        match self.repacked(ty, data, elements) {
            (quants, None) => {
                let at = if ty == WeightType::F32 { SIGN } else { 1 };
                (input(&quants).flipped(at), None)
            }
            (quants, Some(scales)) => (input(&quants), Some(input(&scales).flipped(1))),
        }
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
            let terms: f64 =
                magnitudes(ty, row, &w).iter().zip(&x).map(|(w, x)| w * f64::from(x.abs())).sum();
            // The reference rounds each weight, the kernel does not, but scales its sums up to three times: ten more u
            // hold all of that for any format.
            some(reference::dot(&w, &x), (depth + 10.0) * U * terms)
        });
        let expected = expected.collect();
        let (quants, scales) = self.matrix(ty, &data, elements);
        let bindings = k::matvec::Bindings { quants, scales, x: input(&x), result: Input::Result };
        let dispatch = kernels::matvec(ty, shape, [columns, rows], 65535, bindings);
        Case::new(format!("columns={columns} rows={rows}"), dispatch, expected)
    }

    /// `token` counts from the beginning of the table, of which this is the part from `first` on.
    fn get_rows(&mut self, ty: WeightType, columns: u32, rows: u32, token: u32, first: u32) -> Case {
        let elements = (columns * rows) as usize;
        let data = self.blocks(ty, elements);
        let row_bytes = data.len() / rows as usize;
        let row = token.wrapping_sub(first);
        let expected = if row < rows {
            let blocks = &data[row as usize * row_bytes..][..row_bytes];
            let mut weights = Vec::new();
            dequantize_row(ty, blocks, &mut weights);
            // Floats are moved; one product is one rounding, to nearest, or by an implementation's leave within one ULP;
            // and there are up to four with two levels of scales or a minimum, in kernel and definition.
            let relative = match ty {
                WeightType::F32 | WeightType::F16 | WeightType::BF16 => 0.0,
                WeightType::Q8_0 | WeightType::Q5_0 | WeightType::Q4_0 => 2.0,
                WeightType::Q4_1 | WeightType::Q6_K | WeightType::Q4_K => 12.0,
            };
            let sizes = magnitudes(ty, blocks, &weights);
            weights.iter().zip(sizes).map(|(v, size)| some(f64::from(*v), relative * U * size)).collect()
        } else {
            vec![None; columns as usize]
        };
        let (quants, scales) = self.repacked(ty, &data, elements);
        let last = (row.min(rows - 1) as usize + 1) * (quants.len() / rows as usize) - 1;
        let bindings = k::get_rows::Bindings {
            step: Input::Step(vec![0, token]),
            quants: input(&quants).flipped(last),
            scales: scales.map(|scales| input(&scales)),
            result: Input::Result,
        };
        let push = k::get_rows::Push { columns, first_row: first, rows };
        let dispatch = kernels::get_rows(ty, self.tuning.element, push, bindings);
        Case::new(format!("columns={columns} rows={rows} token={token} first={first}"), dispatch, expected)
    }
}
