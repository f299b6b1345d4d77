//! Kernels that do one operation of one token.

use zinc_shaders::{
    activation, advance, angles, begin_chain, best, get_rows, kv_write, matvec, pairwise, rms_norm,
    rms_norm_rows, rope, rowwise, scale, scores, softcap, softmax, stream, weighted_sum,
};

use super::of;
use crate::model::{Activation, Pairing};
use crate::plan::{Dispatch, Reach, Shape};
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
    let call = get_rows::call(of("get_rows", ty), get_rows::Constants { workgroup }, push, bindings);
    Dispatch::over(call, push.columns / each)
}

/// A matrix of `rows` times one vector: workgroups along x first, at most `most_x`, then along y.
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
    let push = matvec::Push { columns, rows, grid_x };
    Dispatch::new(
        matvec::call(of("matvec", ty), constants, push, bindings),
        [grid_x, groups.div_ceil(grid_x)],
    )
}

/// Sums or products of two vectors of `count` elements.
pub(crate) fn pairwise<B>(
    build: pairwise::Build,
    workgroup: u32,
    count: u32,
    bindings: pairwise::Bindings<B>,
) -> Dispatch<B> {
    let constants = pairwise::Constants { workgroup };
    Dispatch::over(pairwise::call(build, constants, pairwise::Push { count }, bindings), count)
}

/// The same of each row of a matrix with one vector.
pub(crate) fn rowwise<B>(
    build: rowwise::Build,
    workgroup: u32,
    push: rowwise::Push,
    bindings: rowwise::Bindings<B>,
) -> Dispatch<B> {
    Dispatch::over(rowwise::call(build, rowwise::Constants { workgroup }, push, bindings), push.count)
}

/// The gate's function of `count` elements.
pub(crate) fn activation<B>(
    function: Activation,
    workgroup: u32,
    count: u32,
    bindings: activation::Bindings<B>,
) -> Dispatch<B> {
    let build = match function {
        Activation::Silu => activation::Build::SILU,
        Activation::Gelu => activation::Build::GELU,
    };
    let constants = activation::Constants { workgroup };
    Dispatch::over(activation::call(build, constants, activation::Push { count }, bindings), count)
}

/// A vector times a number.
pub(crate) fn scale<B>(workgroup: u32, push: scale::Push, bindings: scale::Bindings<B>) -> Dispatch<B> {
    Dispatch::over(scale::call(scale::Constants { workgroup }, push, bindings), push.count)
}

/// A vector brought below a bound.
pub(crate) fn softcap<B>(workgroup: u32, push: softcap::Push, bindings: softcap::Bindings<B>) -> Dispatch<B> {
    Dispatch::over(softcap::call(softcap::Constants { workgroup }, push, bindings), push.count)
}

/// RMS norm of a vector, in one workgroup.
pub(crate) fn rms_norm<B>(
    workgroup: u32,
    push: rms_norm::Push,
    bindings: rms_norm::Bindings<B>,
) -> Dispatch<B> {
    Dispatch::new(rms_norm::call(rms_norm::Constants { workgroup }, push, bindings), [1, 1])
}

/// RMS norm of each of `rows` rows.
pub(crate) fn rms_norm_rows<B>(
    workgroup: u32,
    rows: u32,
    push: rms_norm_rows::Push,
    bindings: rms_norm_rows::Bindings<B>,
) -> Dispatch<B> {
    Dispatch::new(rms_norm_rows::call(rms_norm_rows::Constants { workgroup }, push, bindings), [rows, 1])
}

/// The rotation of each head.
pub(crate) fn rope<B>(
    pairing: Pairing,
    workgroup: u32,
    push: rope::Push,
    bindings: rope::Bindings<B>,
) -> Dispatch<B> {
    let build = match pairing {
        Pairing::Neighbours => rope::Build::ROPE,
        Pairing::Halves => rope::Build::ROPE_NEOX,
    };
    let call = rope::call(build, rope::Constants { workgroup }, push, bindings);
    Dispatch::over(call, push.heads * push.head_dim / 2)
}

/// A row of `pairs` cosines and sines, that of the step's position.
pub(crate) fn angles<B>(workgroup: u32, pairs: u32, bindings: angles::Bindings<B>) -> Dispatch<B> {
    Dispatch::over(angles::call(angles::Constants { workgroup }, angles::Push { pairs }, bindings), pairs)
}

/// Keys or values, `count` elements, to the step's position in the cache.
pub(crate) fn kv_write<B>(workgroup: u32, count: u32, bindings: kv_write::Bindings<B>) -> Dispatch<B> {
    let constants = kv_write::Constants { workgroup };
    Dispatch::over(kv_write::call(constants, kv_write::Push { count }, bindings), count)
}

/// Queries times keys, a row of positions for each head.
pub(crate) fn scores<B>(workgroup: u32, push: scores::Push, bindings: scores::Bindings<B>) -> Dispatch<B> {
    let call = scores::call(scores::Constants { workgroup }, push, bindings);
    let reach = Some(Reach { axis: 0, positions: workgroup });
    Dispatch { reach, ..Dispatch::new(call, [push.context.div_ceil(workgroup), push.heads]) }
}

/// The softmax of each head's scores.
pub(crate) fn softmax<B>(
    workgroup: u32,
    heads: u32,
    push: softmax::Push,
    bindings: softmax::Bindings<B>,
) -> Dispatch<B> {
    Dispatch::new(softmax::call(softmax::Constants { workgroup }, push, bindings), [heads, 1])
}

/// Values by weight, for each head.
pub(crate) fn weighted_sum<B>(
    workgroup: u32,
    push: weighted_sum::Push,
    bindings: weighted_sum::Bindings<B>,
) -> Dispatch<B> {
    let call = weighted_sum::call(weighted_sum::Constants { workgroup }, push, bindings);
    Dispatch::over(call, push.heads * push.head_dim)
}

/// The likeliest of `count` tokens in each of `groups` parts of the vocabulary.
pub(crate) fn best<B>(workgroup: u32, count: u32, groups: u32, bindings: best::Bindings<B>) -> Dispatch<B> {
    Dispatch::new(best::call(best::Constants { workgroup }, best::Push { count }, bindings), [groups, 1])
}

/// The likeliest of `count` parts as the next token.
pub(crate) fn advance<B>(workgroup: u32, count: u32, bindings: advance::Bindings<B>) -> Dispatch<B> {
    Dispatch::new(advance::call(advance::Constants { workgroup }, advance::Push { count }, bindings), [1, 1])
}

/// Empties `count` times four words.
pub(crate) fn begin_chain<B>(workgroup: u32, count: u32, bindings: begin_chain::Bindings<B>) -> Dispatch<B> {
    let constants = begin_chain::Constants { workgroup };
    Dispatch::over(begin_chain::call(constants, begin_chain::Push { count }, bindings), count)
}

/// Workgroups that read `count` times sixteen bytes, sixteen times each invocation.
pub(crate) fn stream_groups(workgroup: u32, count: u32) -> u32 {
    count.div_ceil(16 * workgroup)
}

/// Reads `count` times sixteen bytes and adds them up.
pub(crate) fn stream<B>(
    workgroup: u32,
    count: u32,
    groups: u32,
    bindings: stream::Bindings<B>,
) -> Dispatch<B> {
    Dispatch::new(
        stream::call(stream::Constants { workgroup }, stream::Push { count }, bindings),
        [groups, 1],
    )
}
