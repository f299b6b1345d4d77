//! One `VkDevice`: the functions below, the records of its objects, its settings and its sums.

use crate::abi::DispatchKey;
use crate::addresses::Addresses;
use crate::audit::Audit;
use crate::capture::Capture;
use crate::descriptors::{Resolve, Set};
use crate::exclusive::Exclusive;
use crate::footprint::Rules;
use crate::handles::Table;
use crate::images::{Image, ImageView};
use crate::in_force::InForce;
use crate::journal::Journal;
use crate::layouts::PipelineLayout;
use crate::mappings::Mappings;
use crate::memory::{Buffer, BufferView, Extent, Memory};
use crate::next::Next;
use crate::pipelines::{Pipeline, ShaderModule};
use crate::recorder::{Finished, Recorder};
use crate::replay::Replay;
use crate::reporting;
use crate::segment::Segment;
use crate::set_layouts::SetLayout;
use crate::stubs::Targets;
use crate::templates::Template;
use crate::trace::{Names, Witnesses};
use ash::vk;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zinc_hazard::Policy;
use zinc_report::Counts;
use zinc_settings::writing::Patient;
use zinc_settings::{OutOfBounds, Ranges, Shuffle};

/// Everything counted on a device.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Executed.
    pub totals: Counts,
    /// Recorded.
    pub recorded: Counts,
    /// Executed, by a policy not in force.
    pub would_emit: BTreeMap<Policy, Counts>,
    /// By the name of a command without a model: barriers that went out because it came next, as recorded.
    pub kept_by: BTreeMap<String, u64>,
    /// By the reason: dispatches that touch what is not known, as recorded.
    pub unknown_because: BTreeMap<String, u64>,
}

/// One `VkCommandBuffer`.
pub struct CommandBuffer {
    /// Its device.
    pub device: Arc<Device>,
    /// Its pool's handle.
    pub pool: u64,
    /// Primary or secondary: much of a begin info is ignored for one of them.
    pub level: vk::CommandBufferLevel,
    /// The queue family of its pool; known only where submissions are replayed.
    pub family: Option<u32>,
    /// The recording in progress.
    pub state: Exclusive<CommandState>,
    /// The counts of the finished recording, which several threads may submit.
    pub finished: Mutex<Finished>,
}

/// What a command buffer is recorded with.
pub struct CommandState {
    /// The recording in progress.
    pub recorder: Recorder,
    /// Where operations are issued elsewhere than they are recorded: what is held back, and what is bound.
    pub segment: Option<Segment>,
    quick: bool,
}

impl CommandState {
    /// Whether nobody wants more of a dispatch than what is due before it, and that follows from a pipeline and its sets.
    #[inline]
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// Something is recorded that can't be replayed.
    pub fn breaks_script(&mut self) {
        if let Some(segment) = &mut self.segment {
            segment.breaks_script();
        }
    }
}

/// How many states of freed command buffers are kept.
const SPARE_STATES: usize = 16;

