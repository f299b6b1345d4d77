//! The plan of a batch: many tokens of a prompt at once.
//!
//! Token by token, a prompt reads every weight once for each of its tokens. Here a matrix is read once for a whole batch,
//! by kernels that multiply it with all of the batch's vectors; attention reads the cache once for many queries. It is a
//! plan like any other: the same weights, the same cache, barriers where its levers put them. One plan serves every batch
//! up to its size: kernels read how many tokens there are, and what lies behind them in the arena is computed by the
//! element-wise ones and looked at by nobody.
//!
//! Sums are added up in another order than token by token, so logits agree closely and not bit for bit. On cooperative matrices
//! both factors are rounded to halves: vectors are brought to a common size first, each by a power of two, so that none is too
//! large or too small for that (batch_halves.comp).

use zinc_shaders as k;

use super::attention::{CoopAttention, block_order, cache_positions, coop_attention, fuses_attention};
use super::coop::{CoopTile, halves_bytes};
use super::decode::{constants_end, layer_caches};
use super::kernels::Family;
use super::layout::{Arena, Placed, Placement};
use super::{
    Dispatch, Error, Fragment, Options, Plan, Shape, Space, Span, Step, Work, matvec_dispatch, rope_tables,
};
use crate::model::{Activation, Config, Layer, Matrix, Model, Pairing};
use crate::quant::WeightType;

/// Rows of a matrix that a workgroup of the matrix kernel takes, as in matmul.comp.
const TILE_ROWS: u32 = 64;
/// Specialization constant of `batch_rope` (pairing) and `batch_attention` (width of a head).
const VARIANT_ID: u32 = 2;

/// Bytes of what the host writes before a batch of at most `batch` tokens: position, number of tokens, ids.
pub fn batch_bytes(batch: u32) -> u64 {
    8 + 4 * u64::from(batch)
}

/// Of which tokens of a batch the logits are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Logits {
    /// Of the last one: what generation needs.
    #[default]
    Last,
    /// Of all, one row a token: what scoring a text needs.
    All,
}

