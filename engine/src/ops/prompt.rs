//! Cases of the kernels that read a batch's own list: which tokens it has, from which position on.
//!
//! Plans allow more tokens than a batch may have, so every case has room for some that are not there. What lies behind the
//! last token must stay as it was, except where a kernel is documented to compute it.

use zinc_shaders as k;

use super::attention::Blocks;
use super::cases::{Maker, Rotation, SIGN, U, some};
use super::matrices::magnitudes;
use super::{Case, Expected, Input, UNTOUCHED, input};
use crate::model::Pairing;
use crate::plan::kernels::{self, CacheOf};
use crate::plan::{Cooperative, Shapes};
use crate::quant::{SUPER_BLOCK, WeightType, dequantize_row};
use crate::reference;

/// Shared memory for which attention's workgroups are sized: what nearly every device has.
const SHARED_MEMORY: u32 = 32768;

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    for ty in WeightType::ALL {
        let unit = if ty.block_elements() == SUPER_BLOCK as u64 { 8 } else { 1 };
        let table = |columns: u32, rows, first| Table { ty, columns: columns * unit, rows, first };
        cases.push(maker.batch_rows(&table(192, 257, 0), &[256, 0, 17, 17], 6));
        cases.push(maker.batch_rows(&table(32, 1, 0), &[0], 1));
        // A part of a table: tokens before it, in it, behind it.
        cases.push(maker.batch_rows(&table(576, 9, 192), &[191, 192, 200, 201, 7, 195], 9));
        if !ty.is_quantized() {
            cases.push(maker.batch_rows(&table(36, 5, 0), &[4, 3, 2, 1, 0], 5));
        }
    }
    cases.extend([(576, 3, 5), (1, 1, 1), (65, 17, 17), (4099, 2, 40)].map(|shape| maker.batch_last(shape)));
    for pairing in [Pairing::Neighbours, Pairing::Halves] {
        let ropes = [(6, 32, 32, 250, 5, 8), (1, 4, 4, 0, 1, 1), (3, 8, 4, 1, 30, 33), (5, 80, 20, 31, 3, 3)];
        cases.extend(ropes.map(|shape| maker.batch_rope(pairing, shape)));
    }
    for cache in [Cache::Floats, Cache::Keys, Cache::Values] {
        // Heads, width of a head, context, first position, tokens, tokens that the plan allows: two batches end with the
        // context, of which one was planned beyond it.
        let shapes =
            [(2, 32, 64, 7, 5, 9), (1, 8, 1, 0, 1, 1), (3, 64, 70, 65, 5, 16), (1, 128, 33, 0, 33, 33)];
        cases.extend(shapes.map(|shape| maker.batch_kv_write(cache, shape)));
    }
    let attend = |heads, kv_heads, head_dim, first, tokens, batch| Attend {
        heads,
        kv_heads,
        head_dim,
        first,
        tokens,
        batch,
        window: u32::MAX,
    };
    let all = [
        attend(6, 2, 32, 5, 19, 24),
        attend(1, 1, 8, 0, 1, 1),
        attend(9, 3, 64, 0, 70, 80),
        attend(4, 4, 16, 63, 2, 2),
        attend(2, 1, 128, 1500, 33, 64),
        attend(2, 1, 256, 90, 11, 11),
        Attend { window: 9, ..attend(4, 1, 32, 40, 37, 40) },
        Attend { window: 1, ..attend(2, 2, 8, 0, 20, 20) },
    ];
    // Heads that are no whole octets: only floats.
    cases.push(maker.batch_attention(&attend(5, 5, 20, 3, 18, 20), CacheOf::Floats, None));
    for cache in [CacheOf::Floats, CacheOf::Halves] {
        cases.extend(all.iter().map(|a| maker.batch_attention(a, cache, None)));
    }
    let (Cooperative::Has(Shapes { attention: Some(fragment), .. }), Some(places)) =
        (maker.cooperative, maker.places.clone())
    else {
        return;
    };
    let blocks = Blocks::new(fragment, &places);
    // A context is whole blocks, and so are heads.
    let whole = |context: u32| context.next_multiple_of(fragment.m);
    for values in [false, true] {
        let shapes =
            [(2, 32, 64, 7, 5, 9), (1, 64, 1, 0, 1, 1), (3, 64, 70, 65, 5, 16), (1, 128, 33, 0, 33, 33)];
        for (heads, head_dim, context, first, tokens, batch) in shapes {
            let shape = (heads, head_dim, whole(context), first, tokens, batch);
            cases.push(maker.batch_kv_write_blocks(values, &blocks, shape));
        }
    }
    let fits = |a: &&Attend| a.head_dim.is_multiple_of(fragment.m);
    let cache = CacheOf::Blocks(fragment);
    cases.extend(all.iter().filter(fits).map(|a| maker.batch_attention(a, cache, Some(&blocks))));
}

