//! All layers in one resident dispatch.
//!
//! The kernel (`persistent.comp`) walks the same five steps a layer as the fused plan, with barriers of its own between
//! them. What differs from layer to layer (where matrices, norms and caches begin) is a table in the constants. The kernel
//! is made for the plain case: one weight format in all layers, one allocation of weights, one rotation, no biases and no
//! norms behind the parts. Everything else is refused here by name, and `--fusion all` does it.

use zinc_shaders::{Takes as _, persistent};

use super::attention::{attention_shape, fuses_attention, key_positions, splits};
use super::decode::Builder;
use super::kernels::built;
use super::layout::{Arena, Limits};
use super::tile::{Crew, Tiling, Work as Cut};
use super::{Dispatch, Error, Options, Space, Span};
use crate::model::{Activation, Config, Matrix, Model, Pairing};

/// Words of a layer in the kernel's table.
const LAYER_WORDS: usize = 21;
/// Words before the counters in the control buffer, and the place of the one that says that a wait was given up.
const CONTROL_WORDS: u64 = 3;
/// See [`CONTROL_WORDS`].
const FAILED_WORD: u64 = 2;

/// Spans of the resident kernel beside those of the plan.
pub(super) struct Resident {
    /// The layers' table, behind the rotations in the constants.
    pub table: Span,
    /// Queries, keys and values, without gaps.
    qkv: Span,
    parts: Span,
    control: Span,
}

impl Resident {
    pub(super) fn new(c: &Config, options: &Options, constants: &mut Arena, arena: &mut Arena) -> Self {
        let parts = c.heads * splits(c, options) * (c.head_dim + 4);
        Self {
            table: constants.take(4 * LAYER_WORDS as u64 * u64::from(c.layers)),
            qkv: arena.floats((c.q_dim() + 2 * c.kv_dim()).into()),
            parts: arena.floats(parts.into()),
            control: Span {
                space: Space::Control,
                offset: 0,
                bytes: 4 * (CONTROL_WORDS + u64::from(c.kv_heads)),
            },
        }
    }

    pub(super) fn control_bytes(&self) -> u64 {
        self.control.bytes
    }

    /// The word that is not zero if a wait was given up.
    pub(super) fn failed(&self) -> Span {
        Span { offset: self.control.offset + 4 * FAILED_WORD, bytes: 4, ..self.control }
    }
}

/// Turns of all loops together after which llvmpipe leaves them (65,535, `LP_MAX_TGSI_LOOP_ITERATIONS`), with room.
const MOST_TURNS: u64 = 30_000;

/// Turns of an invocation's loops in one token, roughly and rather too many.
fn turns(steps: &[Tiling; 4], c: &Config, options: &Options) -> u64 {
    let t = options.tuning.fused;
    let rows = [c.q_dim() + 2 * c.kv_dim(), c.embedding, c.feed_forward, c.embedding];
    let step = |(tiling, rows): (&Tiling, u32)| {
        let tiles = rows.div_ceil(tiling.rows * t.resident_groups);
        u64::from(tiles * (tiling.lanes.div_ceil(2) + 2))
            + u64::from(tiling.activations.div_ceil(t.resident_threads) + tiling.squares.div_ceil(32))
    };
    let products: u64 = steps.iter().zip(rows).map(step).sum();
    let vectors = (c.heads / c.kv_heads + 2) * c.head_dim;
    let item = 4 * vectors.div_ceil(t.resident_threads) + 16 * options.context.div_ceil(t.tile) + 64;
    u64::from(c.layers) * (products + u64::from(item * c.kv_heads))
}

/// What the plan gives to the resident step.
pub(super) struct Streams {
    pub state: Span,
    pub middle: Span,
    pub attention: Span,
    pub hidden: Span,
}

fn refuse(what: impl Into<String>) -> Error {
    Error::NotResident { what: what.into() }
}

/// The span of `bytes` bytes from the beginning of a buffer, if it can be bound.
fn whole(space: Space, bytes: u64, what: &str, limits: &Limits) -> Result<Span, Error> {
    if bytes > limits.range {
        let most = limits.range;
        return Err(refuse(format!(
            "{what} in one range of {bytes} bytes (this device binds {most} at most)"
        )));
    }
    Ok(Span { space, offset: 0, bytes })
}

