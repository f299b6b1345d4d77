//! The unfused plan of one decode token: one dispatch for each operation of the network.
//!
//! This is the naive form, the one that an application without any thought of launches and barriers would have. Steps
//! that do not depend on each other (queries, keys and values; gate and up; the two rotations) stand next to each other
//! and write disjoint spans, so whoever looks at the spans can see that no barrier is due between them.

use zinc_shaders as k;

use super::attention::{block_order, cache_positions, coop_attention, fuses_attention};
use super::chain::{Chain, Handoff};
use super::fused::FusedSlots;
use super::kernels::{self, Gridded};
use super::layout::{Arena, Arenas, Limits, Placed, Placement};
use super::resident::{Resident, Streams};
use super::{Dispatch, Error, Features, Fragment, Fusion, Plan, Space, Span, Step, Tuning, Work};
use crate::model::{Activation, Config, Layer, Matrix, Model};

/// What a plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Positions that the cache holds; attention grids cover all of them.
    pub context: u32,
    /// Workgroup shapes.
    pub tuning: Tuning,
    /// What the device allows.
    pub limits: Limits,
    /// What the device has beyond what every device has.
    pub features: Features,
    /// Which steps are made one.
    pub fusion: Fusion,
    /// How fused steps hand over to each other.
    pub handoff: Handoff,
    /// Whether the device chooses the next token itself (the likeliest).
    pub sample: bool,
    /// The cooperative matrices that attention of one token is computed on where it is fused; none for float arithmetic.
    pub attention: Option<Fragment>,
    /// Leaves the waits of kernels for each other out: the control, whose numbers must be wrong on a GPU.
    pub no_grid_barrier: bool,
    /// Leaves the loads before those barriers out.
    pub no_prefetch: bool,
    /// The cooperative matrices that a batch's products are computed on; none for plain float arithmetic.
    pub matrix: Option<Fragment>,
}

impl Options {
    /// The plain plan for a device.
    pub fn new(context: u32, tuning: Tuning, limits: Limits) -> Self {
        Self {
            context,
            tuning,
            limits,
            features: Features::default(),
            fusion: Fusion::None,
            handoff: Handoff::Barriers,
            sample: false,
            attention: None,
            no_grid_barrier: false,
            no_prefetch: false,
            matrix: None,
        }
    }
}

/// Queries, keys or values on their way from the projection: biased, normed by head, weighted, rotated. Each stage has a
/// span of its own, whether or not a model has the stage.
#[derive(Clone, Copy)]
pub(super) struct Stages {
    pub(super) projected: Span,
    pub(super) biased: Span,
    pub(super) normed: Span,
    pub(super) weighted: Span,
    pub(super) rotated: Span,
}

/// Spans of the intermediates, all in the arena. `state` and `middle` are the residual stream before and after
/// attention: the additions go from one to the other, never in place.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) state: Span,
    /// The residual stream behind a layer: `state`, or the next layer's.
    pub(super) next: Span,
    pub(super) middle: Span,
    pub(super) normed: Span,
    pub(super) weighted: Span,
    pub(super) q: Stages,
    pub(super) k: Stages,
    pub(super) v: Stages,
    pub(super) scores: Span,
    pub(super) probabilities: Span,
    pub(super) attention: Span,
    pub(super) projected: Span,
    /// What a part of a layer adds to the stream, normed and weighted, in models that norm it; the first with its bias in
    /// models that have one there.
    pub(super) post_normed: Span,
    pub(super) post_weighted: Span,
    pub(super) gate: Span,
    pub(super) up: Span,
    pub(super) activated: Span,
    pub(super) hidden: Span,
    pub(super) down: Span,
    pub(super) logits: Span,
}

