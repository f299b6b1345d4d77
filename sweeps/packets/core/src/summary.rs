//! From counts to the report: where raw words get their names, now that the generation is known.

use crate::file::{File, QueueCounts, QueueKey};
use crate::names::{self, fields};
use crate::pm4::{self, Control};
use crate::report::{BarrierMask, CacheOp, Cdm, Device, Packets, Pm4, Queue};
use crate::tracker::Driver;
use crate::uapi::amdgpu::{IP_COMPUTE, IP_GFX};

pub(crate) fn device(file: &File) -> Device {
    let amd = file.driver == Driver::Amdgpu;
    let (major, minor, patch) = file.version;
    let mut total = QueueCounts::default();
    let mut queues = Vec::new();
    for (key, counts) in &file.counts.queues {
        total.add(counts);
        queues.push(Queue { name: name(*key), submits: counts.submits, packets: packets(counts, file) });
    }
    Device {
        driver: if amd { "amdgpu" } else { "asahi" }.to_owned(),
        kernel: format!("{major}.{minor}.{patch}"),
        generation: if amd { file.gfx } else { (file.chip.generation > 0).then_some(file.chip.generation) },
        submits: file.counts.submits,
        failed_submits: file.counts.failed_submits,
        unreadable_submits: file.counts.unreadable_submits,
        user_queues: file.counts.user_queues,
        total: packets(&total, file),
        queues,
    }
}

fn name(key: QueueKey) -> String {
    match key {
        QueueKey::Amdgpu { context, ip, instance, ring } => {
            let ip = match ip {
                IP_GFX => "gfx".to_owned(),
                IP_COMPUTE => "compute".to_owned(),
                ip => format!("ip {ip}"),
            };
            format!("{ip} context {context} instance {instance} ring {ring}")
        }
        QueueKey::Asahi { queue } => format!("queue {queue}"),
    }
}

fn packets(counts: &QueueCounts, file: &File) -> Packets {
    let amd = file.driver == Driver::Amdgpu;
    Packets {
        pm4: amd.then(|| pm4(&counts.pm4, file.gfx)),
        cdm: (!amd).then(|| cdm(counts)),
        other_buffers: counts.other_buffers,
    }
}

fn pm4(c: &pm4::Counts, gfx: Option<u32>) -> Pm4 {
    let named = |name: Option<&str>, code: u8| name.map_or_else(|| format!("{code:#04x}"), str::to_owned);
    Pm4 {
        buffers: c.buffers,
        called: c.called,
        chained: c.chained,
        dwords: c.dwords,
        packets: c.packets,
        called_packets: c.called_packets,
        dispatches: c.of(pm4::DISPATCH_DIRECT) + c.of(pm4::DISPATCH_DIRECT_INTERLEAVED),
        dispatches_indirect: c.of(pm4::DISPATCH_INDIRECT) + c.of(pm4::DISPATCH_INDIRECT_INTERLEAVED),
        cs_partial_flushes: c.events.0[usize::from(pm4::CS_PARTIAL_FLUSH)],
        acquires: c.of(pm4::ACQUIRE_MEM) + c.of(pm4::SURFACE_SYNC),
        releases: c.of(pm4::RELEASE_MEM) + c.of(pm4::EVENT_WRITE_EOP),
        pfp_sync_me: c.of(pm4::PFP_SYNC_ME),
        wait_reg_mem: c.of(pm4::WAIT_REG_MEM),
        events: c.events.iter().map(|(code, n)| (named(names::event(code), code), n)).collect(),
        cache_ops: cache_ops(&c.cache_ops, gfx),
        by_name: c.opcodes.iter().map(|(code, n)| (named(names::opcode(code), code), n)).collect(),
        type0: c.type0,
        type2: c.type2,
        unknown: c.unknown,
        truncated: c.truncated,
        unreadable: c.unreadable,
        limited: c.limited,
    }
}

fn cache_ops(ops: &[(pm4::CacheOp, u64)], gfx: Option<u32>) -> Vec<CacheOp> {
    let mut ops = ops.to_vec();
    ops.sort();
    ops.iter().map(|(op, n)| cache_op(op, *n, gfx)).collect()
}

fn cache_op(op: &pm4::CacheOp, count: u64, gfx: Option<u32>) -> CacheOp {
    let (register, value, bits) = match (op.control, gfx) {
        (Control::CpCoher(word), _) => ("CP_COHER_CNTL", word, fields(word, names::CP_COHER_CNTL)),
        (Control::Gcr(word), _) => ("GCR_CNTL", word, fields(word, names::GCR_CNTL)),
        (Control::Event(word), Some(gfx)) if gfx >= 10 => ("EVENT", word, fields(word, names::RELEASE_GCR)),
        (Control::Event(word), Some(_)) => ("EVENT", word, fields(word, names::RELEASE_EOP)),
        (Control::Event(word), None) => ("EVENT", word, Vec::new()),
    };
    CacheOp {
        packet: names::opcode(op.opcode).unwrap_or_default().to_owned(),
        event: op.event.map(|code| names::event(code).map_or_else(|| format!("{code:#04x}"), str::to_owned)),
        register: register.to_owned(),
        value: format!("{value:#x}"),
        bits,
        pws: op.pws,
        count,
    }
}

fn cdm(counts: &QueueCounts) -> Cdm {
    let c = &counts.cdm;
    Cdm {
        streams: counts.computes,
        waiting_streams: counts.waiting_computes,
        renders: counts.renders,
        dwords: c.dwords,
        launches: c.launches(),
        launches_indirect_global: c.indirect_global,
        launches_indirect_local: c.indirect_local,
        barriers: c.barriers(),
        barrier_masks: c
            .barriers
            .iter()
            .map(|(mask, count)| BarrierMask {
                mask: format!("{mask:#010x}"),
                bits: fields(*mask, names::CDM_BARRIER),
                count: *count,
            })
            .collect(),
        links: c.links,
        calls: c.calls,
        returns: c.returns,
        terminates: c.terminates,
        unknown: c.unknown,
        unreadable: c.unreadable,
        limited: c.limited,
    }
}
