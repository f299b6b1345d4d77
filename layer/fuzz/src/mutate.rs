//! Damage to SPIR-V modules.
//!
//! Random words are refused at the first instruction and reach nothing. So most damage keeps a module's framing: it
//! changes what an instruction says, or which instructions there are, and leaves the lengths right.

use fastrand::Rng;

const HEADER: usize = 5;

/// Where each instruction begins, as far as the lengths can be followed.
fn starts(words: &[u32]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = HEADER;
    while at < words.len() {
        starts.push(at);
        let length = (words[at] >> 16) as usize;
        if length == 0 {
            break;
        }
        at += length;
    }
    starts
}

/// A value that arithmetic dislikes, or a small one, which most ids are.
fn value(rng: &mut Rng, bound: u32) -> u32 {
    match rng.u32(0..10) {
        0 => rng.u32(..),
        1 => [0, 1, u32::MAX, i32::MAX as u32, i32::MIN as u32, 1 << 16, 64, 0xffff_fff0][rng.usize(0..8)],
        2 => 1 << rng.u32(0..32),
        3 => rng.u32(0..8),
        _ => rng.u32(0..bound.clamp(1, 1 << 20)),
    }
}

/// Changes one thing. `donor` is another module, whose instructions may be put in.
fn once(words: &mut Vec<u32>, donor: &[u32], rng: &mut Rng) {
    let starts = starts(words);
    if starts.is_empty() {
        return;
    }
    let bound = words[3];
    let at = starts[rng.usize(0..starts.len())];
    let length = ((words[at] >> 16) as usize).clamp(1, words.len() - at);
    match rng.u32(0..16) {
        // An operand.
        0..=7 if length > 1 => words[at + rng.usize(1..length)] = value(rng, bound),
        // An operand's bit.
        8 if length > 1 => words[at + rng.usize(1..length)] ^= 1 << rng.u32(0..32),
        // The instruction, its operands kept.
        9 => words[at] = (words[at] & 0xffff_0000) | rng.u32(0..450),
        // Away with it.
        10 => drop(words.drain(at..at + length)),
        // Once more, here or elsewhere.
        11 => {
            let copy = words[at..at + length].to_vec();
            let to = starts[rng.usize(0..starts.len())];
            words.splice(to..to, copy);
        }
        // Another module's.
        12 => {
            let theirs = self::starts(donor);
            if !theirs.is_empty() {
                let from = theirs[rng.usize(0..theirs.len())];
                let end = (from + ((donor[from] >> 16) as usize).max(1)).min(donor.len());
                words.splice(at..at, donor[from..end].iter().copied());
            }
        }
        // Its length.
        13 => words[at] = (words[at] & 0xffff) | rng.u32(0..20) << 16,
        // The module's end.
        14 => words.truncate(rng.usize(0..=words.len())),
        // Any word, the header's too.
        _ => {
            let any = rng.usize(0..words.len());
            words[any] = value(rng, bound);
        }
    }
}

/// Damages a module in one to eight places.
pub fn mutate(words: &mut Vec<u32>, donor: &[u32], rng: &mut Rng) {
    for _ in 0..1 + rng.u32(0..3) * rng.u32(0..4) {
        if words.len() > HEADER {
            once(words, donor, rng);
        }
    }
}
