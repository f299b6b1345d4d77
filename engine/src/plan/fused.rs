//! Fused steps of a token, each part of the fusion on its own or all of them.
//!
//! | part | what becomes one dispatch |
//! | --- | --- |
//! | norm | RMS norm, its weight and the bias with each projection that follows |
//! | attention | QK norm, RoPE, both writes to the cache, scores, softmax and weighted sum |
//! | feed-forward | gate, up and activation; each residual addition with the projection before it |
//! | qkv | the three projections of the attention |
//!
//! With all of them a layer is five dispatches, each of which needs all of what the one before wrote: projections,
//! attention, output, gate and up, down. What a model or device does not allow is planned unfused, part by part.

use zinc_shaders as k;

use super::attention::{cache_positions, coop_attention, fitting_attention, fuses_attention, splits};
use super::decode::{Builder, Slots};
use super::kernels::{self, Arithmetic, Heads};
use super::layout::Arena;
use super::tile::{Crew, Tiling, Work as Cut};
use super::{Error, Options, Space, Span};
use crate::model::{Activation, Config, Layer, Matrix};

/// Which steps are made one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fusion {
    /// One dispatch for each operation.
    #[default]
    None,
    /// Norms with the projections that follow.
    Norm,
    /// Everything from the projections to the attention's result.
    Rope,
    /// The feed-forward network's steps, and residuals.
    Ffn,
    /// All of it.
    All,
    /// All layers in one resident dispatch with barriers of its own.
    Persistent,
}

impl Fusion {
    /// The parts that are fused.
    pub fn parts(self) -> Parts {
        let none = Parts::default();
        match self {
            Self::None => none,
            Self::Norm => Parts { norm: true, ..none },
            Self::Rope => Parts { attention: true, ..none },
            Self::Ffn => Parts { feed_forward: true, ..none },
            Self::All | Self::Persistent => {
                Parts { norm: true, attention: true, feed_forward: true, qkv: true }
            }
        }
    }
}

/// Parts of the fusion; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the table above
pub struct Parts {
    pub norm: bool,
    pub attention: bool,
    pub feed_forward: bool,
    pub qkv: bool,
}

impl Parts {
    /// Whether anything is fused.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Intermediates that only fused plans have.
#[derive(Debug, Clone, Copy)]
pub(super) struct FusedSlots {
    pub(super) q: Span,
    pub(super) k: Span,
    pub(super) v: Span,
    pub(super) parts: Span,
    pub(super) counters: Span,
    /// What a prefetch writes.
    pub(super) scratch: Span,
}

impl FusedSlots {
    pub(super) fn new(c: &Config, options: &Options, arena: &mut Arena) -> Self {
        let mut take = |count: u32| arena.floats(count.into());
        let splits = splits(c, options);
        let t = options.tuning.fused;
        let counters = Span { space: Space::Control, offset: 0, bytes: 4 * u64::from(c.kv_heads) };
        Self {
            q: take(c.q_dim()),
            k: take(c.kv_dim()),
            v: take(c.kv_dim()),
            parts: take(c.heads * splits * (c.head_dim + 4)),
            // A float for each 256 bytes, and what the last workgroup has too many.
            scratch: take((t.prefetch.max(t.prefetch_output) << 12).max(1) + 256),
            counters,
        }
    }

