//! Kernels that read a matrix of weights, one for each format, and what makes vectors ready for them.

use zinc_shaders::{Takes as _, batch_halves, get_rows, matmul, matmul_coop, matvec};

use super::{dispatch, of};
use crate::plan::{CoopTile, Dispatch, Shape};
use crate::quant::WeightType;

/// The row of a table that the step's token names.
pub(crate) fn get_rows<B>(
    ty: WeightType,
    workgroup: u32,
    push: get_rows::Push,
    bindings: get_rows::Bindings<B>,
) -> Dispatch<B> {
    let each = match ty {
        WeightType::F32 => 1,
        WeightType::F16 | WeightType::BF16 | WeightType::Q8_0 => 4,
        WeightType::Q5_0 | WeightType::Q4_1 | WeightType::Q4_0 | WeightType::Q4_K => 8,
        WeightType::Q6_K => 16,
    };
    Dispatch::over(push.call(of("get_rows", ty), workgroup.into(), bindings), push.columns / each, 1)
}

/// Each token's vector as halves, by at most `reduce` invocations.
pub(crate) fn batch_halves<B>(
    reduce: u32,
    batch: u32,
    push: batch_halves::Push,
    bindings: batch_halves::Bindings<B>,
) -> Dispatch<B> {
    dispatch((), reduce.min((push.columns / 4).next_power_of_two().max(4)), batch, push, bindings)
}

/// A matrix times one vector: workgroups along x first, at most `most_x`, then along y.
pub(crate) fn matvec<B>(
    ty: WeightType,
    Shape { workgroup, rows: each }: Shape,
    [columns, rows]: [u32; 2],
    most_x: u32,
    bindings: matvec::Bindings<B>,
) -> Dispatch<B> {
    let groups = rows.div_ceil(each);
    let grid_x = groups.min(most_x).max(1);
    let constants = matvec::Constants { workgroup, rows: each };
    let call = matvec::Push { columns, rows, grid_x }.call(of("matvec", ty), constants, bindings);
    Dispatch::new(call, [grid_x, groups.div_ceil(grid_x)])
}

/// A matrix times all vectors. Four invocations for each token of a tile: a GPU's workgroups take 64 tokens, a CPU's 16.
pub(crate) fn matmul<B>(
    ty: WeightType,
    reduce: u32,
    batch: u32,
    push: matmul::Push,
    bindings: matmul::Bindings<B>,
) -> Dispatch<B> {
    let workgroup = if reduce >= 64 { 256 } else { 64 };
    dispatch(of::<matmul::Build>("matmul", ty), workgroup, batch, push, bindings)
}

/// The same on cooperative matrices.
pub(crate) fn matmul_coop<B>(
    ty: WeightType,
    tile: &CoopTile,
    batch: u32,
    push: matmul_coop::Push,
    bindings: matmul_coop::Bindings<B>,
) -> Dispatch<B> {
    let call = push.call(of("matmul_coop", ty), tile.constants(), bindings);
    Dispatch::new(call, tile.grid(push.rows, batch))
}
