//! Follows one process's kernel calls, to know at each submission what its addresses mean.
//!
//! The shell tells a [`Tracker`] about a call before and after it reaches the kernel, for two reasons. Answers, such as
//! a new handle, exist only after. And what a call *ends* must be forgotten before: the moment the kernel has closed a
//! handle or unmapped a range, another thread may be given the same one, and forgetting it afterwards would forget
//! theirs. A submission is walked before as well, while its buffers can't be in use, and counted after, if it was
//! accepted: drivers repeat a call that was interrupted.
//!
//! A file descriptor is only a name. Buffers, VMs and queues belong to the open file behind it, and drivers duplicate
//! descriptors freely, so descriptors map to files here. What was counted outlives its file.
//!
//! Drivers write some buffers once and unmap them, such as the initial state that each first submission calls. Such a
//! buffer is mapped again, by us ([`Process::map`]), if the driver ever asked where to map it, and until its handle is
//! closed. A buffer that was never meant for the CPU is left alone: its submission counts as unreadable.
//!
//! The tracker never trusts an address: arguments are copied by [`Process::copy`], which reports failure instead of
//! faulting, and command buffers are read only inside mappings that the process made and has not ended.

use crate::cdm::{self, Chip};
use crate::memory::Memory;
use crate::pm4;
use crate::report::Report;
use crate::space::{Bo, CpuMaps, GpuSpace};
use crate::uapi;
use crate::{amdgpu, asahi, summary};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

/// The process that is watched.
pub trait Process {
    /// Copies bytes from any address into `out`; false, and no fault, when they can't be had.
    fn copy(&self, address: u64, out: &mut [u8]) -> bool;
    /// Copies words from `address`, which lies with all of `out`'s length in a mapping that the tracker was told of.
    fn mapped(&self, address: u64, out: &mut [u32]);
    /// Maps `len` bytes of the file behind `fd` from `offset` on for reading; the address.
    fn map(&self, fd: i32, offset: u64, len: u64) -> Option<u64>;
    /// Ends a mapping made by [`Process::map`].
    fn unmap(&self, address: u64, len: u64);
}

/// Which driver is behind a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// AMD.
    Amdgpu,
    /// Apple.
    Asahi,
    /// One whose calls are passed by.
    Other,
}

impl Driver {
    /// By the name that DRM_IOCTL_VERSION returns.
    pub fn of(name: &str) -> Self {
        match name {
            "amdgpu" => Self::Amdgpu,
            "asahi" => Self::Asahi,
            _ => Self::Other,
        }
    }
}

/// Where submissions go: a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueKey {
    Amdgpu { context: u32, ip: u32, instance: u32, ring: u32 },
    Asahi { queue: u32 },
}

/// What was submitted to a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueCounts {
    pub submits: u64,
    pub unreadable_submits: u64,
    pub pm4: pm4::Counts,
    pub cdm: cdm::Counts,
    /// Buffers for engines that speak neither.
    pub other_buffers: u64,
    pub renders: u64,
    pub computes: u64,
    pub waiting_computes: u64,
}

impl QueueCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.submits += other.submits;
        self.unreadable_submits += other.unreadable_submits;
        self.pm4.add(&other.pm4);
        self.cdm.add(&other.cdm);
        self.other_buffers += other.other_buffers;
        self.renders += other.renders;
        self.computes += other.computes;
        self.waiting_computes += other.waiting_computes;
    }

    /// Makes these the counts of one submission.
    pub(crate) fn one(mut self) -> Self {
        self.submits = 1;
        self.unreadable_submits = u64::from(self.pm4.unreadable + self.cdm.unreadable > 0);
        self
    }
}

/// What one submission holds, by queue: a gang goes to several.
#[derive(Debug, Default)]
pub(crate) struct Submission {
    pub queues: BTreeMap<QueueKey, QueueCounts>,
    /// The arguments themselves could not be read.
    pub unreadable: bool,
}

/// What was counted at one open file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileCounts {
    pub submits: u64,
    pub failed_submits: u64,
    pub unreadable_submits: u64,
    pub user_queues: u64,
    pub queues: BTreeMap<QueueKey, QueueCounts>,
}