impl Slots {
    fn new(c: &Config, context: u32, arena: &mut Arena) -> Self {
        let mut take = |count: u32| arena.floats(count.into());
        let (q_dim, kv_dim) = (c.q_dim(), c.kv_dim());
        let mut stages = |count| Stages {
            projected: take(count),
            biased: take(count),
            normed: take(count),
            weighted: take(count),
            rotated: take(count),
        };
        let (q, k, v) = (stages(q_dim), stages(kv_dim), stages(kv_dim));
        let state = take(c.embedding);
        Self {
            state,
            next: state,
            middle: take(c.embedding),
            normed: take(c.embedding),
            weighted: take(c.embedding),
            q,
            k,
            v,
            attention: take(q_dim),
            projected: take(c.embedding),
            post_normed: take(c.embedding),
            post_weighted: take(c.embedding),
            gate: take(c.feed_forward),
            up: take(c.feed_forward),
            activated: take(c.feed_forward),
            hidden: take(c.feed_forward),
            down: take(c.embedding),
            logits: take(c.vocabulary),
            scores: arena.floats(u64::from(c.heads) * u64::from(context)),
            probabilities: arena.floats(u64::from(c.heads) * u64::from(context)),
        }
    }
}

/// Plans one token of `model`, whose weights live where `weights` says.
pub fn decode(model: &Model<'_>, weights: &Placement, options: &Options) -> Result<Plan, Error> {
    let c = &model.config;
    let context = options.context;
    if context == 0 || context > c.context {
        return Err(Error::Context { asked: context, trained: c.context });
    }
    let limits = &options.limits;
    let mut arena = Arena::new(Space::Arena, limits);
    let mut slots = Slots::new(c, context, &mut arena);
    let (caches, cache) = layer_caches(c, options);
    let rope_tables = rope_tables(c, context, limits);
    let step = Span { space: Space::Step, offset: 0, bytes: 8 };

    let fused = FusedSlots::new(c, options, &mut arena);
    let mut constant_arena = Arena::new(Space::Constants, limits);
    constant_arena.take(constants_end(c, options));
    let resident = options.resident().then(|| Resident::new(c, options, &mut constant_arena, &mut arena));

    let chain = Chain::new(c, options, &mut arena)?;

    let row = |_: &Span| arena.floats(u64::from(c.rope_dim));
    let angles = coop_attention(c, options).map_or(Vec::new(), |_| rope_tables.iter().map(row).collect());
    let mut b = Builder {
        steps: Vec::new(),
        layer: None,
        step,
        rope_tables,
        angles,
        config: c,
        weights,
        options,
        fused,
        chain,
    };
    b.begin_chain()?;
    if let Some(factor) = c.embedding_scale {
        b.embed(&model.embedding, slots.middle)?;
        let push = k::scale::Push { count: c.embedding, factor };
        b.elements("embd_scale", (), push, k::scale::Bindings { x: slots.middle, result: slots.state })?;
    } else {
        b.embed(&model.embedding, slots.state)?;
    }
    let mut uploads = Vec::new();
    if let Some(resident) = &resident {
        let streams = Streams {
            state: slots.state,
            middle: slots.middle,
            attention: slots.attention,
            hidden: slots.hidden,
        };
        uploads.push((resident.table, b.resident(model, resident, &streams, &caches)?));
    } else {
        for ((index, layer), (keys, values)) in (0..).zip(&model.layers).zip(&caches) {
            b.layer = Some(index);
            if let Some(chain) = &b.chain {
                (slots, b.fused) = chain.layer(index, &slots, &b.fused);
            }
            if options.fusion.parts().any() {
                b.fused_layer(index, layer, &slots, *keys, *values)?;
            } else {
                b.layer(index, layer, &slots, *keys, *values)?;
            }
            slots.state = slots.next;
        }
    }
    b.layer = None;
    if !b.fused_head(&model.output_norm, &model.output, &slots)? {
        let (norm, names) = (&model.output_norm, ["output_norm", "output_norm_weight"]);
        b.norm(names[0], names[1], norm, slots.state, slots.normed, slots.weighted)?;
        b.matvec("output", &model.output, slots.weighted, slots.logits)?;
    }
    let mut logits = slots.logits;
    if let Some(cap) = c.logit_cap {
        logits = arena.floats(c.vocabulary.into());
        let push = k::softcap::Push { count: c.vocabulary, cap };
        b.elements("output_softcap", (), push, k::softcap::Bindings { x: slots.logits, result: logits })?;
    }
    let readback = Span { space: Space::Readback, offset: 0, bytes: logits.bytes };
    let tokens = Span { space: Space::Tokens, offset: 0, bytes: 4 * u64::from(context) };
    if options.sample {
        b.sample(logits, c.vocabulary, tokens, &mut arena)?;
    }
    let mut steps = b.steps;
    steps.push(Step { layer: None, name: "read_logits", work: Work::Copy { from: logits, to: readback } });
    let mut readback_bytes = readback.bytes;
    let waits = resident.as_ref().map(Resident::failed).or(b.chain.as_ref().map(Chain::failed));
    let failed = waits.map(|from| {
        let word = Span { offset: readback.bytes.next_multiple_of(limits.alignment), bytes: 4, ..readback };
        steps.push(Step { layer: None, name: "read_failed", work: Work::Copy { from, to: word } });
        readback_bytes = word.offset + word.bytes;
        word
    });
    let own = b.chain.as_ref().map(Chain::control_bytes);
    let own = own.or(resident.as_ref().map(Resident::control_bytes));
    let control = own.unwrap_or(fused.control_bytes());
    let mut buffers = vec![
        (Space::Constants, constant_arena.bytes()),
        (Space::Step, step.bytes),
        (Space::Arena, arena.bytes()),
        (Space::Control, control),
        (Space::Readback, readback_bytes),
    ];
    if options.sample {
        buffers.push((Space::Tokens, tokens.bytes));
    }
    buffers.extend(cache.buffers());
    for (space, bytes) in &buffers {
        limits.check_allocation(&format!("{space:?} (context {context})"), *bytes)?;
    }
    Ok(Plan { steps, buffers, uploads, failed })
}

