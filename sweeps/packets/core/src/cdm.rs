//! Walking CDM, the control stream of the Apple GPU's compute data master.
//!
//! A stream has no length of its own: blocks follow each other until one ends it, and a block's type, in the top
//! three bits of its first word, says how long it is. So a block of an unknown type leaves the rest of its stream
//! unreadable; that is counted, and the walk of that stream ends there.
//!
//! A link jumps to another address, for good or (with its return bit) until a return. Honeykrisp links the streams
//! which application barriers had split, so links are what those barriers left.
//!
//! Sources: block types, modes and fields of Mesa's src/asahi/genxml/cmdbuf.xml; the two extra words of a launch on
//! chips of generation 14 with more than one cluster, agxdecode in src/asahi/lib and `agx_cdm_launch`.

use crate::memory::{Budget, Memory, Reader};
use std::collections::BTreeMap;

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Streams that were submitted.
    pub streams: u64,
    /// Words walked.
    pub dwords: u64,
    /// Launches whose size is in the stream.
    pub direct: u64,
    /// Launches whose grid is in memory.
    pub indirect_global: u64,
    /// Launches whose grid and workgroup size are in memory.
    pub indirect_local: u64,
    /// Barriers, by their mask: bits 0 to 28 of the block.
    pub barriers: BTreeMap<u32, u64>,
    /// Links without return.
    pub links: u64,
    /// Links with return.
    pub calls: u64,
    /// Returns.
    pub returns: u64,
    /// Ends of streams.
    pub terminates: u64,
    /// Blocks of a type or mode that is not known; the stream was left there.
    pub unknown: u64,
    /// Streams of which some part could not be read.
    pub unreadable: u64,
    /// Walks given up for want of budget.
    pub limited: u64,
}

impl Counts {
    /// Adds another walk.
    pub fn add(&mut self, other: &Self) {
        self.streams += other.streams;
        self.dwords += other.dwords;
        self.direct += other.direct;
        self.indirect_global += other.indirect_global;
        self.indirect_local += other.indirect_local;
        self.links += other.links;
        self.calls += other.calls;
        self.returns += other.returns;
        self.terminates += other.terminates;
        self.unknown += other.unknown;
        self.unreadable += other.unreadable;
        self.limited += other.limited;
        for (mask, n) in &other.barriers {
            *self.barriers.entry(*mask).or_default() += n;
        }
    }

    /// All launches.
    pub fn launches(&self) -> u64 {
        self.direct + self.indirect_global + self.indirect_local
    }

    /// All barriers.
    pub fn barriers(&self) -> u64 {
        self.barriers.values().sum()
    }
}

/// What of a chip decides how its streams are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chip {
    /// Generation: 13 for M1, 14 for M2.
    pub generation: u32,
    /// GPU clusters over all dies.
    pub clusters: u32,
}

impl Chip {
    /// Words between a launch's two first words and its sizes.
    fn extra_words(self) -> u64 {
        if self.generation >= 14 && self.clusters > 1 { 2 } else { 0 }
    }
}

const MASK: u32 = (1 << 29) - 1;
const RETURNS: u32 = 1 << 27;
const WITH_RETURN: u32 = 1 << 28;
const AHEAD: u64 = 256;

/// Walks one submitted stream and all that it links to. Always ends; never fails.
pub fn walk(memory: &dyn Memory, start: u64, chip: Chip, budget: &mut Budget) -> Counts {
    let mut counts = Counts { streams: 1, ..Counts::default() };
    let mut reader = Reader::new(memory);
    let mut at = start;
    let mut callers = Vec::new();
    loop {
        if !budget.take() {
            counts.limited += 1;
            return counts;
        }
        let Some(word) = reader.word(at, AHEAD) else {
            counts.unreadable += 1;
            return counts;
        };
        let (words, back) = match word >> 29 {
            // Zeroed memory reads as a launch of the program at address 0, and there is none.
            0 if word == 0 && reader.word(at.wrapping_add(4), AHEAD) == Some(0) => {
                counts.unknown += 1;
                return counts;
            }
            0 => {
                let rest = match word >> 27 & 3 {
                    0 => {
                        counts.direct += 1;
                        6
                    }
                    1 => {
                        counts.indirect_global += 1;
                        5
                    }
                    2 => {
                        counts.indirect_local += 1;
                        2
                    }
                    _ => {
                        counts.unknown += 1;
                        return counts;
                    }
                };
                (2 + chip.extra_words() + rest, false)
            }
            1 => {
                let Some(low) = reader.word(at.wrapping_add(4), 1) else {
                    counts.unreadable += 1;
                    return counts;
                };
                counts.dwords += 2;
                if word & WITH_RETURN == 0 {
                    counts.links += 1;
                } else {
                    counts.calls += 1;
                    if callers.len() >= budget.depth {
                        counts.limited += 1;
                        return counts;
                    }
                    callers.push(at.wrapping_add(8));
                }
                at = u64::from(word & 0xff) << 32 | u64::from(low);
                continue;
            }
            2 => {
                counts.terminates += 1;
                counts.dwords += 2;
                return counts;
            }
            3 => {
                *counts.barriers.entry(word & MASK).or_default() += 1;
                (1, word & RETURNS != 0)
            }
            4 => (2, true),
            _ => {
                counts.unknown += 1;
                return counts;
            }
        };
        counts.dwords += words;
        at = at.wrapping_add(words * 4);
        if back {
            counts.returns += 1;
            let Some(caller) = callers.pop() else { return counts };
            at = caller;
        }
    }
}
