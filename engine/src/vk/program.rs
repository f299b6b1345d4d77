//! A plan made executable: its buffers, descriptor sets and recorded commands.
//!
//! Recording walks the plan and decides nothing about what is computed; how commands reach the driver is what the
//! [`Levers`] say, one by one. The default is the naive application: after each dispatch comes one global memory barrier
//! from compute and transfer to compute and transfer, the same that llama.cpp's Vulkan backend asks for, only after
//! *every* dispatch. At the end a barrier to the host makes the logits readable.
//!
//! A recording is valid for what it was made for: a number of positions (grids grow with the context, in powers of two),
//! and whether the logits are copied out. Anything else is recorded afresh; a stale recording is never submitted.

use std::collections::BTreeMap;
use std::rc::Rc;

use ash::vk;
use zinc_hazard::{Barrier, Flags, Scope, Stages};

use super::pipeline::Pipelines;
use super::sets::Sets;
use super::stream::{Promise, Stream};
use super::timing::Queries;
use super::{Buffer, Device, Error, Use};
use crate::plan::barriers::Due;
use crate::plan::{Dispatch, Plan, Space, Span, Step, Work};

/// When commands are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Record {
    /// Once; the same commands are submitted for every token. What moves lives in the step buffer.
    #[default]
    Reuse,
    /// Afresh for every token, as applications do that build a graph a token.
    Each,
    /// Afresh for every token, into newly allocated command buffers.
    Realloc,
    /// Once, and submitted for many tokens at a time: the device chooses each next token.
    Ahead,
}

/// What is handed to the queue at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Submit {
    /// All commands of a token.
    #[default]
    Token,
    /// Each step in a command buffer and a submission of its own.
    Op,
}

/// When descriptor sets are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Descriptors {
    /// Once, before the first token.
    #[default]
    Baked,
    /// With each recording, from a pool that is reset.
    Pool,
    /// With each recording, from a pool made for it.
    Alloc,
}

/// Where barriers are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Barriers {
    /// After every step.
    #[default]
    Every,
    /// Where `zinc-hazard` says that they are due ([`crate::plan::barriers`]).
    Tracked,
}

/// How a plan reaches the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levers {
    /// When commands are recorded.
    pub record: Record,
    /// Whether a recording that is submitted once says so.
    pub once: bool,
    /// What is submitted at once.
    pub submit: Submit,
    /// When descriptor sets are written.
    pub descriptors: Descriptors,
    /// Where barriers are.
    pub barriers: Barriers,
    /// Whether every kernel returns at once: what is left is launch and barrier.
    pub null_kernels: bool,
    /// Sequences that are decoded side by side.
    pub sequences: u32,
}

impl Default for Levers {
    fn default() -> Self {
        Self {
            record: Record::Reuse,
            once: true,
            submit: Submit::Token,
            descriptors: Descriptors::Baked,
            barriers: Barriers::Every,
            null_kernels: false,
            sequences: 1,
        }
    }
}

/// What one run of the plan asks of the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// vkCmdDispatch.
    pub dispatches: u64,
    /// vkCmdPipelineBarrier.
    pub barriers: u64,
    /// vkQueueSubmit.
    pub submits: u64,
}

/// What a recording is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Positions that its grids cover.
    positions: u32,
    /// Whether logits are copied to the readback buffer.
    logits: bool,
    /// Whether steps are timed.
    timed: bool,
}

/// A plan with everything that it needs on a device.
pub struct Program {
    pub(super) device: Rc<Device>,
    pub(super) plan: Plan,
    /// Where tracked barriers stand: without the copy of the logits, and with it. Empty under other levers.
    due: Vec<Due>,
    pub(super) buffers: BTreeMap<Space, Rc<Buffer>>,
    /// Bytes of one sequence's part of each buffer that sequences do not share.
    strides: BTreeMap<Space, u64>,
    pipelines: Pipelines,
    pub(super) sets: Sets,
    pub(super) stream: Stream,
    levers: Levers,
    pub(super) recorded: Option<Recorded>,
    recordings: u64,
    queries: Option<Queries>,
    counts: Counts,
}

impl Program {
    /// Makes buffers, pipelines and descriptor sets. `weights` are the filled buffers behind [`Space::Weights`].
    pub fn new(
        device: &Rc<Device>,
        plan: Plan,
        weights: &[Rc<Buffer>],
        levers: Levers,
    ) -> Result<Self, Error> {
        let weights = weights.iter().enumerate();
        let buffers = weights.map(|(i, buffer)| (Space::Weights(i as u32), Rc::clone(buffer))).collect();
        Self::sharing(device, plan, buffers, levers)
    }