/// An open file of a DRM device.
#[derive(Debug)]
pub(crate) struct File {
    pub driver: Driver,
    pub version: (i32, i32, i32),
    /// amdgpu's GFX level.
    pub gfx: Option<u32>,
    pub chip: Chip,
    pub handles: HashMap<u32, Handle>,
    /// Offsets for mmap, with the size of what is there.
    pub offsets: BTreeMap<u64, (Bo, u64)>,
    /// By VM; amdgpu has one a file, 0.
    pub spaces: HashMap<u32, GpuSpace>,
    /// asahi's queues to VMs.
    pub queues: HashMap<u32, u32>,
    pub counts: FileCounts,
    /// Mappings of our own.
    pub own: CpuMaps,
    descriptors: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub bo: Bo,
    pub size: u64,
    pub offset: Option<u64>,
}

/// A call between its two halves.
#[derive(Debug, Default)]
pub enum Pending {
    /// Nothing to do afterwards.
    #[default]
    Nothing,
    /// Something to do afterwards.
    #[doc(hidden)]
    After(Box<After>),
}

/// What to do after a call that succeeded.
#[derive(Debug)]
#[doc(hidden)]
pub struct After(pub(crate) Step);

#[derive(Debug)]
pub(crate) enum Step {
    Create { size: u64, handle_at: usize },
    Offset { handle: u32, offset_at: usize },
    Binds { vm: u32, ops: Vec<Bind> },
    Gfx { answer: u64 },
    Params { answer: u64 },
    Queue { vm: u32 },
    UserQueue,
    Submit(Submission),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bind {
    pub va: u64,
    pub len: u64,
    /// None unbinds.
    pub to: Option<(u32, u64)>,
    pub repeated: bool,
}

impl From<Step> for Pending {
    fn from(step: Step) -> Self {
        Self::After(Box::new(After(step)))
    }
}

/// The state of a process.
#[derive(Debug, Default)]
pub struct Tracker {
    descriptors: HashMap<i32, usize>,
    files: HashMap<usize, File>,
    closed: Vec<File>,
    pub(crate) maps: CpuMaps,
    next_file: usize,
    next_bo: u64,
}

/// No structure that is read has more bytes.
const ARGUMENT: usize = 128;

impl Tracker {
    /// Whether it is known what is behind a descriptor.
    pub fn knows(&self, fd: i32) -> bool {
        self.descriptors.contains_key(&fd)
    }

    /// Whether any device was opened whose streams can be read.
    pub fn saw_a_device(&self) -> bool {
        self.files.values().chain(&self.closed).any(|file| file.driver != Driver::Other)
    }

    /// A descriptor turned out to be a DRM device with this driver and driver version.
    pub fn open(&mut self, process: &dyn Process, fd: i32, driver: Driver, version: (i32, i32, i32)) {
        self.close(process, fd);
        let id = self.next_file;
        self.next_file += 1;
        self.descriptors.insert(fd, id);
        self.files.insert(
            id,
            File {
                driver,
                version,
                gfx: None,
                chip: Chip::default(),
                handles: HashMap::new(),
                offsets: BTreeMap::new(),
                spaces: HashMap::new(),
                queues: HashMap::new(),
                counts: FileCounts::default(),
                own: CpuMaps::default(),
                descriptors: 1,
            },
        );
    }

    /// `new` now names what `old` names.
    pub fn duplicate(&mut self, process: &dyn Process, old: i32, new: i32) {
        if old == new {
            return;
        }
        self.close(process, new);
        let Some(id) = self.descriptors.get(&old).copied() else { return };
        let Some(file) = self.files.get_mut(&id) else { return };
        file.descriptors += 1;
        self.descriptors.insert(new, id);
    }

    /// A descriptor is about to be closed.
    pub fn close(&mut self, process: &dyn Process, fd: i32) {
        let Some(id) = self.descriptors.remove(&fd) else { return };
        let Some(file) = self.files.get_mut(&id) else { return };
        file.descriptors -= 1;
        if file.descriptors > 0 {
            return;
        }
        if let Some(mut file) = self.files.remove(&id)
            && file.driver != Driver::Other
        {
            for (address, len) in file.own.drain() {
                process.unmap(address, len);
            }
            file.handles.clear();
            file.offsets.clear();
            file.spaces.clear();
            self.closed.push(file);
        }
    }

