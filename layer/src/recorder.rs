//! One command buffer's recording: what is bound, what is pending, what was counted.
//!
//! The recorder decides and counts; it never calls Vulkan. `commands` feeds it what the application records and
//! carries out its answers. So everything here can be tested without a driver.

use crate::addresses::{Addresses, Reached, Seen};
use crate::asked::Asked;
use crate::descriptors::Set;
use crate::footprint::{self, BoundSet, Rules, Unresolved};
use crate::journal::{self, Journal, What};
use crate::pipelines::Pipeline;
use crate::script::Script;
use crate::trace::Witnesses;
use ash::vk;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use zinc_hazard::{
    Access, Barrier, Cause, Derived, Due, Key, Nature, Plan, Policy, Range, RepeatingPlanner as Planner,
    Side, Stages, Step, Verdict,
};
use zinc_reflect::Dispatch;
use zinc_report::{Counts, Hazards};

/// How many operations a stretch may have before it is ended: deciding costs up to a look at every earlier operation
/// for each one.
const LONGEST_STRETCH: usize = 2048;

/// What becomes of a pipeline barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It goes on as it is.
    Emit,
    /// It stays here.
    Withhold,
    /// It goes on as it is, after what this says.
    PassThrough(Kept),
}

/// What goes out because nothing is known of what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// To be emitted now.
    pub due: Option<Due>,
    /// How many barriers go out for it, those included that a segment held.
    pub barriers: u64,
}

/// What is bound for compute. Handles: a bind costs next to nothing, and what they stand for is looked up when a
/// dispatch needs it. By the specification it is alive then; if it was destroyed, the recording is of no use anyway.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// The pipeline; null when none is bound, or something that is not known.
    pub pipeline: vk::Pipeline,
    /// By set number.
    pub sets: Vec<Option<BoundSet>>,
    /// Push constants of the compute stage, from offset 0 on as far as they were pushed; kept for tight ranges only.
    pub push_constants: Vec<u8>,
}

impl Bound {
    /// Nothing that is known is bound.
    pub fn clear(&mut self) {
        self.pipeline = vk::Pipeline::null();
        self.sets.clear();
        self.push_constants.clear();
    }

    /// Takes in what is pushed. Behind a gap it is left out, and so counts as unknown: what is in the gap may have been
    /// pushed by a command that the layer does not read.
    pub fn push(&mut self, offset: u32, values: &[u8]) {
        let start = offset as usize;
        if start <= self.push_constants.len() {
            let end = start + values.len();
            if end > self.push_constants.len() {
                self.push_constants.resize(end, 0);
            }
            self.push_constants[start..end].copy_from_slice(values);
        }
    }
}

/// The first workgroup of a dispatch, and their number.
pub type Workgroups = ([u32; 3], [u32; 3]);

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
    /// A command came of which nothing is known, so that it may be inside anything.
    lost: bool,
    /// Where a predicate decides whether dispatches happen, and each of them reads it.
    pub conditional: bool,
    /// Everything but the barriers, which the planner counts.
    counted: Counts,
    /// Of the secondary command buffers executed.
    executed: Counts,
    /// Where addresses led.
    seen: Seen,
    /// First scopes of barriers that may still wait, and whose second scope has the writes of timestamps.
    before_marks: Stages,
    /// For each planner, how many barriers went out because a command without a model came next.
    unmodelled: SmallVec<[u64; 1]>,
    /// Dispatches whose accesses are not known, by the reason.
    unresolved: [u64; Unresolved::ALL.len()],
    /// Of those whose shader is not known, by why it is not.
    unread: Vec<(Arc<str>, u64)>,
    /// The first command that bound something which the layer does not follow.
    tainted: Option<String>,
    /// Everything as recorded and as issued, where somebody wants to know.
    journal: Option<Box<Journal>>,
}

