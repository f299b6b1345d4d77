//! Configurations: the states that all classes of a tracker are in, together.
//!
//! A stream that repeats itself takes its tracker through the same few configurations again and again. What a barrier or
//! an access does to a configuration depends on nothing else, so it is worked out once and kept as a plan: the
//! configuration that comes next, and which classes' ranges are to be copied or joined on the way. A tracker in the
//! middle of a stream then looks up one plan a step and touches no class that the plan does not name. As in `memo`, the
//! tables are the process's, have a fixed size and are read without a lock; what does not fit is worked out each time.

use crate::memo::{BARRIERS, BarrierRef, SHAPES, ShapeRef, StateRef};
use crate::state::Which;
use crate::tracker::Cause;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// Configurations that are remembered.
const CONFIGS: usize = if cfg!(miri) { 16 } else { 256 };

/// The most classes of a configuration that is remembered.
const CLASSES: usize = 64;

/// A configuration, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfigRef(u16);

/// What happens to the classes' ranges when a barrier comes. Classes are counted as they stand at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A new class at the end has the same ranges as this one.
    Split(usize),
    /// The ranges of `gone` join those of `twin`; then the last class takes the place of `gone`.
    Merge { gone: usize, twin: usize },
}

/// The steps of a barrier, in order.
pub(crate) type Steps = SmallVec<[Step; 4]>;

/// What a barrier does to a configuration.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The configuration that comes next.
    pub to: ConfigRef,
    /// On the way.
    pub steps: Steps,
}

/// Classes that make a barrier due before an access, and why.
pub(crate) type DueList = SmallVec<[(usize, Cause); 8]>;

#[derive(Debug)]
struct Config {
    states: SmallVec<[u16; 16]>,
    pending: SmallVec<[u8; 16]>,
}

struct Configs {
    growing: Mutex<()>,
    full: AtomicBool,
    known: [OnceLock<Config>; CONFIGS],
    plans: [[[OnceLock<Plan>; CONFIGS]; 2]; BARRIERS],
    due: [[OnceLock<DueList>; CONFIGS]; SHAPES],
    /// The configuration after an access and the number of its class, and one bit more so that 0 is none.
    fresh: [[AtomicU32; CONFIGS]; SHAPES],
}

static CONFIGURATIONS: Configs = Configs {
    growing: Mutex::new(()),
    full: AtomicBool::new(false),
    known: [const { OnceLock::new() }; CONFIGS],
    plans: [const { [const { [const { OnceLock::new() }; CONFIGS] }; 2] }; BARRIERS],
    due: [const { [const { OnceLock::new() }; CONFIGS] }; SHAPES],
    fresh: [const { [const { AtomicU32::new(0) }; CONFIGS] }; SHAPES],
};

impl ConfigRef {
    /// The number of the configuration of these states, if it has one or can be given one.
    pub fn of(states: &[StateRef]) -> Option<ConfigRef> {
        let all = &CONFIGURATIONS;
        if all.full.load(Ordering::Relaxed) || states.len() > CLASSES {
            return None;
        }
        let ids: Option<SmallVec<[u16; 16]>> = states.iter().map(StateRef::id).collect();
        let ids = ids?;
        let is = |place: &OnceLock<Config>| place.get().is_none_or(|c| c.states == ids);
        let at = all.known.iter().position(is);
        if let Some(at) = at.filter(|at| all.known[*at].get().is_some()) {
            return Some(ConfigRef(at as u16));
        }
        let _growing = all.growing.lock().ok()?;
        // Only one grows at a time. Somebody may have added it meanwhile.
        let Some(at) = all.known.iter().position(is) else {
            all.full.store(true, Ordering::Relaxed);
            return None;
        };
        let pending = (0..).zip(states).filter(|(_, s)| s.is_pending()).map(|(i, _)| i).collect();
        let _ = all.known[at].set(Config { states: ids, pending });
        Some(ConfigRef(at as u16))
    }

    #[inline]
    fn get(self) -> &'static Config {
        match CONFIGURATIONS.known[usize::from(self.0)].get() {
            Some(config) => config,
            None => unreachable!("a number is given out only once its place is filled"),
        }
    }

    /// Its states, class by class.
    pub fn states(self) -> impl ExactSizeIterator<Item = StateRef> {
        self.get().states.iter().map(|id| StateRef::Known(*id))
    }

    /// The classes in a state that is pending.
    #[inline]
    pub fn pending(self) -> &'static [u8] {
        &self.get().pending
    }

    /// What `barrier` does to it, if that is known.
    #[inline]
    pub fn plan(self, barrier: &BarrierRef, which: Which) -> Option<&'static Plan> {
        CONFIGURATIONS.plans[barrier.id?][which as usize][usize::from(self.0)].get()
    }

    /// Remembers what `barrier` does to it.
    pub fn keep_plan(self, barrier: &BarrierRef, which: Which, plan: Plan) {
        if let Some(id) = barrier.id {
            // Whoever was first kept the same plan.
            let _ = CONFIGURATIONS.plans[id][which as usize][usize::from(self.0)].set(plan);
        }
    }

    /// Which classes make a barrier due before an access of this shape that meets their ranges; `work_out` says it the
    /// first time. `None` when nothing can be remembered of the shape.
    #[inline]
    pub fn due(self, shape: &ShapeRef, work_out: impl FnOnce() -> DueList) -> Option<&'static DueList> {
        Some(CONFIGURATIONS.due[shape.id?][usize::from(self.0)].get_or_init(work_out))
    }

    /// The configuration once an access of this shape was added, and the class that it was added to; if that is known.
    #[inline]
    pub fn fresh(self, shape: &ShapeRef) -> Option<(ConfigRef, usize)> {
        match CONFIGURATIONS.fresh[shape.id?][usize::from(self.0)].load(Ordering::Acquire) {
            0 => None,
            code => Some((ConfigRef((code >> 8 & 0xffff) as u16), (code & 0xff) as usize)),
        }
    }

    /// Remembers what [`ConfigRef::fresh`] says.
    pub fn keep_fresh(self, shape: &ShapeRef, to: ConfigRef, class: usize) {
        if let (Some(id), Ok(class)) = (shape.id, u8::try_from(class)) {
            let code = 1 << 24 | u32::from(to.0) << 8 | u32::from(class);
            CONFIGURATIONS.fresh[id][usize::from(self.0)].store(code, Ordering::Release);
        }
    }
}
