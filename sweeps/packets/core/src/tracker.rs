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

use crate::cdm::Chip;
use crate::file::{File, Submission};
use crate::report::Report;
use crate::space::CpuMaps;
use crate::uapi;
use crate::{amdgpu, asahi, summary};
use std::collections::HashMap;

/// The process that is watched.
pub trait Process {
    /// Copies bytes from any address into `out`; false, and no fault, when they can't be had.
    fn copy(&self, address: u64, out: &mut [u8]) -> bool;
    /// Copies as many bytes from each address as fit, one after the other, into `out`, whose length is a multiple of
    /// the number of addresses; false when any of it can't be had. One call may be much cheaper than many.
    fn copy_all(&self, addresses: &[u64], out: &mut [u8]) -> bool {
        let each = out.len().checked_div(addresses.len()).unwrap_or(0).max(1);
        addresses.iter().zip(out.chunks_exact_mut(each)).all(|(address, part)| self.copy(*address, part))
    }
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
        self.files.insert(id, File::new(driver, version));
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
