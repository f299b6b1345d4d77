//! The unfused plan of one decode token: one dispatch for each operation of the network.
//!
//! This is the naive form, the one that an application without any thought of launches and barriers would have. Steps
//! that do not depend on each other (queries, keys and values; gate and up; the two rotations) stand next to each other
//! and write disjoint spans, so whoever looks at the spans can see that no barrier is due between them.

use zinc_shaders as k;

use super::layout::{Arena, Limits, Placement};
use super::{Dispatch, Error, Plan, Shape, Space, Span, Step, Tuning, Work};
use crate::model::{Config, Matrix, Model};
use crate::quant::WeightType;

/// What a plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Positions that the cache holds; attention grids cover all of them.
    pub context: u32,
    /// Workgroup shapes.
    pub tuning: Tuning,
    /// What the device allows.
    pub limits: Limits,
}

/// Spans of the intermediates, all in the arena. `state` and `middle` are the residual stream before and after
/// attention: the additions go from one to the other, never in place.
struct Slots {
    state: Span,
    middle: Span,
    normed: Span,
    weighted: Span,
    q: Span,
    k: Span,
    v: Span,
    q_rotated: Span,
    k_rotated: Span,
    scores: Span,
    probabilities: Span,
    attention: Span,
    projected: Span,
    gate: Span,
    up: Span,
    activated: Span,
    hidden: Span,
    down: Span,
    logits: Span,
}

