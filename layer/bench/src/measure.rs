//! One row: the same recording on both devices in turn.

use crate::world::{Objects, World};
use anyhow::{Context, Result};
use ash::vk;
use clap::ValueEnum;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fmt;
use std::sync::Barrier;

/// What a recording does. Each dispatch binds a pipeline and a set, pushes constants, dispatches, and asks for a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Each dispatch reads what the one before it wrote: every barrier is needed.
    Chain,
    /// The same, and each set is written anew before it is bound, as llama.cpp does.
    ChainRewritten,
    /// The chain, begun somewhere else each time: nothing that the layer remembers of the last recording is of use.
    ChainUnlike,
    /// No dispatch touches what another writes: no barrier is needed.
    Independent,
    /// The same, and no barrier is asked for: what is left if all of them go.
    Unasked,
}

/// One row's parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// What is recorded.
    pub stream: Stream,
    /// How many dispatches.
    pub dispatches: u32,
    /// Buffers alive.
    pub buffers: u32,
    /// Descriptor sets alive.
    pub sets: u32,
    /// Storage buffers of each set.
    pub bindings: u32,
    /// Threads that record at the same time, each into its own command buffer.
    pub threads: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.stream {
            Stream::Chain => "chain",
            Stream::ChainRewritten => "chain, sets rewritten",
            Stream::ChainUnlike => "chain, never the same",
            Stream::Independent => "independent",
            Stream::Unasked => "independent, no barrier asked",
        };
        let Case { buffers, sets, bindings, threads, .. } = self;
        write!(f, "{name}, {buffers} buffers, {sets} sets, {bindings} bindings, {threads} threads")
    }
}

impl Case {
    /// The rows: each stream as it is, then the chain with one thing varied.
    pub fn all(dispatches: u32, most: u32, short: bool) -> Vec<Case> {
        let buffers = dispatches + 8;
        let base =
            Case { stream: Stream::Chain, dispatches, buffers, sets: dispatches, bindings: 4, threads: 1 };
        let mut all = vec![
            base,
            Case { stream: Stream::ChainRewritten, ..base },
            Case { stream: Stream::ChainUnlike, ..base },
            Case { stream: Stream::Independent, ..base },
            Case { stream: Stream::Unasked, ..base },
        ];
        if !short {
            all.extend([10, 1_000, 100_000].map(|buffers| Case { buffers, ..base }));
            all.extend([1, 1_000, 30_000, 1_000_000].map(|sets| Case { sets, ..base }));
            all.extend([2, 8, 16, 64].map(|bindings| Case { bindings, ..base }));
            all.extend([2, 4, 16].map(|threads| Case { threads, ..base }));
        }
        all.retain(|c| c.buffers <= most && c.sets <= most);
        all
    }
}

/// A median, and the middle half of the samples around it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The middle.
    pub median: f64,
    /// A quarter of the samples is below.
    pub lo: f64,
    /// A quarter is above.
    pub hi: f64,
}

impl Spread {
    fn of(mut samples: Vec<f64>) -> Spread {
        samples.sort_by(f64::total_cmp);
        let at = |part: f64| samples[((samples.len() - 1) as f64 * part).round() as usize];
        Spread { median: at(0.5), lo: at(0.25), hi: at(0.75) }
    }
}

/// A measured row; times are of one dispatch with all that belongs to it, in nanoseconds of processor time.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub case: Case,
    /// Rounds.
    pub rounds: u32,
    /// Without the layer.
    pub without_ns: Spread,
    /// With it.
    pub with_ns: Spread,
    /// The difference, formed within each round.
    pub own_ns: Spread,
    /// With over without, formed within each round.
    pub ratio: Spread,
    /// Barriers asked in a recording.
    pub asked: f64,
    /// Barriers that the layer emitted in a recording.
    pub emitted: f64,
}

impl Row {
    /// The row with what the layer counted while it was measured.
    pub fn with_counts(self, report: &zinc_report::Report) -> Row {
        let of = &report.recorded;
        let each = |count: u64| count as f64 / of.command_buffers.max(1) as f64;
        Row { asked: each(of.barriers_asked), emitted: each(of.barriers_emitted), ..self }
    }
}

/// Measures one row.
///
/// # Errors
///
/// When a driver refuses something.
pub fn measure(plain: &World, layered: &World, case: Case, rounds: u32) -> Result<Row> {
    let arms = [Arm::new(plain, case)?, Arm::new(layered, case)?];
    for arm in &arms {
        arm.record()?;
        arm.record()?;
    }
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..rounds as usize {
        // Each arm is first in every other round.
        for at in [round % 2, 1 - round % 2] {
            samples[at].push(arms[at].record()?);
        }
    }
    let [without, with] = samples;
    let pairs = || without.iter().zip(&with);
    Ok(Row {
        case,
        rounds,
        own_ns: Spread::of(pairs().map(|(a, b)| b - a).collect()),
        ratio: Spread::of(pairs().map(|(a, b)| b / a).collect()),
        without_ns: Spread::of(without.clone()),
        with_ns: Spread::of(with.clone()),
        asked: 0.0,
        emitted: 0.0,
    })
}

