//! Programs, what a tracker or planner makes of them, and what the model says to that.
//!
//! Everything else in `tests` goes through this file: a [`Program`] is run by a [`Follower`] (a tracker or a planner),
//! the follower's emissions are put where they belong, and the whole is handed to the model event by event. The model
//! sees one *queue*: operations of earlier command buffers are still there for it, while the follower starts each
//! command buffer knowing nothing. That is what shows the prefix and flush rules to be enough.

use crate::model::{Event, Model, Pair};
use crate::tracker::Fault;
use crate::{
    Access, Barrier, Carry, Flags, Kind, MemoryId, Planner, Policy, Range, Scope, Stages, Tracker, Verdict,
};
use std::fmt::Write;

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The application asks for a barrier.
    Ask(Barrier),
    /// A dispatch or copy with these accesses.
    Do(Vec<Access>),
    /// A command that nobody knows.
    Unknown,
    /// The command buffer ends and the next one begins.
    End,
}

/// What an application records, command buffer after command buffer.
pub type Program = Vec<Step>;

/// Something that decides what to emit.
pub trait Follower {
    /// Takes a step; puts what happens on the queue into `queue`, in order.
    fn follow(&mut self, step: &Step, queue: &mut Vec<Event>);
}

/// A tracker, begun anew for each command buffer.
#[derive(Clone)]
pub struct Tracking {
    tracker: Tracker,
    carry: Carry,
    fault: Option<Fault>,
}

impl Tracking {
    pub fn new(carry: Carry) -> Tracking {
        Tracking { tracker: Tracker::new(carry), carry, fault: None }
    }

    pub fn broken(carry: Carry, fault: Fault) -> Tracking {
        let mut tracking = Tracking { fault: Some(fault), ..Tracking::new(carry) };
        tracking.tracker.break_with(fault);
        tracking
    }
}

impl Follower for Tracking {
    fn follow(&mut self, step: &Step, queue: &mut Vec<Event>) {
        match step {
            Step::Ask(barrier) => {
                queue.push(Event::Asked(*barrier));
                self.tracker.asked(*barrier);
            }
            Step::Do(accesses) => {
                queue.extend(self.tracker.operation(accesses).map(|due| Event::Emitted(due.barrier)));
                queue.push(Event::Operation(accesses.clone()));
            }
            Step::Unknown => {
                queue.extend(self.tracker.flush().map(|due| Event::Emitted(due.barrier)));
                queue.push(Event::Operation(Access::unknown().to_vec()));
                self.tracker.restart();
            }
            Step::End => {
                queue.extend(self.tracker.flush().map(|due| Event::Emitted(due.barrier)));
                let fresh = Tracking::new(self.carry);
                *self = self.fault.map_or(fresh, |fault| Tracking::broken(self.carry, fault));
            }
        }
    }
}

/// A planner, begun anew for each command buffer, and the sum of its counts. For policies that decide as they go; those
/// that hold a stretch back are run by `whole`.
#[derive(Clone)]
pub struct Planning {
    planner: Planner,
    policy: Policy,
    /// Asked, emitted, added, elided, over all command buffers that have ended.
    pub counts: [u64; 4],
}

impl Planning {
    pub fn new(policy: Policy) -> Planning {
        Planning { planner: Planner::new(policy), policy, counts: [0; 4] }
    }
}

impl Follower for Planning {
    fn follow(&mut self, step: &Step, queue: &mut Vec<Event>) {
        match step {
            Step::Ask(barrier) => {
                queue.push(Event::Asked(*barrier));
                if self.planner.asked(*barrier) == Verdict::Emit {
                    queue.push(Event::Emitted(*barrier));
                }
            }
            Step::Do(accesses) => {
                let around = self.planner.operation(accesses, true);
                queue.extend(around.before.map(|due| Event::Emitted(due.barrier)));
                queue.push(Event::Operation(accesses.clone()));
                queue.extend(around.after.map(Event::Emitted));
            }
            Step::Unknown => {
                queue.extend(self.planner.flush().map(|due| Event::Emitted(due.barrier)));
                queue.push(Event::Operation(Access::unknown().to_vec()));
                self.planner.restart();
            }
            Step::End => {
                queue.extend(self.planner.flush().map(|due| Event::Emitted(due.barrier)));
                let c = self.planner.counts();
                for (sum, n) in self.counts.iter_mut().zip([c.asked, c.emitted, c.added, c.elided]) {
                    *sum += n;
                }
                self.planner = Planner::new(self.policy);
            }
        }
    }
}

/// A follower and the model beside it.
#[derive(Clone)]
pub struct Queue<F> {
    pub follower: F,
    model: Model,
    events: Vec<Event>,
    /// How many barriers have been emitted.
    pub emitted: usize,
}

impl<F: Follower> Queue<F> {
    pub fn new(follower: F) -> Queue<F> {
        Queue { follower, model: Model::new(), events: Vec::new(), emitted: 0 }
    }

    /// Takes a step; says whether every required pair that it completes is ordered.
    pub fn step(&mut self, step: &Step) -> bool {
        let mut events = std::mem::take(&mut self.events);
        self.follower.follow(step, &mut events);
        let mut sound = true;
        for event in events.drain(..) {
            self.emitted += usize::from(matches!(event, Event::Emitted(_)));
            sound &= self.model.push(&event).iter().all(|pair| pair.ordered);
        }
        self.events = events;
        sound
    }
}

