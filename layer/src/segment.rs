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
//! Nothing is ever held across anything but these operations and the binds between them: every other command
//! releases first.

use crate::footprint::BoundSet;
use crate::next::Next;
use crate::settings::Shuffle;
use ash::vk;
use std::sync::Arc;
use zinc_hazard::{Issue, Plan};

/// A `vkCmdPushConstants`, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Push {
    layout: vk::PipelineLayout,
    stages: vk::ShaderStageFlags,
    offset: u32,
    bytes: Vec<u8>,
}

/// The compute state that a dispatch depends on.
#[derive(Clone, Debug, Default)]
struct State {
    pipeline: vk::Pipeline,
    sets: Vec<Option<BoundSet>>,
    pushes: Arc<Vec<Push>>,
}

/// How many workgroups, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// `vkCmdDispatch`.
    Plain([u32; 3]),
    /// `vkCmdDispatchBase`: base, then count.
    Base([u32; 3], [u32; 3]),
    /// `vkCmdDispatchIndirect`.
    Indirect(vk::Buffer, vk::DeviceSize),
}

impl Grid {
    /// The first workgroup and their number, if they are known when the dispatch is recorded.
    pub fn workgroups(&self) -> Option<([u32; 3], [u32; 3])> {
        match *self {
            Grid::Plain(groups) => Some(([0; 3], groups)),
            Grid::Base(base, groups) => Some((base, groups)),
            Grid::Indirect(..) => None,
        }
    }
}

/// A transfer, with copies of its arrays.
#[derive(Clone, Debug)]
pub enum Transfer {
    /// `vkCmdCopyBuffer`.
    Copy(vk::Buffer, vk::Buffer, Vec<vk::BufferCopy>),
    /// `vkCmdFillBuffer`: buffer, offset, size, word.
    Fill(vk::Buffer, vk::DeviceSize, vk::DeviceSize, u32),
    /// `vkCmdUpdateBuffer`.
    Update(vk::Buffer, vk::DeviceSize, Vec<u8>),
}

#[derive(Debug)]
enum Held {
    /// With what it needs bound, and whether nothing may move across it.
    Dispatch(Arc<State>, Grid, bool),
    Transfer(Transfer),
}

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
    state: State,
    /// `state` as the last held dispatch had it, while nothing was bound since.
    shared: Option<Arc<State>>,
    held: Vec<Held>,
    /// Something was bound that can't be bound again from here.
    closed: bool,
}

impl Segment {
    /// An empty segment at the beginning of a command buffer.
    pub fn new(order: Shuffle) -> Segment {
        let seed = if let Shuffle::Seed(seed) = order { seed } else { 0 };
        Segment {
            order,
            random: fastrand::Rng::with_seed(seed),
            state: State::default(),
            shared: None,
            held: Vec::new(),
            closed: false,
        }
    }

    /// The application binds a pipeline.
    pub fn bind_pipeline(&mut self, pipeline: vk::Pipeline) {
        self.shared = None;
        self.state.pipeline = pipeline;
    }

    /// The application bound sets; these are all that are bound now.
    pub fn bind_sets(&mut self, sets: &[Option<BoundSet>]) {
        self.shared = None;
        self.state.sets = sets.to_vec();
    }

    /// The application pushes constants.
    pub fn push(
        &mut self,
        layout: vk::PipelineLayout,
        stages: vk::ShaderStageFlags,
        offset: u32,
        bytes: &[u8],
    ) {
        self.shared = None;
        let pushes = Arc::make_mut(&mut self.state.pushes);
        let end = offset as usize + bytes.len();
        pushes.retain(|p| {
            let inside = p.offset >= offset && p.offset as usize + p.bytes.len() <= end;
            !(inside && p.stages == stages && p.layout == layout)
        });
        pushes.push(Push { layout, stages, offset, bytes: bytes.to_vec() });
    }

    /// Something is bound that can't be bound again from here (pushed descriptors, say): for the rest of the command
    /// buffer nothing is held. What is held must have been released.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether operations may be held.
    pub fn is_open(&self) -> bool {
        !self.closed
    }

    /// Holds a dispatch back. Where it `stays`, nothing is moved across it.
    pub fn hold_dispatch(&mut self, grid: Grid, stays: bool) {
        let state = self.shared.get_or_insert_with(|| Arc::new(self.state.clone())).clone();
        self.held.push(Held::Dispatch(state, grid, stays));
    }

    /// Holds a transfer back.
    pub fn hold_transfer(&mut self, transfer: Transfer) {
        self.held.push(Held::Transfer(transfer));
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
        let mut bound: Option<Arc<State>> = None;
        let stays = |turn: &Turn| match turn {
            Turn::Operation(number) => matches!(held[*number], Held::Dispatch(_, _, true)),
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
                    match &held[number] {
                        Held::Dispatch(state, grid, _) => {
                            if bound.as_ref().is_none_or(|b| !Arc::ptr_eq(b, state)) {
                                bind(next, buffer, state);
                                bound = Some(state.clone());
                            }
                            dispatch(next, buffer, *grid);
                        }
                        Held::Transfer(transfer) => issue(next, buffer, transfer),
                    }
                }
            }
        }
        if bound.is_some() {
            // SAFETY: the state is what the application has bound.
            unsafe { bind(next, buffer, &self.state) };
        }
    }
}