/// The objects of one row on one device.
struct Arm<'a> {
    world: &'a World,
    objects: Objects<'a>,
    case: Case,
    threads: Vec<(vk::CommandPool, vk::CommandBuffer)>,
}

impl<'a> Arm<'a> {
    fn new(world: &'a World, case: Case) -> Result<Arm<'a>> {
        let objects = Objects::new(world, case.buffers, case.sets, case.bindings)?;
        let device = &world.device;
        let mut threads = Vec::new();
        for _ in 0..case.threads {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(world.family);
            // SAFETY: as everywhere here: arguments outlive the calls, objects belong to the device.
            unsafe {
                let pool = device.create_command_pool(&info, None)?;
                let info =
                    vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
                threads.push((pool, device.allocate_command_buffers(&info)?[0]));
            }
        }
        let arm = Arm { world, objects, case, threads };
        // Every set that is alive has contents, as in an application.
        (0..arm.objects.sets.len()).for_each(|i| arm.write(i));
        Ok(arm)
    }

    /// The set of dispatch `i`: spread over all that are alive.
    fn set(&self, i: u32) -> usize {
        let sets = self.objects.sets.len();
        (i as usize * (sets / self.case.dispatches as usize).max(1)) % sets
    }

    fn write(&self, set: usize) {
        let buffers = self.objects.buffers.len();
        let last = self.case.bindings - 1;
        let step = (self.objects.sets.len() / self.case.dispatches as usize).max(1);
        let number = set / step;
        let spread = (buffers / (self.case.dispatches as usize + 8)).max(1);
        // The first buffers are what every dispatch reads and nobody writes.
        let own = |number: usize| (4 + number) * spread % buffers.max(5);
        self.objects.write(self.objects.sets[set], |binding| match self.case.stream {
            _ if binding == last => own(number + 1),
            Stream::Chain | Stream::ChainRewritten | Stream::ChainUnlike if binding == 0 => own(number),
            _ => binding as usize % 4,
        });
    }

    /// Records once, on every thread; nanoseconds of processor time for a dispatch.
    fn record(&self) -> Result<f64> {
        if let [one] = self.threads[..] {
            return self.record_on(one, None);
        }
        let start = Barrier::new(self.threads.len());
        std::thread::scope(|scope| {
            let running: Vec<_> = self
                .threads
                .iter()
                .map(|thread| scope.spawn(|| self.record_on(*thread, Some(&start))))
                .collect();
            let mut sum = 0.0;
            for thread in running {
                sum += thread.join().ok().context("a recording thread panicked")??;
            }
            Ok(sum / self.threads.len() as f64)
        })
    }

    fn record_on(
        &self,
        (pool, buffer): (vk::CommandPool, vk::CommandBuffer),
        start: Option<&Barrier>,
    ) -> Result<f64> {
        let (device, objects) = (&self.world.device, &self.objects);
        let access = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
        let barrier = [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
        let compute = vk::PipelineBindPoint::COMPUTE;
        let stage = vk::PipelineStageFlags::COMPUTE_SHADER;
        let none = vk::DependencyFlags::empty();
        // SAFETY: as in `new`; each thread has its own pool.
        unsafe {
            device.reset_command_pool(pool, vk::CommandPoolResetFlags::empty())?;
            if let Some(start) = start {
                start.wait();
            }
            let began = now();
            device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default())?;
            let (dispatches, stream) = (self.case.dispatches, self.case.stream);
            let first =
                if stream == Stream::ChainUnlike { (began as u64 / 1000) as u32 % dispatches } else { 0 };
            for i in 0..dispatches {
                let at = self.set((first + i) % dispatches);
                if stream == Stream::ChainRewritten {
                    self.write(at);
                }
                device.cmd_push_constants(buffer, objects.layout, vk::ShaderStageFlags::COMPUTE, 0, &[0; 64]);
                device.cmd_bind_pipeline(buffer, compute, objects.pipeline);
                device.cmd_bind_descriptor_sets(buffer, compute, objects.layout, 0, &[objects.sets[at]], &[]);
                device.cmd_dispatch(buffer, 1, 1, 1);
                if stream != Stream::Unasked {
                    device.cmd_pipeline_barrier(buffer, stage, stage, none, &barrier, &[], &[]);
                }
            }
            device.end_command_buffer(buffer)?;
            Ok((now() - began) / f64::from(self.case.dispatches))
        }
    }
}

impl Drop for Arm<'_> {
    fn drop(&mut self) {
        for (pool, _) in &self.threads {
            // SAFETY: nothing was submitted.
            unsafe { self.world.device.destroy_command_pool(*pool, None) };
        }
    }
}

/// This thread's processor time in nanoseconds.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
