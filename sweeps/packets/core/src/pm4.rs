//! Walking PM4, the command stream of AMD's command processor.
//!
//! Why a walk and not a search for opcodes: any word can look like a header. Only the lengths of all packets before
//! it say where the next one starts, so the walk steps from header to header and looks into a payload only where a
//! barrier puts something: the event of EVENT_WRITE, the cache control of ACQUIRE_MEM, RELEASE_MEM and SURFACE_SYNC.
//!
//! Where streams continue: INDIRECT_BUFFER either *calls* another buffer and comes back, or, with its chain bit,
//! *jumps* for good, which is how a driver grows a command buffer beyond one allocation.
//!
//! What is kept is raw: which bits a word has, not what they are called. The names depend on the chip's generation,
//! which a process may learn only after its first submission, so [`crate::report`] gives them at the end.
//!
//! Sources: the header (type in bits 30-31, count in 16-29, opcode in 8-15), the one-word NOP with count 0x3fff and
//! the fields of INDIRECT_BUFFER are those of Mesa's src/amd/common/sid.h; the two forms of ACQUIRE_MEM, those of
//! soc15d.h (seven words, CP_COHER_CNTL first) and nvd.h (eight words, GCR_CNTL last) in Linux's amdgpu; the pixel
//! wait sync (PWS) form of GFX11, that of Mesa's ac_cmdbuf_cp.c.

use crate::memory::{Budget, Memory, Reader};
use crate::names::opcode;

/// One indirect buffer: a stretch of PM4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ib {
    /// Its GPU virtual address, in bytes.
    pub va: u64,
    /// Its length in 32-bit words.
    pub dwords: u64,
}

/// The word by which an acquire or release names its caches, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// CP_COHER_CNTL: SURFACE_SYNC (GFX6, and graphics queues up to GFX8) and the seven-word ACQUIRE_MEM
    /// (up to GFX9).
    CpCoher(u32),
    /// GCR_CNTL: the eight-word ACQUIRE_MEM (GFX10 and later).
    Gcr(u32),
    /// The event word of RELEASE_MEM or EVENT_WRITE_EOP, from bit 12 on; its layout depends on the generation.
    Event(u32),
}

/// A packet that makes caches agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheOp {
    /// The packet's opcode.
    pub opcode: u8,
    /// For a release, the event that it waits for.
    pub event: Option<u8>,
    /// The caches.
    pub control: Control,
    /// GFX11 and later: it waits for, or signals, a pixel wait sync counter.
    pub pws: bool,
}

/// A count for each of N numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<const N: usize>(pub [u64; N]);

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Tally<N> {
    fn add(&mut self, other: &Self) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum += n;
        }
    }

    /// The numbers that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u64)> {
        self.0.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (i as u8, *n))
    }
}

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Buffers walked: submitted, called or chained to.
    pub buffers: u64,
    /// Of these, called by INDIRECT_BUFFER.
    pub called: u64,
    /// Of these, continued in by INDIRECT_BUFFER's chain bit.
    pub chained: u64,
    /// Words walked.
    pub dwords: u64,
    /// Packets of any type.
    pub packets: u64,
    /// Of these, in buffers that were called, at whatever depth.
    pub called_packets: u64,
    /// Type-3 packets, by opcode.
    pub opcodes: Tally<256>,
    /// EVENT_WRITE, by event.
    pub events: Tally<64>,
    /// Acquires and releases. Few sorts occur, so a list is faster than a map.
    pub cache_ops: Vec<(CacheOp, u64)>,
    /// Packets of type 0, which write registers.
    pub type0: u64,
    /// Packets of type 2, which pad.
    pub type2: u64,
    /// Packets of type 1, and type-3 opcodes that [`opcode`] does not know.
    pub unknown: u64,
    /// Buffers that end inside a packet.
    pub truncated: u64,
    /// Buffers of which some part could not be read.
    pub unreadable: u64,
    /// Walks given up for want of budget.
    pub limited: u64,
}

