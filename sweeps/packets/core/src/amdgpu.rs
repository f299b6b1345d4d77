//! amdgpu's calls: one VM a file, a submission of chunks, of which the IB chunks name buffers of packets.

use crate::file::{File, QueueCounts, QueueKey, Submission};
use crate::memory::Budget;
use crate::pm4::{self, Ib};
use crate::seen::Seen;
use crate::space::CpuMaps;
use crate::tracker::{Bind, Pending, Process, Step};
use crate::uapi::amdgpu as k;
use crate::uapi::{u32_at, u64_at};
use std::collections::BTreeMap;

/// More chunks than any kernel accepts for one submission.
const MAX_CHUNKS: u32 = 1024;

pub(crate) fn wants(number: u8) -> bool {
    matches!(number, k::GEM_CREATE | k::GEM_MMAP | k::CS | k::INFO | k::GEM_VA | k::USERQ)
}

pub(crate) fn before(
    file: &mut File,
    fd: i32,
    maps: &CpuMaps,
    process: &dyn Process,
    number: u8,
    bytes: &[u8],
) -> Pending {
    match number {
        k::GEM_CREATE => Step::Create { size: u64_at(bytes, 0), handle_at: 0 }.into(),
        k::GEM_MMAP => Step::Offset { handle: u32_at(bytes, 0), offset_at: 0 }.into(),
        k::GEM_VA => bind(bytes),
        k::INFO if u32_at(bytes, 12) == k::QUERY_HW_IP_INFO && u32_at(bytes, 16) == k::IP_GFX => {
            Step::Gfx { answer: u64_at(bytes, 0) }.into()
        }
        k::USERQ if u32_at(bytes, 0) == k::USERQ_CREATE => Step::UserQueue.into(),
        k::CS => Step::Submit(submission(file, fd, maps, process, bytes)).into(),
        _ => Pending::Nothing,
    }
}

fn bind(bytes: &[u8]) -> Pending {
    let (handle, operation) = (u32_at(bytes, 0), u32_at(bytes, 8));
    let to = match operation {
        // A mapping of no buffer at all reserves addresses for sparse residency.
        k::VA_MAP | k::VA_REPLACE if handle != 0 => Some((handle, u64_at(bytes, 24))),
        k::VA_MAP | k::VA_REPLACE | k::VA_UNMAP | k::VA_CLEAR => None,
        _ => return Pending::Nothing,
    };
    let op = Bind { va: u64_at(bytes, 16) & k::VA_MASK, len: u64_at(bytes, 32), to, repeated: false };
    Step::Binds { vm: 0, ops: vec![op] }.into()
}

fn submission(file: &mut File, fd: i32, maps: &CpuMaps, process: &dyn Process, bytes: &[u8]) -> Submission {
    let (context, chunks, list) = (u32_at(bytes, 0), u32_at(bytes, 8), u64_at(bytes, 16));
    let own = std::mem::take(&mut file.own);
    let memory = Seen::new(file, fd, 0, k::VA_MASK, maps, process, own);
    let mut budget = Budget::default();
    let mut queues: BTreeMap<QueueKey, QueueCounts> = BTreeMap::new();
    let mut unreadable = chunks > MAX_CHUNKS;
    for i in 0..chunks.min(MAX_CHUNKS) {
        let Some(ib) = ib_chunk(process, list.wrapping_add(u64::from(i) * 8)) else {
            unreadable = true;
            continue;
        };
        let Some(ib) = ib else { continue };
        let (ip, instance, ring) = (u32_at(&ib, 20), u32_at(&ib, 24), u32_at(&ib, 28));
        let counts = queues.entry(QueueKey::Amdgpu { context, ip, instance, ring }).or_default();
        if matches!(ip, k::IP_GFX | k::IP_COMPUTE) {
            let start = Ib { va: u64_at(&ib, 8), dwords: u64::from(u32_at(&ib, 16) / 4) };
            counts.pm4.add(&pm4::walk(&memory, start, &mut budget));
        } else {
            counts.other_buffers += 1;
        }
    }
    file.own = memory.into_own();
    Submission { queues: queues.into_iter().map(|(key, counts)| (key, counts.one())).collect(), unreadable }
}

/// The data of the chunk whose address is at `slot`, if it is an IB chunk; None if it can't be read.
fn ib_chunk(process: &dyn Process, slot: u64) -> Option<Option<[u8; k::CHUNK_IB_BYTES]>> {
    let mut pointer = [0; 8];
    let mut chunk = [0; k::CHUNK_BYTES];
    if !process.copy(slot, &mut pointer) || !process.copy(u64::from_le_bytes(pointer), &mut chunk) {
        return None;
    }
    if u32_at(&chunk, 0) != k::CHUNK_IB {
        return Some(None);
    }
    let mut data = [0; k::CHUNK_IB_BYTES];
    process.copy(u64_at(&chunk, 8), &mut data).then_some(Some(data))
}