/// Where the keys and values of each layer lie, and the buffers that hold them.
pub(super) fn layer_caches(c: &Config, options: &Options) -> (Vec<(Span, Span)>, Arenas) {
    let mut cache = Arenas::new(Space::Cache, &options.limits);
    // Fused attention keeps halves.
    let half = if fuses_attention(c, options) { 2 } else { 1 };
    let each = u64::from(cache_positions(c, options)) * u64::from(c.kv_dim()) / half;
    let caches = (0..c.layers).map(|_| (cache.floats(each), cache.floats(each))).collect();
    (caches, cache)
}

/// Where the tables that both plans read end.
pub(super) fn constants_end(c: &Config, options: &Options) -> u64 {
    let (context, limits) = (options.context, &options.limits);
    let order = coop_attention(c, options).map(|coop| block_order(c, context, limits, coop.fragment));
    let tables = rope_tables(c, context, limits);
    tables.iter().chain(&order).map(|table| table.offset + table.bytes).max().unwrap_or(0)
}

/// Where the table of cosines and sines of each of the configuration's rotations lies: `[context][rope_dim / 2][2]`.
pub(crate) fn rope_tables(c: &Config, context: u32, limits: &Limits) -> Vec<Span> {
    let mut constants = Arena::new(Space::Constants, limits);
    let floats = u64::from(context) * u64::from(c.rope_dim);
    c.ropes.iter().map(|_| constants.floats(floats)).collect()
}

pub(super) struct Builder<'b> {
    pub(super) steps: Vec<Step>,
    pub(super) layer: Option<u32>,
    pub(super) step: Span,
    /// One for each of the configuration's rotations.
    pub(super) rope_tables: Vec<Span>,
    /// The present position's rows of these, where a step fetches them.
    pub(super) angles: Vec<Span>,
    pub(super) config: &'b Config,
    pub(super) weights: &'b Placement,
    pub(super) options: &'b Options,
    pub(super) fused: FusedSlots,
    /// Where steps wait for each other by themselves.
    pub(super) chain: Option<Chain>,
}