impl Slots {
    fn new(c: &Config, context: u32, arena: &mut Arena) -> Self {
        let mut take = |count: u32| arena.floats(count.into());
        Self {
            state: take(c.embedding),
            middle: take(c.embedding),
            normed: take(c.embedding),
            weighted: take(c.embedding),
            q: take(c.q_dim()),
            k: take(c.kv_dim()),
            v: take(c.kv_dim()),
            q_rotated: take(c.q_dim()),
            k_rotated: take(c.kv_dim()),
            attention: take(c.q_dim()),
            projected: take(c.embedding),
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
    let slots = Slots::new(c, context, &mut arena);
    let mut cache = Arena::new(Space::Cache, limits);
    let layer_cache = u64::from(context) * u64::from(c.kv_dim());
    let rope_table =
        Span { space: Space::Constants, offset: 0, bytes: u64::from(context) * u64::from(c.rope_dim) * 4 };
    let step = Span { space: Space::Step, offset: 0, bytes: 8 };

    let mut b = Builder { steps: Vec::new(), layer: None, step, rope_table, config: c, weights, options };
    b.embed(&model.embedding, slots.state)?;
    for (index, layer) in model.layers.iter().enumerate() {
        b.layer = Some(index as u32);
        let (keys, values) = (cache.floats(layer_cache), cache.floats(layer_cache));
        b.norm("attn_norm", "attn_norm_weight", &layer.attn_norm, slots.state, slots.normed, slots.weighted)?;
        b.matvec("attn_q", &layer.attn_q, slots.weighted, slots.q)?;
        b.matvec("attn_k", &layer.attn_k, slots.weighted, slots.k)?;
        b.matvec("attn_v", &layer.attn_v, slots.weighted, slots.v)?;
        b.rope("rope_q", c.heads, slots.q, slots.q_rotated)?;
        b.rope("rope_k", c.kv_heads, slots.k, slots.k_rotated)?;
        b.kv_write("write_k", slots.k_rotated, keys)?;
        b.kv_write("write_v", slots.v, values)?;
        b.attention(&slots, keys, values)?;
        b.matvec("attn_output", &layer.attn_output, slots.attention, slots.projected)?;
        b.binary("attn_residual", &k::ADD, slots.state, slots.projected, slots.middle)?;
        b.norm("ffn_norm", "ffn_norm_weight", &layer.ffn_norm, slots.middle, slots.normed, slots.weighted)?;
        b.matvec("ffn_gate", &layer.ffn_gate, slots.weighted, slots.gate)?;
        b.matvec("ffn_up", &layer.ffn_up, slots.weighted, slots.up)?;
        b.silu("ffn_silu", slots.gate, slots.activated)?;
        b.binary("ffn_multiply", &k::MUL, slots.activated, slots.up, slots.hidden)?;
        b.matvec("ffn_down", &layer.ffn_down, slots.hidden, slots.down)?;
        b.binary("ffn_residual", &k::ADD, slots.middle, slots.down, slots.state)?;
    }
    b.layer = None;
    b.norm(
        "output_norm",
        "output_norm_weight",
        &model.output_norm,
        slots.state,
        slots.normed,
        slots.weighted,
    )?;
    b.matvec("output", &model.output, slots.weighted, slots.logits)?;
    let readback = Span { space: Space::Readback, offset: 0, bytes: slots.logits.bytes };
    let mut steps = b.steps;
    steps.push(Step {
        layer: None,
        name: "read_logits",
        work: Work::Copy { from: slots.logits, to: readback },
    });

    let buffers = vec![
        (Space::Constants, rope_table.bytes),
        (Space::Step, step.bytes),
        (Space::Cache, cache.bytes()),
        (Space::Arena, arena.bytes()),
        (Space::Readback, readback.bytes),
    ];
    for (space, bytes) in &buffers {
        limits.check_allocation(&format!("{space:?} (context {context})"), *bytes)?;
    }
    Ok(Plan { steps, buffers })
}

struct Builder<'b> {
    steps: Vec<Step>,
    layer: Option<u32>,
    step: Span,
    rope_table: Span,
    config: &'b Config,
    weights: &'b Placement,
    options: &'b Options,
}

impl Builder<'_> {
    fn push(
        &mut self,
        name: &'static str,
        kernel: &'static k::Kernel,
        shape: Shape,
        bindings: Vec<Span>,
        push: Vec<u32>,
        grid: [u64; 2],
    ) -> Result<(), Error> {
        debug_assert_eq!(bindings.len(), kernel.bindings.len(), "{name}");
        debug_assert_eq!(push.len() * 4, kernel.push_bytes as usize, "{name}");
        let limits = &self.options.limits;
        for span in &bindings {
            limits.check_range(name, span.bytes)?;
        }
        let [most_x, most_y] = limits.grid;
        if grid[0] > most_x.into() || grid[1] > most_y.into() {
            let step = name.to_owned();
            return Err(Error::Grid { step, x: grid[0], y: grid[1], most_x, most_y });
        }
        let grid = [grid[0] as u32, grid[1] as u32];
        let work = Work::Dispatch(Dispatch { kernel, shape, bindings, push, grid });
        self.steps.push(Step { layer: self.layer, name, work });
        Ok(())
    }

    /// One invocation for each of `count` elements.
    fn elements(
        &mut self,
        name: &'static str,
        kernel: &'static k::Kernel,
        bindings: Vec<Span>,
        push: Vec<u32>,
        count: u32,
    ) -> Result<(), Error> {
        let shape = Shape { workgroup: self.options.tuning.element, rows: 1 };
        self.push(name, kernel, shape, bindings, push, [count.div_ceil(shape.workgroup).into(), 1])
    }

    fn embed(&mut self, table: &Matrix<'_>, to: Span) -> Result<(), Error> {
        let placed = self.weights.of(table);
        let (kernel, count) = match table.ty {
            WeightType::F32 => (&k::GET_ROWS_F32, table.columns),
            WeightType::Q8_0 => (&k::GET_ROWS_Q8_0, table.columns / 4),
            WeightType::Q4_0 => (&k::GET_ROWS_Q4_0, table.columns / 8),
        };
        let bindings = [Some(self.step), Some(placed.quants), placed.scales, Some(to)].into_iter().flatten();
        self.elements("token_embd", kernel, bindings.collect(), vec![table.columns], count)
    }