    /// A program of another plan over the same weights, tables and caches as this one.
    pub fn beside(&self, plan: Plan, levers: Levers) -> Result<Self, Error> {
        let shared = |space: &Space| matches!(space, Space::Weights(_) | Space::Constants | Space::Cache(_));
        let buffers = self.buffers.iter().filter(|(space, _)| shared(space));
        let buffers = buffers.map(|(space, buffer)| (*space, Rc::clone(buffer))).collect();
        Self::sharing(&self.device, plan, buffers, levers)
    }

    /// Makes whatever the plan has beside these buffers.
    fn sharing(
        device: &Rc<Device>,
        plan: Plan,
        mut buffers: BTreeMap<Space, Rc<Buffer>>,
        levers: Levers,
    ) -> Result<Self, Error> {
        let mut strides = BTreeMap::new();
        for &(space, bytes) in &plan.buffers {
            if buffers.contains_key(&space) {
                continue;
            }
            let usage = match space {
                Space::Step => Use::HostWrites,
                Space::Readback | Space::Tokens => Use::HostReads,
                _ => Use::Device,
            };
            let bytes = if space == Space::Constants {
                bytes
            } else {
                let stride = bytes.next_multiple_of(device.limits().alignment);
                strides.insert(space, stride);
                stride * u64::from(levers.sequences - 1) + bytes
            };
            buffers.insert(space, Rc::new(Buffer::new(device, bytes, usage)?));
        }
        let mut pipelines = Pipelines::new(device, levers.null_kernels);
        let mut sets = Sets::new(device, &plan, levers.sequences)?;
        let place = |span, sequence| placed(&strides, span, sequence);
        sets.fill(&plan, &mut pipelines, &buffers, levers.sequences, place)?;
        let stream = Stream::new(device)?;
        let due = match levers.barriers {
            Barriers::Every => Vec::new(),
            Barriers::Tracked => [false, true].map(|logits| Due::of(&plan, |step| runs(step, logits))).into(),
        };
        Ok(Self {
            device: Rc::clone(device),
            due,
            plan,
            buffers,
            strides,
            pipelines,
            sets,
            stream,
            levers,
            recorded: None,
            recordings: 0,
            queries: None,
            counts: Counts::default(),
        })
    }

    /// A buffer of the plan.
    ///
    /// # Panics
    ///
    /// If the plan has no such buffer: a mistake of the caller.
    pub fn buffer(&self, space: Space) -> &Buffer {
        &self.buffers[&space]
    }

    /// Whether the plan has such a buffer.
    pub fn has(&self, space: Space) -> bool {
        self.buffers.contains_key(&space)
    }