/// The counts of a finished recording, and those of the policies not in force.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// As recorded, with the secondary command buffers that it executes.
    pub counts: Counts,
    /// By policy.
    pub would_emit: Vec<(Policy, Counts)>,
    /// Where one was kept.
    pub journal: Option<Arc<Journal>>,
    /// How to issue its operations again, where submissions are replayed.
    pub script: Option<Arc<Script>>,
    /// What forced its barriers, where a trace is written.
    pub witnesses: Option<Arc<Witnesses>>,
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
            lost: false,
            conditional: false,
            counted: Counts::default(),
            executed: Counts::default(),
            seen: Seen::default(),
            before_marks: Stages::empty(),
            unmodelled: smallvec![0; 1 + shadows.len()],
            unresolved: Default::default(),
            unread: Vec::new(),
            tainted: None,
            journal: None,
        }
    }

    /// From now on a journal is kept.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Box::default());
    }

    /// Begins a new recording, and keeps what memory there is.
    pub fn reset(&mut self) {
        self.each().for_each(Planner::reset);
        self.bound.clear();
        self.rendering = false;
        self.lost = false;
        self.conditional = false;
        self.counted = Counts::default();
        self.executed = Counts::default();
        self.before_marks = Stages::empty();
        self.unmodelled.fill(0);
        self.unresolved = Default::default();
        self.unread.clear();
        self.tainted = None;
        if self.journal.is_some() {
            self.keep_journal();
        }
    }

    /// How far ranges reach.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether operations and barriers are to be held back until the stretch ends: at [`Recorder::settle`],
    /// [`Recorder::unmodelled`] or [`Recorder::end`].
    pub fn holds(&self) -> bool {
        self.planner.holds()
    }

    /// What comes next can't be held back: until the command buffer ends, each operation and barrier is decided when it is
    /// recorded. [`Recorder::take_plan`] says what to issue of what was held.
    pub fn stop_holding(&mut self) {
        self.each().for_each(Planner::stop_holding);
    }

    /// A command came of which nothing is known. It may have bound anything and begun anything: what is bound is unknown until
    /// it is bound again, and until the command buffer ends barriers may be inside rendering and dispatches under a
    /// predicate.
    pub fn lose_track(&mut self) {
        self.bound.clear();
        self.lost = true;
        self.conditional = true;
    }

    /// A command came that binds what the layer does not follow; `name` says which.
    pub fn taint(&mut self, name: impl FnOnce() -> String) {
        self.bound.clear();
        self.tainted.get_or_insert_with(name);
    }

    /// Whether the stretch has become so long that it should end.
    pub fn is_long(&self) -> bool {
        self.planner.held_operations() >= LONGEST_STRETCH
    }

    /// What to issue of the stretch that has ended.
    pub fn take_plan(&mut self) -> Option<Arc<Plan>> {
        self.planner.take_plan()
    }

    /// What was held is issued by `plan`, except for the barriers `withheld`.
    pub fn issued_plan(&mut self, plan: &Plan, withheld: &[usize]) {
        if let Some(journal) = &mut self.journal {
            journal.plan(plan, withheld);
        }
    }

    /// A barrier was issued.
    pub fn issued_barrier(&mut self, barrier: Barrier) {
        if let Some(journal) = &mut self.journal {
            journal.emitted(barrier);
        }
    }

    /// The operation recorded last was issued, or will be before the next barrier.
    pub fn issued_operation(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.issued_last();
        }
    }

    /// A command without a model was issued.
    pub fn issued_unknown(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.unknown();
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Planner> {
        std::iter::once(&mut self.planner).chain(&mut self.shadows)
    }

    /// The application asks for a barrier.
    #[inline]
    pub fn asked(&mut self, asked: Asked) -> Answer {
        if self.rendering || self.lost || asked.pass_through {
            self.counted.barriers_passed_through += 1;
            let kept = self.unmodelled();
            self.each().for_each(Planner::passed_through);
            if let Some(journal) = &mut self.journal {
                journal.asked(asked.barrier);
            }
            return Answer::PassThrough(kept);
        }
        // The writes of timestamps are in the second scope of all commands, and of the stage that stands for them.
        if asked.barrier.dst.stages.intersects(Stages::ALL_COMMANDS | Stages::TOP_OF_PIPE) {
            self.before_marks |= asked.barrier.src.stages;
        }
        if let Some(journal) = &mut self.journal {
            journal.asked(asked.barrier);
        }
        for shadow in &mut self.shadows {
            shadow.asked(asked.barrier);
        }
        match self.planner.asked(asked.barrier) {
            Verdict::Emit => Answer::Emit,
            Verdict::Hold | Verdict::Drop => Answer::Withhold,
        }
    }

    /// A dispatch comes next, if it can be anything: under a policy that neither looks at dispatches nor adds anything. Says
    /// whether it does. Not where a journal is kept, or other policies are counted.
    #[inline]
    pub fn passes(&mut self) -> bool {
        debug_assert!(self.journal.is_none() && self.shadows.is_empty());
        let indifferent = matches!(self.planner.policy(), Policy::Stock | Policy::None);
        self.counted.dispatches += u64::from(indifferent);
        indifferent
    }

    /// The dispatch of what is bound comes next, if it is the one that the last recording had here: what must be emitted before
    /// it. `find` looks a set up. `None` says nothing. Not where a journal is kept, or other policies are counted.
    #[inline]
    pub fn repeats<'a>(
        &mut self,
        pipeline: &Pipeline,
        find: impl Fn(vk::DescriptorSet) -> Option<&'a Set>,
    ) -> Option<Option<Due>> {
        debug_assert!(self.journal.is_none() && self.shadows.is_empty());
        if self.conditional {
            return None;
        }
        let before = self.planner.repeats(footprint::key(pipeline, &self.bound.sets, find)?, true)?;
        self.counted.dispatches += 1;
        self.emits(before.is_some());
        Some(before)
    }

    /// A dispatch comes next, of `pipeline`, which is bound if it is known, and of the sets that are; `find` looks one up.
    /// `arguments` is what an indirect dispatch reads; `grid` the first workgroup and their number, where tight ranges
    /// are wanted and they are known, with the device's addresses.
    pub fn dispatch<'a>(
        &mut self,
        pipeline: Option<&Pipeline>,
        find: impl Fn(vk::DescriptorSet) -> Option<&'a Set>,
        arguments: Option<Access>,
        grid: Option<(Workgroups, &Addresses)>,
    ) -> Step {
        self.counted.dispatches += 1;
        // Tight ranges follow from more than a pipeline and a set, and so does what a predicate or arguments add.
        let plain = grid.is_none() && arguments.is_none() && !self.conditional;
        let key = pipeline.filter(|_| plain).and_then(|p| footprint::key(p, &self.bound.sets, &find));
        let (bound, rules, seen) = (&self.bound, self.rules, &mut self.seen);
        let (unknown, conditional) = (&mut self.counted.unknown_operations, self.conditional);
        let (unresolved, unread) = (&mut self.unresolved, &mut self.unread);
        let derive = |accesses: &mut Vec<Access>| {
            let place = |reached| match grid {
                Some((_, addresses)) => seen.place(addresses, reached, rules.granule),
                None => Range::Anywhere,
            };
            let workgroups = grid.map(|(workgroups, _)| workgroups);
            let (derived, why) = derive_dispatch(pipeline, (bound, find, rules), workgroups, place, accesses);
            if let Some(why) = why {
                *unknown += 1;
                match pipeline
                    .and_then(|pipeline| pipeline.unread.as_ref())
                    .filter(|_| why == Unresolved::Shader)
                {
                    Some(why) => match unread.iter_mut().find(|(known, _)| known == why) {
                        Some((_, times)) => *times += 1,
                        None => unread.push((why.clone(), 1)),
                    },
                    None => unresolved[why as usize] += 1,
                }
            }
            accesses.extend(arguments);
            if conditional {
                accesses.push(footprint::predicate());
            }
            derived
        };
        let what = What::Dispatch(pipeline.map(|p| p.number));
        let what = |_: &[Access]| what;
        let planners = (&mut self.planner, &mut self.shadows[..], &mut self.journal);
        let step = operation(planners, (what, true, key), derive);
        self.emits(step.before.is_some());
        step
    }

    /// What is emitted before an operation, if anything `is`, carries all that waited.
    #[inline]
    fn emits(&mut self, is: bool) {
        if is {
            self.before_marks = Stages::empty();
        }
    }

    /// A copy, fill or update comes next; `fill` says what it touches, given the granule.
    pub fn transfer(&mut self, fill: impl FnOnce(u64, &mut Vec<Access>)) -> Step {
        self.counted.transfers += 1;
        let granule = self.rules.granule;
        let derive = |accesses: &mut Vec<Access>| {
            fill(granule, accesses);
            Derived { nature: Nature::Movable, lasting: true }
        };
        let planners = (&mut self.planner, &mut self.shadows[..], &mut self.journal);
        let step = operation(planners, (journal::transfer, false, None), derive);
        self.emits(step.before.is_some());
        step
    }

    /// A command comes next that touches no memory, keeps its place, and waits by itself for `stages` of the commands before
    /// it: a timestamp, say. A barrier that waits and that orders the command against more than that is emitted before it.
    pub fn mark(&mut self, stages: Stages) -> Step {
        let wants = self.before_marks.execution(Side::First);
        let stages = stages.execution(Side::First);
        let waits = stages.contains(wants);
        let after_compute = stages.contains(Stages::COMPUTE_SHADER);
        let nature = if waits { Nature::Stays } else { Nature::Stamps { after_compute } };
        let derive = |_: &mut Vec<Access>| Derived { nature, lasting: true };
        let what = |_: &[Access]| What::Query;
        let planners = (&mut self.planner, &mut self.shadows[..], &mut self.journal);
        let step = operation(planners, (what, false, None), derive);
        // Where all is held, nothing is known yet of what is emitted.
        self.emits(!waits && !self.planner.holds());
        step
    }

    /// Everything that waits goes out, and nothing is known after it. Calls `forced` with each planner's place and the number of its
    /// barriers that go out for what comes next.
    fn flush(&mut self, mut forced: impl FnMut(&mut u64, u64)) -> Kept {
        let planners = std::iter::once(&mut self.planner).chain(&mut self.shadows);
        let mut first = None;
        for (planner, kept) in planners.zip(&mut self.unmodelled) {
            let holds = planner.holds();
            let due = planner.flush();
            // A plan that was made when holding stopped is none of what comes next.
            let plan = planner.planned().filter(|_| holds);
            let of_plan = plan.map_or(0, |plan| {
                plan.emissions.iter().filter(|emission| emission.witness.cause == Cause::Flush).count()
            });
            let barriers = u64::from(due.is_some()) + of_plan as u64;
            planner.restart();
            forced(kept, barriers);
            first.get_or_insert(Kept { due, barriers });
        }
        self.before_marks = Stages::empty();
        first.unwrap_or(Kept { due: None, barriers: 0 })
    }

    /// The segment has become too long to be held: what is returned must be emitted here.
    pub fn settle(&mut self) -> Option<Due> {
        self.flush(|_, _| {}).due
    }

    /// A command comes next that the layer does not model: what goes out is counted as due to it.
    pub fn unmodelled(&mut self) -> Kept {
        self.flush(|kept, barriers| *kept += barriers)
    }

    /// How many dispatches touch what is not known, by the reason in words.
    pub fn unknown_because(&self) -> impl Iterator<Item = (String, u64)> {
        let unread = self.unread.iter().map(|(why, times)| (why.to_string(), *times));
        let unresolved = Unresolved::ALL.into_iter().zip(self.unresolved).filter(|(_, times)| *times > 0);
        unread.chain(unresolved.map(|(why, times)| {
            let reason = match (why, &self.tainted) {
                (Unresolved::NoPipeline | Unresolved::Set, Some(name)) => {
                    format!("bound in a way that the layer does not follow, by {name}")
                }
                _ => why.reason().into(),
            };
            (reason, times)
        }))
    }

    /// An operation that the layer does not model: [`Recorder::unmodelled`], counted.
    pub fn unknown_operation(&mut self) -> Kept {
        self.counted.unknown_operations += 1;
        self.unmodelled()
    }

    /// A secondary command buffer will be executed here, after [`Recorder::unmodelled`].
    pub fn executes(&mut self, secondary: &Finished) {
        self.executed += secondary.counts;
        match (&mut self.journal, &secondary.journal) {
            (Some(journal), Some(theirs)) => journal.executes(theirs),
            (Some(journal), None) => journal.unknown(),
            (None, _) => {}
        }
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

    /// Hands over the journal of the recording that has ended.
    pub fn take_journal(&mut self) -> Option<Journal> {
        self.journal.as_deref_mut().map(std::mem::take)
    }

    /// From here on everything is passed on as it is: the layer failed and is not to be trusted with this buffer.
    pub fn give_up(&mut self) {
        // The new recorder counts the command buffer itself.
        let before = Counts { command_buffers: 0, ..self.finished().counts };
        *self = Recorder { executed: before, ..Recorder::new(Policy::Stock, &[], self.rules) };
    }

    /// The counts so far; once [`Recorder::end`] was called, those of the recording.
    pub fn finished(&self) -> Finished {
        let with = |planner: &Planner, mutated: u64, unmodelled: u64| {
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
                    flush: c.hazards.flush.saturating_sub(unmodelled),
                    unmodelled,
                },
                ..self.counted
            };
            own + self.executed
        };
        Finished {
            journal: None,
            script: None,
            witnesses: None,
            counts: with(&self.planner, self.counted.barriers_mutated, self.unmodelled[0]),
            would_emit: (self.shadows.iter().zip(&self.unmodelled[1..]))
                .map(|(shadow, kept)| (shadow.policy(), with(shadow, 0, *kept)))
                .collect(),
        }
    }
}

