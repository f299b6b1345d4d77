//! Operations that are held back, to be issued in another order.
//!
//! Two things need that. A driver that executes in order hides every missing barrier: under `ZINC_BARRIER_SHUFFLE` the
//! layer holds dispatches, copies, fills and updates back until the next barrier goes out, and then issues them reversed
//! or permuted: what the emitted barriers leave free happens in another order than was recorded, and if an application's
//! result depends on that order, a barrier is missing. And the policies `narrow` and `reorder` decide only when all is
//! recorded: they hold everything back to the end and then say what comes when. Both go together: what stands between
//! two barriers of a plan is shuffled like anything else.
//!
//! Each held operation carries what it needs to be issued elsewhere: its own pipeline, sets, dynamic offsets and push
//! constants, and copies of all arrays and inline data. Binds go to the driver when they are recorded, as always;
//! after a release the application's own state is bound again, so that whatever it records next finds it.
//!
//! Nothing is ever held across anything but these operations, timestamps and resets of queries, which nothing moves across,
//! debug labels, which move with what they enclose, and the binds between them: every other command releases first.

use crate::bindings::{self, Bindings, Grid, Transfer, Unsure};
use crate::footprint::BoundSet;
use crate::labels::{Labels, Place};
use crate::layouts::PipelineLayout;
use crate::next::Next;
use crate::queries::{self, Query};
use crate::replay::traits::Traits;
use crate::script::{Action, Script};
use ash::vk;
use std::sync::Arc;
use zinc_hazard::{Issue, Plan};
use zinc_settings::Shuffle;

#[derive(Debug)]
enum Command {
    /// With what it needs bound, and whether nothing may move across it.
    Dispatch(Arc<Bindings>, Grid, bool),
    Transfer(Transfer),
    /// Nothing moves across it.
    Query(Query),
}

/// One that is held back, and the regions in which it was recorded.
#[derive(Debug)]
struct Held(Command, Place);

/// Something to do with what is held: see [`Segment::issue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Issue the operation of this number.
    Operation(usize),
    /// Emit the barrier of this number.
    Barrier(usize),
}

/// What is held back of one command buffer, and what is bound in it.
#[derive(Debug)]
pub struct Segment {
    order: Shuffle,
    random: fastrand::Rng,
    state: Bindings,
    /// `state` as the last held dispatch had it, while nothing was bound since.
    shared: Option<Arc<Bindings>>,
    held: Vec<Held>,
    /// The regions that the application has opened.
    pub labels: Labels,
    /// Something was bound that can't be bound again from here.
    closed: bool,
    /// Whether anything is held at all, or only what is bound is kept.
    holds: bool,
    /// Everything that is recorded, where submissions are replayed.
    script: Option<Script>,
}

impl Segment {
    /// An empty segment at the beginning of a command buffer. Where nothing `holds` back, it only knows what is bound; where
    /// submissions are `replayed`, it writes a script.
    pub fn new(order: Shuffle, holds: bool, replayed: bool) -> Segment {
        let seed = if let Shuffle::Seed(seed) = order { seed } else { 0 };
        Segment {
            order,
            random: fastrand::Rng::with_seed(seed),
            state: Bindings::default(),
            shared: None,
            held: Vec::new(),
            labels: Labels::default(),
            closed: false,
            holds,
            script: replayed.then(Script::default),
        }
    }

    /// Something is recorded that can't be replayed.
    pub fn breaks_script(&mut self) {
        if let Some(script) = &mut self.script {
            script.breaks();
        }
    }

    /// A secondary command buffer with this script is executed.
    pub fn executes(&mut self, secondary: Option<&Script>) {
        if let Some(script) = &mut self.script {
            script.executes(secondary);
        }
    }

    /// The script of the recording that has ended.
    pub fn take_script(&mut self) -> Option<Script> {
        self.script.as_mut().map(std::mem::take)
    }

    /// The application binds a pipeline.
    pub fn bind_pipeline(&mut self, pipeline: vk::Pipeline) {
        self.shared = None;
        self.state.pipeline = pipeline;
    }

    /// The application binds sets from number `first` on.
    ///
    /// # Errors
    ///
    /// [`Unsure`] where they, or what they leave bound, can't be bound again; then nothing has changed.
    pub fn bind_sets(
        &mut self,
        first: usize,
        sets: &[Option<BoundSet>],
        layout: &Arc<PipelineLayout>,
    ) -> Result<(), Unsure> {
        self.state.bind_sets(first, sets, layout)?;
        self.shared = None;
        Ok(())
    }