    /// Where a span of the plan is for a sequence.
    pub fn place(&self, span: Span, sequence: u32) -> Span {
        placed(&self.strides, span, sequence)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn sequences(&self) -> u32 {
        self.levers.sequences
    }

    /// How often commands were recorded.
    pub fn recordings(&self) -> u64 {
        self.recordings
    }

    /// Times every step from the next submission on.
    pub fn time_steps(&mut self) -> Result<(), Error> {
        self.time_some_steps(0, 1)
    }

    /// Stamps only each `every`th step's beginning and end, from number `first` on, from the next submission on: a stamp waits
    /// for all work before it, so that fewer in a token disturb it less. Times of the others are not numbers.
    pub fn time_some_steps(&mut self, first: u32, every: u32) -> Result<(), Error> {
        let count = 2 * self.plan.steps.len() as u32 + 2;
        let chosen = |stamp: u32| stamp < 2 || (stamp - 2) / 2 % every.max(1) == first;
        self.queries = Some(Queries::new(&self.device, count, chosen)?);
        self.recorded = None;
        Ok(())
    }

    /// Times nothing from the next submission on.
    pub fn time_nothing(&mut self) {
        self.queries = None;
        self.recorded = None;
    }

    /// Times the whole of each token from the next submission on.
    pub fn time_tokens(&mut self) -> Result<(), Error> {
        self.queries = Some(Queries::new(&self.device, 2, |_| true)?);
        self.recorded = None;
        Ok(())
    }

    /// Times of the last submission, nanoseconds from its beginning: begin and end of the whole, then of each step.
    pub fn times(&self) -> Result<Vec<f64>, Error> {
        self.queries.as_ref().map_or(Ok(Vec::new()), Queries::read)
    }

    /// When the last submission began on the device, on the host's `CLOCK_MONOTONIC`, nanoseconds; none where the device does
    /// not read both clocks together, or nothing is timed.
    pub fn began(&self) -> Result<Option<f64>, Error> {
        self.queries.as_ref().map_or(Ok(None), Queries::began)
    }

    /// Writes the words that the kernels read first: position and token, or first position, number of tokens and the tokens
    /// of a batch. Nothing may be in flight.
    pub fn set_step(&mut self, sequence: u32, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let offset = u64::from(sequence) * self.strides.get(&Space::Step).copied().unwrap_or(0);
        let buffer = self.buffers.get_mut(&Space::Step).and_then(Rc::get_mut);
        buffer.expect("every plan has a step buffer of its own").write(offset, &bytes);
    }

    /// Records if that is due, and submits the plan `times` times. No position may reach `positions`. [`Program::wait`]
    /// must follow.
    pub fn submit(&mut self, positions: u32, times: u32, logits: bool) -> Result<(), Error> {
        self.prepare(positions, times, logits)?;
        self.hand_over(times)
    }

    /// The first half of [`Program::submit`]: records if that is due.
    pub fn prepare(&mut self, positions: u32, times: u32, logits: bool) -> Result<(), Error> {
        let fits = |r: &Recorded| r.positions >= positions && r.logits == logits;
        let stale = self.recorded.filter(fits).is_none();
        if stale || matches!(self.levers.record, Record::Each | Record::Realloc) {
            let wanted = Recorded {
                positions: positions.max(64).next_power_of_two(),
                logits,
                timed: self.queries.is_some(),
            };
            self.record_commands(wanted, times)?;
        }
        Ok(())
    }

    /// The second half of [`Program::submit`], once after each [`Program::prepare`] for as many times.
    pub fn hand_over(&mut self, times: u32) -> Result<(), Error> {
        let apart = self.levers.submit == Submit::Op;
        self.counts.submits = self.stream.submit(times, apart)? / u64::from(times);
        Ok(())
    }

    /// Waits until the submission has finished.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.stream.wait()
    }

    /// Copies bytes of a buffer that the host reads out.
    pub fn read(&self, space: Space, sequence: u32, offset: u64, out: &mut [u8]) {
        let base = u64::from(sequence) * self.strides.get(&space).copied().unwrap_or(0);
        self.buffer(space).read(base + offset, out);
    }

    /// For each step of a recording with logits, whether a barrier stands between it and the one before.
    pub fn barriers_before(&self) -> Vec<bool> {
        let asked = |index: usize| match self.due.get(1) {
            Some(due) => due.before[index].is_some(),
            None => index > 0 && matches!(self.plan.steps[index - 1].work, Work::Dispatch(_)),
        };
        (0..self.plan.steps.len()).map(asked).collect()
    }