    /// `len` bytes at `address` show the file behind `fd` from `offset` on. To be called after mmap; what was there
    /// before is forgotten, whatever `fd` is.
    pub fn map(&mut self, fd: i32, address: u64, len: u64, offset: u64, readable: bool) {
        self.maps.unmap(address, len);
        let file = self.descriptors.get(&fd).and_then(|id| self.files.get(id));
        let Some(file) = file.filter(|_| readable) else { return };
        let Some((start, (bo, size))) = file.offsets.range(..=offset).next_back() else { return };
        let inside = offset - start;
        if inside == 0 || inside < *size {
            self.maps.map(address, len, *bo, inside);
        }
    }

    /// The memory at `address` is about to stop being what it is.
    pub fn unmap(&mut self, address: u64, len: u64) {
        self.maps.unmap(address, len);
    }

    /// A DRM call is about to be made on `fd`, which is known.
    pub fn before(&mut self, process: &dyn Process, fd: i32, request: u64, argument: u64) -> Pending {
        let Some(file) = self.descriptors.get(&fd).and_then(|id| self.files.get_mut(id)) else {
            return Pending::Nothing;
        };
        let number = uapi::number(request);
        if !file.wants(number) {
            return Pending::Nothing;
        }
        let mut bytes = [0; ARGUMENT];
        let bytes = &mut bytes[..uapi::size(request).min(ARGUMENT)];
        if !process.copy(argument, bytes) {
            // The kernel can't read it either.
            return Pending::Nothing;
        }
        if number == uapi::GEM_CLOSE {
            file.close_handle(process, uapi::u32_at(bytes, 0));
            return Pending::Nothing;
        }
        match file.driver {
            Driver::Amdgpu => amdgpu::before(file, fd, &self.maps, process, number, bytes),
            Driver::Asahi => asahi::before(file, fd, &self.maps, process, number, bytes),
            Driver::Other => Pending::Nothing,
        }
    }

    /// The call has returned.
    pub fn after(
        &mut self,
        process: &dyn Process,
        fd: i32,
        argument: u64,
        pending: Pending,
        succeeded: bool,
    ) {
        let Pending::After(after) = pending else { return };
        let Some(file) = self.descriptors.get(&fd).and_then(|id| self.files.get_mut(id)) else { return };
        let read = |address: u64, offset: u64| {
            let mut word = [0; 8];
            process.copy(address.wrapping_add(offset), &mut word[..4]).then(|| uapi::u32_at(&word, 0))
        };
        let next_bo = &mut self.next_bo;
        match after.0 {
            Step::Submit(submission) => file.count(submission, succeeded),
            _ if !succeeded => {}
            Step::Create { size, handle_at } => {
                if let Some(handle) = read(argument, handle_at as u64) {
                    file.close_handle(process, handle);
                    file.handle(handle, next_bo).size = size;
                }
            }
            Step::Offset { handle, offset_at } => {
                let mut offset = [0; 8];
                if process.copy(argument.wrapping_add(offset_at as u64), &mut offset) {
                    let offset = u64::from_le_bytes(offset);
                    let entry = file.handle(handle, next_bo);
                    entry.offset = Some(offset);
                    let (bo, size) = (entry.bo, entry.size);
                    file.offsets.insert(offset, (bo, size));
                }
            }
            Step::Binds { vm, ops } => {
                for op in ops {
                    let to = op.to.map(|(handle, offset)| (file.handle(handle, next_bo).bo, offset));
                    let space = file.spaces.entry(vm).or_default();
                    match to {
                        Some((bo, offset)) => space.bind(op.va, op.len, bo, offset, op.repeated),
                        None => space.unbind(op.va, op.len),
                    }
                }
            }
            Step::Gfx { answer } => file.gfx = read(answer, 0).filter(|major| *major > 0).or(file.gfx),
            Step::Params { answer } => {
                if let (Some(generation), Some(clusters)) = (read(answer, 8), read(answer, 28)) {
                    file.chip = Chip { generation, clusters };
                }
            }
            Step::Queue { vm } => {
                if let Some(queue) = read(argument, 12) {
                    file.queues.insert(queue, vm);
                }
            }
            Step::UserQueue => file.counts.user_queues += 1,
        }
    }