    /// Bytes of the control buffer.
    pub(super) fn control_bytes(&self) -> u64 {
        self.counters.bytes
    }
}

/// What is done with the results of a projection.
#[derive(Clone, Copy)]
enum Epilogue {
    Plain,
    /// Added to this.
    Residual(Span),
    /// An activation of the first matrix's result times the second's.
    Gate(Activation),
}

impl Epilogue {
    /// The kernel's `EPILOGUE`.
    fn number(self) -> u32 {
        match self {
            Self::Plain => 0,
            Self::Residual(_) => 1,
            Self::Gate(Activation::Silu) => 2,
            Self::Gate(Activation::Gelu) => 3,
        }
    }
}

/// One matrix of a step, and where its results go.
#[derive(Clone, Copy)]
struct Item<'m, 'a> {
    matrix: &'m Matrix<'a>,
    bias: Option<&'m Matrix<'a>>,
    to: Span,
}

/// The smallest span that holds all of these, which are of one buffer.
fn cover(spans: &[Span]) -> Span {
    let first = spans.iter().map(|s| s.offset).min().unwrap_or(0);
    let end = spans.iter().map(|s| s.offset + s.bytes).max().unwrap_or(0);
    Span { space: spans[0].space, offset: first, bytes: end - first }
}

impl Builder<'_> {
    /// A layer, with every part fused that the options name and the model allows.
    pub(super) fn fused_layer(
        &mut self,
        index: u32,
        layer: &Layer<'_>,
        s: &Slots,
        keys: Span,
        values: Span,
    ) -> Result<(), Error> {
        let c = self.config;
        let parts = self.options.fusion.parts();
        let attention = fuses_attention(c, self.options);
        if index == 0 && self.chain.is_some() {
            // Before the chain, which it would interrupt.
            self.fetch_angles()?;
        }
        let inputs = [&layer.attn_q, &layer.attn_k, &layer.attn_v];
        let norm = parts.norm && inputs.iter().all(|m| self.fits(m, false, true));
        let biased =
            layer.attn_q_bias.is_some() || layer.attn_k_bias.is_some() || layer.attn_v_bias.is_some();
        let f = self.fused;
        let to = if attention { [f.q, f.k, f.v] } else { [s.q.projected, s.k.projected, s.v.projected] };
        // A bias belongs to the projection wherever the attention is fused.
        let fused_bias = norm || (attention && biased && inputs.iter().all(|m| self.fits(m, false, false)));
        let names = ["attn_q", "attn_k", "attn_v"];
        let biases = [&layer.attn_q_bias, &layer.attn_k_bias, &layer.attn_v_bias];
        if !norm {
            self.norm("attn_norm", "attn_norm_weight", &layer.attn_norm, s.state, s.normed, s.weighted)?;
        }
        if fused_bias {
            let items: [Item<'_, '_>; 3] =
                std::array::from_fn(|i| Item { matrix: inputs[i], bias: biases[i].as_ref(), to: to[i] });
            let (x, weight) = if norm { (s.state, Some(&layer.attn_norm)) } else { (s.weighted, None) };
            if parts.qkv {
                self.project("attn_qkv", &items, x, weight, Epilogue::Plain)?;
            } else {
                for (name, item) in names.into_iter().zip(items) {
                    self.project(name, &[item], x, weight, Epilogue::Plain)?;
                }
            }
        } else {
            for i in 0..3 {
                self.matvec(names[i], inputs[i], s.weighted, to[i])?;
            }
        }
        if index == 0 && self.chain.is_none() {
            // Beside the projections, so that it takes no barrier of its own.
            self.fetch_angles()?;
        }
        if attention && (fused_bias || !biased) {
            self.fused_attention(index, layer, keys, values, s.attention)?;
            let most = u64::from(self.options.tuning.fused.prefetch) << 20;
            self.prefetch(&[&layer.attn_output, &layer.ffn_gate, &layer.ffn_up], 0, most)?;
        } else {
            self.plain_attention(index, layer, s, keys, values, !fused_bias)?;
        }

        let residual = |this: &Self, matrix: &Matrix<'_>, post: &Option<Matrix<'_>>| {
            parts.feed_forward && post.is_none() && this.fits(matrix, false, false)
        };
        if residual(self, &layer.attn_output, &layer.attn_post_norm) {
            let bias = layer.attn_output_bias.as_ref();
            let item = Item { matrix: &layer.attn_output, bias, to: s.middle };
            self.project("attn_output", &[item], s.attention, None, Epilogue::Residual(s.state))?;
        } else {
            self.matvec("attn_output", &layer.attn_output, s.attention, s.projected)?;
            let projected = self.output_bias(layer, s)?;
            let names = ["attn_post_norm", "attn_post_norm_weight"];
            let added = self.post_norm(names, layer.attn_post_norm.as_ref(), s, projected)?;
            self.binary("attn_residual", k::pairwise::Build::ADD, s.state, added, s.middle)?;
        }

        let t = self.options.tuning.fused;
        let read = self.weights.whole(&layer.attn_output).map_or(0, |placed| placed.quants.bytes);
        let done = (u64::from(t.prefetch) << 20).saturating_sub(read);
        self.prefetch(&[&layer.ffn_gate, &layer.ffn_up], done, u64::from(t.prefetch_output) << 20)?;

        self.fused_gates(layer, s)?;
        if residual(self, &layer.ffn_down, &layer.ffn_post_norm) {
            let item = Item { matrix: &layer.ffn_down, bias: None, to: s.next };
            self.project("ffn_down", &[item], s.hidden, None, Epilogue::Residual(s.middle))?;
        } else {
            self.matvec("ffn_down", &layer.ffn_down, s.hidden, s.down)?;
            let names = ["ffn_post_norm", "ffn_post_norm_weight"];
            let added = self.post_norm(names, layer.ffn_post_norm.as_ref(), s, s.down)?;
            self.binary("ffn_residual", k::pairwise::Build::ADD, s.middle, added, s.next)?;
        }
        Ok(())
    }