    /// What was recorded; zero before the first submission.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn record_commands(&mut self, wanted: Recorded, times: u32) -> Result<(), Error> {
        self.recorded = None;
        self.recordings += 1;
        let sequences = self.levers.sequences;
        let refill = self.recordings > 1 && self.levers.descriptors != Descriptors::Baked;
        if refill {
            if self.levers.descriptors == Descriptors::Alloc {
                self.sets = Sets::new(&self.device, &self.plan, sequences)?;
            }
            let strides = &self.strides;
            let place = |span, sequence| placed(strides, span, sequence);
            self.sets.fill(&self.plan, &mut self.pipelines, &self.buffers, sequences, place)?;
        }
        let apart = self.levers.submit == Submit::Op;
        let needed = if apart { self.plan.steps.len() as u32 } else { 1 };
        if self.levers.record == Record::Realloc || self.stream.len() != needed {
            self.stream.allocate(needed)?;
        }
        let promise = match self.levers.record {
            Record::Each | Record::Realloc if self.levers.once && times == 1 => Promise::Once,
            Record::Ahead => Promise::Overlapping,
            _ => Promise::Again,
        };
        let mut counts = Counts::default();
        let mut set = 0;
        let last = self.plan.steps.len() - 1;
        for (index, step) in self.plan.steps.iter().enumerate() {
            let part = if apart { index as u32 } else { 0 };
            if apart || index == 0 {
                self.stream.begin(part, promise)?;
            }
            let commands = self.stream.commands(part);
            if let (Some(queries), 0) = (&self.queries, index) {
                queries.reset(commands);
                queries.stamp(commands, 0);
            }
            let due = self.due.get(usize::from(wanted.logits)).and_then(|due| due.before[index]);
            if let Some(barrier) = due {
                self.barrier(commands, Ends::from(barrier));
                counts.barriers += 1;
            }
            if let Some(queries) = &self.queries {
                queries.stamp(commands, 2 + 2 * index as u32);
            }
            match &step.work {
                Work::Dispatch(dispatch) => {
                    for _ in 0..sequences {
                        let grid = dispatch.grid_at(wanted.positions);
                        self.dispatch(commands, dispatch, grid, self.sets.made[set]);
                        set += 1;
                        counts.dispatches += 1;
                    }
                    self.stamp_end(commands, index);
                    if self.levers.barriers == Barriers::Every {
                        self.barrier(commands, Ends::ANY);
                        counts.barriers += 1;
                    }
                }
                Work::Copy { from, to } if runs(step, wanted.logits) => {
                    for sequence in 0..sequences {
                        self.copy(commands, self.place(*from, sequence), self.place(*to, sequence));
                    }
                    self.stamp_end(commands, index);
                }
                Work::Copy { .. } => self.stamp_end(commands, index),
            }
            if index == last {
                let ends =
                    if self.levers.barriers == Barriers::Every && wanted.logits && !self.has(Space::Tokens) {
                        Ends::COPY_TO_HOST
                    } else {
                        Ends::LAST
                    };
                self.barrier(commands, ends);
                counts.barriers += 1;
                if let Some(queries) = &self.queries {
                    queries.stamp(commands, 1);
                }
            }
            if apart || index == last {
                self.stream.end(part)?;
            }
        }
        self.counts = Counts { submits: self.counts.submits, ..counts };
        self.recorded = Some(wanted);
        Ok(())
    }

    /// Before the barrier that follows a step, so that what lies between two steps is the barrier's.
    fn stamp_end(&self, commands: vk::CommandBuffer, index: usize) {
        if let Some(queries) = &self.queries {
            queries.stamp(commands, 3 + 2 * index as u32);
        }
    }

    pub(super) fn dispatch(
        &self,
        commands: vk::CommandBuffer,
        dispatch: &Dispatch,
        grid: [u32; 2],
        set: vk::DescriptorSet,
    ) {
        let device = &self.device.raw;
        let pipeline = self.pipelines.made(dispatch);
        let push: Vec<u8> = dispatch.call.push.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: the command buffer is recording; pipeline, layout and set were made for each other and stay alive as
        // long as this program; the push constants have the size that the layout names; the grid is within limits.
        unsafe {
            device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline.pipeline);
            device.cmd_bind_descriptor_sets(
                commands,
                vk::PipelineBindPoint::COMPUTE,
                pipeline.layout,
                0,
                &[set],
                &[],
            );
            device.cmd_push_constants(commands, pipeline.layout, vk::ShaderStageFlags::COMPUTE, 0, &push);
            device.cmd_dispatch(commands, grid[0], grid[1], 1);
        }
    }

    fn copy(&self, commands: vk::CommandBuffer, from: Span, to: Span) {
        let regions = [vk::BufferCopy { src_offset: from.offset, dst_offset: to.offset, size: from.bytes }];
        let (source, target) = (self.buffer(from.space).raw, self.buffer(to.space).raw);
        // SAFETY: recording; spans of a plan lie within their buffers, which live as long as this program.
        unsafe { self.device.raw.cmd_copy_buffer(commands, source, target, &regions) };
    }

    pub(super) fn barrier(&self, commands: vk::CommandBuffer, ends: Ends) {
        let barriers =
            [vk::MemoryBarrier::default().src_access_mask(ends.from_access).dst_access_mask(ends.to_access)];
        // SAFETY: recording; the masks fit the stages, and a compute queue has these stages.
        unsafe {
            self.device.raw.cmd_pipeline_barrier(
                commands,
                ends.from,
                ends.to,
                vk::DependencyFlags::empty(),
                &barriers,
                &[],
                &[],
            );
        }
    }
}

