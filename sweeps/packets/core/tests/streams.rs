//! Streams of known content, and streams of any content.

mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use support::Words;
use zinc_packets_core::cdm::{self, Chip};
use zinc_packets_core::memory::Budget;
use zinc_packets_core::pm4::{self, Ib};

#[test]
fn each_fixture_counts_exactly_what_it_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the fixtures") {
        let path = entry.expect("an entry").path();
        let (found, expected) = support::run(&std::fs::read_to_string(&path).expect("a text"));
        assert_eq!(found, expected, "{}", path.display());
        assert!(!expected.is_empty(), "{} expects nothing", path.display());
        seen += 1;
    }
    assert!(seen >= 6, "fixtures are missing");
}

#[test]
fn a_chain_to_itself_ends_at_the_budget_and_says_so() {
    let mut memory = Words::default();
    memory.put(0x1000, &[0xc002_3f00, 0x1000, 0, 4 | 1 << 20]);
    let counts = pm4::walk(&memory, Ib { va: 0x1000, dwords: 4 }, &mut Budget { packets: 1000, depth: 8 });
    assert_eq!((counts.packets, counts.limited), (1000, 1));
}

#[test]
fn a_buffer_that_calls_itself_ends_at_the_depth_and_says_so() {
    let mut memory = Words::default();
    memory.put(0x1000, &[0xc002_3f00, 0x1000, 0, 4]);
    let counts = pm4::walk(&memory, Ib { va: 0x1000, dwords: 4 }, &mut Budget::default());
    assert_eq!((counts.packets, counts.limited), (8, 1));
}

#[test]
fn a_cdm_stream_that_links_to_itself_ends_at_the_budget() {
    let mut memory = Words::default();
    memory.put(0x1000, &[0x2000_0000, 0x1000]);
    let counts = cdm::walk(&memory, 0x1000, Chip::default(), &mut Budget { packets: 50, depth: 8 });
    assert_eq!((counts.links, counts.limited), (50, 1));
}

#[test]
fn zeroed_memory_is_not_a_stream_of_launches() {
    let mut memory = Words::default();
    memory.put(0x1000, &[0; 64]);
    let counts = cdm::walk(&memory, 0x1000, Chip::default(), &mut Budget::default());
    assert_eq!((counts.launches(), counts.unknown), (0, 1));
}

#[test]
fn the_budget_is_shared_by_the_streams_of_one_submission() {
    let mut memory = Words::default();
    memory.put(0x1000, &[0x8000_0000; 64]);
    let mut budget = Budget { packets: 100, depth: 8 };
    let ib = Ib { va: 0x1000, dwords: 64 };
    assert_eq!(pm4::walk(&memory, ib, &mut budget).packets, 64);
    let second = pm4::walk(&memory, ib, &mut budget);
    assert_eq!((second.packets, second.limited), (36, 1));
}

/// A packet to plant: its opcode, its payload words.
fn packet() -> impl Strategy<Value = (u8, Vec<u32>)> {
    // No INDIRECT_BUFFER: the planted stream stays in one piece. No NOP of 0x3fff: it would be one word.
    let opcode = any::<u8>().prop_filter("leads elsewhere", |code| ![0x32, 0x33, 0x3f].contains(code));
    (opcode, prop::collection::vec(any::<u32>(), 1..20))
}

fn encode(packets: &[(u8, Vec<u32>)]) -> Vec<u32> {
    let mut words = Vec::new();
    for (opcode, payload) in packets {
        words.push(3 << 30 | (payload.len() as u32 - 1) << 16 | u32::from(*opcode) << 8);
        words.extend(payload);
    }
    words
}

proptest! {
    #[test]
    fn what_was_planted_is_counted(packets in prop::collection::vec(packet(), 0..200)) {
        let words = encode(&packets);
        let mut memory = Words::default();
        memory.put(0x8000, &words);
        let dwords = words.len() as u64;
        let counts = pm4::walk(&memory, Ib { va: 0x8000, dwords }, &mut Budget::default());
        let (mut opcodes, mut events) = (BTreeMap::new(), BTreeMap::new());
        for (opcode, payload) in &packets {
            *opcodes.entry(*opcode).or_insert(0u64) += 1;
            if *opcode == 0x46 {
                *events.entry((payload[0] & 0x3f) as u8).or_insert(0u64) += 1;
            }
        }
        prop_assert_eq!(counts.opcodes.iter().collect::<BTreeMap<_, _>>(), opcodes);
        prop_assert_eq!(counts.events.iter().collect::<BTreeMap<_, _>>(), events);
        prop_assert_eq!((counts.packets, counts.dwords), (packets.len() as u64, dwords));
        prop_assert_eq!((counts.truncated, counts.unreadable, counts.limited), (0, 0, 0));
    }

    #[test]
    fn a_mutated_stream_is_walked_to_an_end_and_never_beyond_its_memory(
        packets in prop::collection::vec(packet(), 1..60),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 0..30),
        holes in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        links in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u32>()), 0..6),
        extra in 0u64..100,
    ) {
        let mut words = encode(&packets);
        let len = words.len();
        for (at, word) in mutations {
            words[at.index(len)] = word;
        }
        for (at, to, control) in links {
            let at = at.index(len);
            let link = [0xc002_3f00, 0x8000 + to.index(len) as u32 * 4, 0, control];
            for (slot, word) in words[at..].iter_mut().zip(link) {
                *slot = word;
            }
        }
        let mut memory = Words::default();
        memory.put(0x8000, &words);
        for at in holes {
            memory.0.remove(&(0x8000 + at.index(len) as u64 * 4));
        }
        let limit = 5000;
        let ib = Ib { va: 0x8000, dwords: len as u64 + extra };
        let counts = pm4::walk(&memory, ib, &mut Budget { packets: limit, depth: 4 });
        prop_assert!(counts.packets <= limit);
        let type3: u64 = counts.opcodes.iter().map(|(_, n)| n).sum();
        prop_assert!(type3 + counts.type0 + counts.type2 <= counts.packets);
        let chip = Chip { generation: 13 + (extra % 2) as u32, clusters: 2 };
        let cdm = cdm::walk(&memory, 0x8000, chip, &mut Budget { packets: limit, depth: 4 });
        prop_assert!(cdm.launches() + cdm.barriers() + cdm.links + cdm.calls <= limit);
        prop_assert!(cdm.unknown + cdm.unreadable + cdm.limited + cdm.terminates + cdm.returns > 0);
    }
}
