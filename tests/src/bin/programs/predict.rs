//! How many barriers `alias-only` must emit: worked out from what a program binds, without any of the layer's tables.
//!
//! What an operation touches by its descriptors is known here because this program was made here. The planner that decides is the
//! layer's own, which `layer/hazard` holds against a search over all small programs; so a count that differs is a fault in what
//! the layer saw.

use ash::vk;
use zinc_hazard::{Access, Barrier, Flags, Kind, MemoryId, Planner, Policy, Range, Stages};

use crate::barriers::BARRIERS;
use crate::program::{BLOCK, Kernel, Op, Origin, Place, Program, Recording, Step, Way};

/// Barriers asked for, and emitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By the application.
    pub asked: u64,
    /// Under `alias-only`.
    pub emitted: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.asked += other.asked;
        self.emitted += other.emitted;
    }
}

/// What the recordings of a program count for, each submitted once.
pub fn counts(program: &Program) -> Counts {
    let mut sum = Counts::default();
    for recording in &program.recordings {
        sum += of_recording(program, recording);
    }
    sum
}

fn of_recording(program: &Program, recording: &Recording) -> Counts {
    of_steps(program, &recording.steps)
}

fn of_steps(program: &Program, steps: &[Step]) -> Counts {
    let mut planner = Planner::new(Policy::AliasOnly);
    let mut inner = Counts::default();
    // What the barriers wait for that have not been emitted and that timestamps wait for in turn.
    let mut waited_for = Stages::empty();
    for step in steps {
        match step {
            Step::Op(op) => {
                let dispatch = matches!(op, Op::Dispatch { .. });
                if planner.operation(&accesses(program, op), dispatch).before.is_some() {
                    waited_for = Stages::empty();
                }
            }
            Step::Barrier(kind) => {
                let Barrier { src, dst } = BARRIERS[*kind].scopes;
                planner.asked(BARRIERS[*kind].scopes);
                if dst.stages.contains(Stages::ALL_COMMANDS) {
                    waited_for |= src.stages;
                }
            }
            Step::Timestamp(stage) => {
                // It waits for all that is recorded before it at its stage, so for a barrier only where that waits for more.
                let own = match *stage {
                    vk::PipelineStageFlags::TOP_OF_PIPE => Stages::empty(),
                    vk::PipelineStageFlags::COMPUTE_SHADER => Stages::COMPUTE_SHADER | Stages::DRAW_INDIRECT,
                    vk::PipelineStageFlags::TRANSFER => Stages::TRANSFERS,
                    _ => Stages::all(),
                };
                if !own.contains(waited_for) {
                    planner.flush();
                    waited_for = Stages::empty();
                }
            }
            Step::Begin | Step::End | Step::Label => {}
            Step::Event | Step::Secondary(_) => {
                planner.flush();
                planner.restart();
                waited_for = Stages::empty();
                if let Step::Secondary(steps) = step {
                    inner += of_steps(program, steps);
                }
            }
        }
    }
    planner.flush();
    let own = planner.counts();
    inner += Counts { asked: own.asked, emitted: own.emitted };
    inner
}

/// The bytes of a place, as far as the layer can know them.
fn range(program: &Program, place: Place) -> Range {
    let buffer = &program.buffers[place.buffer];
    match program.memories[buffer.memory].origin {
        Origin::Own => {
            let first = (buffer.first + place.block) as u64 * BLOCK;
            Range::bytes(MemoryId(1 + buffer.memory as u64), first, BLOCK, 64)
        }
        Origin::Host(_) => Range::Bytes { memory: MemoryId(0), start: 0, end: u64::MAX },
        Origin::Mapped(_) => Range::Anywhere,
    }
}

fn accesses(program: &Program, op: &Op) -> Vec<Access> {
    let at = |place: &Place| range(program, *place);
    let read = |place: &Place| Access { flags: Flags::SHADER_STORAGE_READ, ..Access::shader_read(at(place)) };
    let write = |place: &Place| Access::shader_write(at(place));
    let transfer = |place: &Place, kind: Kind, stages: Stages| Access {
        range: at(place),
        kind,
        stages,
        flags: if kind == Kind::Read { Flags::TRANSFER_READ } else { Flags::TRANSFER_WRITE },
    };
    match op {
        Op::Dispatch { kernel, places, way, indirect, .. } => {
            let mut accesses = match kernel {
                Kernel::Write => vec![write(&places[0])],
                Kernel::Step | Kernel::Far => vec![read(&places[0]), write(&places[1])],
                Kernel::Add => vec![read(&places[0]), read(&places[1]), write(&places[2])],
                Kernel::Scale => vec![read(&places[0]), write(&places[0])],
                // Any element that was written may be read; of a set that may change, nothing is known of where.
                Kernel::Pick => match way {
                    Way::Array { late: true, .. } => {
                        let anywhere = Access::shader_read(Range::Anywhere);
                        vec![anywhere, Access::shader_write(Range::Anywhere)]
                    }
                    _ => std::iter::once(write(&places[0])).chain(places[1..].iter().map(read)).collect(),
                },
                // With bound ranges an address may lead anywhere.
                Kernel::Peek => vec![Access::shader_read(Range::Anywhere), write(&places[1])],
            };
            accesses.extend(indirect.as_ref().map(|place| {
                let range = match at(place) {
                    Range::Bytes { memory, start, .. } if memory != MemoryId(0) => {
                        Range::bytes(memory, start, 12, 64)
                    }
                    other => other,
                };
                let (stages, flags) = (Stages::DRAW_INDIRECT, Flags::INDIRECT_COMMAND_READ);
                Access { range, kind: Kind::Read, stages, flags }
            }));
            accesses
        }
        Op::Copy { from, to, .. } => {
            vec![transfer(from, Kind::Read, Stages::COPY), transfer(to, Kind::Write, Stages::COPY)]
        }
        Op::Fill(to, _) | Op::Update(to, _) => vec![transfer(to, Kind::Write, Stages::CLEAR)],
    }
}
