//! The state of a class of past accesses, and what barriers do to it.
//!
//! Whether a past access and a new one are a required pair depends on the barriers since the past access, on its stage
//! and flag, and on nothing else about it: least of all on the bytes. That part is here, as a value that can be
//! compared; `tracker` holds it together with the bytes, and `memo` remembers what became of which state.

use crate::access::Kind;
use crate::relation::Relation;
use crate::scope::{Barrier, Flags, Side, Stages};
use crate::tracker::Cause;
use smallvec::SmallVec;

/// What the accesses of a class did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Read,
    Write,
    /// Wrote, and the write is already available at the class's stages.
    WriteAvailable,
}

/// How far barriers have carried a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Reads: stages that execution chains reach. Writes: stages reached by chains that begin with availability.
    stages: Stages,
    /// Writes: where they have become visible.
    visible: Relation,
}

/// Which of the two reaches a barrier extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The application asked for it.
    Asked = 0,
    /// It reached the driver.
    Emitted = 1,
}

/// What an access is, but for its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub kind: Kind,
    pub stages: Stages,
    pub flags: Flags,
}

/// Past accesses in the same state; each stands for all of `stages` with all of `flags`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub did: Did,
    stages: Stages,
    /// Empty for reads and available writes, whose flags no barrier looks at.
    flags: Flags,
    pub prefix: bool,
    asked: Reach,
    emitted: Reach,
}

/// A barrier with its masks taken apart, once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expanded {
    src: (Stages, Flags),
    dst: (Stages, Flags),
    src_execution: Stages,
    dst_execution: Stages,
}

impl Expanded {
    pub fn new(barrier: &Barrier) -> Expanded {
        let (src, dst) = (barrier.src, barrier.dst);
        Expanded {
            src: (src.stages.expand(), src.flags.expand()),
            dst: (dst.stages.expand(), dst.flags.expand()),
            src_execution: src.stages.execution(Side::First),
            dst_execution: dst.stages.execution(Side::Second),
        }
    }

    /// Whether the second scope names the host.
    pub fn reaches_host(&self) -> bool {
        self.dst.0.contains(Stages::HOST)
    }
}

/// What a barrier makes of one class: the first state is what the barrier's part of it is in now, the others are what
/// stays behind of a class that was covered in part. `None`: nothing changed.
pub(crate) type Advanced = Option<SmallVec<[State; 3]>>;

impl State {
    /// The three kinds of what came before.
    pub fn prefix() -> [State; 3] {
        let prefix = |did, flags| State {
            did,
            stages: Stages::EVERY,
            flags,
            prefix: true,
            asked: Reach::default(),
            emitted: Reach::default(),
        };
        [
            prefix(Did::Read, Flags::empty()),
            prefix(Did::Write, Flags::WRITES | Flags::UNNAMED),
            prefix(Did::WriteAvailable, Flags::empty()),
        ]
    }

    /// An access that no barrier followed yet.
    pub fn fresh(shape: &Shape) -> State {
        let (did, flags) = match shape.kind {
            Kind::Read => (Did::Read, Flags::empty()),
            Kind::Write => (Did::Write, shape.flags),
        };
        let (asked, emitted) = (Reach::default(), Reach::default());
        State { did, stages: shape.stages, flags, prefix: false, asked, emitted }
    }

    /// The part of the class that `barrier` takes in its first scope directly.
    fn covered(&self, barrier: &Expanded) -> (Stages, Flags) {
        match self.did {
            Did::Read | Did::WriteAvailable => (self.stages & barrier.src_execution, self.flags),
            Did::Write => (self.stages & barrier.src.0, self.flags & barrier.src.1),
        }
    }

    /// What `barrier` makes of it. Without `chains`, a barrier is no link to those before it (a fault for the tests).
    pub fn advance(&self, barrier: &Expanded, which: Which, chains: bool) -> Advanced {
        let reach = match which {
            Which::Asked => &self.asked,
            Which::Emitted => &self.emitted,
        };
        let mut out: SmallVec<[State; 3]> = SmallVec::new();
        let (mut stages, mut flags) = (self.stages, self.flags);
        if !(chains && reach.stages.intersects(barrier.src_execution)) {
            (stages, flags) = self.covered(barrier);
            if stages.is_empty() || (self.did == Did::Write && flags.is_empty()) {
                return None;
            }
        }
        // A write flag shows the write to nobody: kept, it would look like something still pending.
        let shown = match self.did {
            Did::Read => Flags::empty(),
            Did::Write | Did::WriteAvailable => barrier.dst.1 & (Flags::READS | Flags::UNNAMED),
        };
        let mut moved = State { stages, flags, ..self.clone() };
        let reach = match which {
            Which::Asked => &mut moved.asked,
            Which::Emitted => &mut moved.emitted,
        };
        reach.stages |= barrier.dst_execution;
        reach.visible.add(barrier.dst.0, shown);
        if moved == *self {
            return None;
        }
        out.push(moved);
        // The rest of a class that is covered in part stays behind, as one or two classes of its own.
        for (rest_stages, rest_flags) in [(stages, self.flags & !flags), (self.stages & !stages, self.flags)]
        {
            if rest_stages.is_empty() || (self.did == Did::Write && rest_flags.is_empty()) {
                continue;
            }
            if self.did != Did::Write && rest_stages == stages {
                continue;
            }
            out.push(State { stages: rest_stages, flags: rest_flags, ..self.clone() });
        }
        Some(out)
    }

    /// Why a barrier is due between the class and a later access to the same bytes; `None` when no such pair is required
    /// or all are ordered.
    pub fn due(&self, later: &Shape) -> Option<Cause> {
        let unordered = match (self.did, later.kind) {
            (Did::Read, Kind::Read) => false,
            (Did::Write | Did::WriteAvailable, Kind::Read) => {
                self.asked.visible.exceeds(&self.emitted.visible, later.stages, later.flags)
            }
            (_, Kind::Write) => (self.asked.stages & !self.emitted.stages).intersects(later.stages),
        };
        unordered.then_some(match (self.did, later.kind) {
            _ if self.prefix => Cause::Prefix,
            (Did::Read, _) => Cause::War,
            (_, Kind::Read) => Cause::Raw,
            (_, Kind::Write) => Cause::Waw,
        })
    }

    /// Whether some later access could form a required pair that is not ordered yet.
    pub fn is_pending(&self) -> bool {
        !self.emitted.stages.contains(self.asked.stages) || !self.asked.visible.within(&self.emitted.visible)
    }
}