    /// What was counted so far. `first` says whether the calls of the process came here before anything else that
    /// stands in for libc.
    pub fn report(&self, first: bool) -> Report {
        let mut ids: Vec<_> = self.files.keys().collect();
        ids.sort();
        let files = self.closed.iter().chain(ids.into_iter().map(|id| &self.files[id]));
        let devices = files.filter(|file| file.driver != Driver::Other).filter(|file| file.counts.any());
        Report {
            schema: crate::report::SCHEMA,
            interposed_first: first,
            devices: devices.map(summary::device).collect(),
        }
    }
}

impl FileCounts {
    fn any(&self) -> bool {
        self.submits + self.failed_submits + self.unreadable_submits + self.user_queues > 0
    }
}

impl File {
    fn wants(&self, number: u8) -> bool {
        match self.driver {
            Driver::Other => false,
            _ if number == uapi::GEM_CLOSE => true,
            Driver::Amdgpu => amdgpu::wants(number),
            Driver::Asahi => asahi::wants(number),
        }
    }

    /// The buffer with a handle; a handle of unknown origin, such as an imported one, is a new buffer.
    fn handle(&mut self, handle: u32, next_bo: &mut u64) -> &mut Handle {
        self.handles.entry(handle).or_insert_with(|| {
            *next_bo += 1;
            Handle { bo: Bo(*next_bo), size: 0, offset: None }
        })
    }

    fn close_handle(&mut self, process: &dyn Process, handle: u32) {
        let Some(old) = self.handles.remove(&handle) else { return };
        if let Some(offset) = old.offset {
            self.offsets.remove(&offset);
        }
        for (address, len) in self.own.forget(old.bo) {
            process.unmap(address, len);
        }
        // amdgpu unbinds what it closes; asahi's bindings hold the buffer.
        if self.driver == Driver::Amdgpu {
            for space in self.spaces.values_mut() {
                space.forget(old.bo);
            }
        }
    }

    fn count(&mut self, submission: Submission, succeeded: bool) {
        if !succeeded {
            self.counts.failed_submits += 1;
            return;
        }
        self.counts.submits += 1;
        let unreadable =
            submission.unreadable || submission.queues.values().any(|q| q.unreadable_submits > 0);
        self.counts.unreadable_submits += u64::from(unreadable);
        for (key, counts) in submission.queues {
            self.counts.queues.entry(key).or_default().add(&counts);
        }
    }
}

/// A VM's memory as the CPU sees it.
pub(crate) struct Seen<'a> {
    space: Option<&'a GpuSpace>,
    maps: &'a CpuMaps,
    process: &'a dyn Process,
    mask: u64,
    fd: i32,
    offsets: &'a BTreeMap<u64, (Bo, u64)>,
    own: RefCell<CpuMaps>,
}

impl<'a> Seen<'a> {
    /// The memory of a VM of `file`, for a submission through `fd`, with addresses of as many bits as `mask` has.
    pub(crate) fn new(
        file: &'a File,
        fd: i32,
        vm: u32,
        mask: u64,
        maps: &'a CpuMaps,
        process: &'a dyn Process,
        own: CpuMaps,
    ) -> Self {
        let own = RefCell::new(own);
        Self { space: file.spaces.get(&vm), maps, process, mask, fd, offsets: &file.offsets, own }
    }

    /// Gives our own mappings back, with those that were added.
    pub(crate) fn into_own(self) -> CpuMaps {
        self.own.into_inner()
    }

    fn resolve(&self, bo: Bo, offset: u64) -> Option<(u64, u64)> {
        let mut own = self.own.borrow_mut();
        if let Some(found) = self.maps.resolve(bo, offset).or_else(|| own.resolve(bo, offset)) {
            return Some(found);
        }
        let (start, (_, size)) = self.offsets.iter().find(|(_, (other, _))| *other == bo)?;
        if offset >= *size {
            return None;
        }
        let address = self.process.map(self.fd, *start, *size)?;
        own.map(address, *size, bo, 0);
        own.resolve(bo, offset)
    }
}

impl Memory for Seen<'_> {
    fn read(&self, va: u64, out: &mut [u32]) -> usize {
        let mut done = 0;
        while done < out.len() {
            let at = va.wrapping_add(done as u64 * 4) & self.mask;
            let Some((bo, offset, bound)) = self.space.and_then(|space| space.resolve(at)) else { break };
            let Some((address, mapped)) = self.resolve(bo, offset) else { break };
            let words = usize::try_from(bound.min(mapped) / 4).unwrap_or(usize::MAX).min(out.len() - done);
            if words == 0 {
                break;
            }
            self.process.mapped(address, &mut out[done..done + words]);
            done += words;
        }
        done
    }
}
