//! Where a plan needs barriers, decided by the layer's own code (`zinc-hazard`).
//!
//! An engine that placed its barriers by rules of its own could not say whether they are the least, nor show that its
//! masks cover what they must: the barrier before a step has to serve every pair that meets there, not only the step and
//! its neighbour. So the plan is told to `zinc-hazard` as the naive application would tell it to a driver, a full barrier
//! after every dispatch and one more at the end, and what comes back is the least number of those, in the places that
//! leave most steps side by side, with the masks that their pairs need. It is the number that the layer leaves of the
//! naive stream under `alias-only` (tests hold the two against each other).

use zinc_hazard::{Access, Barrier, Flags, Freedom, Issue, Kind, MemoryId, Range, Scope, Stages, Stretch};

use super::{Plan, Space, Span, Step, Work};

/// Bytes to which ranges are widened before they are compared, as the layer does by default.
const GRANULE: u64 = 64;

/// From and to everything that a step of a plan does.
pub const ANY: Barrier = {
    let scope = Scope {
        stages: Stages::COMPUTE_SHADER.union(Stages::ALL_TRANSFER),
        flags: Flags::SHADER_READ
            .union(Flags::SHADER_WRITE)
            .union(Flags::TRANSFER_READ)
            .union(Flags::TRANSFER_WRITE),
    };
    Barrier { src: scope, dst: scope }
};

/// The barriers of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// For each step, what must stand before it.
    pub before: Vec<Option<Barrier>>,
    /// Whether something must stand after the last step; what, is up to whoever knows what follows.
    pub at_the_end: bool,
}

impl Due {
    /// Of a plan of which every step for which `runs` is false is left out.
    pub fn of(plan: &Plan, runs: impl Fn(&Step) -> bool) -> Self {
        let mut stretch = Stretch::new();
        let mut steps = Vec::with_capacity(plan.steps.len());
        let mut asked = false;
        for (index, step) in plan.steps.iter().enumerate().filter(|(_, step)| runs(step)) {
            let waits = matches!(&step.work, Work::Dispatch(dispatch) if dispatch.waits);
            if asked && !waits {
                stretch.asked(ANY);
            }
            stretch.operation(&accesses(step), false);
            asked = matches!(step.work, Work::Dispatch(_));
            steps.push(index);
        }
        if asked {
            stretch.asked(ANY);
        }
        stretch.asked(ANY);
        let decided = stretch.decide(Freedom::InOrder, false);
        let mut due = Self { before: vec![None; plan.steps.len()], at_the_end: false };
        let mut waiting: Option<Barrier> = None;
        for issue in decided.issue {
            match issue {
                Issue::Barrier(number) => {
                    let barrier = decided.emissions[number].barrier;
                    waiting = Some(waiting.map_or(barrier, |other| other.join(barrier)));
                }
                // What came before the first step has ended with a barrier of its own.
                Issue::Operation(0) => waiting = None,
                Issue::Operation(number) => due.before[steps[number]] = waiting.take(),
            }
        }
        due.at_the_end = waiting.is_some();
        due
    }

    /// How many barriers that makes.
    pub fn count(&self) -> usize {
        self.before.iter().flatten().count() + usize::from(self.at_the_end)
    }
}

/// What a step touches, in the layer's words.
pub fn accesses(step: &Step) -> Vec<Access> {
    let (stages, flags): (_, fn(Kind) -> Flags) = match step.work {
        Work::Dispatch(_) => (Stages::COMPUTE_SHADER, |kind| match kind {
            Kind::Read => Flags::SHADER_STORAGE_READ,
            Kind::Write => Flags::SHADER_STORAGE_WRITE,
        }),
        Work::Copy { .. } => (Stages::COPY, |kind| match kind {
            Kind::Read => Flags::TRANSFER_READ,
            Kind::Write => Flags::TRANSFER_WRITE,
        }),
    };
    let access = |span: &Span, kind| Access {
        range: Range::bytes(memory(span.space), span.offset, span.bytes, GRANULE),
        kind,
        stages,
        flags: flags(kind),
    };
    let mut all = Vec::new();
    for (span, direction) in step.accesses() {
        all.extend(direction.reads().then(|| access(&span, Kind::Read)));
        all.extend(direction.writes().then(|| access(&span, Kind::Write)));
    }
    all
}

/// Every buffer has an allocation of its own.
fn memory(space: Space) -> MemoryId {
    MemoryId(match space {
        Space::Constants => 0,
        Space::Step => 1,
        Space::Arena => 2,
        Space::Control => 3,
        Space::Tokens => 4,
        Space::Readback => 5,
        Space::Weights(part) => 1 << 32 | u64::from(part),
        Space::Cache(part) => 2 << 32 | u64::from(part),
    })
}