fn placed(strides: &BTreeMap<Space, u64>, span: Span, sequence: u32) -> Span {
    let stride = strides.get(&span.space).copied().unwrap_or(0);
    Span { offset: span.offset + u64::from(sequence) * stride, ..span }
}

/// Whether a step is part of a recording.
fn runs(step: &Step, logits: bool) -> bool {
    logits || step.name != "read_logits"
}

/// Scopes of a barrier.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    from: vk::PipelineStageFlags,
    from_access: vk::AccessFlags,
    to: vk::PipelineStageFlags,
    to_access: vk::AccessFlags,
}

const COMPUTE: vk::PipelineStageFlags = vk::PipelineStageFlags::COMPUTE_SHADER;
const TRANSFER: vk::PipelineStageFlags = vk::PipelineStageFlags::TRANSFER;
const SHADER: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::SHADER_WRITE.as_raw());
const COPIES: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::TRANSFER_READ.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
);
const COMPUTE_OR_TRANSFER: vk::PipelineStageFlags =
    vk::PipelineStageFlags::from_raw(COMPUTE.as_raw() | TRANSFER.as_raw());
const ANY_ACCESS: vk::AccessFlags = vk::AccessFlags::from_raw(SHADER.as_raw() | COPIES.as_raw());

impl Ends {
    /// From and to everything that a plan does.
    const ANY: Self = Self {
        from: COMPUTE_OR_TRANSFER,
        from_access: ANY_ACCESS,
        to: COMPUTE_OR_TRANSFER,
        to_access: ANY_ACCESS,
    };
    /// From dispatches to dispatches.
    pub(super) const DISPATCHES: Self =
        Self { from: COMPUTE, from_access: vk::AccessFlags::SHADER_WRITE, to: COMPUTE, to_access: SHADER };
    /// From the copy of the logits to the host.
    const COPY_TO_HOST: Self = Self {
        from: TRANSFER,
        from_access: vk::AccessFlags::TRANSFER_WRITE,
        to: vk::PipelineStageFlags::HOST,
        to_access: vk::AccessFlags::HOST_READ,
    };
    /// From everything to the next token, and to the host.
    pub(super) const LAST: Self = Self {
        from: COMPUTE_OR_TRANSFER,
        from_access: ANY_ACCESS,
        to: vk::PipelineStageFlags::from_raw(
            COMPUTE_OR_TRANSFER.as_raw() | vk::PipelineStageFlags::HOST.as_raw(),
        ),
        to_access: vk::AccessFlags::from_raw(ANY_ACCESS.as_raw() | vk::AccessFlags::HOST_READ.as_raw()),
    };
}

impl From<Barrier> for Ends {
    /// In the words of Vulkan 1.0, which has one stage for all transfers and one flag a direction for all shaders.
    fn from(barrier: Barrier) -> Self {
        let half = |scope: Scope| {
            let (mut stages, mut access) =
                (vk::PipelineStageFlags::empty(), vk::AccessFlags::from_raw(scope.flags.bits() as u32));
            if scope.stages.contains(Stages::COMPUTE_SHADER) {
                stages |= COMPUTE;
            }
            if scope.stages.intersects(Stages::TRANSFERS | Stages::ALL_TRANSFER) {
                stages |= TRANSFER;
            }
            if scope.flags.contains(Flags::SHADER_STORAGE_READ) {
                access |= vk::AccessFlags::SHADER_READ;
            }
            if scope.flags.contains(Flags::SHADER_STORAGE_WRITE) {
                access |= vk::AccessFlags::SHADER_WRITE;
            }
            (stages, access)
        };
        let ((from, from_access), (to, to_access)) = (half(barrier.src), half(barrier.dst));
        Self { from, from_access, to, to_access }
    }
}

impl Program {
    /// Fills a buffer's span with zeros, once, outside any token.
    pub fn clear(&mut self, space: Space) -> Result<(), Error> {
        let raw = self.buffer(space).raw;
        self.recorded = None;
        self.stream.allocate(1)?;
        self.stream.begin(0, Promise::Once)?;
        let commands = self.stream.commands(0);
        // SAFETY: recording; the buffer is alive and was made for transfers.
        unsafe { self.device.raw.cmd_fill_buffer(commands, raw, 0, vk::WHOLE_SIZE, 0) };
        self.barrier(commands, Ends::ANY);
        self.stream.end(0)?;
        self.stream.submit(1, false)?;
        self.stream.wait()
    }
}