/// A part of a table of embeddings.
struct Table {
    ty: WeightType,
    columns: u32,
    rows: u32,
    /// Its first row's number.
    first: u32,
}

/// Where keys and values go.
#[derive(Clone, Copy, PartialEq)]
enum Cache {
    Floats,
    Keys,
    Values,
}

/// Attention of a batch whose tokens are at `first` and behind.
struct Attend {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    first: u32,
    tokens: u32,
    /// Tokens that the plan allows.
    batch: u32,
    window: u32,
}

/// The step buffer: position, number of tokens, the tokens and room for those that a full batch would have.
fn step(first: u32, tokens: &[u32], batch: u32) -> Input {
    let mut words = vec![first, tokens.len() as u32];
    words.extend(tokens);
    words.resize(2 + batch as usize, 0);
    Input::Step(words)
}

/// The same where kernels don't look at the tokens.
fn counted(first: u32, tokens: u32, batch: u32) -> Input {
    step(first, &vec![0; tokens as usize], batch)
}

impl Maker {
    /// Floats that a half holds exactly.
    pub(super) fn halves(&mut self, count: usize) -> Vec<f32> {
        self.floats(count).into_iter().map(|v| half::f16::from_f32(v).to_f32()).collect()
    }

    fn batch_rows(&mut self, table: &Table, tokens: &[u32], batch: u32) -> Case {
        let &Table { ty, columns, rows, first } = table;
        let elements = (columns * rows) as usize;
        let data = self.blocks(ty, elements);
        let row_bytes = data.len() / rows as usize;
        let mut expected = vec![None; (columns * batch) as usize];
        for (token, out) in tokens.iter().zip(expected.chunks_exact_mut(columns as usize)) {
            let Some(row) = token.checked_sub(first).filter(|row| *row < rows) else { continue };
            let blocks = &data[row as usize * row_bytes..][..row_bytes];
            let mut weights = Vec::new();
            dequantize_row(ty, blocks, &mut weights);
            // Floats are moved; elsewhere products and sums are rounded up to three times, in kernel and definition.
            let relative = if ty.is_quantized() { 12.0 } else { 0.0 };
            let sizes = magnitudes(ty, blocks, &weights);
            for ((out, v), size) in out.iter_mut().zip(&weights).zip(sizes) {
                *out = some(f64::from(*v), relative * U * size);
            }
        }
        let (quants, scales) = self.repacked(ty, &data, elements);
        let used = tokens.iter().find(|token| (first..first + rows).contains(token)).map_or(0, |t| t - first);
        let last = (used as usize + 1) * (quants.len() / rows as usize) - 1;
        let bindings = k::batch_rows::Bindings {
            batch: step(0, tokens, batch),
            quants: input(&quants).flipped(last),
            scales: scales.map(|scales| input(&scales)),
            result: Input::Result,
        };
        let push = k::batch_rows::Push { columns, first_row: first, rows };
        let label =
            format!("columns={columns} rows={rows} first={first} tokens={} batch={batch}", tokens.len());
        let build: k::batch_rows::Build = kernels::of("batch_rows", ty);
        let dispatch = kernels::dispatch(build, self.tuning.element, batch, push, bindings);
        Case::new(label, dispatch, expected)
    }

    fn batch_last(&mut self, (width, tokens, batch): (u32, u32, u32)) -> Case {
        let x = self.floats((width * batch) as usize);
        let last = ((tokens - 1) * width) as usize;
        let bindings = k::batch_last::Bindings {
            batch: counted(3, tokens, batch),
            x: input(&x).flipped(4 * last + SIGN),
            result: Input::Result,
        };
        let expected = x[last..][..width as usize].iter().map(|v| some(f64::from(*v), 0.0)).collect();
        let label = format!("width={width} tokens={tokens} batch={batch}");
        self.elements(label, (), k::batch_last::Push { width }, bindings, expected)
    }

    fn batch_rope(
        &mut self,
        pairing: Pairing,
        (heads, head_dim, rope_dim, first, tokens, batch): (u32, u32, u32, u32, u32, u32),
    ) -> Case {
        let halves = pairing == Pairing::Halves;
        let rotation = Rotation { pairing, base: 1e4, head_dim, rope_dim };
        let width = (heads * head_dim) as usize;
        let x = self.floats(width * batch as usize);
        let there = (first..first + tokens).zip(x.chunks_exact(width));
        let mut expected: Vec<_> = there.flat_map(|(position, x)| rotation.of(position, x)).collect();
        expected.resize(x.len(), None);
        let label = format!(
            "halves={halves} heads={heads} head_dim={head_dim} rope_dim={rope_dim} first={first} tokens={tokens}"
        );
        let bindings = k::batch_rope::Bindings {
            batch: counted(first, tokens, batch),
            table: input(&rotation.table(first + batch)),
            x: input(&x).flipped(SIGN),
            result: Input::Result,
        };
        let push = k::batch_rope::Push { heads, head_dim, rope_dim };
        let constants = k::batch_rope::Constants { workgroup: self.tuning.element, neox: halves };
        let dispatch = kernels::dispatch((), constants, batch, push, bindings);
        Case::new(label, dispatch, expected)
    }

