//! Steps that wait for each other's values, with no barrier between.
//!
//! The kernels are builds of the fused ones (`include/fused/chain.glsl` says how they wait). What such steps hand over is written once
//! a token, into words that are empty before: so each layer has spans of its own, and the first step of a token empties them all.
//! Nothing is written twice, so nothing has to wait for a reader either.
//!
//! A step that is built so and follows another one that is, takes no barrier. Every other step comes after one, and so does the next
//! one after it: a model of which a part cannot be fused has chains with barriers between.

use zinc_shaders::begin_chain;

use super::attention::splits;
use super::decode::{Builder, Slots};
use super::fused::FusedSlots;
use super::kernels::Waiting;
use super::layout::{Arena, Limits};
use super::tile::{Crew, Tiling, Work as Cut};
use super::{Error, FusedTuning, Fusion, Options, Space, Span, Step, Work};
use crate::model::Config;

/// How a step is told that the one before has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handoff {
    /// By a barrier between the dispatches.
    #[default]
    Barriers,
    /// By the values that it reads, where both are fused: the next dispatch is already there and has begun to load its weights.
    Values,
}

/// Activations that a matrix-vector step has in its staging array, if it has no more invocations, as in product.glsl; each takes five
/// bytes in four.
const STAGED: u32 = 3072;

/// What a word holds before it is handed over.
pub(crate) const EMPTY: u32 = u32::MAX;

/// How a matrix-vector step of a chain is cut; none where the device has too little shared memory for it, or there is no such kernel
/// for the format.
pub(crate) fn chained_tiling(work: &Cut, tuning: &FusedTuning, limits: &Limits) -> Option<Tiling> {
    let tiling = Tiling::new(work, Crew::Chained, tuning)?;
    let shared = tiling.shared_bytes() + 5 * STAGED.max(tiling.threads);
    let fits = tiling.threads <= limits.workgroup && shared <= limits.shared_memory;
    (work.ty.is_quantized() && fits).then_some(tiling)
}

/// Spans that a layer has for itself.
#[derive(Debug, Clone, Copy)]
struct Own {
    q: Span,
    k: Span,
    v: Span,
    attention: Span,
    middle: Span,
    hidden: Span,
    next: Span,
    parts: Span,
    counters: Span,
}

/// The chain of a plan.
pub(super) struct Chain {
    layers: Vec<Own>,
    /// All words that are emptied.
    words: Span,
    /// The word that says whether a wait was given up.
    failed: Span,
    control_bytes: u64,
    /// Whether the last step is of the chain.
    goes_on: bool,
    /// Whether steps wait; not in the control.
    waits: bool,
}

/// What a step of the chain has beside the others.
pub(super) struct Link {
    /// Where it says that it gave up.
    pub(super) chain: Span,
    pub(super) waiting: Waiting,
    follows: bool,
}

impl Chain {
    /// The chain that the options ask for.
    pub(super) fn new(c: &Config, options: &Options, arena: &mut Arena) -> Result<Option<Self>, Error> {
        if options.handoff == Handoff::Barriers {
            return Ok(None);
        }
        if options.fusion != Fusion::All {
            return Err(Error::NotChained { what: "steps that are not fused, or are one kernel" });
        }
        let splits = splits(c, options);
        let align = options.limits.alignment;
        let control =
            |offset: u64, words: u32| Span { space: Space::Control, offset, bytes: 4 * u64::from(words) };
        let mut control_bytes = align;
        let mut layers = Vec::new();
        for _ in 0..c.layers {
            let mut take = |count: u32| arena.floats(count.into());
            let (q, k, v) = (take(c.q_dim()), take(c.kv_dim()), take(c.kv_dim()));
            let (attention, middle) = (take(c.q_dim()), take(c.embedding));
            let (hidden, next) = (take(c.feed_forward), take(c.embedding));
            let counters = control(control_bytes, c.kv_heads);
            control_bytes = (counters.offset + counters.bytes).next_multiple_of(align);
            layers.push(Own { q, k, v, attention, middle, hidden, next, parts: q, counters });
        }
        let (first, last) = (layers[0].q, layers[layers.len() - 1].next);
        let words = Span { bytes: (last.offset + last.bytes - first.offset).next_multiple_of(16), ..first };
        for own in &mut layers {
            own.parts = arena.floats((c.heads * splits * (c.head_dim + 4)).into());
        }
        Ok(Some(Self {
            layers,
            words,
            failed: control(0, 1),
            control_bytes,
            goes_on: false,
            waits: !options.no_grid_barrier,
        }))
    }

    pub(super) fn failed(&self) -> Span {
        self.failed
    }

    pub(super) fn control_bytes(&self) -> u64 {
        self.control_bytes
    }

    /// After a step that is not of the chain.
    pub(super) fn broken(&mut self) {
        self.goes_on = false;
    }

    /// The spans of a layer whose input is where `slots` says.
    pub(super) fn layer(&self, index: u32, slots: &Slots, fused: &FusedSlots) -> (Slots, FusedSlots) {
        let Own { q, k, v, attention, middle, hidden, next, parts, counters } = self.layers[index as usize];
        (
            Slots { attention, middle, hidden, next, ..*slots },
            FusedSlots { q, k, v, parts, counters, ..*fused },
        )
    }
}

impl Builder<'_> {
    /// Empties what is handed over, before a token's first step.
    pub(super) fn begin_chain(&mut self) -> Result<(), Error> {
        let Some(Chain { words, .. }) = self.chain else { return Ok(()) };
        let count = (words.bytes / 16) as u32;
        self.reduce("begin_chain", 1, begin_chain::Push { count }, begin_chain::Bindings { words })
    }

    /// What the next step has beside others if it is of the chain; none without one.
    pub(super) fn link(&self) -> Option<Link> {
        let chain = self.chain.as_ref()?;
        Some(Link { chain: chain.failed, waiting: Waiting::new(chain.waits), follows: chain.goes_on })
    }

    /// The same for a matrix-vector step, and how it is cut then.
    pub(super) fn product_link(&self, work: &Cut) -> Option<(Link, Tiling)> {
        let tiling = chained_tiling(work, &self.options.tuning.fused, &self.options.limits)?;
        self.link().map(|link| (link, tiling))
    }

    /// That step was added.
    pub(super) fn linked(&mut self, link: Option<Link>) {
        let (Some(chain), Some(link)) = (&mut self.chain, link) else { return };
        chain.goes_on = true;
        if let Some(Step { work: Work::Dispatch(dispatch), .. }) = self.steps.last_mut() {
            dispatch.waits = link.follows;
        }
    }
}