    /// What attention adds to the stream, with its bias, if there is one.
    pub(super) fn output_bias(&mut self, layer: &Layer<'_>, s: &Slots) -> Result<Span, Error> {
        let Some(bias) = &layer.attn_output_bias else { return Ok(s.projected) };
        let bias = self.weights.of(bias).quants;
        self.binary("attn_output_bias", k::pairwise::Build::ADD, s.projected, bias, s.post_normed)?;
        Ok(s.post_normed)
    }

    fn fused_gates(&mut self, layer: &Layer<'_>, s: &Slots) -> Result<(), Error> {
        let parts = self.options.fusion.parts();
        let (gate, up) = (&layer.ffn_gate, &layer.ffn_up);
        let pair = parts.feed_forward && self.fits(gate, true, parts.norm) && self.pairs(gate, up);
        let norm = parts.norm && (pair || [gate, up].iter().all(|m| self.fits(m, false, true)));
        if !norm {
            self.norm("ffn_norm", "ffn_norm_weight", &layer.ffn_norm, s.middle, s.normed, s.weighted)?;
        }
        let (x, weight) = if norm { (s.middle, Some(&layer.ffn_norm)) } else { (s.weighted, None) };
        let item = |matrix, to| Item { matrix, bias: None, to };
        if pair {
            let items = [item(gate, s.hidden), item(up, s.hidden)];
            return self.project("ffn_gate_up", &items, x, weight, Epilogue::Gate(self.config.activation));
        }
        if norm {
            self.project("ffn_gate", &[item(gate, s.gate)], x, weight, Epilogue::Plain)?;
            self.project("ffn_up", &[item(up, s.up)], x, weight, Epilogue::Plain)?;
        } else {
            self.matvec("ffn_gate", gate, x, s.gate)?;
            self.matvec("ffn_up", up, x, s.up)?;
        }
        self.activation(s.gate, s.activated)?;
        self.binary("ffn_multiply", k::pairwise::Build::MUL, s.activated, s.up, s.hidden)
    }

    /// The last norm and the output head.
    pub(super) fn fused_head(
        &mut self,
        norm: &Matrix<'_>,
        head: &Matrix<'_>,
        s: &Slots,
    ) -> Result<bool, Error> {
        if !self.options.fusion.parts().norm || !self.fits(head, false, true) {
            return Ok(false);
        }
        let item = Item { matrix: head, bias: None, to: s.logits };
        self.project("output", &[item], s.state, Some(norm), Epilogue::Plain)?;
        Ok(true)
    }

    fn cut(&self, matrix: &Matrix<'_>, rows: u32, gated: bool, norm: bool) -> Option<Tiling> {
        let tuning = &self.options.tuning.fused;
        let work = Cut { ty: matrix.ty, columns: matrix.columns, rows, gated, norm };
        let tiling = Tiling::new(&work, Crew::Own, tuning)?;
        let limits = &self.options.limits;
        (tiling.shared_bytes() <= limits.shared_memory && tiling.threads <= limits.workgroup)
            .then_some(tiling)
    }

    /// Whether a projection can be a fused step.
    fn fits(&self, matrix: &Matrix<'_>, gated: bool, norm: bool) -> bool {
        self.cut(matrix, matrix.rows, gated, norm).is_some()
    }

    /// Whether two matrices can be one step.
    fn pairs(&self, a: &Matrix<'_>, b: &Matrix<'_>) -> bool {
        let places = (self.weights.whole(a), self.weights.whole(b));
        let (Some(a_at), Some(b_at)) = places else { return false };
        let spans = [a_at.quants, b_at.quants];
        let same = a.ty == b.ty && a.columns == b.columns && spans[0].space == spans[1].space;
        same && cover(&spans).bytes <= self.options.limits.range
    }