/// A device.
pub struct Device {
    /// The key of all its dispatchable handles.
    pub key: DispatchKey,
    /// Its handle.
    pub handle: vk::Device,
    /// The process that made it. One that this process forks has a copy of all that is here, and nothing to do with it.
    pub process: u32,
    /// The functions below this layer.
    pub next: Next,
    /// Until the application destroys it.
    pub lives: Arc<AtomicBool>,
    /// Where the stubs of unmodelled commands go on.
    pub stub_targets: Targets,
    /// What the user asked for.
    pub settings: Arc<InForce>,
    /// A record of what is dispatched, where one is asked for.
    pub capture: Option<Capture>,
    /// What of it could not be honoured.
    pub warnings: Arc<[String]>,
    /// Its description, for the report.
    pub description: zinc_report::Device,
    /// Memory types that the host sees, as bits.
    pub host_types: u32,
    /// `robustBufferAccess` without `robustBufferAccess2` is on.
    pub robust_writes: bool,
    /// `VkDeviceMemory`.
    pub memories: Table<Memory>,
    /// What of it the host has mapped.
    pub mappings: Mappings,
    /// `VkBuffer`.
    pub buffers: Table<Buffer>,
    /// Where the buffers are that the application knows the addresses of; only with tight ranges.
    pub addresses: Addresses,
    /// `VkBufferView`.
    pub views: Table<BufferView>,
    /// `VkImage`.
    pub images: Table<Image>,
    /// `VkImageView`.
    pub image_views: Table<ImageView>,
    /// `VkPipelineLayout`.
    pub pipeline_layouts: Table<Arc<PipelineLayout>>,
    /// `VkDescriptorUpdateTemplate`.
    pub templates: Table<Template>,
    /// `VkDescriptorSetLayout`.
    pub set_layouts: Table<Arc<SetLayout>>,
    /// `VkDescriptorSet`.
    pub sets: Table<Set>,
    /// The sets of each `VkDescriptorPool`, which die with it.
    pub pools: Mutex<HashMap<u64, HashSet<vk::DescriptorSet>>>,
    /// `VkShaderModule`.
    pub modules: Table<ShaderModule>,
    /// Compute `VkPipeline`s.
    pub pipelines: Table<Pipeline>,
    /// `VkCommandPool`: the queue family; only where submissions are replayed.
    pub families: Table<u32>,
    /// What is submitted in place of what was recorded.
    pub replay: Replay,
    /// Of command buffers that were freed.
    spare_states: Mutex<Vec<CommandState>>,
    /// The sums.
    pub sums: Mutex<Sums>,
    /// Emissions since the last submission: what the mutation counts.
    emissions: AtomicU64,
    /// A function came that may write descriptors in a way that the layer does not see.
    sees_no_sets: AtomicBool,
    /// The names of functions that the layer has not heard of and that were called.
    unheard: Mutex<BTreeSet<String>>,
    /// The layer failed: new recordings are passed through.
    failed: AtomicBool,
    /// The report was written.
    pub reported: AtomicBool,
    /// When it is to be written while the process runs.
    pub next_report: reporting::Next,
    /// What was submitted, as the independent model sees it.
    pub audit: Mutex<Audit>,
    /// How often pairs forced barriers in what was executed.
    pub witnesses: Mutex<Witnesses>,
    /// The names that the application gave its pipelines, by their numbers.
    pub names: Mutex<Names>,
    trace: Mutex<Option<Patient<File>>>,
}

impl Device {
    /// A device whose records are all empty.
    pub fn new(
        key: DispatchKey,
        handle: vk::Device,
        next: Next,
        (settings, warnings): (Arc<InForce>, Arc<[String]>),
        description: zinc_report::Device,
        (robust_writes, host_types): (bool, u32),
    ) -> Device {
        let replay = Replay::new(&settings);
        let trace = settings.open_trace(std::process::id(), description.number);
        let capture = settings.begin_capture(std::process::id(), description.number);
        Device {
            key,
            handle,
            process: std::process::id(),
            next,
            lives: Arc::new(AtomicBool::new(true)),
            stub_targets: Targets::default(),
            settings,
            capture,
            warnings,
            description,
            host_types,
            robust_writes,
            memories: Table::default(),
            mappings: Mappings::default(),
            buffers: Table::default(),
            addresses: Addresses::default(),
            views: Table::default(),
            images: Table::default(),
            image_views: Table::default(),
            pipeline_layouts: Table::default(),
            templates: Table::default(),
            set_layouts: Table::default(),
            sets: Table::default(),
            pools: Mutex::default(),
            modules: Table::default(),
            pipelines: Table::default(),
            families: Table::default(),
            replay,
            spare_states: Mutex::default(),
            sums: Mutex::default(),
            emissions: AtomicU64::new(0),
            sees_no_sets: AtomicBool::new(false),
            unheard: Mutex::default(),
            failed: AtomicBool::new(false),
            reported: AtomicBool::new(false),
            next_report: Default::default(),
            audit: Mutex::default(),
            witnesses: Mutex::default(),
            names: Mutex::default(),
            trace: Mutex::new(trace),
        }
    }

    /// Writes a recording that has ended to the trace, if there is one. The result is what forced its barriers.
    pub fn tell(&self, journal: &Journal) -> Option<Arc<Witnesses>> {
        self.settings.trace.as_ref()?;
        let told = crate::trace::explain(journal, self.settings.policy, &self.names.lock());
        let mut trace = self.trace.lock();
        if let Some(file) = &mut *trace
            && let Err(why) = file.write_all(told.lines.as_bytes())
        {
            self.settings.warn([format!("the trace ends here: {why}; see ZINC_BARRIER_TRACE")]);
            *trace = None;
        }
        Some(Arc::new(told.witnesses))
    }

