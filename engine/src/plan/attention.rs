//! How attention is cut where it is one dispatch: splits of the context, invocations of a workgroup, shared memory.
//!
//! What does not fit into a device's workgroups is cut smaller before it is planned unfused, since that costs ten dispatches a
//! layer. The sizes are those that fused/attention.glsl works out from its constants.

use super::{Arena, Fragment, FusedTuning, Fusion, Limits, Options, Space, Span, rope_tables};
use crate::model::Config;

/// Query heads that share a key/value head, at most: each takes eight registers of an invocation.
const MOST_GROUP: u32 = 8;

/// Splits of one key/value head's attention, at most.
pub(super) fn splits(c: &Config, options: &Options) -> u32 {
    let tuning = options.tuning.fused;
    if let Some(coop) = coop_attention(c, options) {
        return coop.splits(c.kv_heads, options.context, &tuning);
    }
    let most = options.context.div_ceil(tuning.tile);
    // Where a group is large, merging its splits costs more than a second tile does.
    let wide = if c.heads / c.kv_heads * c.head_dim >= 512 { 2 } else { 1 };
    (tuning.attention_groups / wide / c.kv_heads).clamp(1, most.max(1))
}

/// Whether attention can be fused, and so the cache holds halves.
pub(super) fn fuses_attention(c: &Config, options: &Options) -> bool {
    let t = options.tuning.fused;
    let group = c.heads / c.kv_heads;
    options.fusion.parts().attention
        && c.head_dim.is_multiple_of(8)
        && group <= MOST_GROUP
        && (coop_attention(c, options).is_some()
            || fitting_attention(group, c.head_dim, &t, &options.limits).is_some())
}

/// Positions that the cache has room for: the context, or somewhat more where it is read in blocks.
pub(super) fn cache_positions(c: &Config, options: &Options) -> u32 {
    coop_attention(c, options).map_or(options.context, |coop| options.context.next_multiple_of(coop.tile))
}

/// Attention on cooperative matrices, where the options name their shape and the model's heads fit it. The resident kernel does
/// without.
pub(super) fn coop_attention(c: &Config, options: &Options) -> Option<CoopAttention> {
    let fragment = options
        .attention
        .filter(|_| options.fusion.parts().attention && options.fusion != Fusion::Persistent)?;
    CoopAttention::new(c.heads / c.kv_heads, c.head_dim, fragment, &options.tuning.fused, &options.limits)
}

/// Where the order of a block's elements lies, behind the tables of rotations: the place of each slot, then the slot of each place.
pub(crate) fn block_order(c: &Config, context: u32, limits: &Limits, fragment: Fragment) -> Span {
    let mut constants = Arena::new(Space::Constants, limits);
    let tables = rope_tables(c, context, limits);
    constants.take(tables.iter().map(|table| table.offset + table.bytes).max().unwrap_or(0));
    constants.take(8 * u64::from(fragment.m * fragment.k))
}

/// What lies there, for a device with these places of slots.
pub(crate) fn block_order_words(places: &[u32]) -> Vec<u32> {
    let mut words = [places, places].concat();
    for (slot, place) in (0..).zip(places) {
        words[places.len() + *place as usize] = slot;
    }
    words
}

/// The sizes of fused_attention_coop.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoopAttention {
    /// What a subgroup multiplies at once.
    pub fragment: Fragment,
    /// Positions of a tile.
    pub tile: u32,
    /// Invocations: a subgroup for each block of the head's dimensions.
    pub threads: u32,
    /// Bytes of the shared arrays.
    pub shared_bytes: u32,
}

impl CoopAttention {
    /// The kernel for so many query heads to a key; none where it does not fit a workgroup or the head is not whole blocks.
    pub(crate) fn new(
        group: u32,
        head_dim: u32,
        fragment: Fragment,
        tuning: &FusedTuning,
        limits: &Limits,
    ) -> Option<Self> {
        let Fragment { m, n, k, subgroup } = fragment;
        let whole = [m, k, 8].iter().all(|size| head_dim.is_multiple_of(*size))
            && k.is_multiple_of(8)
            && m.is_multiple_of(k);
        if !whole || group > MOST_GROUP {
            return None;
        }
        let tile = tuning.tile.next_multiple_of(head_dim);
        let threads = head_dim / m * subgroup;
        let (quads, columns, merge_heads) = (head_dim / 4, (2 * group).next_multiple_of(n), group.min(2));
        let shared_bytes = (group + 2) * quads * (16 + 4 + 16)
            + columns * (16 * (head_dim / 8 + 1) + 16 * (tile / 4 + 1) + 16 * (tile / 8 + 1))
            + head_dim / m * columns * 4 * m
            + 2 * m * k
            + 12 * group
            + merge_heads * (8 * (threads / quads) + 32 * threads)
            + 4;
        let fits = threads <= limits.workgroup && shared_bytes <= limits.shared_memory;
        fits.then_some(Self { fragment, tile, threads, shared_bytes })
    }

    /// Splits of one key/value head: as many as `attention_groups` says for workgroups of 128 invocations, half of them where a
    /// workgroup is twice as large and one more split costs more to merge than a second tile takes.
    pub(crate) fn splits(&self, kv_heads: u32, context: u32, tuning: &FusedTuning) -> u32 {
        let wide = (self.threads / 128).max(1);
        (tuning.attention_groups / wide / kv_heads).clamp(1, context.div_ceil(self.tile))
    }
}

