//! The document that comes out.
//!
//! `schema` changes when a field changes its meaning or goes away; a field that is added does not change it. All
//! numbers count what was *submitted*: a command buffer submitted twice counts twice, one that was only recorded does
//! not count, and a submission that the kernel refused does not either.
//!
//! Nothing here says that anything was executed. A packet under a predicate counts where it stands, and on a shim
//! nothing runs at all.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema's number.
pub const SCHEMA: u32 = 1;

/// What one process submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Whether calls came to the counter before they came to anything else that stands in for libc. If not, a shim
    /// loaded earlier may have swallowed them, and a missing device means nothing.
    pub interposed_first: bool,
    /// One for each open file of a device to which something was submitted.
    pub devices: Vec<Device>,
}

/// What was submitted through one open file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `amdgpu` or `asahi`.
    pub driver: String,
    /// The kernel driver's version, as it tells.
    pub kernel: String,
    /// amdgpu: the GFX level, 6 to 12. asahi: the GPU's generation, 13 and up. Null while unknown.
    pub generation: Option<u32>,
    /// Submissions that were accepted.
    pub submits: u64,
    /// Submissions that were refused or interrupted.
    pub failed_submits: u64,
    /// Of the accepted ones, those of which some part could not be read: their counts are too low.
    pub unreadable_submits: u64,
    /// amdgpu: queues whose submissions pass the kernel by, and this counter with it.
    pub user_queues: u64,
    /// Each queue that got something.
    pub queues: Vec<Queue>,
    /// The sum over the queues.
    pub total: Packets,
}

/// What was submitted to one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// amdgpu: `gfx`, `compute` or the number of another IP, with context, instance and ring. asahi: `queue` and its
    /// number.
    pub name: String,
    /// Submissions with something for this queue.
    pub submits: u64,
    /// What they held.
    pub packets: Packets,
}

/// Packets, of whichever kind the hardware has; the other is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// AMD's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pm4: Option<Pm4>,
    /// Apple's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdm: Option<Cdm>,
    /// amdgpu: buffers for engines that don't read PM4 (copy, video); not walked.
    pub other_buffers: u64,
}

/// Packets of AMD's command processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pm4 {
    /// Buffers walked: submitted, called or chained to.
    pub buffers: u64,
    /// Of these, called by INDIRECT_BUFFER.
    pub called: u64,
    /// Of these, entered by INDIRECT_BUFFER's chain bit.
    pub chained: u64,
    /// 32-bit words walked.
    pub dwords: u64,
    /// Packets of any type.
    pub packets: u64,
    /// Of these, in called buffers, which RADV's own dump does not show.
    pub called_packets: u64,
    /// DISPATCH_DIRECT and its interleaved form.
    pub dispatches: u64,
    /// DISPATCH_INDIRECT and its interleaved form.
    pub dispatches_indirect: u64,
    /// EVENT_WRITE with CS_PARTIAL_FLUSH: wait until all compute work so far is done.
    pub cs_partial_flushes: u64,
    /// ACQUIRE_MEM, and SURFACE_SYNC, which RADV uses up to GFX8.
    pub acquires: u64,
    /// RELEASE_MEM and EVENT_WRITE_EOP.
    pub releases: u64,
    /// PFP_SYNC_ME: the prefetcher waits for the micro engine.
    pub pfp_sync_me: u64,
    /// WAIT_REG_MEM: wait for a value in a register or in memory.
    pub wait_reg_mem: u64,
    /// EVENT_WRITE by event.
    pub events: BTreeMap<String, u64>,
    /// Acquires and releases by what they ask.
    pub cache_ops: Vec<CacheOp>,
    /// Type-3 packets by name; an unknown opcode is `0x` and its number.
    pub by_name: BTreeMap<String, u64>,
    /// Packets of type 0.
    pub type0: u64,
    /// Packets of type 2.
    pub type2: u64,
    /// Packets of type 1 or with an unknown opcode.
    pub unknown: u64,
    /// Buffers that end inside a packet.
    pub truncated: u64,
    /// Buffers of which some part could not be read.
    pub unreadable: u64,
    /// Walks given up after a bound on packets or nesting.
    pub limited: u64,
}

/// One sort of acquire or release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheOp {
    /// The packet.
    pub packet: String,
    /// A release's event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// `CP_COHER_CNTL`, `GCR_CNTL`, or `EVENT` for the upper bits of a release's event word.
    pub register: String,
    /// Its value, hexadecimal.
    pub value: String,
    /// The names of its fields that are not zero; empty for a release on a chip whose generation is unknown.
    pub bits: Vec<String>,
    /// With a pixel wait sync counter (GFX11 and later).
    pub pws: bool,
    /// How many.
    pub count: u64,
}

/// Blocks of Apple's compute data master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cdm {
    /// Compute commands, each with a stream of its own.
    pub streams: u64,
    /// Of these, those that wait for earlier compute commands.
    pub waiting_streams: u64,
    /// Render commands; their streams are not walked.
    pub renders: u64,
    /// 32-bit words walked.
    pub dwords: u64,
    /// Launches of any mode.
    pub launches: u64,
    /// Of these, with the grid in memory.
    pub launches_indirect_global: u64,
    /// Of these, with grid and workgroup size in memory.
    pub launches_indirect_local: u64,
    /// Barriers.
    pub barriers: u64,
    /// Barriers by what they ask.
    pub barrier_masks: Vec<BarrierMask>,
    /// Links without return: streams that the driver merged.
    pub links: u64,
    /// Links with return.
    pub calls: u64,
    /// Returns.
    pub returns: u64,
    /// Ends of streams.
    pub terminates: u64,
    /// Blocks of an unknown kind, at which their stream was left.
    pub unknown: u64,
    /// Streams of which some part could not be read.
    pub unreadable: u64,
    /// Walks given up after a bound on blocks or nesting.
    pub limited: u64,
}

/// One sort of CDM barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierMask {
    /// Bits 0 to 28, hexadecimal.
    pub mask: String,
    /// Their names; most have none yet and are `BIT_N`.
    pub bits: Vec<String>,
    /// How many.
    pub count: u64,
}