impl Builder<'_> {
    pub(super) fn push(&mut self, name: &'static str, dispatch: Dispatch) -> Result<(), Error> {
        self.steps.push(dispatch.step(name, self.layer, &self.options.limits)?);
        if let Some(chain) = &mut self.chain {
            chain.broken();
        }
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
        self.push(name, kernels::dispatch(build, self.options.tuning.element, 1, push, bindings))
    }

    /// A kernel with one workgroup for each of `rows`.
    pub(super) fn reduce<P: Gridded<Build: From<()>, Constants: From<u32>>>(
        &mut self,
        name: &'static str,
        rows: u32,
        push: P,
        bindings: P::Bindings<Span>,
    ) -> Result<(), Error> {
        self.push(name, kernels::dispatch((), self.options.tuning.reduce, rows, push, bindings))
    }

    /// Attention and feed-forward network of one layer.
    fn layer(
        &mut self,
        index: u32,
        layer: &Layer<'_>,
        s: &Slots,
        keys: Span,
        values: Span,
    ) -> Result<(), Error> {
        self.norm("attn_norm", "attn_norm_weight", &layer.attn_norm, s.state, s.normed, s.weighted)?;
        self.matvec("attn_q", &layer.attn_q, s.weighted, s.q.projected)?;
        self.matvec("attn_k", &layer.attn_k, s.weighted, s.k.projected)?;
        self.matvec("attn_v", &layer.attn_v, s.weighted, s.v.projected)?;
        self.plain_attention(index, layer, s, keys, values, true)?;
        self.matvec("attn_output", &layer.attn_output, s.attention, s.projected)?;
        let projected = self.output_bias(layer, s)?;
        let names = ["attn_post_norm", "attn_post_norm_weight"];
        let added = self.post_norm(names, layer.attn_post_norm.as_ref(), s, projected)?;
        self.binary("attn_residual", k::pairwise::Build::ADD, s.state, added, s.middle)?;

        self.norm("ffn_norm", "ffn_norm_weight", &layer.ffn_norm, s.middle, s.normed, s.weighted)?;
        self.matvec("ffn_gate", &layer.ffn_gate, s.weighted, s.gate)?;
        self.matvec("ffn_up", &layer.ffn_up, s.weighted, s.up)?;
        self.activation(s.gate, s.activated)?;
        self.binary("ffn_multiply", k::pairwise::Build::MUL, s.activated, s.up, s.hidden)?;
        self.matvec("ffn_down", &layer.ffn_down, s.hidden, s.down)?;
        let names = ["ffn_post_norm", "ffn_post_norm_weight"];
        let added = self.post_norm(names, layer.ffn_post_norm.as_ref(), s, s.down)?;
        self.binary("ffn_residual", k::pairwise::Build::ADD, s.middle, added, s.state)
    }

    /// From the projections to the attention's result, one step for each operation.
    pub(super) fn plain_attention(
        &mut self,
        index: u32,
        layer: &Layer<'_>,
        s: &Slots,
        keys: Span,
        values: Span,
        biases: bool,
    ) -> Result<(), Error> {
        let c = self.config;
        let q = self.bias("attn_q_bias", layer.attn_q_bias.as_ref().filter(|_| biases), &s.q)?;
        let k = self.bias("attn_k_bias", layer.attn_k_bias.as_ref().filter(|_| biases), &s.k)?;
        let v = self.bias("attn_v_bias", layer.attn_v_bias.as_ref().filter(|_| biases), &s.v)?;
        let names = ["attn_q_norm", "attn_q_norm_weight"];
        let q = self.head_norm(names, layer.attn_q_norm.as_ref(), q, &s.q, c.heads)?;
        let names = ["attn_k_norm", "attn_k_norm_weight"];
        let k = self.head_norm(names, layer.attn_k_norm.as_ref(), k, &s.k, c.kv_heads)?;
        let table = self.rope_tables[c.layer_rope(index)];
        self.rope("rope_q", c.heads, table, q, s.q.rotated)?;
        self.rope("rope_k", c.kv_heads, table, k, s.k.rotated)?;
        self.kv_write("write_k", s.k.rotated, keys)?;
        self.kv_write("write_v", v, values)?;
        self.attention(s, keys, values, c.layer_window(index))
    }

    /// One dispatch for each part of the table; all but the one with the token's row do nothing.
    fn embed(&mut self, table: &Matrix<'_>, to: Span) -> Result<(), Error> {
        for part in self.weights.parts(table) {
            let Placed { quants, scales } = part.placed;
            let push =
                k::get_rows::Push { columns: table.columns, first_row: part.first_row, rows: part.rows };
            let bindings = k::get_rows::Bindings { step: self.step, quants, scales, result: to };
            let element = self.options.tuning.element;
            self.push("token_embd", kernels::get_rows(table.ty, element, push, bindings))?;
        }
        Ok(())
    }

    /// Chooses the likeliest token and makes it the next step's.
    fn sample(&mut self, logits: Span, count: u32, tokens: Span, arena: &mut Arena) -> Result<(), Error> {
        /// Workgroups that look at a part of the vocabulary each.
        const PARTS: u32 = 256;
        let groups = count.div_ceil(PARTS).min(PARTS);
        let parts = arena.take(8 * u64::from(groups));
        let push = k::best::Push { count };
        self.reduce("best", groups, push, k::best::Bindings { logits, result: parts })?;
        let bindings = k::advance::Bindings { parts, step: self.step, tokens };
        self.reduce("advance", 1, k::advance::Push { count: groups }, bindings)
    }

    /// The present position's cosines and sines to where their place does not depend on it.
    pub(super) fn fetch_angles(&mut self) -> Result<(), Error> {
        let push = k::angles::Push { pairs: self.config.rope_dim / 2 };
        for (table, result) in self.rope_tables.clone().into_iter().zip(self.angles.clone()) {
            self.elements("angles", (), push, k::angles::Bindings { step: self.step, table, result })?;
        }
        Ok(())
    }

    /// The projection with its bias, if there is one.
    fn bias(
        &mut self,
        name: &'static str,
        bias: Option<&Matrix<'_>>,
        stages: &Stages,
    ) -> Result<Span, Error> {
        let Some(bias) = bias else { return Ok(stages.projected) };
        let bias = self.weights.of(bias).quants;
        self.binary(name, k::pairwise::Build::ADD, stages.projected, bias, stages.biased)?;
        Ok(stages.biased)
    }

    /// RMS norm of each head and the weight that all heads share, if there is one.
    fn head_norm(
        &mut self,
        [name, weight_name]: [&'static str; 2],
        weight: Option<&Matrix<'_>>,
        from: Span,
        stages: &Stages,
        heads: u32,
    ) -> Result<Span, Error> {
        let Some(weight) = weight else { return Ok(from) };
        let width = weight.columns;
        let Stages { normed, weighted, .. } = *stages;
        let push = k::rms_norm_rows::Push { width, epsilon: self.config.epsilon };
        self.reduce(name, heads, push, k::rms_norm_rows::Bindings { x: from, result: normed })?;
        let (build, push) = (k::rowwise::Build::MUL_ROWS, k::rowwise::Push { count: heads * width, width });
        let b = self.weights.of(weight).quants;
        self.elements(weight_name, build, push, k::rowwise::Bindings { a: normed, b, result: weighted })?;
        Ok(weighted)
    }

    /// What a part of a layer adds to the stream: normed, in models that do so.
    pub(super) fn post_norm(
        &mut self,
        [name, weight_name]: [&'static str; 2],
        weight: Option<&Matrix<'_>>,
        s: &Slots,
        from: Span,
    ) -> Result<Span, Error> {
        let Some(weight) = weight else { return Ok(from) };
        self.norm(name, weight_name, weight, from, s.post_normed, s.post_weighted)?;
        Ok(s.post_weighted)
    }

    pub(super) fn norm(
        &mut self,
        name: &'static str,
        weight_name: &'static str,
        weight: &Matrix<'_>,
        from: Span,
        normed: Span,
        to: Span,
    ) -> Result<(), Error> {
        let push = k::rms_norm::Push { count: weight.columns, epsilon: self.config.epsilon };
        self.reduce(name, 1, push, k::rms_norm::Bindings { x: from, result: normed })?;
        self.binary(weight_name, k::pairwise::Build::MUL, normed, self.weights.of(weight).quants, to)
    }

    pub(super) fn binary(
        &mut self,
        name: &'static str,
        build: k::pairwise::Build,
        a: Span,
        b: Span,
        result: Span,
    ) -> Result<(), Error> {
        let push = k::pairwise::Push { count: result.floats() };
        self.elements(name, build, push, k::pairwise::Bindings { a, b, result })
    }

    pub(super) fn activation(&mut self, x: Span, result: Span) -> Result<(), Error> {
        let (function, push) = (self.config.activation, k::activation::Push { count: result.floats() });
        let name = activation_name(function);
        self.elements(name, function, push, k::activation::Bindings { x, result })
    }

    /// One dispatch for each part of the matrix, each for its own rows of the result.
    pub(super) fn matvec(
        &mut self,
        name: &'static str,
        matrix: &Matrix<'_>,
        x: Span,
        to: Span,
    ) -> Result<(), Error> {
        for dispatch in product_of_parts(matrix, self.weights, self.options, x, to) {
            self.push(name, dispatch)?;
        }
        Ok(())
    }

    fn rope(
        &mut self,
        name: &'static str,
        heads: u32,
        table: Span,
        x: Span,
        result: Span,
    ) -> Result<(), Error> {
        let Config { head_dim, rope_dim, pairing, .. } = *self.config;
        let push = k::rope::Push { heads, head_dim, rope_dim };
        self.elements(name, pairing, push, k::rope::Bindings { step: self.step, table, x, result })
    }

    fn kv_write(&mut self, name: &'static str, x: Span, cache: Span) -> Result<(), Error> {
        let push = k::kv_write::Push { count: self.config.kv_dim() };
        self.elements(name, (), push, k::kv_write::Bindings { step: self.step, x, cache })
    }

    fn attention(&mut self, s: &Slots, keys: Span, values: Span, window: Option<u32>) -> Result<(), Error> {
        let Config { heads, kv_heads, head_dim, attention_scale, .. } = *self.config;
        let Options { context, tuning, .. } = *self.options;
        let (step, scale, window) = (self.step, attention_scale as f32, window.unwrap_or(context));
        let push = k::scores::Push { heads, kv_heads, head_dim, context, scale, window };
        let bindings = k::scores::Bindings { step, q: s.q.rotated, keys, result: s.scores };
        self.push("scores", kernels::scores(tuning.element, push, bindings))?;
        let push = k::softmax::Push { context, window };
        let bindings = k::softmax::Bindings { step, scores: s.scores, result: s.probabilities };
        self.reduce("softmax", heads, push, bindings)?;
        let push = k::weighted_sum::Push { heads, kv_heads, head_dim, context, window };
        let probabilities = s.probabilities;
        let bindings = k::weighted_sum::Bindings { step, probabilities, values, result: s.attention };
        self.elements("weighted_sum", (), push, bindings)
    }
}

/// What the step with the gate's function is called.
pub(super) fn activation_name(function: Activation) -> &'static str {
    match function {
        Activation::Silu => "ffn_silu",
        Activation::Gelu => "ffn_gelu",
    }
}

/// A matrix times one vector: a dispatch for each part of the matrix, each for its own rows of the result.
pub(super) fn product_of_parts(
    matrix: &Matrix<'_>,
    weights: &Placement,
    options: &Options,
    x: Span,
    to: Span,
) -> impl Iterator<Item = Dispatch> {
    let Options { tuning, limits, .. } = *options;
    let (ty, columns) = (matrix.ty, matrix.columns);
    weights.parts(matrix).iter().map(move |part| {
        let Placed { quants, scales } = part.placed;
        let bindings = k::matvec::Bindings { quants, scales, x, result: to.rows(part) };
        kernels::matvec(ty, tuning.matvec, [columns, part.rows], limits.grid[0], bindings)
    })
}
