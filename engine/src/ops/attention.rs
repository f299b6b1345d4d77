//! Cases of fused attention, with float arithmetic and on cooperative matrices.
//!
//! Both compute the same from caches that lie differently, so they have one reference and one tolerance: the second factor of a
//! product comes in two halves there, and what rounding leaves of those is below a float's own roundings.

use std::rc::Rc;

use zinc_shaders::{Takes as _, angles, coop_places, fused_attention};

use super::cases::{Maker, SIGN, U, some};
use super::fused::EPSILON;
use super::{Case, Input, input};
use crate::decode;
use crate::model::Pairing;
use crate::plan::kernels::{self, Arithmetic, Heads, Waiting};
use crate::plan::{
    CoopAttention, Cooperative, Dispatch, Fragment, Limits, Shapes, Tuning, attention_shape,
    block_order_words, fitting_attention,
};
use crate::reference;
use crate::vk::Device;

/// A cache in blocks that are factors, in the order in which the device's invocations have their elements: of M positions by K
/// dimensions of keys, of M dimensions by K positions of values.
pub(super) struct Blocks {
    pub(super) fragment: Fragment,
    m: usize,
    k: usize,
    /// The places of slots, then the slots of places.
    order: Vec<u32>,
}

impl Blocks {
    pub(super) fn new(fragment: Fragment, places: &[u32]) -> Self {
        Self { fragment, m: fragment.m as usize, k: fragment.k as usize, order: block_order_words(places) }
    }

    /// The table that kernels read.
    pub(super) fn order(&self) -> Input {
        input(&self.order)
    }

    /// Keys or values of so many heads, positions and dimensions, as the attention of halves reads them, in blocks.
    pub(super) fn moved(
        &self,
        halves: &[u16],
        values: bool,
        [heads, positions, dim]: [usize; 3],
    ) -> Vec<u16> {
        let context = positions.next_multiple_of(self.m);
        let mut moved = vec![0; heads * dim * context];
        for h in 0..heads {
            for (t, d) in (0..positions).flat_map(|t| (0..dim).map(move |d| (t, d))) {
                let (from, to) = match values {
                    false => {
                        let from = ((h * dim / 8 + d / 8) * positions + t) * 8 + d % 8;
                        (from, self.key((context, dim), h, t, d))
                    }
                    true => ((h * positions + t) * dim + d, self.value((context, dim), h, t, d)),
                };
                moved[to] = halves[from];
            }
        }
        moved
    }

    fn at(&self, block: usize, place: usize) -> usize {
        let size = self.m * self.k;
        block * size + self.order[size + place] as usize
    }

    /// Where dimension `d` of the key of a head at position `t` is.
    pub(super) fn key(&self, (context, dim): (usize, usize), h: usize, t: usize, d: usize) -> usize {
        let block = (h * (context / self.m) + t / self.m) * (dim / self.k) + d / self.k;
        self.at(block, t % self.m * self.k + d % self.k)
    }

    /// The same of the value.
    pub(super) fn value(&self, (context, dim): (usize, usize), h: usize, t: usize, d: usize) -> usize {
        let block = (h * (context / self.k) + t / self.k) * (dim / self.m) + d / self.m;
        self.at(block, d % self.m * self.k + t % self.k)
    }
}

