//! One open file of a DRM device: what lives in it, and what was counted through it.
//!
//! GEM handles, VMs and queues are numbers that mean something in one file only. The counts are kept by queue, since
//! barriers order work within one: two queues that each wait little are not one queue that waits much.

use crate::cdm::{self, Chip};
use crate::pm4;
use crate::space::{Bo, CpuMaps, GpuSpace};
use crate::tracker::{Driver, Process};
use crate::{amdgpu, asahi, uapi};
use std::collections::{BTreeMap, HashMap};

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
    /// Descriptors that name it.
    pub descriptors: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub bo: Bo,
    pub size: u64,
    pub offset: Option<u64>,
}

impl FileCounts {
    pub(crate) fn any(&self) -> bool {
        self.submits + self.failed_submits + self.unreadable_submits + self.user_queues > 0
    }
}

impl File {
    pub(crate) fn new(driver: Driver, version: (i32, i32, i32)) -> Self {
        Self {
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
        }
    }

    pub(crate) fn wants(&self, number: u8) -> bool {
        match self.driver {
            Driver::Other => false,
            _ if number == uapi::GEM_CLOSE => true,
            Driver::Amdgpu => amdgpu::wants(number),
            Driver::Asahi => asahi::wants(number),
        }
    }

    /// The buffer with a handle; a handle of unknown origin, such as an imported one, is a new buffer.
    pub(crate) fn handle(&mut self, handle: u32, next_bo: &mut u64) -> &mut Handle {
        self.handles.entry(handle).or_insert_with(|| {
            *next_bo += 1;
            Handle { bo: Bo(*next_bo), size: 0, offset: None }
        })
    }

    pub(crate) fn close_handle(&mut self, process: &dyn Process, handle: u32) {
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

    pub(crate) fn count(&mut self, submission: Submission, succeeded: bool) {
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