impl Queue<Tracking> {
    /// What [`Queue::step`] would say of an operation that nothing follows. Only an emission changes what the model
    /// sees, so without one neither side needs to be copied; most programs of an enumeration end like that.
    pub fn last_operation(&self, accesses: &[Access]) -> bool {
        if self.follower.tracker.is_due(accesses) {
            return self.clone().step(&Step::Do(accesses.to_vec()));
        }
        self.model.completed_by(accesses).iter().all(|pair| pair.ordered)
    }
}

/// All that happens on the queue when `follower` follows `program`, whose last command buffer ends too.
pub fn events(program: &[Step], mut follower: impl Follower) -> Vec<Event> {
    let mut queue = Vec::new();
    for step in program.iter().chain([&Step::End]) {
        follower.follow(step, &mut queue);
    }
    queue
}

/// The required pairs that `follower` leaves unordered in `program`.
pub fn violations(program: &[Step], follower: impl Follower) -> Vec<Pair> {
    crate::model::audit(&events(program, follower)).violations
}

/// The barriers among `events`, each with the number of operations before it.
pub fn emissions(events: &[Event]) -> Vec<(usize, Barrier)> {
    let mut operations = 0;
    let mut found = Vec::new();
    for event in events {
        match event {
            Event::Operation(_) => operations += 1,
            Event::Emitted(barrier) => found.push((operations, *barrier)),
            Event::Asked(_) => {}
        }
    }
    found
}

/// A stage and the flags of plain reads and writes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub stages: Stages,
    pub read: Flags,
    pub write: Flags,
}

/// A dispatch's storage accesses.
pub const C: Place = Place {
    stages: Stages::COMPUTE_SHADER,
    read: Flags::SHADER_STORAGE_READ,
    write: Flags::SHADER_STORAGE_WRITE,
};
/// A copy's accesses.
pub const T: Place = Place { stages: Stages::COPY, read: Flags::TRANSFER_READ, write: Flags::TRANSFER_WRITE };
/// The arguments of an indirect dispatch; nothing writes there.
pub const I: Place =
    Place { stages: Stages::DRAW_INDIRECT, read: Flags::INDIRECT_COMMAND_READ, write: Flags::empty() };

impl Place {
    /// A scope with read flags, write flags, both or none.
    fn scope(self, flags: &str) -> Scope {
        let mut scope = Scope { stages: self.stages, flags: Flags::empty() };
        for c in flags.chars() {
            scope.flags |= match c {
                'r' => self.read,
                'w' => self.write,
                _ => panic!("a flag is r or w, not {c}"),
            };
        }
        scope
    }
}

/// Range number `i`; no two overlap.
pub fn range(i: u64) -> Range {
    Range::bytes(MemoryId(1), i * 64, 64, 64)
}

/// A read of range `i` at `place`.
pub fn read(place: Place, i: u64) -> Access {
    Access { range: range(i), kind: Kind::Read, stages: place.stages, flags: place.read }
}

/// A write of range `i` at `place`.
pub fn write(place: Place, i: u64) -> Access {
    Access { range: range(i), kind: Kind::Write, stages: place.stages, flags: place.write }
}

/// A barrier from `src` to `dst`, each with the flags `r`, `w`, both or none: `barrier(C, "w", C, "r")`.
pub fn barrier(src: Place, src_flags: &str, dst: Place, dst_flags: &str) -> Barrier {
    Barrier { src: src.scope(src_flags), dst: dst.scope(dst_flags) }
}

/// A step that asks for such a barrier.
pub fn ask(src: Place, src_flags: &str, dst: Place, dst_flags: &str) -> Step {
    Step::Ask(barrier(src, src_flags, dst, dst_flags))
}

/// A step with these accesses.
pub fn op<const N: usize>(accesses: [Access; N]) -> Step {
    Step::Do(accesses.to_vec())
}

/// A program as people read it, a step a line.
pub fn show(program: &[Step]) -> String {
    let mut out = String::new();
    let mut number = 0;
    for step in program {
        match step {
            Step::Ask(b) => writeln!(out, "    ask {}", show_barrier(b)),
            Step::Do(accesses) => {
                let list: Vec<String> = accesses.iter().map(show_access).collect();
                number += 1;
                writeln!(out, "    operation {}: {}", number - 1, list.join(", "))
            }
            Step::Unknown => {
                number += 1;
                writeln!(out, "    operation {}: unknown command", number - 1)
            }
            Step::End => writeln!(out, "    end of command buffer"),
        }
        .expect("writing to a string");
    }
    out
}

/// A barrier as people read it.
pub fn show_barrier(b: &Barrier) -> String {
    let scope = |s: &Scope| {
        format!("[{}: {}]", show_bits(&s.stages, s.stages.bits()), show_bits(&s.flags, s.flags.bits()))
    };
    format!("{} -> {}", scope(&b.src), scope(&b.dst))
}

fn show_access(a: &Access) -> String {
    let range = match a.range {
        Range::Anywhere => "anything".to_string(),
        Range::Bytes { memory, start, end } => format!("{}:{start}..{end}", memory.0),
    };
    let kind = if a.kind == Kind::Read { "reads" } else { "writes" };
    format!("{kind} {range} at {}", show_bits(&a.stages, a.stages.bits()))
}

fn show_bits(mask: &impl bitflags::Flags, bits: u64) -> String {
    if bits == 0 {
        return "none".into();
    }
    if bits.count_ones() > 6 {
        return format!("{bits:#x}");
    }
    mask.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join("|")
}