/// One fused attention.
struct Attend {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    rope_dim: u32,
    context: u32,
    position: u32,
    norm: bool,
    halves: bool,
    window: u32,
}

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    let attention = |heads, kv_heads, head_dim, context, position| Attend {
        heads,
        kv_heads,
        head_dim,
        rope_dim: head_dim,
        context,
        position,
        norm: false,
        halves: false,
        window: context,
    };
    let all = [
        attention(6, 2, 32, 256, 200),
        attention(1, 1, 8, 1, 0),
        Attend { norm: true, halves: true, ..attention(4, 2, 128, 64, 63) },
        Attend { window: 40, ..attention(4, 1, 64, 300, 299) },
        Attend { rope_dim: 16, halves: true, ..attention(7, 1, 64, 100, 33) },
        attention(3, 1, 64, 4096, 4000),
        attention(2, 2, 16, 32768, 32767),
    ];
    cases.extend([(32, 5), (1, 0), (67, 9)].map(|(pairs, position)| maker.angles(pairs, position)));
    for chained in [false, true] {
        cases.extend(all.iter().map(|a| maker.attend(a, None, chained)));
    }
    let (Cooperative::Has(Shapes { attention: Some(fragment), .. }), Some(places)) =
        (maker.cooperative, maker.places.clone())
    else {
        return;
    };
    let (tuning, limits) = (maker.tuning.fused, maker.limits);
    let more = [
        Attend { norm: true, halves: true, ..attention(16, 2, 128, 700, 650) },
        Attend { window: 200, norm: true, halves: true, ..attention(4, 2, 128, 700, 513) },
        Attend { window: 40, ..attention(10, 2, 64, 400, 256) },
        attention(2, 1, 256, 300, 255),
        attention(3, 3, 64, 128, 0),
    ];
    for chained in [false, true] {
        for a in all.iter().chain(&more) {
            let coop = CoopAttention::new(a.heads / a.kv_heads, a.head_dim, fragment, &tuning, &limits);
            cases.extend(coop.map(|coop| maker.attend(a, Some((&coop, &places)), chained)));
        }
    }
}

/// A case for heads of this size, with what a model may ask of the kernel: norms, rotation, several splits, a tile that is not full.
pub(super) fn probe(
    tuning: &Tuning,
    limits: &Limits,
    (group, head_dim): (u32, u32),
    places: &[u32],
    coop: &CoopAttention,
) -> Case {
    let shapes = Shapes { product: coop.fragment, attention: Some(coop.fragment) };
    let mut maker = Maker {
        rng: fastrand::Rng::with_seed(20_261_130),
        tuning: *tuning,
        limits: *limits,
        cooperative: Cooperative::Has(shapes),
        places: Some(places.to_vec()),
    };
    let context = 3 * coop.tile;
    let attend = Attend {
        heads: 2 * group,
        kv_heads: 2,
        head_dim,
        rope_dim: head_dim,
        context,
        position: context - 7,
        norm: true,
        halves: true,
        window: context,
    };
    maker.attend(&attend, Some((coop, places)), false)
}

/// The place, row * k + column, of each element of a first factor in the order of invocations, eight of each; none where the
/// device does not deal them out like that.
pub(super) fn places(device: &Rc<Device>, fragment: Fragment) -> Result<Option<Vec<u32>>, decode::Error> {
    let Fragment { m, n, k, subgroup } = fragment;
    let count = 8 * subgroup;
    let constants = coop_places::Constants { workgroup: subgroup, m, n, k };
    let bindings = coop_places::Bindings { result: Input::Result };
    let call = coop_places::Push { count }.call(().into(), constants, bindings);
    // Whatever it says: it is asked.
    let case = Case::new(String::new(), Dispatch::new(call, [1, 1]), vec![None; count as usize]);
    let mut found = super::execute(device, &case, false)?;
    found.truncate(case.expected.len());
    let places: Vec<u32> = found.into_iter().map(|bits| f32::from_bits(bits) as u32).collect();
    Ok(is_whole(&places, m * k).then_some(places))
}

/// Whether each of so many places is there once.
fn is_whole(places: &[u32], count: u32) -> bool {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..count)
}

impl Maker {
    fn angles(&mut self, pairs: u32, position: u32) -> Case {
        let table = self.floats(2 * (pairs * (position + 2)) as usize);
        let row = &table[2 * (pairs * position) as usize..][..2 * pairs as usize];
        let expected = row.iter().map(|v| some(f64::from(*v), f64::MIN_POSITIVE)).collect();
        let bindings = angles::Bindings {
            step: Input::Step(vec![position, 0]),
            table: input(&table).flipped((8 * pairs * position) as usize + SIGN),
            result: Input::Result,
        };
        let label = format!("pairs={pairs} position={position}");
        self.elements(label, (), angles::Push { pairs }, bindings, expected)
    }