    /// Whether recordings are to be kept as they were and as they were issued.
    fn keeps_journals(&self) -> bool {
        self.settings.audit || self.settings.trace.is_some() || self.replay.is_on()
    }

    /// The state of a command buffer at the beginning of a recording.
    pub fn fresh_state(&self) -> CommandState {
        let settings = &self.settings;
        let rules = Rules {
            granule: settings.granule,
            trust_out_of_bounds: settings.out_of_bounds == OutOfBounds::Trust,
        };
        if self.failed.load(Ordering::Relaxed) {
            let recorder = Recorder::new(Policy::Stock, &[], rules);
            return CommandState { recorder, segment: None, quick: false };
        }
        let shadows: Vec<Policy> = match settings.would_emit {
            true => Policy::ALL.into_iter().filter(|p| *p != settings.policy).collect(),
            false => Vec::new(),
        };
        let mut recorder = Recorder::new(settings.policy, &shadows, rules);
        if self.keeps_journals() {
            recorder.keep_journal();
        }
        let segment = self.keeps_bindings().then(|| self.fresh_segment());
        let watched = settings.would_emit || self.keeps_journals() || self.capture.is_some();
        let quick = segment.is_none() && !watched && !self.is_tight();
        CommandState { recorder, segment, quick }
    }

    /// The state of a command buffer that is allocated: one that another left, with its memory and what it remembers of the
    /// last recording, since who frees command buffers and allocates them again is likely to record the same.
    pub fn new_state(&self) -> CommandState {
        let left = self.spare_states.lock().pop();
        left.filter(|_| !self.has_failed()).unwrap_or_else(|| self.fresh_state())
    }

    /// Keeps the state of a command buffer that was freed, for the next one.
    pub fn retire(&self, state: CommandState) {
        let mut spare = self.spare_states.lock();
        if spare.len() < SPARE_STATES {
            spare.push(state);
        }
    }

    /// Makes `state` that of a command buffer at the beginning of a recording, and keeps what memory it has.
    pub fn begin(&self, state: &mut CommandState) {
        if self.has_failed() {
            *state = self.fresh_state();
            return;
        }
        state.recorder.reset();
        if let Some(segment) = &mut state.segment {
            *segment = self.fresh_segment();
        }
    }

    /// The device is about to be destroyed: what recordings keep of the layer's own objects is destroyed first.
    pub fn let_go(&self) {
        self.spare_states.lock().clear();
        self.pipeline_layouts.remove_if(|_| true);
        self.lives.store(false, Ordering::Release);
    }

    /// Barriers went out because a command without a model came next; `name` says which.
    pub fn kept_for(&self, barriers: u64, name: impl FnOnce() -> String) {
        if barriers > 0 {
            *self.sums.lock().kept_by.entry(name()).or_default() += barriers;
        }
    }

    /// A recording has ended.
    pub fn recorded(&self, counts: &Counts, recorder: &Recorder) {
        let mut sums = self.sums.lock();
        sums.recorded += *counts;
        for (reason, times) in recorder.unknown_because() {
            *sums.unknown_because.entry(reason).or_default() += times;
        }
    }

    /// A command or function of which nothing is known was called: the report names it. From now on no set's contents are
    /// believed, if it may have `written` descriptors.
    pub fn unheard(&self, name: &str, written: bool) {
        self.sees_no_sets.fetch_or(written, Ordering::Release);
        let mut unheard = self.unheard.lock();
        if !unheard.contains(name) {
            unheard.insert(name.to_owned());
        }
    }

    /// The functions and commands called of which nothing is known.
    pub fn unheard_names(&self) -> Vec<String> {
        self.unheard.lock().iter().cloned().collect()
    }

    /// The record of a set, if what is in it is believed.
    ///
    /// # Safety
    ///
    /// As for [`Table::get`].
    #[inline]
    pub unsafe fn set(&self, handle: vk::DescriptorSet) -> Option<&Set> {
        if self.sees_no_sets.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: by the caller.
        unsafe { self.sets.get(handle) }
    }

    /// Whether the emission that comes now is the one that the mutation withholds.
    pub fn is_withheld(&self) -> bool {
        let Some(target) = self.settings.mutate else { return false };
        self.emissions.fetch_add(1, Ordering::Relaxed) == target
    }