    /// Projections of one vector; matrices that can be one step are.
    fn project(
        &mut self,
        name: &'static str,
        items: &[Item<'_, '_>],
        x: Span,
        norm: Option<&Matrix<'_>>,
        epilogue: Epilogue,
    ) -> Result<(), Error> {
        let mut rest = items;
        while let Some(first) = rest.first() {
            let like = |item: &&Item<'_, '_>| {
                let together = [first.to, item.to];
                self.pairs(first.matrix, item.matrix)
                    && together[0].space == together[1].space
                    && (item.bias.is_some() == first.bias.is_some())
            };
            let count = 1 + rest[1..].iter().take_while(like).count();
            let (group, others) = rest.split_at(count);
            rest = others;
            if let [item] = group {
                for part in self.weights.parts(item.matrix) {
                    let epilogue = match epilogue {
                        Epilogue::Residual(span) => Epilogue::Residual(span.rows(part)),
                        other => other,
                    };
                    let piece = Item { to: item.to.rows(part), ..*item };
                    let places = [(part.placed.quants, part.placed.scales, part.rows, part.first_row)];
                    self.product(name, &[piece], &places, x, norm, epilogue)?;
                }
            } else {
                let place = |item: &Item<'_, '_>| {
                    let placed = self.weights.whole(item.matrix).expect("pairs are whole");
                    (placed.quants, placed.scales, item.matrix.rows, 0)
                };
                let places: Vec<_> = group.iter().map(place).collect();
                self.product(name, group, &places, x, norm, epilogue)?;
            }
        }
        Ok(())
    }

    /// One dispatch; `places` are quants, scales, rows and the first row of each item.
    fn product(
        &mut self,
        name: &'static str,
        items: &[Item<'_, '_>],
        places: &[(Span, Option<Span>, u32, u32)],
        x: Span,
        norm: Option<&Matrix<'_>>,
        epilogue: Epilogue,
    ) -> Result<(), Error> {
        let matrix = items[0].matrix;
        let gated = matches!(epilogue, Epilogue::Gate(_));
        let rows: u32 = if gated { places[0].2 } else { places.iter().map(|p| p.2).sum() };
        let tiling = self
            .cut(matrix, rows, gated, norm.is_some())
            .ok_or_else(|| Error::Unfused { step: name.to_owned(), columns: matrix.columns })?;
        let work = Cut { ty: matrix.ty, columns: matrix.columns, rows, gated, norm: norm.is_some() };
        let link = self.product_link(&work);
        let (link, tiling) = link.map_or((None, tiling), |(link, tiling)| (Some(link), tiling));
        let quants = cover(&places.iter().map(|p| p.0).collect::<Vec<_>>());
        let scale_spans: Vec<Span> = places.iter().filter_map(|p| p.1).collect();
        let scales = if scale_spans.is_empty() { quants } else { cover(&scale_spans) };
        let bias_spans: Vec<Span> =
            items.iter().filter_map(|i| i.bias).map(|b| self.weights.of(b).quants).collect();
        let bias = if bias_spans.is_empty() { x } else { cover(&bias_spans) };
        let result = cover(&items.iter().map(|i| i.to).collect::<Vec<_>>());
        let offset = |spans: &[Span], from: Span, i: usize, unit: u64| {
            spans.get(i).map_or(0, |span| ((span.offset - from.offset) / unit) as u32)
        };
        let quant_spans: Vec<Span> = places.iter().map(|p| p.0).collect();
        let first_row = places[0].3;
        let ends: [u32; 3] =
            std::array::from_fn(|i| if gated { rows } else { places.iter().take(i + 1).map(|p| p.2).sum() });
        let gap = |i: usize| {
            let before = ends[i - 1];
            items
                .get(i)
                .filter(|_| !gated)
                .map_or(0, |item| ((item.to.offset - result.offset) / 4) as u32 - before)
        };
        let [quants_a, quants_b, quants_c] = std::array::from_fn(|i| offset(&quant_spans, quants, i, 16));
        let [scales_a, scales_b, scales_c] = std::array::from_fn(|i| offset(&scale_spans, scales, i, 4));
        let [bias_a, bias_b, bias_c] = std::array::from_fn(|i| offset(&bias_spans, bias, i, 4) + first_row);
        let push = k::fused_matvec::Push {
            rows_a: ends[0],
            rows_ab: ends[1],
            rows,
            quants_a,
            quants_b,
            quants_c,
            scales_a,
            scales_b,
            scales_c,
            bias_a,
            bias_b,
            bias_c,
            gap_b: gap(1),
            gap_c: gap(2),
            epsilon: self.config.epsilon,
        };
        let bindings = k::fused_matvec::Bindings {
            weights: quants,
            scales,
            x,
            norm: norm.map_or(x, |n| self.weights.of(n).quants),
            residual: if let Epilogue::Residual(span) = epilogue { span } else { x },
            bias,
            result,
            chain: link.as_ref().map(|link| link.chain),
        };
        let product = kernels::Product {
            work,
            epilogue: epilogue.number(),
            bias: !bias_spans.is_empty(),
            native_dot: self.options.features.dot,
        };
        let waiting = link.as_ref().map(|link| link.waiting);
        self.push(name, kernels::product(product, &tiling, waiting, push, bindings))?;
        self.linked(link);
        Ok(())
    }