/// What a dispatch does, as far as it can be seen, and how far it may be moved.
fn derive_dispatch<'a>(
    pipeline: Option<&Pipeline>,
    (bound, find, rules): (&Bound, impl Fn(vk::DescriptorSet) -> Option<&'a Set>, Rules),
    workgroups: Option<Workgroups>,
    place: impl FnMut(Reached) -> Range,
    accesses: &mut Vec<Access>,
) -> (Derived, Option<Unresolved>) {
    // What can't be seen might hand data to others while it runs.
    let mut nature = Nature::Stays;
    let resolved = match pipeline {
        Some(pipeline) => {
            nature = match &pipeline.shader {
                Some(shader) if shader.synchronising => Nature::Synchronises,
                Some(_) => Nature::Movable,
                None => Nature::Stays,
            };
            let Bound { sets, push_constants, .. } = bound;
            let dispatch = workgroups.map(|(base, groups)| Dispatch { push_constants, groups, base });
            footprint::of_dispatch(pipeline, sets, find, rules, dispatch.as_ref(), place, accesses)
        }
        None => Err(Unresolved::NoPipeline),
    };
    if resolved.is_err() {
        accesses.clear();
        accesses.extend(footprint::unknown_dispatch());
    }
    (Derived { nature, lasting: resolved.is_ok() }, resolved.err())
}

/// Passes an operation to the planners and the journal; the answer is that of the policy in force. Its accesses are derived if
/// they are looked at; `what` says what it is by them.
fn operation(
    (planner, shadows, journal): (&mut Planner, &mut [Planner], &mut Option<Box<Journal>>),
    (what, dispatch, key): (impl FnOnce(&[Access]) -> What, bool, Option<Key>),
    derive: impl FnOnce(&mut Vec<Access>) -> Derived,
) -> Step {
    if journal.is_none() && shadows.is_empty() {
        return planner.operation(key, dispatch, derive);
    }
    let mut accesses = Vec::new();
    let derived = derive(&mut accesses);
    if let Some(journal) = journal {
        journal.operation(what(&accesses), derived.nature, &accesses);
    }
    let tell = |planner: &mut Planner| {
        planner.operation(None, dispatch, |out| {
            out.extend_from_slice(&accesses);
            derived
        })
    };
    for shadow in shadows {
        tell(shadow);
    }
    tell(planner)
}