    /// Values are such that a half holds them, so whatever way a device rounds, the words are known.
    fn batch_kv_write(
        &mut self,
        cache: Cache,
        (heads, head_dim, context, first, tokens, batch): (u32, u32, u32, u32, u32, u32),
    ) -> Case {
        let (heads_n, dim, positions) = (heads as usize, head_dim as usize, context as usize);
        let x = self.halves(heads_n * dim * batch as usize);
        let places = |head: usize, position: usize, d: usize| match cache {
            Cache::Floats => (position * heads_n + head) * dim + d,
            Cache::Keys => ((head * dim / 8 + d / 8) * positions + position) * 8 + d % 8,
            Cache::Values => (head * positions + position) * dim + d,
        };
        let words = heads_n * dim * positions / if cache == Cache::Floats { 1 } else { 2 };
        let mut expected: Vec<Option<Expected>> = vec![None; words];
        for token in 0..tokens as usize {
            for (i, v) in x[token * heads_n * dim..][..heads_n * dim].iter().enumerate() {
                let at = places(i / dim, first as usize + token, i % dim);
                if cache == Cache::Floats {
                    expected[at] = some(f64::from(*v), 0.0);
                } else {
                    // Two halves make a word; words are compared as the floats whose bits they are.
                    let half = u32::from(half::f16::from_f32(*v).to_bits()) << (16 * (at % 2));
                    let word = expected[at / 2].map_or(0, |e| e.bits()) | half;
                    expected[at / 2] = some(f64::from(f32::from_bits(word)), 0.0);
                }
            }
        }
        let build = match cache {
            Cache::Floats => k::batch_kv_write::Build::BATCH_KV_WRITE_FLOATS,
            Cache::Keys => k::batch_kv_write::Build::BATCH_KV_WRITE_KEYS,
            Cache::Values => k::batch_kv_write::Build::BATCH_KV_WRITE_VALUES,
        };
        let label = format!(
            "heads={heads} head_dim={head_dim} context={context} first={first} tokens={tokens} batch={batch}"
        );
        let bindings = k::batch_kv_write::Bindings {
            batch: counted(first, tokens, batch),
            x: input(&x).flipped(SIGN),
            cache: Input::Result,
        };
        let push = k::batch_kv_write::Push { kv_heads: heads, head_dim, context };
        let dispatch = kernels::batch_kv_write(build, self.tuning.element, batch, push, bindings);
        Case::new(label, dispatch, expected)
    }

    /// Keys or values into blocks. A word of which one half is a token's keeps the other.
    fn batch_kv_write_blocks(
        &mut self,
        values: bool,
        blocks: &Blocks,
        (heads, head_dim, context, first, tokens, batch): (u32, u32, u32, u32, u32, u32),
    ) -> Case {
        let (heads_n, dim, positions) = (heads as usize, head_dim as usize, context as usize);
        let x = self.halves(heads_n * dim * batch as usize);
        let mut words = vec![None; heads_n * dim * positions / 2];
        for token in 0..tokens as usize {
            for (i, v) in x[token * heads_n * dim..][..heads_n * dim].iter().enumerate() {
                let (head, position, d) = (i / dim, first as usize + token, i % dim);
                let at = match values {
                    false => blocks.key((positions, dim), head, position, d),
                    true => blocks.value((positions, dim), head, position, d),
                };
                let (shift, bits) = (16 * (at % 2), u32::from(half::f16::from_f32(*v).to_bits()));
                let word = words[at / 2].unwrap_or(UNTOUCHED);
                words[at / 2] = Some(word & !(0xffff << shift) | bits << shift);
            }
        }
        let label = format!(
            "values={values} heads={heads} head_dim={head_dim} context={context} first={first} tokens={tokens} batch={batch}"
        );
        let bindings = k::batch_kv_write_blocks::Bindings {
            batch: counted(first, tokens, batch),
            x: input(&x).flipped(SIGN),
            order: blocks.order(),
            cache: Input::Result,
        };
        let push = k::batch_kv_write_blocks::Push { kv_heads: heads, head_dim, context };
        let element = self.tuning.element;
        let dispatch =
            kernels::batch_kv_write_blocks(values, blocks.fragment, element, batch, push, bindings);
        let expected = words.into_iter().map(|word| word.map(Expected::Bits)).collect();
        Case::new(label, dispatch, expected)
    }