    fn norm(
        &mut self,
        name: &'static str,
        weight_name: &'static str,
        weight: &Matrix<'_>,
        from: Span,
        normed: Span,
        to: Span,
    ) -> Result<(), Error> {
        let shape = Shape { workgroup: self.options.tuning.reduce, rows: 1 };
        let push = vec![weight.columns, self.config.epsilon.to_bits()];
        self.push(name, &k::RMS_NORM, shape, vec![from, normed], push, [1, 1])?;
        let weight = self.weights.of(weight).quants;
        self.binary(weight_name, &k::MUL, normed, weight, to)
    }

    fn binary(
        &mut self,
        name: &'static str,
        kernel: &'static k::Kernel,
        a: Span,
        b: Span,
        to: Span,
    ) -> Result<(), Error> {
        let count = (to.bytes / 4) as u32;
        self.elements(name, kernel, vec![a, b, to], vec![count], count)
    }

    fn silu(&mut self, name: &'static str, from: Span, to: Span) -> Result<(), Error> {
        let count = (to.bytes / 4) as u32;
        self.elements(name, &k::SILU, vec![from, to], vec![count], count)
    }

    fn matvec(&mut self, name: &'static str, matrix: &Matrix<'_>, from: Span, to: Span) -> Result<(), Error> {
        let placed = self.weights.of(matrix);
        let (work, grid) =
            matvec_dispatch(matrix.ty, matrix.rows, self.options.tuning.matvec, self.options.limits.grid[0]);
        let bindings = [Some(placed.quants), placed.scales, Some(from), Some(to)].into_iter().flatten();
        let push = vec![matrix.columns, matrix.rows, grid[0] as u32];
        self.push(name, work, self.options.tuning.matvec, bindings.collect(), push, grid)
    }

    fn rope(&mut self, name: &'static str, heads: u32, from: Span, to: Span) -> Result<(), Error> {
        let c = self.config;
        let bindings = vec![self.step, self.rope_table, from, to];
        self.elements(name, &k::ROPE, bindings, vec![heads, c.head_dim, c.rope_dim], heads * c.head_dim / 2)
    }

    fn kv_write(&mut self, name: &'static str, from: Span, cache: Span) -> Result<(), Error> {
        let count = self.config.kv_dim();
        self.elements(name, &k::KV_WRITE, vec![self.step, from, cache], vec![count], count)
    }

    fn attention(&mut self, s: &Slots, keys: Span, values: Span) -> Result<(), Error> {
        let c = self.config;
        let context = self.options.context;
        let scale = 1.0 / f64::from(c.head_dim).sqrt();
        let element = Shape { workgroup: self.options.tuning.element, rows: 1 };
        let shape = vec![c.heads, c.kv_heads, c.head_dim, context];
        let mut scaled = shape.clone();
        scaled.push((scale as f32).to_bits());
        let tiles = context.div_ceil(element.workgroup);
        let bindings = vec![self.step, s.q_rotated, keys, s.scores];
        self.push("scores", &k::SCORES, element, bindings, scaled, [tiles.into(), c.heads.into()])?;
        let reduce = Shape { workgroup: self.options.tuning.reduce, rows: 1 };
        let bindings = vec![self.step, s.scores, s.probabilities];
        self.push("softmax", &k::SOFTMAX, reduce, bindings, vec![context], [c.heads.into(), 1])?;
        let bindings = vec![self.step, s.probabilities, values, s.attention];
        self.elements("weighted_sum", &k::WEIGHTED_SUM, bindings, shape, c.q_dim())
    }
}

/// The kernel for a weight format, and the grid that covers `rows` rows: along x first, then along y.
pub(crate) fn matvec_dispatch(
    ty: WeightType,
    rows: u32,
    shape: Shape,
    most_x: u32,
) -> (&'static k::Kernel, [u64; 2]) {
    let kernel = match ty {
        WeightType::F32 => &k::MATVEC_F32,
        WeightType::Q8_0 => &k::MATVEC_Q8_0,
        WeightType::Q4_0 => &k::MATVEC_Q4_0,
    };
    let groups = u64::from(rows.div_ceil(shape.rows));
    let x = groups.min(most_x.into()).max(1);
    (kernel, [x, groups.div_ceil(x)])
}