/// Plans a batch of at most `batch` tokens beside the decode plan of the same options, whose cache it fills.
pub fn prompt(
    model: &Model<'_>,
    weights: &Placement,
    options: &Options,
    batch: u32,
    logits: Logits,
) -> Result<Plan, Error> {
    let c = &model.config;
    let (context, limits) = (options.context, &options.limits);
    if context == 0 || context > c.context {
        return Err(Error::Context { asked: context, trained: c.context });
    }
    let mut arena = Arena::new(Space::Arena, limits);
    let mut take = |width: u32| arena.floats(u64::from(width) * u64::from(batch));
    let [mut state, mut other] = [take(c.embedding), take(c.embedding)];
    let s = Slots {
        normed: take(c.embedding),
        weighted: take(c.embedding),
        q: [take(c.q_dim()), take(c.q_dim())],
        k: [take(c.kv_dim()), take(c.kv_dim())],
        v: [take(c.kv_dim()), take(c.kv_dim())],
        attention: take(c.q_dim()),
        projected: take(c.embedding),
        gate: take(c.feed_forward),
        up: take(c.feed_forward),
        activated: take(c.feed_forward),
        halves: {
            let widest = c.embedding.max(c.q_dim()).max(c.feed_forward);
            options.matrix.map(|_| arena.take(halves_bytes(widest, batch)))
        },
        order: coop_attention(c, options).map(|coop| (coop, block_order(c, context, limits, coop.fragment))),
    };
    let scored = if logits == Logits::All { batch } else { 1 };
    let mut row = |width: u32| arena.floats(u64::from(width) * u64::from(scored));
    let head = Head {
        last: (logits == Logits::Last).then(|| row(c.embedding)),
        normed: row(c.embedding),
        weighted: row(c.embedding),
        logits: row(c.vocabulary),
        capped: row(c.vocabulary),
    };
    let step = Span { space: Space::Step, offset: 0, bytes: batch_bytes(batch) };
    let mut b = Builder { steps: Vec::new(), layer: None, step, config: c, weights, options, batch };

    for part in weights.parts(&model.embedding) {
        let Placed { quants, scales } = part.placed;
        let bindings = [Some(step), Some(quants), scales, Some(state)].into_iter().flatten().collect();
        let push = vec![c.embedding, part.first_row, part.rows];
        b.tokens(
            "token_embd",
            Family::BatchRows.of(model.embedding.ty),
            bindings,
            push,
            c.embedding.div_ceil(16),
            0,
        )?;
    }
    if let Some(factor) = c.embedding_scale {
        b.elements("embd_scale", &k::SCALE, vec![state, other], &[factor.to_bits()])?;
        (state, other) = (other, state);
    }
    let tables = rope_tables(c, context, limits);
    let (caches, cache) = layer_caches(c, options);
    for ((index, layer), (keys, values)) in (0..).zip(&model.layers).zip(&caches) {
        b.layer = Some(index);
        b.attention(index, layer, &s, state, tables[c.layer_rope(index)], *keys, *values)?;
        let attention = b.factor("attn_halves", s.attention, c.q_dim(), s.halves)?;
        b.matmul("attn_output", &layer.attn_output, attention, s.projected)?;
        let (norm, bias) = (layer.attn_post_norm.as_ref(), layer.attn_output_bias.as_ref());
        let [projected, _] = b.bias("attn_output_bias", bias, [s.projected, s.weighted])?;
        b.residual(["attn_post_norm", "attn_residual"], norm, &s, projected, [state, other])?;
        b.feed_forward(layer, &s, other)?;
        let norm = layer.ffn_post_norm.as_ref();
        b.residual(["ffn_post_norm", "ffn_residual"], norm, &s, s.projected, [other, state])?;
    }
    b.layer = None;
    let logits = b.head(model, &head, state, s.halves)?;
    let readback = Span { space: Space::Readback, offset: 0, bytes: logits.bytes };
    let mut steps = b.steps;
    steps.push(Step { layer: None, name: "read_logits", work: Work::Copy { from: logits, to: readback } });
    let mut buffers = vec![
        (Space::Constants, constants_end(c, options)),
        (Space::Step, step.bytes),
        (Space::Arena, arena.bytes()),
        (Space::Readback, readback.bytes),
    ];
    buffers.extend(cache.buffers());
    for (space, bytes) in &buffers {
        limits.check_allocation(&format!("{space:?} (a batch of {batch} tokens)"), *bytes)?;
    }
    Ok(Plan { steps, buffers, uploads: Vec::new(), failed: None })
}

/// Intermediates of all tokens of a batch.
struct Slots {
    normed: Span,
    weighted: Span,
    /// Projected queries, and where the next stage puts them; stages go to and fro.
    q: [Span; 2],
    k: [Span; 2],
    v: [Span; 2],
    attention: Span,
    projected: Span,
    gate: Span,
    up: Span,
    activated: Span,
    /// What the next product reads, where products are computed on cooperative matrices.
    halves: Option<Span>,
    /// Where attention of one token is: how the cache is cut into blocks, and the order of a block's elements.
    order: Option<(CoopAttention, Span)>,
}

/// Intermediates of the tokens whose logits are computed.
struct Head {
    /// The last token's part of the stream, if it alone counts.
    last: Option<Span>,
    normed: Span,
    weighted: Span,
    logits: Span,
    capped: Span,
}

struct Builder<'b> {
    steps: Vec<Step>,
    layer: Option<u32>,
    step: Span,
    config: &'b Config,
    weights: &'b Placement,
    options: &'b Options,
    batch: u32,
}

