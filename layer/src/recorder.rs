//! One command buffer's recording: what is bound, what is pending, what was counted.
//!
//! The recorder decides and counts; it never calls Vulkan. `commands` feeds it what the application records and
//! carries out its answers. So everything here can be tested without a driver.

use crate::asked::Asked;
use crate::descriptors::Set;
use crate::footprint::{self, BoundSet, Rules};
use crate::pipelines::Pipeline;
use ash::vk;
use zinc_hazard::{Access, Due, Planner, Policy, Step, Verdict};
use zinc_report::{Counts, Hazards};

/// What becomes of a pipeline barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It goes on as it is.
    Emit,
    /// It stays here.
    Withhold,
    /// It goes on as it is, after this one.
    PassThrough(Option<Due>),
}

/// What is bound for compute. Handles: a bind costs next to nothing, and what they stand for is looked up when a
/// dispatch needs it. By the specification it is alive then; if it was destroyed, the recording is of no use anyway.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// The pipeline; null when none is bound, or something that is not known.
    pub pipeline: vk::Pipeline,
    /// By set number.
    pub sets: Vec<Option<BoundSet>>,
}

impl Bound {
    /// Nothing that is known is bound.
    pub fn clear(&mut self) {
        self.pipeline = vk::Pipeline::null();
        self.sets.clear();
    }
}

/// The state of one recording.
#[derive(Debug)]
pub struct Recorder {
    planner: Planner,
    /// The other policies, when the report is to say what they would have emitted.
    shadows: Vec<Planner>,
    /// What is bound for compute.
    pub bound: Bound,
    rules: Rules,
    /// Inside rendering, where barriers are another thing and pass through.
    pub rendering: bool,
    /// Where a predicate decides whether dispatches happen, and each of them reads it.
    pub conditional: bool,
    /// Everything but the barriers, which the planner counts.
    counted: Counts,
    /// Of the secondary command buffers executed.
    executed: Counts,
    scratch: Vec<Access>,
}

/// The counts of a finished recording, and those of the policies not in force.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// As recorded, with the secondary command buffers that it executes.
    pub counts: Counts,
    /// By policy.
    pub would_emit: Vec<(Policy, Counts)>,
}

impl Recorder {
    /// A recorder at the beginning of a command buffer.
    pub fn new(policy: Policy, shadows: &[Policy], rules: Rules) -> Recorder {
        Recorder {
            planner: Planner::new(policy),
            shadows: shadows.iter().copied().map(Planner::new).collect(),
            bound: Bound::default(),
            rules,
            rendering: false,
            conditional: false,
            counted: Counts::default(),
            executed: Counts::default(),
            scratch: Vec::new(),
        }
    }

    /// Begins a new recording, and keeps what memory there is.
    pub fn reset(&mut self) {
        self.each().for_each(Planner::reset);
        self.bound.clear();
        self.rendering = false;
        self.conditional = false;
        self.counted = Counts::default();
        self.executed = Counts::default();
    }

