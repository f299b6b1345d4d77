//! Submissions that are executed in another way than they were recorded: in another order, in pieces, or so that writes
//! are seen only by whom a barrier lets see them.
//!
//! All three need to know what comes before and after an operation on its queue, across command buffers, and that is known
//! when they are submitted and not before. So recordings go on as always, into the application's own command buffers, and
//! each leaves a script beside its journal. At submission, what has a whole script is recorded anew into a command buffer
//! of the layer's, which goes down in place of the application's. What has none (a command without a model, a pushed
//! descriptor) goes down as it is, after everything that was delayed has been shown.
//!
//! Everything delayed is also shown where somebody outside of the queue may look: at a fence, a signalled semaphore, and a
//! wait for the queue or the device.
//!
//! It is slow, and exists only where `ZINC_BARRIER_SHUFFLE`, `_SLICE` or `_DELAY` is set.

mod bases;
pub mod cuttable;
pub mod delay;
mod kernel;
mod memory;
mod order;
mod play;
pub mod slice;
pub mod traits;

use crate::abi::chain;
use crate::device::{Device, registry};
use crate::memory::Memory;
use crate::recorder::Finished;
use ash::prelude::VkResult;
use ash::vk::{self, Handle};
use delay::Delay;
use kernel::{Kernel, Pools};
use memory::{Alias, Scratch, Slot};
use parking_lot::Mutex;
use play::{Instruments, Player, Recording};
use std::collections::HashMap;
use zinc_hazard::MemoryId;
use zinc_report::Replayed;
use zinc_settings::{Settings, Shuffle};

/// How long to wait for what the layer has submitted before something of it is destroyed, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;

/// Command buffers of the layer's, and what they use, for one submission.
#[derive(Debug, Default)]
struct Running {
    pool: vk::CommandPool,
    family: u32,
    fence: vk::Fence,
    pools: Pools,
}

/// One queue.
#[derive(Default)]
struct Queue {
    delay: Delay<Slot>,
    scratch: Scratch,
    family: Option<u32>,
    running: Vec<Running>,
    spare: Vec<Running>,
}

/// What exists once something was submitted.
struct Inner {
    vk: ash::Device,
    kernel: Option<Kernel>,
    aliases: HashMap<MemoryId, Alias>,
    queues: HashMap<vk::Queue, Queue>,
    random: fastrand::Rng,
    counts: Replayed,
    /// Whether slices are what they should be, once it was found out; where not, in words.
    slices: Option<Result<(), String>>,
    /// The device has refused something: nothing is replayed any more.
    failed: bool,
}

/// The replay of one device.
pub struct Replay {
    instruments: Instruments,
    inner: Mutex<Option<Inner>>,
}

/// One batch of a submission, and whether somebody may look once it was executed.
pub struct Batch {
    /// Its command buffers; on return those to submit.
    pub buffers: Vec<vk::CommandBuffer>,
    /// A fence or semaphore tells somebody of its end.
    pub is_watched: bool,
    /// It must go down as it is.
    pub is_odd: bool,
}

impl Replay {
    /// The replay of a device with these settings.
    pub fn new(settings: &Settings) -> Replay {
        let Settings { shuffle, delay, slice, .. } = *settings;
        Replay { instruments: Instruments { shuffle, delay, slice }, inner: Mutex::new(None) }
    }

    /// Whether anything is replayed.
    pub fn is_on(&self) -> bool {
        self.instruments.delay || self.instruments.slice || self.instruments.shuffle != Shuffle::Off
    }

    /// Whether dispatches are cut.
    pub fn slices(&self) -> bool {
        self.instruments.slice
    }

    /// What was done so far; `None` where nothing is replayed.
    pub fn counts(&self) -> Option<Replayed> {
        self.is_on().then(|| self.inner.lock().as_ref().map(|inner| inner.counts).unwrap_or_default())
    }

    /// Why dispatches are not cut though that was asked for, in a line.
    pub fn refused_slices(&self) -> Option<String> {
        self.inner.lock().as_ref()?.slices.as_ref()?.as_ref().err().cloned()
    }

    fn with<R>(&self, device: &Device, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner.lock();
        f(inner.get_or_insert_with(|| Inner::new(device, self.instruments)))
    }

