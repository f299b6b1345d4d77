//! Kernels that do several operations of one token.

use zinc_shaders::{Takes as _, fused_attention, fused_matvec};

use super::{built, dispatch};
use crate::model::{Config, Pairing};
use crate::plan::{CoopAttention, Cut, Dispatch, FusedTuning, Reach, Tiling, key_positions};

/// How a step of a chain waits for what the step before hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Whether it does at all; not in the control.
    pub waits: bool,
    /// Looks at a word after which it gives up.
    pub spins: u32,
}

impl Waiting {
    /// As the shaders have it.
    pub(crate) fn new(waits: bool) -> Self {
        Self { waits, spins: fused_matvec::Constants::SPINS }
    }
}

/// A fused matrix-vector step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub work: Cut,
    /// As the kernel's `EPILOGUE`.
    pub epilogue: u32,
    pub bias: bool,
    /// Whether by the device's own dot product of bytes.
    pub native_dot: bool,
}

/// A fused matrix-vector step, cut like this; of a chain if it waits.
pub(crate) fn product<B>(
    Product { work, epilogue, bias, native_dot }: Product,
    tiling: &Tiling,
    waiting: Option<Waiting>,
    push: fused_matvec::Push,
    bindings: fused_matvec::Bindings<B>,
) -> Dispatch<B> {
    let family = if waiting.is_some() { "chained_matvec" } else { "fused_matvec" };
    let constants = fused_matvec::Constants {
        workgroup: tiling.threads,
        rows: tiling.rows,
        columns: work.columns,
        units: tiling.units,
        norm: work.norm,
        epilogue,
        bias,
        groups: tiling.activations,
        partials: tiling.partials,
        squares: tiling.squares,
        others: fused_matvec::Constants::OTHERS,
        lanes: tiling.lanes,
        waits: waiting.map(|w| w.waits),
        spins: waiting.map(|w| w.spins),
    };
    let call = push.call(built(family, work.ty, native_dot), constants, bindings);
    Dispatch::new(call, [tiling.groups, 1])
}

/// What attention kernels are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heads {
    pub head_dim: u32,
    /// Query heads that share a key.
    pub group: u32,
    pub rope_dim: u32,
    pub pairing: Pairing,
    pub qk_norm: bool,
}

impl Heads {
    /// Those of a model, with norms of queries and keys or without.
    pub(crate) fn of(c: &Config, qk_norm: bool) -> Self {
        let Config { head_dim, rope_dim, pairing, .. } = *c;
        Self { head_dim, group: c.heads / c.kv_heads, rope_dim, pairing, qk_norm }
    }
}

/// What fused attention computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// Floats, by this many invocations a workgroup.
    Floats {
        /// Invocations.
        threads: u32,
    },
    /// Cooperative matrices.
    Matrices(CoopAttention),
}

/// Fused attention; of a chain if it waits.
pub(crate) fn attention<B>(
    heads: &Heads,
    arithmetic: Arithmetic,
    tuning: &FusedTuning,
    waiting: Option<Waiting>,
    push: fused_attention::Push,
    bindings: fused_attention::Bindings<B>,
) -> Dispatch<B> {
    let (workgroup, tile, coop) = match arithmetic {
        Arithmetic::Floats { threads } => (threads, tuning.tile, None),
        Arithmetic::Matrices(coop) => (coop.threads, coop.tile, Some(coop.fragment)),
    };
    let build = match (waiting, coop) {
        (None, None) => fused_attention::Build::FUSED_ATTENTION,
        (None, Some(_)) => fused_attention::Build::FUSED_ATTENTION_COOP,
        (Some(_), None) => fused_attention::Build::CHAINED_ATTENTION,
        (Some(_), Some(_)) => fused_attention::Build::CHAINED_ATTENTION_COOP,
    };
    let constants = fused_attention::Constants {
        workgroup,
        head_dim: heads.head_dim,
        group: heads.group,
        rope_dim: heads.rope_dim,
        neox: heads.pairing == Pairing::Halves,
        qk_norm: heads.qk_norm,
        tile,
        positions: coop.is_none().then(|| key_positions(heads.group, tuning)),
        subgroup: coop.map(|fragment| fragment.subgroup),
        m: coop.map(|fragment| fragment.m),
        n: coop.map(|fragment| fragment.n),
        k: coop.map(|fragment| fragment.k),
        waits: waiting.map(|w| w.waits),
        spins: waiting.map(|w| w.spins),
    };
    let reach = Some(Reach { axis: 1, positions: tile });
    Dispatch { reach, ..dispatch(build, constants, 1, push, bindings) }
}