    /// With float arithmetic or on cooperative matrices; as a step of a chain, all of whose values are there, or by itself.
    fn attend(&mut self, a: &Attend, coop: Option<(&CoopAttention, &[u32])>, chained: bool) -> Case {
        let (dim, group) = (a.head_dim as usize, (a.heads / a.kv_heads) as usize);
        let (q_dim, kv_dim) = (a.heads as usize * dim, a.kv_heads as usize * dim);
        // Where it is read in blocks, the cache has room for whole tiles.
        let cached = coop.map_or(a.context, |(coop, _)| a.context.next_multiple_of(coop.tile));
        let (context, position) = (cached as usize, a.position as usize);
        let qkv = self.floats(q_dim + 2 * kv_dim);
        let (q_norm, k_norm) = (self.floats(dim), self.floats(dim));
        let pairs = a.rope_dim as usize / 2;
        let table: Vec<f32> = (0..context * pairs)
            .flat_map(|i| {
                let (sin, cos) = (i as f32 * 0.37).sin_cos();
                [cos, sin]
            })
            .collect();
        let half = |v: f32| half::f16::from_f32(v);
        let keys: Vec<half::f16> = self.floats(context * kv_dim).into_iter().map(half).collect();
        let values: Vec<half::f16> = self.floats(context * kv_dim).into_iter().map(half).collect();
        // Where an element lies: [kv_head][dim / 8][context][8] and [kv_head][context][dim], or in blocks.
        let blocks = coop.map(|(coop, places)| Blocks::new(coop.fragment, places));
        let key = |h: usize, t: usize, d: usize| match &blocks {
            None => ((h * dim / 8 + d / 8) * context + t) * 8 + d % 8,
            Some(blocks) => blocks.key((context, dim), h, t, d),
        };
        let value = |h: usize, t: usize, d: usize| match &blocks {
            None => (h * context + t) * dim + d,
            Some(blocks) => blocks.value((context, dim), h, t, d),
        };

        let turn = |vector: &[f32], weight: &[f32]| -> Vec<f64> {
            let mut v: Vec<f64> = vector.iter().map(|v| f64::from(*v)).collect();
            if a.norm {
                let square = v.iter().map(|v| v * v).sum::<f64>() / dim as f64;
                let factor = 1.0 / (square + f64::from(EPSILON)).sqrt();
                v.iter_mut().zip(weight).for_each(|(v, w)| *v *= factor * f64::from(*w));
            }
            for pair in 0..pairs {
                let (i, j) = if a.halves { (pair, pair + pairs) } else { (2 * pair, 2 * pair + 1) };
                let at = 2 * (position * pairs + pair);
                let (cos, sin) = (f64::from(table[at]), f64::from(table[at + 1]));
                (v[i], v[j]) = (v[i] * cos - v[j] * sin, v[i] * sin + v[j] * cos);
            }
            v
        };
        let scale = 1.0 / (dim as f32).sqrt();
        let first = (position + 1).saturating_sub(a.window as usize);
        let mut expected = Vec::new();
        for head in 0..a.heads as usize {
            let h = head / group;
            let q = turn(&qkv[head * dim..][..dim], &q_norm);
            let own_key = turn(&qkv[q_dim + h * dim..][..dim], &k_norm);
            let own_value = &qkv[q_dim + kv_dim + h * dim..][..dim];
            let key_at = |t: usize, d: usize| {
                if t == position { f64::from(half(own_key[d] as f32)) } else { f64::from(keys[key(h, t, d)]) }
            };
            let dot = |t: usize| (0..dim).map(|d| q[d] * key_at(t, d)).sum::<f64>() * f64::from(scale);
            let size =
                |t: usize| (0..dim).map(|d| (q[d] * key_at(t, d)).abs()).sum::<f64>() * f64::from(scale);
            let scores: Vec<f64> = (first..=position).map(dot).collect();
            let weights = reference::softmax(&scores);
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // A score errs by its own roundings; exp by 3 + 2|x| ULP; the sums by their length.
            let length = 16.0 + scores.len() as f64 / 8.0;
            // How a cooperative matrix rounds what it adds up is the device's affair: an NVIDIA H200 needs 1.1 times the rest.
            let inner = if coop.is_some() { 4.0 } else { 1.0 };
            let rounding = |t: usize, s: f64| {
                let sums = (dim as f64 + 20.0) * size(t) + 2.0 * (largest - s) + 16.0 + length;
                inner * sums * 2.0 * U
            };
            let errors: Vec<f64> = (first..=position).zip(&scores).map(|(t, s)| rounding(t, *s)).collect();
            let mean: f64 = weights.iter().zip(&errors).map(|(w, e)| w * e).sum();
            // The present key and value are rounded to halves, and a rounding may go the other way: 2^-11 of each.
            let present = weights[position - first] * (size(position) + 1.0) / 2048.0;
            for d in 0..dim {
                let value_at = |t: usize| {
                    if t == position {
                        f64::from(half(own_value[d]))
                    } else {
                        f64::from(values[value(h, t, d)])
                    }
                };
                let mut sum = 0.0;
                let mut tolerance = 4.0 * present;
                for ((t, w), e) in (first..=position).zip(&weights).zip(&errors) {
                    sum += w * value_at(t);
                    tolerance += w * (e + mean) * value_at(t).abs();
                }
                expected.push(some(sum, tolerance));
            }
        }

        let t = self.tuning.fused;
        let group = group as u32;
        let (arithmetic, splits) = if let Some((coop, _)) = coop {
            (Arithmetic::Matrices(*coop), coop.splits(a.kv_heads, a.context, &t))
        } else {
            // Where it does not fit at all, the case says so.
            let shape = fitting_attention(group, a.head_dim, &t, &self.limits)
                .unwrap_or_else(|| attention_shape(group, a.head_dim, t.attention_threads, &t));
            let splits = (t.attention_groups / a.kv_heads).clamp(1, a.context.div_ceil(t.tile));
            (Arithmetic::Floats { threads: shape.threads }, splits)
        };
        let bits = |v: &[half::f16]| v.iter().map(|h| h.to_bits()).collect::<Vec<u16>>();
        let heads = Heads {
            head_dim: a.head_dim,
            group,
            rope_dim: a.rope_dim,
            pairing: if a.halves { Pairing::Halves } else { Pairing::Neighbours },
            qk_norm: a.norm,
        };
        let push = fused_attention::Push {
            heads: a.heads,
            kv_heads: a.kv_heads,
            context: cached,
            window: if a.window >= a.context { cached } else { a.window },
            scale,
            epsilon: EPSILON,
            splits,
            key_at: q_dim as u32,
            value_at: (q_dim + kv_dim) as u32,
        };
        let own = 2 * position * pairs..2 * (position + 1) * pairs;
        let bindings = fused_attention::Bindings {
            step: Input::Step(vec![a.position, 0]),
            angles: input(if coop.is_some() { &table[own] } else { &table }),
            qkv: input(&qkv),
            q_norm: input(&q_norm),
            k_norm: input(&k_norm),
            keys: input(&bits(&keys)),
            values: input(&bits(&values)).flipped(1),
            parts: input(&vec![0u32; (a.heads * splits * (a.head_dim + 4)) as usize]),
            counters: input(&vec![0u32; a.kv_heads as usize]),
            result: Input::Result,
            chain: chained.then(|| input(&[0u32])),
        };
        let waiting = chained.then(|| Waiting::new(true));
        let label = format!(
            "heads={} kv_heads={} head_dim={dim} context={} position={position} norm={} window={}",
            a.heads, a.kv_heads, a.context, a.norm, a.window
        );
        let dispatch = kernels::attention(&heads, arithmetic, &t, waiting, push, bindings);
        Case::new(label, dispatch, expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_are_missing_or_there_twice_are_noticed() {
        assert!(is_whole(&[2, 0, 1, 3], 4));
        for bad in [&[0, 1, 2][..], &[0, 1, 2, 2], &[0, 1, 2, 4], &[0, 0, 1, 2, 3]] {
            assert!(!is_whole(bad, 4), "{bad:?}");
        }
    }
}