    /// The application pushes constants. Returns false where they can't be pushed again; then nothing has changed.
    pub fn push(
        &mut self,
        layout: &Arc<PipelineLayout>,
        stages: vk::ShaderStageFlags,
        offset: u32,
        bytes: &[u8],
    ) -> bool {
        if layout.own().is_some() {
            self.shared = None;
            self.state.push(layout.clone(), stages, offset, bytes);
        }
        layout.own().is_some()
    }

    /// What was bound is bound no more.
    pub fn forget_bound(&mut self) {
        self.shared = None;
        self.state = Bindings::default();
    }

    /// Something is bound that can't be bound again from here (pushed descriptors, say): for the rest of the command
    /// buffer nothing is held. What is held must have been released.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns true if operations are held back now.
    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    fn hold(&mut self, command: Command) {
        let place = self.labels.here();
        self.held.push(Held(command, place));
    }

    /// Returns true if what comes may be held back.
    fn may_hold(&self) -> bool {
        self.holds && !self.closed
    }

    /// Takes in a command on queries, and holds it back if that can be. Says whether it is held.
    pub fn query(&mut self, query: Query) -> bool {
        let held = self.may_hold();
        if held {
            self.hold(Command::Query(query));
        }
        held
    }

    fn bound(&mut self) -> Arc<Bindings> {
        self.shared.get_or_insert_with(|| Arc::new(self.state.clone())).clone()
    }

    /// Takes in a dispatch, and holds it back if it `may` be. Where it `stays`, nothing is moved across it. Says whether it
    /// is held.
    pub fn dispatch(&mut self, grid: Grid, (may, stays): (bool, bool), traits: Option<Traits>) -> bool {
        if let Some(mut script) = self.script.take() {
            let bound = (!self.closed).then(|| self.bound());
            script.operation(bound.map(|bound| Action::Dispatch(bound, grid, traits)));
            self.script = Some(script);
        }
        let held = self.may_hold() && may;
        if held {
            let bound = self.bound();
            self.hold(Command::Dispatch(bound, grid, stays));
        }
        held
    }

    /// Takes in a transfer, and holds it back if that can be. `keep` copies it, unless that can't be done. Says whether it is
    /// held.
    pub fn transfer(&mut self, keep: impl FnOnce() -> Option<Transfer>) -> bool {
        let holds = self.may_hold();
        if !holds && self.script.is_none() {
            return false;
        }
        let kept = keep();
        if let Some(script) = &mut self.script {
            script.operation(kept.clone().map(Action::Transfer));
        }
        match kept.filter(|_| holds) {
            Some(transfer) => {
                self.hold(Command::Transfer(transfer));
                true
            }
            None => false,
        }
    }

