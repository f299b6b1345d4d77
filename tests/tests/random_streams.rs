//! Streams that nobody thought of: random operations on random parts of memory, with every barrier that they need
//! and some that they don't.
//!
//! The generator keeps track of what conflicts by looking at bytes, which is all that it shares with the layer. A
//! failing stream is printed and can be played by hand.

use zinc_tests::Stream;

/// Streams, and operations in each.
const STREAMS: u64 = 16;
const OPERATIONS: usize = 40;

/// Everything to everything, in words of several kinds, so that chains and joins of unlike scopes are exercised.
const BARRIERS: [&str; 4] = [
    "barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write",
    "barrier compute_shader+all_transfer+draw_indirect/memory_read+memory_write -> \
     compute_shader+all_transfer+draw_indirect/memory_read+memory_write",
    "barrier2 compute_shader+all_transfer/memory_write -> compute_shader+all_transfer/memory_read+memory_write",
    "barrier2 compute_shader+copy+clear/shader_storage_write+shader_storage_read+transfer_write+transfer_read -> \
     compute_shader+copy+clear/shader_storage_write+shader_storage_read+transfer_write+transfer_read",
];

/// A generator of numbers (splitmix64): the same streams on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % bound as u64) as usize
    }
}

/// One of four parts of one of three buffers.
type Place = (usize, usize);

fn part((buffer, quarter): Place) -> String {
    format!("{}[{}:256]", ["a", "b", "c"][buffer], quarter * 256)
}

/// An operation, what it reads and what it writes.
fn operation(random: &mut Random) -> (String, Vec<Place>, Vec<Place>) {
    let mut place = || (random.below(3), random.below(4));
    let (x, mut y, mut z) = (place(), place(), place());
    // An operation must not race with itself.
    while y == x {
        y = place();
    }
    while z == x || z == y {
        z = place();
    }
    let k = random.below(9);
    match random.below(7) {
        0 => (format!("dispatch write {} k {k}", part(x)), vec![], vec![x]),
        1 | 2 => (format!("dispatch step {} {} k {k}", part(x), part(y)), vec![x], vec![y]),
        3 => (format!("dispatch add {} {} {}", part(x), part(y), part(z)), vec![x, y], vec![z]),
        4 => (format!("dispatch scale {} k {k}", part(x)), vec![x], vec![x]),
        5 => (format!("copy {} {}", part(x), part(y)), vec![x], vec![y]),
        _ => (format!("fill {} {k}", part(x)), vec![], vec![x]),
    }
}

fn stream(seed: u64) -> Stream {
    let mut random = Random(seed);
    let mut text = String::from("buffer a 1024\nbuffer b 1024\nbuffer c 1024\n");
    text += "data a iota\ndata b words 3 1 4 1 5\ndata c words 2 7 1\nbegin x\n";
    let (mut read, mut written): (Vec<Place>, Vec<Place>) = (vec![], vec![]);
    for _ in 0..OPERATIONS {
        let (operation, reads, writes) = operation(&mut random);
        let hits = |places: &[Place], others: &[Place]| places.iter().any(|place| others.contains(place));
        let conflict = hits(&reads, &written) || hits(&writes, &read) || hits(&writes, &written);
        if conflict || random.below(2) == 0 {
            text += &format!("{}\n", BARRIERS[random.below(BARRIERS.len())]);
            (read, written) = (vec![], vec![]);
        }
        // A second command buffer here and there: nothing may get lost between two.
        if random.below(12) == 0 {
            text += &format!("end\nsubmit x\nwait\nbegin x\n{}\n", BARRIERS[0]);
            (read, written) = (vec![], vec![]);
        }
        text += &format!("{operation}\n");
        read.extend(reads);
        written.extend(writes);
    }
    Stream::new(text + "end\nsubmit x\nwait\n")
}

#[test]
fn memory_ends_the_same_in_every_permitted_order() {
    let (mut asked, mut elided, mut caught) = (0, 0, 0);
    for seed in 0..STREAMS {
        let stream = stream(seed);
        let truth = stream.bare().digest;
        let plain = stream.under("alias-only");
        assert_eq!(plain.digest, truth, "seed {seed}, in order:\n{}", stream.text());
        for shuffle in ["reverse", "1", "2"] {
            let digest = stream.shuffled("alias-only", shuffle).digest;
            assert_eq!(digest, truth, "seed {seed}, shuffle={shuffle}:\n{}", stream.text());
        }
        for (policy, shuffle) in
            [("narrow", "reverse"), ("narrow", "2"), ("reorder", "off"), ("reorder", "reverse")]
        {
            let played = stream.shuffled(policy, shuffle);
            assert_eq!(played.digest, truth, "seed {seed}, {policy}, shuffle={shuffle}:\n{}", stream.text());
            let (few, most) = (played.totals().barriers_emitted, plain.totals().barriers_emitted);
            assert!(few <= most, "seed {seed}: {policy} emits {few}, alias-only {most}:\n{}", stream.text());
        }
        let policy = ["alias-only", "narrow", "reorder"][seed as usize % 3];
        let played = stream
            .with(|l| l.policy(policy).set("DELAY", "1").set("SLICE", "1").set("SHUFFLE", seed.to_string()));
        assert_eq!(played.digest, truth, "seed {seed}, {policy}, delay and slice:\n{}", stream.text());
        asked += plain.totals().barriers_asked;
        elided += plain.totals().barriers_elided;
        caught += u32::from(stream.shuffled("none", "reverse").digest != truth);
    }
    println!("{STREAMS} streams of {OPERATIONS} operations: {elided} of {asked} barriers elided");
    assert!(elided > asked / 10, "barriers that nothing needs are kept: only {elided} of {asked} are elided");
    assert!(
        u64::from(caught) > STREAMS * 3 / 4,
        "only {caught} of {STREAMS} streams notice that no barrier is left"
    );
}
