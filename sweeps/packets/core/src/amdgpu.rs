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
const MAX_CHUNKS: usize = 1024;

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
    let Some(ibs) = ib_chunks(process, chunks, list) else {
        return Submission { unreadable: true, ..Submission::default() };
    };
    let own = std::mem::take(&mut file.own);
    let memory = Seen::new(file, fd, 0, k::VA_MASK, maps, process, own);
    let mut budget = Budget::default();
    let mut queues: BTreeMap<QueueKey, QueueCounts> = BTreeMap::new();
    for ib in ibs.chunks_exact(k::CHUNK_IB_BYTES) {
        let (ip, instance, ring) = (u32_at(ib, 20), u32_at(ib, 24), u32_at(ib, 28));
        let counts = queues.entry(QueueKey::Amdgpu { context, ip, instance, ring }).or_default();
        if matches!(ip, k::IP_GFX | k::IP_COMPUTE) {
            let start = Ib { va: u64_at(ib, 8), dwords: u64::from(u32_at(ib, 16) / 4) };
            counts.pm4.add(&pm4::walk(&memory, start, &mut budget));
        } else {
            counts.other_buffers += 1;
        }
    }
    file.own = memory.into_own();
    let queues = queues.into_iter().map(|(key, counts)| (key, counts.one())).collect();
    Submission { queues, unreadable: false }
}

/// The data of all IB chunks, one after the other; None if anything on the way can't be read. Three steps of
/// indirection, each copied at once: the list of addresses, the chunks, their data.
fn ib_chunks(process: &dyn Process, chunks: u32, list: u64) -> Option<Vec<u8>> {
    let chunks = usize::try_from(chunks).ok().filter(|chunks| *chunks <= MAX_CHUNKS)?;
    let mut pointers = vec![0; chunks * 8];
    if !process.copy(list, &mut pointers) {
        return None;
    }
    let pointers: Vec<u64> = pointers.chunks_exact(8).map(|pointer| u64_at(pointer, 0)).collect();
    let mut heads = vec![0; chunks * k::CHUNK_BYTES];
    if !process.copy_all(&pointers, &mut heads) {
        return None;
    }
    let ibs = heads.chunks_exact(k::CHUNK_BYTES).filter(|chunk| u32_at(chunk, 0) == k::CHUNK_IB);
    let ibs: Vec<u64> = ibs.map(|chunk| u64_at(chunk, 8)).collect();
    let mut data = vec![0; ibs.len() * k::CHUNK_IB_BYTES];
    process.copy_all(&ibs, &mut data).then_some(data)
}
