//! GPU memory made of words, and the text form of fixtures.
//!
//! `@ VA` starts a block; a line of hexadecimal words fills it; `#` begins a comment. `walk VA DWORDS` walks PM4,
//! `cdm VA GENERATION CLUSTERS` walks CDM; the lines after it say what must be counted, and everything else must be
//! zero.
#![allow(dead_code)]

pub mod process;

use std::collections::BTreeMap;
use zinc_packets_core::cdm::{self, Chip};
use zinc_packets_core::memory::{Budget, Memory};
use zinc_packets_core::names;
use zinc_packets_core::pm4::{self, Control, Ib};

/// Words at addresses; the rest is not there.
#[derive(Clone, Debug, Default)]
pub struct Words(pub BTreeMap<u64, u32>);

impl Words {
    pub fn put(&mut self, va: u64, words: &[u32]) {
        for (i, word) in words.iter().enumerate() {
            self.0.insert(va + i as u64 * 4, *word);
        }
    }
}

impl Memory for Words {
    fn read(&self, va: u64, out: &mut [u32]) -> usize {
        let mut n = 0;
        for slot in out {
            let Some(word) = self.0.get(&va.wrapping_add(n as u64 * 4)) else { break };
            *slot = *word;
            n += 1;
        }
        n
    }
}

/// The counts of a fixture by name, and what it expects.
pub fn run(text: &str) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let hex = |word: &str| u64::from_str_radix(word, 16).expect("a hexadecimal number");
    let mut memory = Words::default();
    let (mut at, mut found, mut expected) = (0, None, BTreeMap::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["@", va] => at = hex(va),
            ["walk", va, dwords] => {
                let ib = Ib { va: hex(va), dwords: dwords.parse().expect("a number") };
                found = Some(pm4_counts(&pm4::walk(&memory, ib, &mut Budget::default())));
            }
            ["cdm", va, generation, clusters] => {
                let chip = Chip {
                    generation: generation.parse().expect("a number"),
                    clusters: clusters.parse().expect("a number"),
                };
                found = Some(cdm_counts(&cdm::walk(&memory, hex(va), chip, &mut Budget::default())));
            }
            [key @ .., n] if found.is_some() => {
                expected.insert(key.join(" "), n.parse().expect("a number"));
            }
            words => {
                let words: Vec<u32> = words.iter().map(|word| hex(word) as u32).collect();
                memory.put(at, &words);
                at += words.len() as u64 * 4;
            }
        }
    }
    (found.expect("a line with walk or cdm"), expected)
}

fn pm4_counts(c: &pm4::Counts) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::from([
        ("packets".to_owned(), c.packets),
        ("dispatches".to_owned(), c.of(0x15) + c.of(0x16)),
        ("unknown".to_owned(), c.unknown),
        ("unreadable".to_owned(), c.unreadable),
        ("truncated".to_owned(), c.truncated),
        ("limited".to_owned(), c.limited),
    ]);
    if c.buffers > 1 {
        out.insert("buffers".to_owned(), c.buffers);
    }
    for (event, n) in c.events.iter() {
        out.insert(format!("event {}", names::event(event).unwrap_or("?")), n);
    }
    for (op, n) in &c.cache_ops {
        let (register, word) = match op.control {
            Control::CpCoher(word) => ("CP_COHER_CNTL", word),
            Control::Gcr(word) => ("GCR_CNTL", word),
            Control::Event(word) => ("EVENT", word),
        };
        out.insert(format!("cache {} {register} {word:x}", names::opcode(op.opcode).unwrap_or("?")), *n);
    }
    out.retain(|_, n| *n > 0);
    out
}

fn cdm_counts(c: &cdm::Counts) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::from([
        ("launches".to_owned(), c.launches()),
        ("links".to_owned(), c.links),
        ("calls".to_owned(), c.calls),
        ("returns".to_owned(), c.returns),
        ("terminates".to_owned(), c.terminates),
        ("unknown".to_owned(), c.unknown),
        ("unreadable".to_owned(), c.unreadable),
        ("limited".to_owned(), c.limited),
    ]);
    for (mask, n) in &c.barriers {
        out.insert(format!("barrier {mask:08x}"), *n);
    }
    out.retain(|_, n| *n > 0);
    out
}
