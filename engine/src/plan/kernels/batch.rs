//! The cache of keys and values, and attention, for all tokens of a batch.

use zinc_shaders::{Takes as _, batch_attention, batch_kv_write, batch_kv_write_blocks};

use super::dispatch;
use crate::plan::{Dispatch, Error, Fragment};

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
    dispatch(build, constants, batch, push, bindings)
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