    /// The application has allocated `memory`.
    ///
    /// # Safety
    ///
    /// `memory` must be alive and `info` valid.
    pub unsafe fn allocated(
        &self,
        device: &Device,
        memory: vk::DeviceMemory,
        record: Memory,
        info: &vk::MemoryAllocateInfo<'_>,
    ) {
        // SAFETY: by the caller.
        let dedicated = unsafe { chain(info.p_next) }
            .any(|c| c.s_type() == vk::StructureType::MEMORY_DEDICATED_ALLOCATE_INFO);
        let Some(id) = record.id().filter(|_| self.instruments.delay && !dedicated) else { return };
        let size = info.allocation_size / 4 * 4;
        self.with(device, |inner| {
            // SAFETY: by the caller.
            let alias = unsafe { Alias::new(&inner.vk, memory, size, info.memory_type_index) };
            inner.aliases.extend(alias.map(|alias| (id, alias)));
        });
    }

    /// The application frees an allocation.
    pub fn freed(&self, record: &Memory) {
        let Some(id) = record.id().filter(|_| self.instruments.delay) else { return };
        let mut inner = self.inner.lock();
        let Some(inner) = &mut *inner else { return };
        let Some(alias) = inner.aliases.remove(&id) else { return };
        for queue in inner.queues.values_mut() {
            // What shows a write may still be executing, later than anything of the application's that uses the memory.
            queue.wait(&inner.vk);
            for slot in queue.delay.forget(id) {
                queue.scratch.give(slot);
            }
        }
        // SAFETY: nothing uses it any more.
        unsafe { inner.vk.destroy_buffer(alias.buffer, None) };
    }

    /// The device goes: everything of the replay's is destroyed.
    pub fn end(&self) {
        let Some(mut inner) = self.inner.lock().take() else { return };
        let vk = &inner.vk;
        for queue in inner.queues.values_mut() {
            queue.wait(vk);
            // SAFETY: the application has waited for all of its work, and the line above for the layer's.
            unsafe {
                for mut one in queue.running.drain(..).chain(queue.spare.drain(..)) {
                    one.pools.end(vk);
                    vk.destroy_fence(one.fence, None);
                    vk.destroy_command_pool(one.pool, None);
                }
                queue.scratch.end(vk);
            }
        }
        // SAFETY: as above.
        unsafe {
            inner.aliases.values().for_each(|alias| vk.destroy_buffer(alias.buffer, None));
            if let Some(kernel) = &inner.kernel {
                kernel.end(vk);
            }
        }
    }

    /// Replaces the command buffers of `batches` by those to submit. What is returned must be given to
    /// [`Replay::submitted`].
    ///
    /// # Safety
    ///
    /// The batches must be about to be submitted to `queue`.
    pub unsafe fn replace(&self, device: &Device, queue: vk::Queue, batches: &mut [Batch]) -> Option<Ticket> {
        self.with(device, |inner| {
            if inner.failed {
                return None;
            }
            // SAFETY: by the caller.
            match unsafe { inner.replace(device, self.instruments, queue, batches) } {
                Ok(running) => running.map(Ticket),
                Err(why) => {
                    inner.failed = true;
                    device.settings.warn([format!(
                        "the device refuses what shuffling, slicing or delaying needs ({why}): from here on \
                         submissions are passed through"
                    )]);
                    None
                }
            }
        })
    }

    /// What [`Replay::replace`] returned was submitted.
    ///
    /// # Safety
    ///
    /// It was, to this queue.
    pub unsafe fn submitted(&self, device: &Device, queue: vk::Queue, running: Ticket) {
        self.with(device, |inner| {
            let running = running.0;
            // SAFETY: by the caller; the fence is the layer's own and not in use.
            let watched = unsafe { inner.vk.queue_submit(queue, &[], running.fence) };
            inner.failed |= watched.is_err();
            inner.queues.entry(queue).or_default().running.push(running);
        });
    }

    /// Somebody is about to wait for a queue: the batch that shows everything, where something is hidden.
    pub fn last_batch(&self, queue: vk::Queue) -> Option<Batch> {
        let inner = self.inner.lock();
        let hidden = inner.as_ref()?.queues.get(&queue).is_some_and(|q| !q.delay.is_empty());
        hidden.then(|| Batch { buffers: Vec::new(), is_watched: true, is_odd: false })
    }

