//! The grid of each kernel, and dispatches of those for which nothing else is to be decided.

use zinc_shaders::{
    Takes, activation, advance, angles, batch_attention, batch_halves, batch_last, batch_rope, batch_rows,
    begin_chain, best, fused_attention, kv_write, matmul, pairwise, rms_norm, rms_norm_rows, rope, rowwise,
    scale, scores, softcap, softmax, stream, weighted_sum,
};

use crate::model::{Activation, Pairing};
use crate::plan::{Dispatch, Reach};

/// Rows of a matrix that a workgroup of the matrix kernel takes, as in matmul.comp.
const TILE_ROWS: u32 = 64;

/// The push constants of a kernel whose grid follows from them, and from one number that the caller knows.
pub(crate) trait Gridded: Takes {
    /// Workgroups along x and y. `over` says how many have so many invocations; `rows` is what the caller counts: rows, heads,
    /// tokens, parts.
    fn grid(&self, over: impl Fn(u32) -> u32, rows: u32) -> [u32; 2];
}

macro_rules! grids {
    ($($kernel:ident, |$push:pat_param, $over:pat_param, $rows:pat_param| $grid:expr;)*) => {
        $(impl Gridded for $kernel::Push {
            fn grid(&self, $over: impl Fn(u32) -> u32, $rows: u32) -> [u32; 2] {
                let $push = self;
                $grid
            }
        })*
    };
}

grids! {
    activation, |p, over, _| [over(p.count), 1];
    advance, |_, _, _| [1, 1];
    angles, |p, over, _| [over(p.pairs), 1];
    batch_attention, |p, over, tokens| [p.heads, over(4 * tokens)];
    batch_halves, |_, _, tokens| [tokens, 1];
    batch_last, |p, over, _| [over(p.width), 1];
    batch_rope, |p, over, tokens| [over(p.heads * p.head_dim / 2), tokens];
    batch_rows, |p, over, tokens| [over(p.columns.div_ceil(16)), tokens];
    begin_chain, |p, over, _| [over(p.count), 1];
    best, |_, _, parts| [parts, 1];
    fused_attention, |p, _, _| [p.kv_heads, p.splits];
    kv_write, |p, over, _| [over(p.count), 1];
    matmul, |p, over, tokens| [p.rows.div_ceil(TILE_ROWS), over(4 * tokens)];
    pairwise, |p, over, _| [over(p.count), 1];
    rms_norm, |_, _, _| [1, 1];
    rms_norm_rows, |_, _, rows| [rows, 1];
    rope, |p, over, _| [over(p.heads * p.head_dim / 2), 1];
    rowwise, |p, over, _| [over(p.count), 1];
    scale, |p, over, _| [over(p.count), 1];
    scores, |p, over, _| [over(p.context), p.heads];
    softcap, |p, over, _| [over(p.count), 1];
    softmax, |_, _, heads| [heads, 1];
    stream, |p, over, _| [over(p.count).div_ceil(16), 1];
    weighted_sum, |p, over, _| [over(p.heads * p.head_dim), 1];
}

/// A dispatch of such a kernel: `()` for the only one that takes this, or which of several; the size of the workgroup where it is
/// the only constant.
pub(crate) fn dispatch<P: Gridded, B>(
    build: impl Into<P::Build>,
    constants: impl Into<P::Constants>,
    rows: u32,
    push: P,
    bindings: P::Bindings<B>,
) -> Dispatch<B> {
    let call = push.call(build.into(), constants.into(), bindings);
    let grid = push.grid(|count| count.div_ceil(call.workgroup()), rows);
    Dispatch::new(call, grid)
}

impl From<Activation> for activation::Build {
    fn from(function: Activation) -> Self {
        match function {
            Activation::Silu => Self::SILU,
            Activation::Gelu => Self::GELU,
        }
    }
}

impl From<Pairing> for rope::Build {
    fn from(pairing: Pairing) -> Self {
        match pairing {
            Pairing::Neighbours => Self::ROPE,
            Pairing::Halves => Self::ROPE_NEOX,
        }
    }
}

/// Queries times keys, a row of positions for each head.
pub(crate) fn scores<B>(workgroup: u32, push: scores::Push, bindings: scores::Bindings<B>) -> Dispatch<B> {
    let reach = Some(Reach { axis: 0, positions: workgroup });
    Dispatch { reach, ..dispatch((), workgroup, 1, push, bindings) }
}