impl Builder<'_> {
    /// Adds the step; returns the layers' table.
    pub(super) fn resident(
        &mut self,
        model: &Model<'_>,
        r: &Resident,
        streams: &Streams,
        caches: &[(Span, Span)],
    ) -> Result<Vec<u32>, Error> {
        let (c, o) = (self.config, self.options);
        let ty = model.layers[0].attn_q.ty;
        let (Some(weights), cache) = (self.weights.allocations.first(), &caches[0].0) else {
            return Err(refuse("a model without weights"));
        };
        if !o.features.memory_model {
            return Err(refuse("a device without vulkanMemoryModel and vulkanMemoryModelDeviceScope"));
        }
        let threads = o.tuning.fused.resident_threads;
        // lavapipe (Mesa 22.3.6) leaves out every barrier of a module in the Vulkan memory model: such a kernel gives wrong
        // numbers there unless all invocations of a workgroup run in step, and right ones with the same barriers in a module
        // of the older memory model.
        if o.features.in_step.is_some_and(|lanes| threads > lanes) {
            return Err(refuse(format!(
                "{threads} invocations a workgroup on a CPU driver, which may leave barriers out"
            )));
        }
        if !fuses_attention(c, o) {
            let (heads, kv_heads, dim) = (c.heads, c.kv_heads, c.head_dim);
            return Err(refuse(format!(
                "{heads} heads of {dim} with {kv_heads} key/value heads on this device"
            )));
        }
        let matrices = |l: &crate::model::Layer<'_>| {
            [l.attn_q, l.attn_k, l.attn_v, l.attn_output, l.ffn_gate, l.ffn_up, l.ffn_down]
                .map(|m| (m.ty, m.name.to_owned()))
        };
        let odd = model.layers.iter().flat_map(matrices).find(|m| m.0 != ty || !m.0.is_quantized());
        if let Some((odd, name)) = odd {
            return Err(refuse(format!(
                "tensor {name} in {odd} (the layers must have one quantised format)"
            )));
        }
        let extra = model.layers.iter().any(|l| {
            [
                &l.attn_q_bias,
                &l.attn_k_bias,
                &l.attn_v_bias,
                &l.attn_output_bias,
                &l.attn_post_norm,
                &l.ffn_post_norm,
            ]
            .iter()
            .any(|m| m.is_some())
        });
        if extra || c.ropes.len() > 1 {
            return Err(refuse("biases, norms behind the parts of a layer, or several rotations"));
        }
        if self.weights.allocations.len() > 1 {
            return Err(refuse("weights in several allocations"));
        }
        let cache_end = caches.iter().map(|(_, v)| v.offset + v.bytes).max().unwrap_or(0);
        if caches.iter().any(|(k, v)| k.space != cache.space || v.space != cache.space) {
            return Err(refuse("a cache in several allocations"));
        }
        let weights = whole(Space::Weights(0), *weights, "all weights", &o.limits)?;
        let cache = whole(cache.space, cache_end, "the cache", &o.limits)?;

        let cut = |columns, rows, gated, norm| {
            let t = &o.tuning.fused;
            let work = Cut { ty, columns, rows, gated, norm };
            Tiling::new(&work, Crew::Resident, t)
                .ok_or_else(|| refuse(format!("a width of {columns} columns")))
        };
        let qkv = cut(c.embedding, c.q_dim() + 2 * c.kv_dim(), false, true)?;
        let out = cut(c.q_dim(), c.embedding, false, false)?;
        let gates = cut(c.embedding, c.feed_forward, true, true)?;
        let down = cut(c.feed_forward, c.embedding, false, false)?;
        let all = [qkv, out, gates, down];
        if o.tuning.fused.resident_groups == 1 && turns(&all, c, o) > MOST_TURNS {
            return Err(refuse("a model of this size on a CPU driver, which ends loops early"));
        }
        let most = |f: fn(&Tiling) -> u32| all.iter().map(f).max().unwrap_or(0);
        let (activations, partials) = (most(|t| t.activations), most(|t| t.partials));
        let squares = most(|t| t.squares);
        let attention = attention_shape(c.heads / c.kv_heads, c.head_dim, threads, &o.tuning.fused);
        if attention.threads > threads {
            let need = attention.threads;
            return Err(refuse(format!(
                "attention with {threads} invocations a workgroup (these heads and tiles take {need}; --tuning \
                 resident-threads={need})"
            )));
        }
        // The merge of attention uses the array of activations.
        let merge = attention.merge_floats / 4;
        // Results before they are stored, 32 sums of squares, and whether a wait was given up.
        let shared = 8 * activations
            + 16 * activations.max(merge)
            + 4 * (partials + squares + threads + 33)
            + attention.shared_bytes;
        if shared > o.limits.shared_memory {
            let have = o.limits.shared_memory;
            return Err(refuse(format!("{shared} bytes of shared memory (this device has {have})")));
        }
        if threads > o.limits.workgroup {
            let have = o.limits.workgroup;
            return Err(refuse(format!(
                "{threads} invocations a workgroup (this device has {have} at most)"
            )));
        }

        let t = &o.tuning.fused;
        let group = c.heads / c.kv_heads;
        let constants = persistent::Constants {
            workgroup: threads,
            groups: activations,
            partials,
            squares,
            others: merge,
            head_dim: c.head_dim,
            group,
            rope_dim: c.rope_dim,
            neox: c.pairing == Pairing::Halves,
            qk_norm: model.layers[0].attn_q_norm.is_some(),
            tile: t.tile,
            positions: key_positions(group, t),
            embedding: c.embedding,
            q_dim: c.q_dim(),
            kv_dim: c.kv_dim(),
            feed_forward: c.feed_forward,
            qkv_rows: qkv.rows,
            qkv_units: qkv.units,
            qkv_lanes: qkv.lanes,
            out_rows: out.rows,
            out_units: out.units,
            out_lanes: out.lanes,
            gate_rows: gates.rows,
            gate_units: gates.units,
            gate_lanes: gates.lanes,
            down_rows: down.rows,
            down_units: down.units,
            down_lanes: down.lanes,
            gelu: c.activation == Activation::Gelu,
            barriers: !o.no_grid_barrier,
            prefetch: !o.no_prefetch,
            spins: persistent::Constants::SPINS,
        };
        let bindings = persistent::Bindings {
            weights,
            scales: weights,
            norms: weights,
            layers: r.table,
            step: self.step,
            table: self.rope_tables[0],
            stream: streams.state,
            middle: streams.middle,
            qkv: r.qkv,
            attended: streams.attention,
            hidden: streams.hidden,
            parts: r.parts,
            cache,
            control: r.control,
        };
        let push = persistent::Push {
            layers: c.layers,
            heads: c.heads,
            kv_heads: c.kv_heads,
            context: o.context,
            scale: c.attention_scale as f32,
            epsilon: c.epsilon,
            splits: splits(c, o),
        };
        let call = push.call(built("persistent", ty, o.features.dot), constants, bindings);
        self.push("layers", Dispatch::new(call, [t.resident_groups, 1]))?;
        Ok(self.layer_table(model, caches))
    }

    fn layer_table(&self, model: &Model<'_>, caches: &[(Span, Span)]) -> Vec<u32> {
        let c = self.config;
        let mut words = Vec::with_capacity(LAYER_WORDS * model.layers.len());
        for ((index, layer), (keys, values)) in (0..).zip(&model.layers).zip(caches) {
            let matrices = [
                &layer.attn_q,
                &layer.attn_k,
                &layer.attn_v,
                &layer.attn_output,
                &layer.ffn_gate,
                &layer.ffn_up,
                &layer.ffn_down,
            ];
            let placed = matrices.map(|m| self.weights.of(m));
            words.extend(placed.map(|p| (p.quants.offset / 16) as u32));
            words.extend(placed.map(|p| p.scales.map_or(0, |s| (s.offset / 4) as u32)));
            let vec4 =
                |m: Option<&Matrix<'_>>| m.map_or(0, |m| (self.weights.of(m).quants.offset / 16) as u32);
            words.extend([
                vec4(Some(&layer.attn_norm)),
                vec4(Some(&layer.ffn_norm)),
                vec4(layer.attn_q_norm.as_ref()),
                vec4(layer.attn_k_norm.as_ref()),
                c.layer_window(index).unwrap_or(self.options.context),
                (keys.offset / 16) as u32,
                (values.offset / 16) as u32,
            ]);
        }
        words
    }
}

impl Options {
    /// Whether this asks for the resident kernel.
    pub fn resident(&self) -> bool {
        self.fusion == super::Fusion::Persistent
    }
}