/// Binds a state.
///
/// # Safety
///
/// As for [`Segment::release`]; the state's handles must be alive.
unsafe fn bind(next: &Next, buffer: vk::CommandBuffer, state: &State) {
    const POINT: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;
    // SAFETY: by the caller.
    unsafe {
        if let (Some(bind), true) = (next.cmd_bind_pipeline, state.pipeline != vk::Pipeline::null()) {
            bind(buffer, POINT, state.pipeline);
        }
        if let Some(bind) = next.cmd_bind_descriptor_sets {
            for (number, set) in (0u32..).zip(&state.sets) {
                let Some(set) = set else { continue };
                let offsets = &set.dynamic_offsets;
                let (count, data) = (offsets.len() as u32, offsets.as_ptr());
                bind(buffer, POINT, set.layout, number, 1, &set.handle, count, data);
            }
        }
        if let Some(push) = next.cmd_push_constants {
            for p in state.pushes.iter() {
                push(buffer, p.layout, p.stages, p.offset, p.bytes.len() as u32, p.bytes.as_ptr().cast());
            }
        }
    }
}

/// Issues a dispatch of what is bound.
///
/// # Safety
///
/// As for [`Segment::release`].
pub unsafe fn dispatch(next: &Next, buffer: vk::CommandBuffer, grid: Grid) {
    // SAFETY: by the caller.
    unsafe {
        match grid {
            Grid::Plain([x, y, z]) => {
                if let Some(f) = next.cmd_dispatch {
                    f(buffer, x, y, z);
                }
            }
            Grid::Base([bx, by, bz], [x, y, z]) => {
                if let Some(f) = next.cmd_dispatch_base {
                    f(buffer, bx, by, bz, x, y, z);
                }
            }
            Grid::Indirect(arguments, offset) => {
                if let Some(f) = next.cmd_dispatch_indirect {
                    f(buffer, arguments, offset);
                }
            }
        }
    }
}

/// Issues a transfer.
///
/// # Safety
///
/// As for [`Segment::release`].
unsafe fn issue(next: &Next, buffer: vk::CommandBuffer, transfer: &Transfer) {
    // SAFETY: by the caller.
    unsafe {
        match transfer {
            Transfer::Copy(from, to, regions) => {
                if let Some(f) = next.cmd_copy_buffer {
                    f(buffer, *from, *to, regions.len() as u32, regions.as_ptr());
                }
            }
            Transfer::Fill(to, offset, size, word) => {
                if let Some(f) = next.cmd_fill_buffer {
                    f(buffer, *to, *offset, *size, *word);
                }
            }
            Transfer::Update(to, offset, bytes) => {
                if let Some(f) = next.cmd_update_buffer {
                    f(buffer, *to, *offset, bytes.len() as u64, bytes.as_ptr().cast());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;

    #[test]
    fn a_push_replaces_only_what_it_covers_for_the_same_stages() {
        let mut segment = Segment::new(Shuffle::Reverse);
        let layout = vk::PipelineLayout::from_raw(1);
        let compute = vk::ShaderStageFlags::COMPUTE;
        segment.push(layout, compute, 0, &[1; 8]);
        segment.push(layout, compute, 4, &[2; 8]);
        segment.push(layout, vk::ShaderStageFlags::ALL, 0, &[3; 16]);
        assert_eq!(segment.state.pushes.len(), 3, "partial covers and other stages keep the older push");
        segment.push(layout, compute, 0, &[4; 16]);
        let left: Vec<u8> = segment.state.pushes.iter().map(|p| p.bytes[0]).collect();
        assert_eq!(left, [3, 4]);
    }

    #[test]
    fn a_held_dispatch_keeps_the_state_of_its_own_moment() {
        let mut segment = Segment::new(Shuffle::Reverse);
        segment.bind_pipeline(vk::Pipeline::from_raw(1));
        segment.hold_dispatch(Grid::Plain([1, 1, 1]), false);
        segment.hold_dispatch(Grid::Plain([2, 1, 1]), false);
        segment.bind_pipeline(vk::Pipeline::from_raw(2));
        segment.hold_dispatch(Grid::Plain([3, 1, 1]), false);
        let pipelines: Vec<u64> = segment
            .held
            .iter()
            .map(|h| match h {
                Held::Dispatch(state, _, _) => state.pipeline.as_raw(),
                Held::Transfer(_) => 0,
            })
            .collect();
        assert_eq!(pipelines, [1, 1, 2]);
    }

    #[test]
    fn reverse_and_seeds_are_permutations_and_seeds_differ() {
        let order = |shuffle| Segment::new(shuffle).permutation(20);
        assert_eq!(order(Shuffle::Reverse), (0..20).rev().collect::<Vec<_>>());
        assert_eq!(order(Shuffle::Seed(1)), order(Shuffle::Seed(1)), "a seed can be replayed");
        assert_ne!(order(Shuffle::Seed(1)), order(Shuffle::Seed(2)));
        let mut sorted = order(Shuffle::Seed(3));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
