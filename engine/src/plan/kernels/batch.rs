//! Kernels for all tokens of a batch.

use zinc_shaders::{
    batch_attention, batch_halves, batch_kv_write, batch_kv_write_blocks, batch_last, batch_rope, batch_rows,
    matmul, matmul_coop,
};

use super::of;
use crate::model::Pairing;
use crate::plan::{CoopTile, Dispatch, Error, Fragment};
use crate::quant::WeightType;

/// Rows of a matrix that a workgroup of the matrix kernel takes, as in matmul.comp.
const TILE_ROWS: u32 = 64;

/// The rows of a table that the tokens name.
pub(crate) fn batch_rows<B>(
    ty: WeightType,
    workgroup: u32,
    batch: u32,
    push: batch_rows::Push,
    bindings: batch_rows::Bindings<B>,
) -> Dispatch<B> {
    let call = batch_rows::call(of("batch_rows", ty), batch_rows::Constants { workgroup }, push, bindings);
    Dispatch::over_rows(call, push.columns.div_ceil(16), batch)
}

/// The last token's vector of `width` elements.
pub(crate) fn batch_last<B>(workgroup: u32, width: u32, bindings: batch_last::Bindings<B>) -> Dispatch<B> {
    let constants = batch_last::Constants { workgroup };
    Dispatch::over(batch_last::call(constants, batch_last::Push { width }, bindings), width)
}

/// The rotation of each head of each token.
pub(crate) fn batch_rope<B>(
    pairing: Pairing,
    workgroup: u32,
    batch: u32,
    push: batch_rope::Push,
    bindings: batch_rope::Bindings<B>,
) -> Dispatch<B> {
    let constants = batch_rope::Constants { workgroup, neox: pairing == Pairing::Halves };
    let call = batch_rope::call(constants, push, bindings);
    Dispatch::over_rows(call, push.heads * push.head_dim / 2, batch)
}

/// Keys or values of all tokens into a cache of floats, or of halves.
pub(crate) fn batch_kv_write<B>(
    build: batch_kv_write::Build,
    workgroup: u32,
    batch: u32,
    push: batch_kv_write::Push,
    bindings: batch_kv_write::Bindings<B>,
) -> Dispatch<B> {
    let each = if build == batch_kv_write::Build::BATCH_KV_WRITE_FLOATS { 4 } else { 8 };
    let call = batch_kv_write::call(build, batch_kv_write::Constants { workgroup }, push, bindings);
    Dispatch::over_rows(call, push.kv_heads * push.head_dim / each, batch)
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
    let call = batch_kv_write_blocks::call(constants, push, bindings);
    // A batch may begin within a block.
    Dispatch::over_rows(call, push.kv_heads * push.head_dim * positions / 2, batch.div_ceil(positions) + 1)
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
    let grid = [push.heads, batch.div_ceil(workgroup / 4)];
    Dispatch::new(batch_attention::call(build, constants, push, bindings), grid)
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

/// Each token's vector of `columns` elements as halves, by at most `reduce` invocations.
pub(crate) fn batch_halves<B>(
    reduce: u32,
    batch: u32,
    columns: u32,
    bindings: batch_halves::Bindings<B>,
) -> Dispatch<B> {
    let workgroup = reduce.min((columns / 4).next_power_of_two().max(4));
    let constants = batch_halves::Constants { workgroup };
    Dispatch::new(batch_halves::call(constants, batch_halves::Push { columns }, bindings), [batch, 1])
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
    let call = matmul::call(of("matmul", ty), matmul::Constants { workgroup }, push, bindings);
    Dispatch::new(call, [push.rows.div_ceil(TILE_ROWS), batch.div_ceil(workgroup / 4)])
}

/// The same on cooperative matrices.
pub(crate) fn matmul_coop<B>(
    ty: WeightType,
    tile: &CoopTile,
    batch: u32,
    push: matmul_coop::Push,
    bindings: matmul_coop::Bindings<B>,
) -> Dispatch<B> {
    let call = matmul_coop::call(of("matmul_coop", ty), tile.constants(), push, bindings);
    Dispatch::new(call, tile.grid(push.rows, batch))
}