impl Builder<'_> {
    fn push(&mut self, name: &'static str, dispatch: Dispatch, grid: [u64; 2]) -> Result<(), Error> {
        debug_assert_eq!(dispatch.bindings.len(), dispatch.kernel.bindings.len(), "{name}");
        debug_assert_eq!(dispatch.push.len() * 4, dispatch.kernel.push_bytes as usize, "{name}");
        let limits = &self.options.limits;
        for span in &dispatch.bindings {
            limits.check_range(name, span.bytes)?;
        }
        let [most_x, most_y] = limits.grid;
        if grid[0] > most_x.into() || grid[1] > most_y.into() {
            let step = name.to_owned();
            return Err(Error::Grid { step, x: grid[0], y: grid[1], most_x, most_y });
        }
        let dispatch = Dispatch { grid: grid.map(|n| n as u32), ..dispatch };
        self.steps.push(Step { layer: self.layer, name, work: Work::Dispatch(dispatch) });
        Ok(())
    }

    /// One invocation for each element of the result, the last binding; `more` push constants follow the count.
    fn elements(
        &mut self,
        name: &'static str,
        kernel: &'static k::Kernel,
        bindings: Vec<Span>,
        more: &[u32],
    ) -> Result<(), Error> {
        let count = bindings.last().map_or(0, |to| to.bytes / 4) as u32;
        let shape = Shape { workgroup: self.element(), rows: 1 };
        let push = [&[count], more].concat();
        let grid = [u64::from(count.div_ceil(shape.workgroup)), 1];
        self.push(name, dispatch(kernel, shape, bindings, push, Vec::new()), grid)
    }

    /// `each` invocations for each token of the batch.
    fn tokens(
        &mut self,
        name: &'static str,
        kernel: &'static k::Kernel,
        bindings: Vec<Span>,
        push: Vec<u32>,
        each: u32,
        variant: u32,
    ) -> Result<(), Error> {
        let shape = Shape { workgroup: self.options.tuning.element, rows: 1 };
        let tokens = if *kernel == k::BATCH_LAST { 1 } else { self.batch };
        let grid = [each.div_ceil(shape.workgroup).into(), tokens.into()];
        self.push(name, dispatch(kernel, shape, bindings, push, vec![(VARIANT_ID, variant)]), grid)
    }

    /// Invocations in a workgroup of an element-wise kernel: more than for a token, since there is more of everything.
    fn element(&self) -> u32 {
        (4 * self.options.tuning.element).min(self.options.limits.workgroup)
    }

    /// RMS norm of each row of `width`, and its weight.
    fn norm(&mut self, names: [&'static str; 2], weight: &Matrix<'_>, spans: [Span; 3]) -> Result<(), Error> {
        let [from, normed, to] = spans;
        let width = weight.columns;
        let rows = from.bytes / 4 / u64::from(width);
        // The workgroup of decoding adds up a whole vector; heads are narrow.
        let workgroup = self.options.tuning.reduce.min(width.next_power_of_two().max(4));
        let push = vec![width, self.config.epsilon.to_bits()];
        let shape = Shape { workgroup, rows: 1 };
        let work = dispatch(&k::RMS_NORM_ROWS, shape, vec![from, normed], push, Vec::new());
        self.push(names[0], work, [rows, 1])?;
        let weight = self.weights.of(weight).quants;
        self.elements(names[1], &k::MUL_ROWS, vec![normed, weight, to], &[width])
    }

    /// The vectors of width `columns` in `from` as products take them: as they are, or as halves.
    fn factor(
        &mut self,
        name: &'static str,
        from: Span,
        columns: u32,
        halves: Option<Span>,
    ) -> Result<Span, Error> {
        let Some(halves) = halves else { return Ok(from) };
        let to = Span { bytes: halves_bytes(columns, self.batch), ..halves };
        let shape = halves_shape(self.options.tuning.reduce, columns);
        let work = dispatch(&k::BATCH_HALVES, shape, vec![self.step, from, to], vec![columns], Vec::new());
        self.push(name, work, [self.batch.into(), 1])?;
        Ok(to)
    }

    /// One dispatch for each part of the matrix; `from` are the vectors as [`Builder::factor`] gave them.
    fn matmul(&mut self, name: &'static str, matrix: &Matrix<'_>, from: Span, to: Span) -> Result<(), Error> {
        let Options { tuning, limits, matrix: fragment, .. } = *self.options;
        for part in self.weights.parts(matrix) {
            let Placed { quants, scales } = part.placed;
            let bindings =
                [Some(self.step), Some(quants), scales, Some(from), Some(to)].into_iter().flatten().collect();
            let push = vec![matrix.columns, part.rows, matrix.rows, part.first_row];
            let (kernel, shape, constants, grid) = match fragment {
                None => {
                    let shape = matmul_shape(tuning.reduce);
                    let (kernel, grid) = matmul_dispatch(matrix.ty, part.rows, self.batch, shape);
                    (kernel, shape, Vec::new(), grid)
                }
                Some(fragment) => {
                    let tile = CoopTile::choose(part.rows, self.batch, fragment, &tuning, &limits)?;
                    let grid = tile.grid(part.rows, self.batch);
                    (Family::MatmulCoop.of(matrix.ty), tile.shape(), tile.constants(), grid)
                }
            };
            let work = dispatch(kernel, shape, bindings, push, constants);
            self.push(name, work, grid.map(u64::from))?;
        }
        Ok(())
    }

    /// From the residual stream to the attention's result.
    #[allow(clippy::too_many_arguments)] // what a layer's attention reads and writes
    fn attention(
        &mut self,
        index: u32,
        layer: &Layer<'_>,
        s: &Slots,
        state: Span,
        table: Span,
        keys: Span,
        values: Span,
    ) -> Result<(), Error> {
        let c = self.config;
        self.norm(["attn_norm", "attn_norm_weight"], &layer.attn_norm, [state, s.normed, s.weighted])?;
        let weighted = self.factor("attn_norm_halves", s.weighted, c.embedding, s.halves)?;
        self.matmul("attn_q", &layer.attn_q, weighted, s.q[0])?;
        self.matmul("attn_k", &layer.attn_k, weighted, s.k[0])?;
        self.matmul("attn_v", &layer.attn_v, weighted, s.v[0])?;
        let q = self.bias("attn_q_bias", layer.attn_q_bias.as_ref(), s.q)?;
        let k = self.bias("attn_k_bias", layer.attn_k_bias.as_ref(), s.k)?;
        let v = self.bias("attn_v_bias", layer.attn_v_bias.as_ref(), s.v)?;
        if let Some(weight) = &layer.attn_q_norm {
            self.norm(["attn_q_norm", "attn_q_norm_weight"], weight, [q[0], q[1], q[0]])?;
        }
        if let Some(weight) = &layer.attn_k_norm {
            self.norm(["attn_k_norm", "attn_k_norm_weight"], weight, [k[0], k[1], k[0]])?;
        }
        let neox = u32::from(c.pairing == Pairing::Halves);
        for (name, heads, x) in [("rope_q", c.heads, q), ("rope_k", c.kv_heads, k)] {
            let push = vec![heads, c.head_dim, c.rope_dim];
            let bindings = vec![self.step, table, x[0], x[1]];
            self.tokens(name, &k::BATCH_ROPE, bindings, push, heads * c.head_dim / 2, neox)?;
        }
        let shape = attention_shape(c.head_dim, self.options.limits.shared_memory)?;
        let grid = [c.heads.into(), self.batch.div_ceil(shape.workgroup / 4).into()];
        let context = cache_positions(c, self.options);
        let window = c.layer_window(index).unwrap_or(context);
        let attend = vec![c.heads, c.kv_heads, context, (c.attention_scale as f32).to_bits(), window];
        if let Some((coop, order)) = s.order {
            let Fragment { m, k: depth, .. } = coop.fragment;
            let block = [(6, m), (8, depth)];
            let write = [("write_k", k[1], keys, m, 0), ("write_v", v[0], values, depth, 1)];
            for (name, x, cache, positions, variant) in write {
                let constants = [&block[..], &[(VARIANT_ID, variant)]].concat();
                self.write_blocks(name, [x, order, cache], positions, context, constants)?;
            }
            let bindings = vec![self.step, q[1], keys, values, order, s.attention];
            let constants = [&block[..], &[(VARIANT_ID, c.head_dim)]].concat();
            let work = dispatch(&k::BATCH_ATTENTION_BLOCKS, shape, bindings, attend, constants);
            return self.push("attention", work, grid);
        }
        let halves = fuses_attention(c, self.options);
        let (write_keys, write_values, attention, each) = if halves {
            (&k::BATCH_KV_WRITE_KEYS, &k::BATCH_KV_WRITE_VALUES, &k::BATCH_ATTENTION_HALVES, 8)
        } else {
            (&k::BATCH_KV_WRITE_FLOATS, &k::BATCH_KV_WRITE_FLOATS, &k::BATCH_ATTENTION_FLOATS, 4)
        };
        for (name, kernel, x, cache) in
            [("write_k", write_keys, k[1], keys), ("write_v", write_values, v[0], values)]
        {
            let push = vec![c.kv_heads, c.head_dim, context];
            self.tokens(name, kernel, vec![self.step, x, cache], push, c.kv_dim() / each, 0)?;
        }
        let bindings = vec![self.step, q[1], keys, values, s.attention];
        let work = dispatch(attention, shape, bindings, attend, vec![(VARIANT_ID, c.head_dim)]);
        self.push("attention", work, grid)
    }

    /// Keys or values into a cache in blocks, each of so many positions; `spans` are they, the order, and the cache.
    fn write_blocks(
        &mut self,
        name: &'static str,
        [x, order, cache]: [Span; 3],
        positions: u32,
        context: u32,
        constants: Vec<(u32, u32)>,
    ) -> Result<(), Error> {
        let c = self.config;
        let shape = Shape { workgroup: self.element(), rows: 1 };
        let (bindings, push) = (vec![self.step, x, order, cache], vec![c.kv_heads, c.head_dim, context]);
        let work = dispatch(&k::BATCH_KV_WRITE_BLOCKS, shape, bindings, push, constants);
        let words = c.kv_dim() * positions / 2;
        // A batch may begin within a block.
        let rows = self.batch.div_ceil(positions) + 1;
        self.push(name, work, [words.div_ceil(shape.workgroup).into(), rows.into()])
    }

    /// What was projected with its bias, if there is one: the first span of what comes back.
    fn bias(
        &mut self,
        name: &'static str,
        bias: Option<&Matrix<'_>>,
        [from, to]: [Span; 2],
    ) -> Result<[Span; 2], Error> {
        let Some(bias) = bias else { return Ok([from, to]) };
        let weight = self.weights.of(bias).quants;
        self.elements(name, &k::ADD_ROWS, vec![from, weight, to], &[bias.columns])?;
        Ok([to, from])
    }

    fn feed_forward(&mut self, layer: &Layer<'_>, s: &Slots, state: Span) -> Result<(), Error> {
        self.norm(["ffn_norm", "ffn_norm_weight"], &layer.ffn_norm, [state, s.normed, s.weighted])?;
        let weighted = self.factor("ffn_norm_halves", s.weighted, self.config.embedding, s.halves)?;
        self.matmul("ffn_gate", &layer.ffn_gate, weighted, s.gate)?;
        self.matmul("ffn_up", &layer.ffn_up, weighted, s.up)?;
        let (name, kernel) = match self.config.activation {
            Activation::Silu => ("ffn_silu", &k::SILU),
            Activation::Gelu => ("ffn_gelu", &k::GELU),
        };
        self.elements(name, kernel, vec![s.gate, s.activated], &[])?;
        // The gate is done with, and its span takes the product.
        self.elements("ffn_multiply", &k::MUL, vec![s.activated, s.up, s.gate], &[])?;
        let product = self.factor("ffn_halves", s.gate, self.config.feed_forward, s.halves)?;
        self.matmul("ffn_down", &layer.ffn_down, product, s.projected)
    }

    /// Adds what was projected to the stream, normed in models that do so.
    fn residual(
        &mut self,
        [norm, add]: [&'static str; 2],
        weight: Option<&Matrix<'_>>,
        s: &Slots,
        projected: Span,
        [from, to]: [Span; 2],
    ) -> Result<(), Error> {
        let mut added = projected;
        if let Some(weight) = weight {
            self.norm([norm, norm], weight, [projected, s.normed, s.weighted])?;
            added = s.weighted;
        }
        self.elements(add, &k::ADD, vec![from, added, to], &[])
    }

    /// Norm, output head and bound: of one row as a decode token has them, of all as the other matrices of a batch.
    fn head(
        &mut self,
        model: &Model<'_>,
        h: &Head,
        state: Span,
        halves: Option<Span>,
    ) -> Result<Span, Error> {
        let names = ["output_norm", "output_norm_weight"];
        if let Some(last) = h.last {
            let width = self.config.embedding;
            self.tokens("last_row", &k::BATCH_LAST, vec![self.step, state, last], vec![width], width, 0)?;
            self.norm(names, &model.output_norm, [last, h.normed, h.weighted])?;
            self.last_logits(&model.output, h.weighted, h.logits)?;
        } else {
            self.norm(names, &model.output_norm, [state, h.normed, h.weighted])?;
            let weighted = self.factor("output_halves", h.weighted, self.config.embedding, halves)?;
            self.matmul("output", &model.output, weighted, h.logits)?;
        }
        let Some(cap) = self.config.logit_cap else { return Ok(h.logits) };
        self.elements("output_softcap", &k::SOFTCAP, vec![h.logits, h.capped], &[cap.to_bits()])?;
        Ok(h.capped)
    }

    /// One dispatch for each part of the output matrix.
    fn last_logits(&mut self, matrix: &Matrix<'_>, from: Span, logits: Span) -> Result<(), Error> {
        let shape = self.options.tuning.matvec;
        for part in self.weights.parts(matrix) {
            let Placed { quants, scales } = part.placed;
            let (kernel, grid) = matvec_dispatch(matrix.ty, part.rows, shape, self.options.limits.grid[0]);
            let offset = logits.offset + 4 * u64::from(part.first_row);
            let rows = Span { offset, bytes: 4 * u64::from(part.rows), ..logits };
            let bindings = [Some(quants), scales, Some(from), Some(rows)].into_iter().flatten().collect();
            let push = vec![matrix.columns, part.rows, grid[0] as u32];
            self.push("output", dispatch(kernel, shape, bindings, push, Vec::new()), grid)?;
        }
        Ok(())
    }
}

fn dispatch(
    kernel: &'static k::Kernel,
    shape: Shape,
    bindings: Vec<Span>,
    push: Vec<u32>,
    constants: Vec<(u32, u32)>,
) -> Dispatch {
    Dispatch { kernel, shape, bindings, push, constants, grid: [0, 0], reach: None, waits: false }
}

/// Invocations that bring one vector to halves.
pub(crate) fn halves_shape(reduce: u32, columns: u32) -> Shape {
    Shape { workgroup: reduce.min((columns / 4).next_power_of_two().max(4)), rows: 1 }
}

/// Invocations of the matrix kernel: four for each token of its tile. A GPU's workgroups take 64 tokens, a CPU's 16.
pub(crate) fn matmul_shape(reduce: u32) -> Shape {
    Shape { workgroup: if reduce >= 64 { 256 } else { 64 }, rows: 1 }
}

/// The matrix kernel for a weight format, and its grid over rows and tokens.
pub(crate) fn matmul_dispatch(
    ty: WeightType,
    rows: u32,
    tokens: u32,
    shape: Shape,
) -> (&'static k::Kernel, [u32; 2]) {
    (Family::Matmul.of(ty), [rows.div_ceil(TILE_ROWS), tokens.div_ceil(shape.workgroup / 4)])
}

/// Invocations of batched attention: as many queries as the shared memory holds, 32 at most.
pub(crate) fn attention_shape(head_dim: u32, shared_memory: u32) -> Result<Shape, Error> {
    let quads = head_dim / 4;
    let bytes = |queries: u32| 16 * (queries * quads + 16 * (quads + 1)) + 2 * 4 * 16 * queries;
    let queries = [32, 16, 8, 4]
        .into_iter()
        .find(|queries| bytes(*queries) <= shared_memory)
        .ok_or_else(|| Error::Unfused { step: "attention of a batch".to_owned(), columns: head_dim })?;
    Ok(Shape { workgroup: 4 * queries, rows: 1 })
}