    /// A submission ends a sequence: the mutation counts from 0 again.
    pub fn submitted(&self) {
        if self.settings.mutate.is_some() && !self.settings.mutate_once {
            self.emissions.store(0, Ordering::Relaxed);
        }
    }

    /// The layer failed here. From now on recordings are passed through.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether [`Device::fail`] was called.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether push constants are kept while commands are recorded.
    pub fn keeps_push_constants(&self) -> bool {
        self.is_tight() || self.capture.is_some()
    }

    /// Whether ranges are followed to what shaders touch.
    pub fn is_tight(&self) -> bool {
        self.settings.ranges == Ranges::Tight
    }

    fn fresh_segment(&self) -> Segment {
        Segment::new(self.settings.shuffle, self.holds_back(), self.replay.is_on())
    }

    /// Whether operations may be issued elsewhere than they are recorded, so that each needs to know what is bound.
    pub fn keeps_bindings(&self) -> bool {
        self.holds_back() || self.replay.is_on()
    }

    /// Whether operations are held back, to be issued later and perhaps in another order.
    fn holds_back(&self) -> bool {
        self.settings.shuffle != Shuffle::Off || self.settings.policy.freedom().is_some()
    }
}

impl Resolve for Device {
    fn buffer(&self, buffer: vk::Buffer, offset: u64, size: Option<u64>) -> Option<Extent> {
        // SAFETY: resolved in a call that the application passes the buffer to.
        unsafe { self.buffers.get(buffer) }.map(|b| b.extent(offset, size))
    }

    fn view(&self, view: vk::BufferView) -> Option<Extent> {
        // SAFETY: as above.
        unsafe { self.views.get(view) }.and_then(|v| v.0)
    }

    fn image(&self, view: vk::ImageView) -> Extent {
        // SAFETY: as above.
        unsafe { self.image_views.get(view) }.map_or(Extent::Anywhere, |v| v.0)
    }
}

/// All live devices and command buffers of the process.
pub struct Registry {
    devices: Table<Arc<Device>>,
    /// `VkCommandBuffer`, over all devices: their handles are pointers and can't coincide.
    pub command_buffers: Table<CommandBuffer>,
}

static REGISTRY: Registry = Registry { devices: Table::new(), command_buffers: Table::new() };

/// The process's registry.
pub fn registry() -> &'static Registry {
    &REGISTRY
}

impl Registry {
    /// Adds a device.
    pub fn add(&self, device: Device) {
        self.devices.insert(device.key, Arc::new(device));
    }

    /// The device of a dispatchable handle.
    ///
    /// # Safety
    ///
    /// The device must not be destroyed while the reference is used: as for [`Table::get`].
    pub unsafe fn device(&self, key: DispatchKey) -> Option<&Arc<Device>> {
        // SAFETY: by the caller.
        unsafe { self.devices.get(key) }
    }

    /// Forgets a device and its command buffers.
    pub fn remove(&self, key: DispatchKey) -> Option<Arc<Device>> {
        let device = self.devices.remove(key)?;
        self.command_buffers.remove_if(|c| c.device.key == key);
        Some(*device)
    }

    /// Runs `f` while nobody else can take any lock that the layer has, but those of single command buffers and those
    /// that are taken where a function is asked for.
    #[cfg(test)]
    pub fn with_every_lock_held<R>(&self, f: impl FnOnce() -> R) -> R {
        let devices = self.all();
        let mut hold: Box<dyn FnOnce() -> R + '_> = Box::new(f);
        for d in &devices {
            let inner = hold;
            hold = Box::new(move || {
                let _locks = (d.pools.lock(), d.sums.lock());
                d.memories.locked(|| {
                    d.buffers.locked(|| {
                        d.views.locked(|| {
                            d.images.locked(|| {
                                d.image_views.locked(|| {
                                    d.pipeline_layouts.locked(|| {
                                        d.templates.locked(|| {
                                            d.set_layouts.locked(|| {
                                                d.sets
                                                    .locked(|| d.modules.locked(|| d.pipelines.locked(inner)))
                                            })
                                        })
                                    })
                                })
                            })
                        })
                    })
                })
            });
        }
        self.devices.locked(|| self.command_buffers.locked(hold))
    }

    /// All live devices.
    pub fn all(&self) -> Vec<Arc<Device>> {
        let mut all = Vec::new();
        self.devices.each(|device| all.push(device.clone()));
        all
    }
}