    /// How far ranges reach.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Planner> {
        std::iter::once(&mut self.planner).chain(&mut self.shadows)
    }

    /// The application asks for a barrier.
    pub fn asked(&mut self, asked: Asked) -> Answer {
        if self.rendering || asked.pass_through {
            self.counted.barriers_passed_through += 1;
            let due = self.unknown();
            self.each().for_each(Planner::passed_through);
            return Answer::PassThrough(due);
        }
        for shadow in &mut self.shadows {
            shadow.asked(asked.barrier);
        }
        match self.planner.asked(asked.barrier) {
            Verdict::Emit => Answer::Emit,
            Verdict::Hold | Verdict::Drop => Answer::Withhold,
        }
    }

    /// A dispatch comes next, of `pipeline`, which is bound if it is known, and of the sets that are; `find` looks one up.
    /// `arguments` is what an indirect dispatch reads.
    pub fn dispatch<'a>(
        &mut self,
        pipeline: Option<&Pipeline>,
        find: impl Fn(vk::DescriptorSet) -> Option<&'a Set>,
        arguments: Option<Access>,
    ) -> Step {
        self.counted.dispatches += 1;
        let mut accesses = std::mem::take(&mut self.scratch);
        accesses.clear();
        let mut synchronising = false;
        if self.each().any(|p| p.needs_accesses()) {
            let resolved = match pipeline {
                Some(pipeline) => {
                    synchronising = pipeline.shader.as_ref().is_some_and(|s| s.synchronising);
                    footprint::of_dispatch(pipeline, &self.bound.sets, find, self.rules, &mut accesses)
                }
                None => Err(footprint::Unresolved),
            };
            if resolved.is_err() {
                self.counted.unknown_operations += 1;
                accesses.clear();
                accesses.extend(footprint::unknown_dispatch());
            }
            accesses.extend(arguments);
            if self.conditional {
                accesses.push(footprint::predicate());
            }
        }
        let step = self.operation(&accesses, true, synchronising);
        self.scratch = accesses;
        step
    }

    /// A copy, fill or update comes next; `fill` says what it touches, given the granule.
    pub fn transfer(&mut self, fill: impl FnOnce(u64, &mut Vec<Access>)) -> Step {
        self.counted.transfers += 1;
        let mut accesses = std::mem::take(&mut self.scratch);
        accesses.clear();
        if self.each().any(|p| p.needs_accesses()) {
            fill(self.rules.granule, &mut accesses);
        }
        let step = self.operation(&accesses, false, false);
        self.scratch = accesses;
        step
    }

    fn operation(&mut self, accesses: &[Access], dispatch: bool, synchronising: bool) -> Step {
        let mut first = None;
        for planner in self.each() {
            let flushed = if synchronising { planner.flush() } else { None };
            let step = planner.operation(accesses, dispatch);
            first.get_or_insert(Step { before: flushed.or(step.before), ..step });
        }
        first.unwrap_or_default()
    }

    /// Something that the layer does not model comes next: what is returned must be emitted before it.
    pub fn unknown(&mut self) -> Option<Due> {
        let mut first = None;
        for planner in self.each() {
            let due = planner.flush();
            planner.restart();
            first.get_or_insert(due);
        }
        first.flatten()
    }

    /// An operation that the layer does not model: [`Recorder::unknown`], counted.
    pub fn unknown_operation(&mut self) -> Option<Due> {
        self.counted.unknown_operations += 1;
        self.unknown()
    }

    /// A secondary command buffer will be executed here, after [`Recorder::unknown`].
    pub fn executes(&mut self, secondary: Counts) {
        self.executed += secondary;
    }

    /// The recording ends: what is returned must be emitted now.
    pub fn end(&mut self) -> Option<Due> {
        let mut first = None;
        for planner in self.each() {
            first.get_or_insert(planner.flush());
        }
        first.flatten()
    }

    /// An emission was withheld on purpose.
    pub fn mutated(&mut self) {
        self.counted.barriers_mutated += 1;
    }

    /// From here on everything is passed on as it is: the layer failed and is not to be trusted with this buffer.
    pub fn give_up(&mut self) {
        // The new recorder counts the command buffer itself.
        let before = Counts { command_buffers: 0, ..self.finished().counts };
        *self = Recorder { executed: before, ..Recorder::new(Policy::Stock, &[], self.rules) };
    }

    /// The counts so far; once [`Recorder::end`] was called, those of the recording.
    pub fn finished(&self) -> Finished {
        let with = |planner: &Planner, mutated: u64| {
            let c = planner.counts();
            let own = Counts {
                command_buffers: 1,
                barriers_asked: c.asked,
                barriers_emitted: c.emitted - mutated.min(c.emitted),
                barriers_elided: c.elided + mutated,
                barriers_added: c.added,
                barriers_mutated: mutated,
                hazards: Hazards {
                    raw: c.hazards.raw,
                    war: c.hazards.war,
                    waw: c.hazards.waw,
                    prefix: c.hazards.prefix,
                    flush: c.hazards.flush,
                },
                ..self.counted
            };
            own + self.executed
        };
        Finished {
            counts: with(&self.planner, self.counted.barriers_mutated),
            would_emit: self.shadows.iter().map(|s| (s.policy(), with(s, 0))).collect(),
        }
    }
}