impl Counts {
    /// Adds another walk.
    pub fn add(&mut self, other: &Self) {
        self.buffers += other.buffers;
        self.called += other.called;
        self.chained += other.chained;
        self.dwords += other.dwords;
        self.packets += other.packets;
        self.called_packets += other.called_packets;
        self.type0 += other.type0;
        self.type2 += other.type2;
        self.unknown += other.unknown;
        self.truncated += other.truncated;
        self.unreadable += other.unreadable;
        self.limited += other.limited;
        self.opcodes.add(&other.opcodes);
        self.events.add(&other.events);
        for (op, n) in &other.cache_ops {
            self.count_op(*op, *n);
        }
    }

    /// How many type-3 packets have this opcode.
    pub fn of(&self, opcode: u8) -> u64 {
        self.opcodes.0[usize::from(opcode)]
    }

    fn count_op(&mut self, op: CacheOp, n: u64) {
        match self.cache_ops.iter_mut().find(|(known, _)| *known == op) {
            Some((_, count)) => *count += n,
            None => self.cache_ops.push((op, n)),
        }
    }
}

pub(crate) const NOP: u8 = 0x10;
pub(crate) const DISPATCH_DIRECT: u8 = 0x15;
pub(crate) const DISPATCH_INDIRECT: u8 = 0x16;
pub(crate) const INDIRECT_BUFFER_SI: u8 = 0x32;
pub(crate) const INDIRECT_BUFFER_CONST: u8 = 0x33;
pub(crate) const WAIT_REG_MEM: u8 = 0x3c;
pub(crate) const INDIRECT_BUFFER: u8 = 0x3f;
pub(crate) const PFP_SYNC_ME: u8 = 0x42;
pub(crate) const SURFACE_SYNC: u8 = 0x43;
pub(crate) const EVENT_WRITE: u8 = 0x46;
pub(crate) const EVENT_WRITE_EOP: u8 = 0x47;
pub(crate) const RELEASE_MEM: u8 = 0x49;
pub(crate) const ACQUIRE_MEM: u8 = 0x58;
pub(crate) const DISPATCH_DIRECT_INTERLEAVED: u8 = 0xa7;
pub(crate) const DISPATCH_INDIRECT_INTERLEAVED: u8 = 0xa8;
pub(crate) const CS_PARTIAL_FLUSH: u8 = 0x07;

const CHAIN: u32 = 1 << 20;
const SIZE: u32 = (1 << 20) - 1;
const HEADER_ONLY: u32 = 0x3fff;

struct Span {
    va: u64,
    left: u64,
}

/// Walks a submitted buffer and all that it calls or chains to.
///
/// Always ends: each packet takes at least one word and one unit of `budget`. Never fails: what can't be read or
/// decoded is counted as such.
pub fn walk(memory: &dyn Memory, start: Ib, budget: &mut Budget) -> Counts {
    let mut counts = Counts::default();
    let mut reader = Reader::new(memory);
    let mut spans = vec![Span { va: start.va, left: start.dwords }];
    counts.buffers = 1;
    while let Some(depth) = spans.len().checked_sub(1) {
        let span = &mut spans[depth];
        if span.left == 0 {
            spans.pop();
            continue;
        }
        if !budget.take() {
            counts.limited += 1;
            break;
        }
        let Some(header) = reader.word(span.va, span.left) else {
            counts.unreadable += 1;
            spans.pop();
            continue;
        };
        let length = length_of(header);
        counts.packets += 1;
        counts.called_packets += u64::from(depth > 0);
        if length > span.left {
            counts.truncated += 1;
            counts.dwords += span.left;
            spans.pop();
            continue;
        }
        counts.dwords += length;
        let packet = span.va;
        span.va = span.va.wrapping_add(length * 4);
        span.left -= length;
        match header >> 30 {
            0 => counts.type0 += 1,
            1 => counts.unknown += 1,
            2 => counts.type2 += 1,
            _ => {
                let mut payload = Payload { reader: &mut reader, packet, length, missing: false };
                let next = type3(&mut counts, header, &mut payload);
                if payload.missing {
                    counts.unreadable += 1;
                    spans.pop();
                } else if let Some((target, chained)) = next {
                    follow(&mut counts, &mut spans, target, chained, budget);
                }
            }
        }
    }
    counts
}