    /// All queues on which something is hidden.
    pub fn hiding(&self) -> Vec<vk::Queue> {
        let inner = self.inner.lock();
        let queues = inner.iter().flat_map(|inner| &inner.queues);
        queues.filter(|(_, q)| !q.delay.is_empty()).map(|(queue, _)| *queue).collect()
    }
}

/// Command buffers of the layer's that are about to be submitted.
#[must_use]
pub struct Ticket(Running);

impl Queue {
    /// Waits for everything that the layer has submitted.
    fn wait(&mut self, vk: &ash::Device) {
        let fences: Vec<_> = self.running.iter().map(|running| running.fence).collect();
        if !fences.is_empty() {
            // SAFETY: the fences are the layer's own. One that does not come in time belongs to a device that is lost.
            let _ = unsafe { vk.wait_for_fences(&fences, true, PATIENCE) };
        }
    }

    /// Command buffers and sets for a submission.
    fn take(&mut self, vk: &ash::Device, family: u32) -> VkResult<Running> {
        for at in (0..self.running.len()).rev() {
            // SAFETY: the layer's own fence.
            if unsafe { vk.get_fence_status(self.running[at].fence) } == Ok(true) {
                let done = self.running.remove(at);
                self.spare.push(done);
            }
        }
        // SAFETY: what is spare is not executing; the structures are ours.
        unsafe {
            if let Some(at) = self.spare.iter().position(|spare| spare.family == family) {
                let mut running = self.spare.swap_remove(at);
                running.pools.reset(vk);
                vk.reset_fences(&[running.fence])?;
                // The buffers of an earlier submission are freed with their memory.
                vk.destroy_command_pool(running.pool, None);
                running.pool = pool(vk, family)?;
                return Ok(running);
            }
            let fence = vk.create_fence(&vk::FenceCreateInfo::default(), None)?;
            Ok(Running { pool: pool(vk, family)?, family, fence, pools: Pools::default() })
        }
    }
}

/// # Safety
///
/// The device must be alive and have the family.
unsafe fn pool(vk: &ash::Device, family: u32) -> VkResult<vk::CommandPool> {
    let info = vk::CommandPoolCreateInfo::default()
        .flags(vk::CommandPoolCreateFlags::TRANSIENT)
        .queue_family_index(family);
    // SAFETY: by the caller.
    unsafe { vk.create_command_pool(&info, None) }
}

impl Inner {
    fn new(device: &Device, instruments: Instruments) -> Inner {
        let get = device.next.get_device_proc_addr;
        // SAFETY: the device is alive; names are C strings.
        let vk = unsafe {
            ash::Device::load_with(
                |name| get(device.handle, name.as_ptr()).map_or(std::ptr::null(), |f| f as *const _),
                device.handle,
            )
        };
        let seed = if let Shuffle::Seed(seed) = instruments.shuffle { seed } else { 0 };
        Inner {
            vk,
            kernel: None,
            aliases: HashMap::new(),
            queues: HashMap::new(),
            random: fastrand::Rng::with_seed(seed),
            counts: Replayed::default(),
            slices: None,
            failed: false,
        }
    }

    /// What is done to submissions here: slices only where the driver cuts dispatches rightly.
    ///
    /// # Safety
    ///
    /// The queue must be one of `family`, and about to be submitted to.
    unsafe fn trusted(
        &mut self,
        device: &Device,
        asked: Instruments,
        (queue, family): (vk::Queue, u32),
    ) -> Instruments {
        if !asked.slice {
            return asked;
        }
        let vk = &self.vk;
        let slices = self.slices.get_or_insert_with(|| {
            let (driver, version) = (&device.description.driver, &device.description.driver_version);
            // SAFETY: by the caller.
            let outcome = unsafe { bases::check(vk, device, (queue, family)) };
            outcome.map_err(|why| {
                let line = format!(
                    "ZINC_BARRIER_SLICE is off: the driver ({driver} {version}) {why}; use ZINC_BARRIER_SHUFFLE and \
                     ZINC_BARRIER_DELAY here"
                );
                device.settings.warn([line.clone()]);
                line
            })
        });
        Instruments { slice: slices.is_ok(), ..asked }
    }