    /// From a cache that lies like this, where it has blocks in these.
    fn batch_attention(&mut self, a: &Attend, cache: CacheOf, blocks: Option<&Blocks>) -> Case {
        let halves = cache != CacheOf::Floats;
        let (dim, group) = (a.head_dim as usize, (a.heads / a.kv_heads) as usize);
        let (heads, kv_heads) = (a.heads as usize, a.kv_heads as usize);
        let context = a.first + a.tokens + 3;
        let positions = context as usize;
        let window = a.window.min(context);
        let q = self.floats(heads * dim * a.batch as usize);
        let [keys, values] = [0; 2].map(|_| self.halves(positions * kv_heads * dim));
        let key = |head: usize, t: usize, d: usize| match halves {
            true => ((head * dim / 8 + d / 8) * positions + t) * 8 + d % 8,
            false => (t * kv_heads + head) * dim + d,
        };
        let value = |head: usize, t: usize, d: usize| match halves {
            true => (head * positions + t) * dim + d,
            false => (t * kv_heads + head) * dim + d,
        };
        let scale = (1.0 / f64::from(a.head_dim).sqrt()) as f32;
        let mut expected = vec![None; q.len()];
        for token in 0..a.tokens as usize {
            let position = a.first as usize + token;
            let seen = (position + 1).saturating_sub(window as usize)..position + 1;
            for head in 0..heads {
                let at = (token * heads + head) * dim;
                let q = &q[at..][..dim];
                let terms = |t: usize| {
                    (0..dim).map(move |d| (d, t)).map(|(d, t)| {
                        f64::from(q[d]) * f64::from(keys[key(head / group, t, d)]) * f64::from(scale)
                    })
                };
                let scores: Vec<f64> = seen.clone().map(|t| terms(t).sum()).collect();
                let sizes: Vec<f64> = seen.clone().map(|t| terms(t).map(f64::abs).sum()).collect();
                let weights = reference::softmax(&scores);
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
                // A score: the scaled query, products, sums. Its exponential: 3 + 2|x| ULP and the difference's rounding.
                // Each tile may scale what came before by an exponential of its own, and the differences in those add up
                // to no more than the range of the scores.
                let tiles = scores.len() as f64 / 16.0 + 2.0;
                let shared = tiles * 9.0 + 5.0 * (largest - least) + scores.len() as f64 + 8.0;
                let error = |s: f64, size: f64| {
                    (f64::from(a.head_dim) + 3.0) * size + 6.0 + 5.0 * (largest - s) + shared
                };
                let errors: Vec<f64> = scores.iter().zip(&sizes).map(|(s, size)| error(*s, *size)).collect();
                let mean: f64 = weights.iter().zip(&errors).map(|(w, e)| w * e).sum();
                for d in 0..dim {
                    let (mut sum, mut off) = (0.0, 0.0);
                    for ((t, w), e) in seen.clone().zip(&weights).zip(&errors) {
                        let v = f64::from(values[value(head / group, t, d)]);
                        sum += w * v;
                        off += w * v.abs() * (e + mean + 6.0);
                    }
                    expected[at + d] = some(sum, off * U);
                }
            }
        }
        let workgroup = kernels::batch_attention_workgroup(a.head_dim, SHARED_MEMORY);
        let workgroup = workgroup.expect("the cases' heads fit");
        let stored = |v: &[f32], values: bool| -> Input {
            let bits: Vec<u16> = v.iter().map(|v| half::f16::from_f32(*v).to_bits()).collect();
            match blocks {
                None if halves => input(&bits),
                None => input(v),
                Some(blocks) => input(&blocks.moved(&bits, values, [kv_heads, positions, dim])),
            }
        };
        let cached = blocks.map_or(context, |blocks| context.next_multiple_of(blocks.fragment.m));
        let label = format!(
            "heads={heads} kv_heads={kv_heads} head_dim={dim} first={} tokens={} window={window}",
            a.first, a.tokens
        );
        let bindings = k::batch_attention::Bindings {
            batch: counted(a.first, a.tokens, a.batch),
            q: input(&q),
            keys: stored(&keys, false),
            values: stored(&values, true).flipped(if halves { 1 } else { SIGN }),
            order: blocks.map(Blocks::order),
            result: Input::Result,
        };
        let push =
            k::batch_attention::Push { heads: a.heads, kv_heads: a.kv_heads, context: cached, scale, window };
        let dispatch = kernels::batch_attention(cache, a.head_dim, workgroup, a.batch, push, bindings);
        Case::new(label, dispatch, expected)
    }
}