    /// The order in which `count` held operations are issued.
    fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        match self.order {
            Shuffle::Off => {}
            Shuffle::Reverse => order.reverse(),
            Shuffle::Seed(_) => self.random.shuffle(&mut order),
        }
        order
    }

    /// Issues all that is held and binds the application's state again.
    ///
    /// # Safety
    ///
    /// `buffer` must be the command buffer, in the recording state, and `next` its device's functions.
    pub unsafe fn release(&mut self, next: &Next, buffer: vk::CommandBuffer) {
        let turns: Vec<Turn> = (0..self.held.len()).map(Turn::Operation).collect();
        // SAFETY: by the caller.
        unsafe { self.take_turns(&turns, next, buffer, |_| {}) };
    }

    /// Issues what is held as `plan` says and binds the application's state again. `emit` emits the barrier of a number; of
    /// those that are `withheld` nothing is issued.
    ///
    /// # Safety
    ///
    /// As for [`Segment::release`].
    pub unsafe fn issue(
        &mut self,
        plan: &Plan,
        withheld: &[usize],
        next: &Next,
        buffer: vk::CommandBuffer,
        emit: impl FnMut(usize),
    ) {
        let turns: Vec<Turn> = plan
            .issue
            .iter()
            .filter_map(|issue| match issue {
                // What could not be held was issued at once, and was a stretch of its own.
                Issue::Operation(number) => (*number < self.held.len()).then_some(Turn::Operation(*number)),
                // Without its barrier, what stands on the two sides of it is one run for the shuffle.
                Issue::Barrier(number) => (!withheld.contains(number)).then_some(Turn::Barrier(*number)),
            })
            .collect();
        // SAFETY: by the caller.
        unsafe { self.take_turns(&turns, next, buffer, emit) };
    }

    /// Issues what is held in recorded order, and calls `between` before each: for the case that nothing is known of what
    /// orders what.
    ///
    /// # Safety
    ///
    /// As for [`Segment::release`].
    pub unsafe fn abandon(&mut self, next: &Next, buffer: vk::CommandBuffer, mut between: impl FnMut()) {
        let turns: Vec<Turn> =
            (0..self.held.len()).flat_map(|n| [Turn::Barrier(n), Turn::Operation(n)]).collect();
        // SAFETY: by the caller.
        unsafe { self.take_turns(&turns, next, buffer, |_| between()) };
    }

    /// Does all `turns`; what stands between two barriers, and between two operations that stay, is permuted.
    ///
    /// # Safety
    ///
    /// As for [`Segment::release`].
    unsafe fn take_turns(
        &mut self,
        turns: &[Turn],
        next: &Next,
        buffer: vk::CommandBuffer,
        mut emit: impl FnMut(usize),
    ) {
        let held = std::mem::take(&mut self.held);
        let mut bound: Option<Arc<Bindings>> = None;
        let stays = |turn: &Turn| match turn {
            Turn::Operation(number) => {
                matches!(held[*number].0, Command::Dispatch(_, _, true) | Command::Query(_))
            }
            Turn::Barrier(_) => true,
        };
        for run in turns.chunk_by(|a, b| !stays(a) && !stays(b)) {
            if let [Turn::Barrier(number)] = run {
                emit(*number);
                continue;
            }
            for at in self.permutation(run.len()) {
                let Turn::Operation(number) = run[at] else { continue };
                // SAFETY: the application recorded each of these on this command buffer, with handles that must live
                // until its execution ends.
                unsafe {
                    let Held(command, place) = &held[number];
                    self.labels.place(place, next, buffer);
                    match command {
                        Command::Dispatch(state, grid, _) => {
                            if bound.as_ref().is_none_or(|b| !Arc::ptr_eq(b, state)) {
                                bindings::bind(next, buffer, state);
                                bound = Some(state.clone());
                            }
                            bindings::dispatch(next, buffer, *grid);
                        }
                        Command::Transfer(transfer) => bindings::transfer(next, buffer, transfer),
                        Command::Query(query) => queries::issue(next, buffer, *query),
                    }
                }
            }
        }
        // SAFETY: by the caller; the state is what the application has bound.
        unsafe {
            if bound.is_some() {
                bindings::bind(next, buffer, &self.state);
            }
            self.labels.catch_up(next, buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;

    #[test]
    fn a_held_dispatch_keeps_the_state_of_its_own_moment() {
        let mut segment = Segment::new(Shuffle::Reverse, true, false);
        segment.bind_pipeline(vk::Pipeline::from_raw(1));
        segment.dispatch(Grid::Plain([1, 1, 1]), (true, false), None);
        segment.dispatch(Grid::Plain([2, 1, 1]), (true, false), None);
        segment.bind_pipeline(vk::Pipeline::from_raw(2));
        segment.dispatch(Grid::Plain([3, 1, 1]), (true, false), None);
        let pipelines: Vec<u64> = segment
            .held
            .iter()
            .map(|h| match &h.0 {
                Command::Dispatch(state, _, _) => state.pipeline.as_raw(),
                Command::Transfer(_) | Command::Query(_) => 0,
            })
            .collect();
        assert_eq!(pipelines, [1, 1, 2]);
    }

    #[test]
    fn reverse_and_seeds_are_permutations_and_seeds_differ() {
        let order = |shuffle| Segment::new(shuffle, true, false).permutation(20);
        assert_eq!(order(Shuffle::Reverse), (0..20).rev().collect::<Vec<_>>());
        assert_eq!(order(Shuffle::Seed(1)), order(Shuffle::Seed(1)), "a seed can be replayed");
        assert_ne!(order(Shuffle::Seed(1)), order(Shuffle::Seed(2)));
        let mut sorted = order(Shuffle::Seed(3));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