fn length_of(header: u32) -> u64 {
    let count = header >> 16 & 0x3fff;
    match header >> 30 {
        2 => 1,
        3 if count == HEADER_ONLY && (header >> 8) as u8 == NOP => 1,
        _ => u64::from(count) + 2,
    }
}

fn follow(counts: &mut Counts, spans: &mut Vec<Span>, target: Ib, chained: bool, budget: &Budget) {
    if chained {
        counts.chained += 1;
        spans.pop();
    } else {
        counts.called += 1;
        if spans.len() >= budget.depth {
            counts.limited += 1;
            return;
        }
    }
    counts.buffers += 1;
    spans.push(Span { va: target.va, left: target.dwords });
}

/// The words of one packet after its header.
struct Payload<'a, 'm> {
    reader: &'a mut Reader<'m>,
    packet: u64,
    length: u64,
    missing: bool,
}

impl Payload<'_, '_> {
    /// The word `index`, counted from the header as 0; None when the packet has no such word or it can't be read.
    fn get(&mut self, index: u64) -> Option<u32> {
        if index >= self.length {
            return None;
        }
        let word = self.reader.word(self.packet.wrapping_add(index * 4), self.length - index);
        self.missing |= word.is_none();
        word
    }
}

fn type3(counts: &mut Counts, header: u32, payload: &mut Payload) -> Option<(Ib, bool)> {
    let code = (header >> 8) as u8;
    counts.opcodes.0[usize::from(code)] += 1;
    if opcode(code).is_none() {
        counts.unknown += 1;
    }
    match code {
        EVENT_WRITE => {
            if let Some(word) = payload.get(1) {
                counts.events.0[(word & 0x3f) as usize] += 1;
            }
        }
        ACQUIRE_MEM | SURFACE_SYNC => {
            // GFX10 added GCR_CNTL at the end; nothing else distinguishes the forms.
            let (control, pws) = if code == ACQUIRE_MEM && payload.length >= 8 {
                let pws = payload.get(6).is_some_and(|word| word >> 31 == 1);
                (payload.get(7).map(Control::Gcr), pws)
            } else {
                (payload.get(1).map(Control::CpCoher), false)
            };
            record(counts, code, None, control, pws);
        }
        RELEASE_MEM | EVENT_WRITE_EOP => {
            let word = payload.get(1);
            let control = word.map(|word| Control::Event(word & !0xfff));
            // Bit 31 is unused before GFX11, where RELEASE_MEM signals a counter instead of writing memory.
            let pws = code == RELEASE_MEM && word.is_some_and(|word| word >> 31 == 1);
            record(counts, code, word.map(|word| (word & 0x3f) as u8), control, pws);
        }
        INDIRECT_BUFFER | INDIRECT_BUFFER_SI | INDIRECT_BUFFER_CONST => {
            let (low, high, control) = (payload.get(1)?, payload.get(2)?, payload.get(3)?);
            let va = u64::from(low & !3) | u64::from(high & 0xffff) << 32;
            return Some((Ib { va, dwords: u64::from(control & SIZE) }, control & CHAIN != 0));
        }
        _ => {}
    }
    None
}

fn record(counts: &mut Counts, opcode: u8, event: Option<u8>, control: Option<Control>, pws: bool) {
    if let Some(control) = control {
        counts.count_op(CacheOp { opcode, event, control, pws }, 1);
    }
}