/// The attention kernel in a dispatch of its own, with as many invocations as the tuning asks for, or half of them as often as it
/// takes to fit into a device's workgroups and their shared memory; none if it does not. Many narrow heads: half the invocations hold
/// as much each, and merge less. The resident kernel has one size for all steps.
pub(crate) fn fitting_attention(
    group: u32,
    head_dim: u32,
    tuning: &FusedTuning,
    limits: &Limits,
) -> Option<AttentionShape> {
    let most = tuning.attention_threads;
    let most = if group >= 4 && head_dim <= 64 { most.min(128) } else { most };
    std::iter::successors(Some(most), |threads| Some(threads / 2).filter(|threads| *threads >= 32))
        .map(|threads| attention_shape(group, head_dim, threads, tuning))
        .find(|shape| {
            let shared = shape.shared_bytes + 4 * shape.merge_floats;
            shape.threads <= limits.workgroup && shared <= limits.shared_memory
        })
}

/// Sizes of the attention kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttentionShape {
    /// Invocations: enough that each quad of a head's result has one.
    pub threads: u32,
    /// Bytes of the shared arrays that attention.glsl declares.
    pub shared_bytes: u32,
    /// Floats of the shared array that the including file declares.
    pub merge_floats: u32,
}

/// The attention kernel for a group of query heads, as attention.glsl declares it.
pub(crate) fn attention_shape(
    group: u32,
    head_dim: u32,
    threads: u32,
    tuning: &FusedTuning,
) -> AttentionShape {
    let tile = tuning.tile;
    let threads = threads.max(tile).max((head_dim / 4).next_power_of_two());
    let merge_heads = group.min(2);
    let position_groups = threads / (head_dim / 8).max(1);
    let dim_groups = threads / (tile / key_positions(group, tuning));
    AttentionShape {
        threads,
        shared_bytes: 4
            * (2 * (group + 2) * head_dim
                + (group + 1) * 8
                + group * dim_groups * tile
                + group * tile
                + group * 8
                + position_groups * merge_heads
                + 2 * threads / (head_dim / 4).max(1) * merge_heads
                + 1),
        merge_floats: 8 * threads * merge_heads,
    }
}

/// Positions whose keys an invocation has: as many as asked for where a tile has a multiple of them and many query heads share a
/// key. With two heads it made a token of Qwen3-0.6B's shape a tenth longer on an NVIDIA H200, with four up to 2% shorter.
pub(crate) fn key_positions(group: u32, tuning: &FusedTuning) -> u32 {
    let fits = group >= 4 && tuning.tile.is_multiple_of(tuning.key_positions);
    if fits { tuning.key_positions } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Tuning;

    #[test]
    fn attention_on_cooperative_matrices_has_a_subgroup_for_each_block_of_a_head_or_is_not_there() {
        let tuning = Tuning::GPU.fused;
        let limits = Limits { shared_memory: 49_152, workgroup: 1024, ..Limits::TYPICAL };
        let nvidia = Fragment { m: 16, n: 8, k: 16, subgroup: 32 };
        let coop = |group, head_dim| CoopAttention::new(group, head_dim, nvidia, &tuning, &limits);
        let wide = coop(4, 128).unwrap();
        assert_eq!((wide.threads, wide.tile), (256, 128));
        // The arrays of the shader, by hand: vectors, queries, scores, weights, products, places, three words a head, and the merge's.
        let by_hand =
            192 * 36 + 8 * 17 * 16 + 8 * 33 * 16 + 8 * 17 * 16 + 8 * 8 * 64 + 512 + 48 + (128 + 16_384) + 4;
        assert_eq!(wide.shared_bytes, by_hand);
        let narrow = coop(4, 64).unwrap();
        assert_eq!((narrow.threads, narrow.tile), (128, 128));
        // 4096 positions and some are 33 tiles: one for each of 33 narrow workgroups, two for most of 17 wide ones.
        assert_eq!((narrow.splits(8, 4224, &tuning), wide.splits(8, 4224, &tuning)), (33, 17));
        assert_eq!(coop(4, 40), None, "no whole blocks");
        assert_eq!(coop(9, 64), None, "too many heads");
        let small = Limits { shared_memory: 16_384, ..limits };
        assert_eq!(CoopAttention::new(4, 128, nvidia, &tuning, &small), None);
    }

    #[test]
    fn attention_takes_fewer_invocations_where_it_would_not_fit_else() {
        let tuning = Tuning::GPU.fused;
        let threads = |group, head_dim, shared_memory| {
            let limits = Limits { shared_memory, workgroup: 1024, ..Limits::TYPICAL };
            fitting_attention(group, head_dim, &tuning, &limits).map(|shape| {
                let bytes = shape.shared_bytes + 4 * shape.merge_floats;
                assert!(bytes <= shared_memory, "{bytes} bytes of {shared_memory}");
                shape.threads
            })
        };
        // Qwen3-4B: 48 KB on an NVIDIA H200, 64 on RADV, 32 on an M1, where it was planned unfused.
        assert_eq!(threads(4, 128, 49_152), Some(256));
        assert_eq!(threads(4, 128, 32_768), Some(128));
        assert_eq!(threads(4, 64, 49_152), Some(128), "many narrow heads");
        assert_eq!(threads(2, 128, 32_768), Some(256));
        assert_eq!(threads(8, 256, 16_384), None);
        let few = Limits { workgroup: 128, ..Limits::TYPICAL };
        assert_eq!(fitting_attention(2, 64, &tuning, &few).map(|shape| shape.threads), Some(128));
    }
}
