//! asahi's calls: VMs with arrays of bindings, queues in VMs, and a submission as a flat buffer of commands, each of
//! which starts one control stream.
//!
//! Only compute streams are walked. Render commands are counted and left alone: their streams are of another kind.

use crate::cdm;
use crate::file::{File, QueueCounts, QueueKey, Submission};
use crate::memory::Budget;
use crate::seen::Seen;
use crate::space::CpuMaps;
use crate::tracker::{Bind, Pending, Process, Step};
use crate::uapi::asahi as k;
use crate::uapi::{u16_at, u32_at, u64_at};
use std::collections::BTreeMap;

/// More than any driver passes at once; a bound for what is copied.
const MAX_BINDS: u32 = 1 << 16;
const MAX_STRIDE: u32 = 1 << 8;
const MAX_COMMANDS: u32 = 1 << 20;

pub(crate) fn wants(number: u8) -> bool {
    matches!(
        number,
        k::GET_PARAMS | k::VM_BIND | k::GEM_CREATE | k::GEM_MMAP_OFFSET | k::QUEUE_CREATE | k::SUBMIT
    )
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
        k::GET_PARAMS if u32_at(bytes, 0) == 0 => Step::Params { answer: u64_at(bytes, 8) }.into(),
        k::GEM_CREATE => Step::Create { size: u64_at(bytes, 0), handle_at: 16 }.into(),
        k::GEM_MMAP_OFFSET => Step::Offset { handle: u32_at(bytes, 0), offset_at: 8 }.into(),
        k::QUEUE_CREATE => Step::Queue { vm: u32_at(bytes, 4) }.into(),
        k::VM_BIND => bind(process, bytes),
        k::SUBMIT => Step::Submit(submission(file, fd, maps, process, bytes)).into(),
        _ => Pending::Nothing,
    }
}

fn bind(process: &dyn Process, bytes: &[u8]) -> Pending {
    let (vm, count, stride, list) = (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 8), u64_at(bytes, 16));
    if count > MAX_BINDS || stride > MAX_STRIDE {
        return Pending::Nothing;
    }
    let mut ops = Vec::new();
    let mut bytes = vec![0; count as usize * stride as usize];
    if !process.copy(list, &mut bytes) {
        return Pending::Nothing;
    }
    // A stride of 0 means no bindings, since they would all be the same empty one.
    for op in bytes.chunks_exact((stride as usize).max(1)) {
        let flags = u32_at(op, 0);
        let to = (flags & k::BIND_UNBIND == 0).then(|| (u32_at(op, 4), u64_at(op, 8)));
        ops.push(Bind {
            va: u64_at(op, 24),
            len: u64_at(op, 16),
            to,
            repeated: flags & k::BIND_SINGLE_PAGE != 0,
        });
    }
    Step::Binds { vm, ops }.into()
}

fn submission(file: &mut File, fd: i32, maps: &CpuMaps, process: &dyn Process, bytes: &[u8]) -> Submission {
    let (list, queue, size) = (u64_at(bytes, 8), u32_at(bytes, 20), u32_at(bytes, 32));
    let mut counts = QueueCounts::default();
    let mut commands = vec![0; size.min(MAX_COMMANDS) as usize];
    let unreadable = size > MAX_COMMANDS || !process.copy(list, &mut commands);
    if !unreadable {
        let vm = file.queues.get(&queue).copied().unwrap_or(0);
        let own = std::mem::take(&mut file.own);
        let memory = Seen::new(file, fd, vm, u64::MAX, maps, process, own);
        let mut budget = Budget::default();
        let mut rest = commands.as_slice();
        while rest.len() >= k::HEADER_BYTES {
            let (kind, size, waits) = (u16_at(rest, 0), usize::from(u16_at(rest, 2)), u16_at(rest, 6));
            let payload = &rest[k::HEADER_BYTES..];
            let payload = &payload[..size.min(payload.len())];
            match kind {
                k::CMD_COMPUTE => {
                    counts.computes += 1;
                    counts.waiting_computes += u64::from(waits != k::BARRIER_NONE);
                    counts.cdm.add(&cdm::walk(&memory, u64_at(payload, 8), file.chip, &mut budget));
                }
                k::CMD_RENDER => counts.renders += 1,
                _ => {}
            }
            rest = &rest[(k::HEADER_BYTES + size).min(rest.len())..];
        }
        file.own = memory.into_own();
    }
    Submission { queues: BTreeMap::from([(QueueKey::Asahi { queue }, counts.one())]), unreadable }
}
