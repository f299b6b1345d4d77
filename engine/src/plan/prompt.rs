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
use super::decode::{activation_name, constants_end, layer_caches, product_of_parts};
use super::kernels::{self, CacheOf, Gridded};
use super::layout::{Arena, Placed, Placement};
use super::{Dispatch, Error, Options, Plan, Space, Span, Step, Work, rope_tables};
use crate::model::{Config, Layer, Matrix, Model, Pairing};

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

    let element = options.tuning.element;
    for part in weights.parts(&model.embedding) {
        let Placed { quants, scales } = part.placed;
        let push = k::batch_rows::Push { columns: c.embedding, first_row: part.first_row, rows: part.rows };
        let bindings = k::batch_rows::Bindings { batch: step, quants, scales, result: state };
        let build: k::batch_rows::Build = kernels::of("batch_rows", model.embedding.ty);
        b.push("token_embd", kernels::dispatch(build, element, batch, push, bindings))?;
    }
    if let Some(factor) = c.embedding_scale {
        let push = k::scale::Push { count: other.floats(), factor };
        b.elements("embd_scale", (), push, k::scale::Bindings { x: state, result: other })?;
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
    fn push(&mut self, name: &'static str, dispatch: Dispatch) -> Result<(), Error> {
        self.steps.push(dispatch.step(name, self.layer, &self.options.limits)?);
        Ok(())
    }

    /// A kernel with one invocation for each element.
    fn elements<P: Gridded<Constants: From<u32>>>(
        &mut self,
        name: &'static str,
        build: impl Into<P::Build>,
        push: P,
        bindings: P::Bindings<Span>,
    ) -> Result<(), Error> {
        self.push(name, kernels::dispatch(build, self.element(), 1, push, bindings))
    }

    fn pairwise(
        &mut self,
        name: &'static str,
        build: k::pairwise::Build,
        [a, b]: [Span; 2],
        result: Span,
    ) -> Result<(), Error> {
        let push = k::pairwise::Push { count: result.floats() };
        self.elements(name, build, push, k::pairwise::Bindings { a, b, result })
    }

    fn rowwise(
        &mut self,
        name: &'static str,
        build: k::rowwise::Build,
        a: Span,
        row: &Matrix<'_>,
        result: Span,
    ) -> Result<(), Error> {
        let push = k::rowwise::Push { count: result.floats(), width: row.columns };
        let b = self.weights.of(row).quants;
        self.elements(name, build, push, k::rowwise::Bindings { a, b, result })
    }

    /// Invocations in a workgroup of an element-wise kernel: more than for a token, since there is more of everything.
    fn element(&self) -> u32 {
        (4 * self.options.tuning.element).min(self.options.limits.workgroup)
    }

    /// RMS norm of each row of `width`, and its weight.
    fn norm(&mut self, names: [&'static str; 2], weight: &Matrix<'_>, spans: [Span; 3]) -> Result<(), Error> {
        let [from, normed, to] = spans;
        let width = weight.columns;
        let rows = from.floats() / width;
        // The workgroup of decoding adds up a whole vector; heads are narrow.
        let workgroup = self.options.tuning.reduce.min(width.next_power_of_two().max(4));
        let push = k::rms_norm_rows::Push { width, epsilon: self.config.epsilon };
        let bindings = k::rms_norm_rows::Bindings { x: from, result: normed };
        self.push(names[0], kernels::dispatch((), workgroup, rows, push, bindings))?;
        self.rowwise(names[1], k::rowwise::Build::MUL_ROWS, normed, weight, to)
    }

    /// The vectors of width `columns` in `from` as products take them: as they are, or as halves.
    fn factor(
        &mut self,
        name: &'static str,
        x: Span,
        columns: u32,
        halves: Option<Span>,
    ) -> Result<Span, Error> {
        let Some(halves) = halves else { return Ok(x) };
        let result = Span { bytes: halves_bytes(columns, self.batch), ..halves };
        let bindings = k::batch_halves::Bindings { batch: self.step, x, result };
        let reduce = self.options.tuning.reduce;
        let push = k::batch_halves::Push { columns };
        self.push(name, kernels::batch_halves(reduce, self.batch, push, bindings))?;
        Ok(result)
    }

    /// One dispatch for each part of the matrix; `x` are the vectors as [`Builder::factor`] gave them.
    fn matmul(
        &mut self,
        name: &'static str,
        matrix: &Matrix<'_>,
        x: Span,
        result: Span,
    ) -> Result<(), Error> {
        let Options { tuning, limits, matrix: fragment, .. } = *self.options;
        let (batch, &Matrix { ty, columns, rows: stride, .. }) = (self.step, matrix);
        for part in self.weights.parts(matrix) {
            let (Placed { quants, scales }, rows, first) = (part.placed, part.rows, part.first_row);
            let dispatch = match fragment {
                None => {
                    let push = k::matmul::Push { columns, rows, stride, first };
                    let bindings = k::matmul::Bindings { batch, quants, scales, x, result };
                    kernels::matmul(ty, tuning.reduce, self.batch, push, bindings)
                }
                Some(fragment) => {
                    let tile = CoopTile::choose(rows, self.batch, fragment, &tuning, &limits)?;
                    let push = k::matmul_coop::Push { columns, rows, stride, first };
                    let bindings = k::matmul_coop::Bindings { batch, quants, scales, x, result };
                    kernels::matmul_coop(ty, &tile, self.batch, push, bindings)
                }
            };
            self.push(name, dispatch)?;
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
        let (batch, element) = (self.batch, self.options.tuning.element);
        let Config { heads, kv_heads, head_dim, rope_dim, pairing, .. } = *c;
        let constants = k::batch_rope::Constants { workgroup: element, neox: pairing == Pairing::Halves };
        for (name, heads, [x, result]) in [("rope_q", heads, q), ("rope_k", kv_heads, k)] {
            let push = k::batch_rope::Push { heads, head_dim, rope_dim };
            let bindings = k::batch_rope::Bindings { batch: self.step, table, x, result };
            self.push(name, kernels::dispatch((), constants, batch, push, bindings))?;
        }
        let workgroup = kernels::batch_attention_workgroup(head_dim, self.options.limits.shared_memory)?;
        let context = cache_positions(c, self.options);
        let cache = match s.order {
            Some((coop, _)) => CacheOf::Blocks(coop.fragment),
            None if fuses_attention(c, self.options) => CacheOf::Halves,
            None => CacheOf::Floats,
        };
        let order = s.order.map(|(_, order)| order);
        self.write("write_k", cache, false, order, [k[1], keys])?;
        self.write("write_v", cache, true, order, [v[0], values])?;
        let push = k::batch_attention::Push {
            heads,
            kv_heads,
            context,
            scale: c.attention_scale as f32,
            window: c.layer_window(index).unwrap_or(context),
        };
        let (q, result) = (q[1], s.attention);
        let bindings = k::batch_attention::Bindings { batch: self.step, q, keys, values, order, result };
        self.push("attention", kernels::batch_attention(cache, head_dim, workgroup, batch, push, bindings))
    }

    /// Keys or values into the cache; where that has blocks, in this order.
    fn write(
        &mut self,
        name: &'static str,
        cache: CacheOf,
        values: bool,
        order: Option<Span>,
        [x, to]: [Span; 2],
    ) -> Result<(), Error> {
        use k::batch_kv_write::Build;
        let &Config { kv_heads, head_dim, .. } = self.config;
        let (step, batch, context) = (self.step, self.batch, cache_positions(self.config, self.options));
        let build = match (cache, order) {
            (CacheOf::Blocks(fragment), Some(order)) => {
                let push = k::batch_kv_write_blocks::Push { kv_heads, head_dim, context };
                let bindings = k::batch_kv_write_blocks::Bindings { batch: step, x, order, cache: to };
                let element = self.element();
                let write = kernels::batch_kv_write_blocks(values, fragment, element, batch, push, bindings);
                return self.push(name, write);
            }
            (CacheOf::Floats, _) => Build::BATCH_KV_WRITE_FLOATS,
            _ if values => Build::BATCH_KV_WRITE_VALUES,
            _ => Build::BATCH_KV_WRITE_KEYS,
        };
        let push = k::batch_kv_write::Push { kv_heads, head_dim, context };
        let bindings = k::batch_kv_write::Bindings { batch: step, x, cache: to };
        self.push(name, kernels::batch_kv_write(build, self.options.tuning.element, batch, push, bindings))
    }

    /// What was projected with its bias, if there is one: the first span of what comes back.
    fn bias(
        &mut self,
        name: &'static str,
        bias: Option<&Matrix<'_>>,
        [from, to]: [Span; 2],
    ) -> Result<[Span; 2], Error> {
        let Some(bias) = bias else { return Ok([from, to]) };
        self.rowwise(name, k::rowwise::Build::ADD_ROWS, from, bias, to)?;
        Ok([to, from])
    }

    fn feed_forward(&mut self, layer: &Layer<'_>, s: &Slots, state: Span) -> Result<(), Error> {
        self.norm(["ffn_norm", "ffn_norm_weight"], &layer.ffn_norm, [state, s.normed, s.weighted])?;
        let weighted = self.factor("ffn_norm_halves", s.weighted, self.config.embedding, s.halves)?;
        self.matmul("ffn_gate", &layer.ffn_gate, weighted, s.gate)?;
        self.matmul("ffn_up", &layer.ffn_up, weighted, s.up)?;
        let (function, push) = (self.config.activation, k::activation::Push { count: s.gate.floats() });
        let bindings = k::activation::Bindings { x: s.gate, result: s.activated };
        self.elements(activation_name(function), function, push, bindings)?;
        // The gate is done with, and its span takes the product.
        self.pairwise("ffn_multiply", k::pairwise::Build::MUL, [s.activated, s.up], s.gate)?;
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
        self.pairwise(add, k::pairwise::Build::ADD, [from, added], to)
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
            let (element, width) = (self.options.tuning.element, self.config.embedding);
            let bindings = k::batch_last::Bindings { batch: self.step, x: state, result: last };
            self.push(
                "last_row",
                kernels::dispatch((), element, 1, k::batch_last::Push { width }, bindings),
            )?;
            self.norm(names, &model.output_norm, [last, h.normed, h.weighted])?;
            for part in product_of_parts(&model.output, self.weights, self.options, h.weighted, h.logits) {
                self.push("output", part)?;
            }
        } else {
            self.norm(names, &model.output_norm, [state, h.normed, h.weighted])?;
            let weighted = self.factor("output_halves", h.weighted, self.config.embedding, halves)?;
            self.matmul("output", &model.output, weighted, h.logits)?;
        }
        let Some(cap) = self.config.logit_cap else { return Ok(h.logits) };
        let push = k::softcap::Push { count: h.capped.floats(), cap };
        self.elements("output_softcap", (), push, k::softcap::Bindings { x: h.logits, result: h.capped })?;
        Ok(h.capped)
    }
}
