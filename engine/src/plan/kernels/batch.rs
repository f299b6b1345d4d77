//! Kernels that multiply matrices, and those for all tokens of a batch.

use zinc_shaders::{
    Takes as _, batch_attention, batch_kv_write, batch_kv_write_blocks, matmul, matmul_coop, matvec,
};

use super::{of, plain};
use crate::plan::{CoopTile, Dispatch, Error, Fragment, Shape};
use crate::quant::WeightType;

/// Keys or values of all tokens into a cache of floats, or of halves.
pub(crate) fn batch_kv_write<B>(
    build: batch_kv_write::Build,
    workgroup: u32,
    batch: u32,
    push: batch_kv_write::Push,
    bindings: batch_kv_write::Bindings<B>,
) -> Dispatch<B> {
    let each = if build == batch_kv_write::Build::BATCH_KV_WRITE_FLOATS { 4 } else { 8 };
    let call = push.call(build, workgroup.into(), bindings);
    Dispatch::over(call, push.kv_heads * push.head_dim / each, batch)
}

/// The same into a cache of blocks that are factors on cooperative matrices.
pub(crate) fn batch_kv_write_blocks<B>(
    values: bool,
    Fragment { m, k, .. }: Fragment,
    workgroup: u32,
    batch: u32,
    push: batch_kv_write_blocks::Push,
    bindings: batch_kv_write_blocks::Bindings<B>,
) -> Dispatch<B> {
    let constants = batch_kv_write_blocks::Constants { workgroup, values, m, k };
    let positions = if values { k } else { m };
    let call = push.call(().into(), constants, bindings);
    // A batch may begin within a block.
    Dispatch::over(call, push.kv_heads * push.head_dim * positions / 2, batch.div_ceil(positions) + 1)
}

/// How the cache lies that the attention of a batch reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheOf {
    /// Floats, by position.
    Floats,
    /// Halves, by head.
    Halves,
    /// Halves in blocks of this shape's first factor.
    Blocks(Fragment),
}

/// Attention of all tokens, by workgroups of so many invocations as [`batch_attention_workgroup`] says.
pub(crate) fn batch_attention<B>(
    cache: CacheOf,
    head_dim: u32,
    workgroup: u32,
    batch: u32,
    push: batch_attention::Push,
    bindings: batch_attention::Bindings<B>,
) -> Dispatch<B> {
    let (build, block) = match cache {
        CacheOf::Floats => (batch_attention::Build::BATCH_ATTENTION_FLOATS, None),
        CacheOf::Halves => (batch_attention::Build::BATCH_ATTENTION_HALVES, None),
        CacheOf::Blocks(fragment) => (batch_attention::Build::BATCH_ATTENTION_BLOCKS, Some(fragment)),
    };
    let (m, k) = (block.map(|block| block.m), block.map(|block| block.k));
    let constants = batch_attention::Constants { workgroup, head_dim, m, k };
    plain(build, constants, batch, push, bindings)
}

/// Invocations of batched attention: as many queries as the shared memory holds, 32 at most.
pub(crate) fn batch_attention_workgroup(head_dim: u32, shared_memory: u32) -> Result<u32, Error> {
    let quads = head_dim / 4;
    let bytes = |queries: u32| 16 * (queries * quads + 16 * (quads + 1)) + 2 * 4 * 16 * queries;
    let fitting = [32, 16, 8, 4].into_iter().find(|queries| bytes(*queries) <= shared_memory);
    fitting
        .map(|queries| 4 * queries)
        .ok_or_else(|| Error::Unfused { step: "attention of a batch".to_owned(), columns: head_dim })
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
    plain(of::<matmul::Build>("matmul", ty), workgroup, batch, push, bindings)
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