    fn fused_attention(
        &mut self,
        index: u32,
        layer: &Layer<'_>,
        keys: Span,
        values: Span,
        to: Span,
    ) -> Result<(), Error> {
        let (c, f) = (self.config, self.fused);
        let (t, link) = (self.options.tuning.fused, self.link());
        let heads = Heads::of(c, layer.attn_q_norm.is_some());
        let arithmetic = coop_attention(c, self.options).map_or_else(
            || {
                let shape = fitting_attention(heads.group, c.head_dim, &t, &self.options.limits);
                Arithmetic::Floats { threads: shape.expect("attention is fused where it fits").threads }
            },
            Arithmetic::Matrices,
        );
        let context = cache_positions(c, self.options);
        let rope = c.layer_rope(index);
        let table = self.angles.get(rope).copied().unwrap_or(self.rope_tables[rope]);
        let qkv = cover(&[f.q, f.k, f.v]);
        let at = |span: Span| ((span.offset - qkv.offset) / 4) as u32;
        let norm = |m: &Option<Matrix<'_>>| m.as_ref().map_or(table, |m| self.weights.of(m).quants);
        let push = k::fused_attention::Push {
            heads: c.heads,
            kv_heads: c.kv_heads,
            context,
            window: c.layer_window(index).unwrap_or(context),
            scale: c.attention_scale as f32,
            epsilon: c.epsilon,
            splits: splits(c, self.options),
            key_at: at(f.k),
            value_at: at(f.v),
        };
        let bindings = k::fused_attention::Bindings {
            step: self.step,
            angles: table,
            qkv,
            q_norm: norm(&layer.attn_q_norm),
            k_norm: norm(&layer.attn_k_norm),
            keys,
            values,
            parts: f.parts,
            counters: f.counters,
            result: to,
            chain: link.as_ref().map(|link| link.chain),
        };
        let waiting = link.as_ref().map(|link| link.waiting);
        self.push("attention", kernels::attention(&heads, arithmetic, &t, waiting, push, bindings))?;
        self.linked(link);
        Ok(())
    }

    /// Reads the weights of later steps beside the step before, which leaves the memory idle, so that a cache has them when
    /// their turn comes: so many bytes from byte `from` of them on. Nobody uses what it writes.
    fn prefetch(&mut self, matrices: &[&Matrix<'_>], from: u64, most: u64) -> Result<(), Error> {
        const WORKGROUP: u32 = 256;
        let places: Vec<_> = matrices.iter().filter_map(|m| self.weights.whole(m)).collect();
        let spans: Vec<Span> = places.iter().flat_map(|p| [Some(p.quants), p.scales]).flatten().collect();
        let together = spans.iter().all(|span| span.space == spans[0].space);
        if most == 0 || self.chain.is_some() || places.len() < matrices.len() || !together {
            return Ok(());
        }
        let mut all = cover(&spans);
        let from = (from / self.options.limits.alignment * self.options.limits.alignment).min(all.bytes);
        (all.offset, all.bytes) = (all.offset + from, all.bytes - from);
        let bytes = all.bytes.min(most).min(self.options.limits.range) / 16 * 16;
        let count = (bytes / 16) as u32;
        let groups = count.div_ceil(16 * WORKGROUP);
        let scratch = self.fused.scratch;
        if bytes == 0 || u64::from(4 * groups * WORKGROUP) > scratch.bytes {
            return Ok(());
        }
        let bindings = k::stream::Bindings { x: Span { bytes, ..all }, result: scratch };
        self.push("prefetch", kernels::dispatch((), WORKGROUP, 1, k::stream::Push { count }, bindings))
    }
}