    /// # Safety
    ///
    /// As for [`Replay::replace`].
    unsafe fn replace(
        &mut self,
        device: &Device,
        instruments: Instruments,
        of: vk::Queue,
        batches: &mut [Batch],
    ) -> VkResult<Option<Running>> {
        let records: HashMap<vk::CommandBuffer, (Option<u32>, Finished)> = batches
            .iter()
            .flat_map(|batch| &batch.buffers)
            .filter_map(|buffer| {
                // SAFETY: it is being submitted.
                let record = unsafe { registry().command_buffers.get(*buffer) }?;
                Some((*buffer, (record.family, record.finished.lock().clone())))
            })
            .collect();
        let queue = self.queues.entry(of).or_default();
        queue.family = queue.family.or_else(|| records.values().find_map(|(family, _)| *family));
        let Some(family) = queue.family else { return Ok(None) };
        // SAFETY: by the caller.
        let instruments = unsafe { self.trusted(device, instruments, (of, family)) };
        if instruments.delay && self.kernel.is_none() {
            // SAFETY: the device is alive.
            self.kernel = Some(unsafe { Kernel::new(&self.vk) }?);
        }
        let queue = self.queues.entry(of).or_default();
        let mut running = queue.take(&self.vk, family)?;
        // A buffer that plays recordings or, where there are none, shows what is hidden.
        let mut record = |queue: &mut Queue,
                          counts: &mut Replayed,
                          recordings: &[Recording<'_>]|
         -> VkResult<vk::CommandBuffer> {
            let mut player = Player {
                vk: &self.vk,
                next: &device.next,
                kernel: self.kernel.as_ref(),
                aliases: &self.aliases,
                delay: &mut queue.delay,
                scratch: &mut queue.scratch,
                pools: &mut running.pools,
                // SAFETY: the pool is alive and used here alone.
                buffer: unsafe { begin(&self.vk, device, running.pool) }?,
                counts,
                instruments,
                random: &mut self.random,
            };
            // SAFETY: the recordings are about to be submitted, so what they refer to is alive.
            unsafe {
                match recordings.is_empty() {
                    true => player.flush()?,
                    false => player.play(recordings)?,
                }
                self.vk.end_command_buffer(player.buffer)?;
            }
            Ok(player.buffer)
        };
        let mut replaced = Vec::new();
        for batch in &*batches {
            let mut buffers = Vec::new();
            let playable = |buffer: &vk::CommandBuffer| -> Option<Recording<'_>> {
                let (_, finished) = records.get(buffer).filter(|_| !batch.is_odd)?;
                let journal = finished.journal.as_deref()?;
                let actions = finished.script.as_ref()?.actions()?;
                (actions.len() == journal.operations().count()).then_some(Recording { journal, actions })
            };
            for run in batch.buffers.chunk_by(|a, b| playable(a).is_some() == playable(b).is_some()) {
                let recordings: Vec<Recording<'_>> = run.iter().filter_map(playable).collect();
                if recordings.is_empty() {
                    self.counts.passed_through += run.len() as u64;
                    if queue.delay.is_empty() {
                        buffers.extend(run);
                        continue;
                    }
                } else {
                    self.counts.replayed += run.len() as u64;
                }
                buffers.push(record(queue, &mut self.counts, &recordings)?);
                if recordings.is_empty() {
                    buffers.extend(run);
                }
            }
            if batch.is_watched && !queue.delay.is_empty() {
                buffers.push(record(queue, &mut self.counts, &[])?);
            }
            replaced.push(buffers);
        }
        for (batch, buffers) in batches.iter_mut().zip(replaced) {
            batch.buffers = buffers;
        }
        Ok(Some(running))
    }
}

/// A command buffer that is being recorded, ordered behind all that was submitted before.
///
/// # Safety
///
/// The pool must be alive and used by this thread alone.
unsafe fn begin(vk: &ash::Device, device: &Device, pool: vk::CommandPool) -> VkResult<vk::CommandBuffer> {
    let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
    // SAFETY: by the caller. The first word of a dispatchable object is its dispatch table, which the loader sets for
    // objects that applications make, and layers for their own: it is the device's.
    unsafe {
        let buffer = vk.allocate_command_buffers(&info)?[0];
        *(buffer.as_raw() as *mut usize) = *(device.handle.as_raw() as *const usize);
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        vk.begin_command_buffer(buffer, &once)?;
        if device.replay.instruments.delay {
            crate::emit::barrier(&device.next, buffer, zinc_hazard::Barrier::FULL);
        }
        Ok(buffer)
    }
}
