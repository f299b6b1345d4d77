//! Reading GPU memory a few words at a time, without asking for each word.
//!
//! On a real GPU a driver maps command buffers write-combined: the CPU does not cache what it reads there, and each
//! load is a trip to memory, or over the bus. Whoever walks a stream must therefore never read a word twice. A
//! `Reader` copies a run of words once and serves the walk from it; one that follows a jump starts a new run. Runs
//! start short and grow while the walk goes straight on: a stream of links is read in pieces, not in pages.
//!
//! The [`Budget`] is what bounds a walk over a stream that links to itself, by accident or by design.

/// The GPU's view of memory.
pub trait Memory {
    /// Copies 32-bit words from the GPU virtual address `va` on into `out`; the number of words copied. Fewer than
    /// asked, down to none, where the memory behind `va` is not bound or not readable for the CPU.
    fn read(&self, va: u64, out: &mut [u32]) -> usize;
}

/// What is left for the walk of one submission, over all its streams.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Packets that may still be decoded.
    pub packets: u64,
    /// Streams that may be suspended at once, each waiting for one that it called.
    pub depth: usize,
}

impl Default for Budget {
    /// Eight million packets are hundreds of times what a heavy frame submits, and still end within a second.
    fn default() -> Self {
        Self { packets: 8 << 20, depth: 8 }
    }
}

impl Budget {
    /// Takes one packet; false when none is left.
    pub(crate) fn take(&mut self) -> bool {
        if self.packets == 0 {
            return false;
        }
        self.packets -= 1;
        true
    }
}

const FIRST_RUN: usize = 16;
const RUN: usize = 512;

/// A window of copied words that moves along a stream.
pub(crate) struct Reader<'a> {
    memory: &'a dyn Memory,
    words: [u32; RUN],
    start: u64,
    held: usize,
    run: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(memory: &'a dyn Memory) -> Self {
        Self { memory, words: [0; RUN], start: 0, held: 0, run: FIRST_RUN }
    }

    /// The word at `va`; `ahead` words from there on may be copied at once, no more. None where nothing is readable.
    pub(crate) fn word(&mut self, va: u64, ahead: u64) -> Option<u32> {
        let distance = va.wrapping_sub(self.start);
        let index = usize::try_from(distance / 4).unwrap_or(usize::MAX);
        if distance.is_multiple_of(4) && index < self.held {
            return Some(self.words[index]);
        }
        let straight_on = self.held > 0 && index >= self.held && index <= self.held + RUN;
        self.run = if straight_on { (self.run * 4).min(RUN) } else { FIRST_RUN };
        let run = usize::try_from(ahead).unwrap_or(RUN).clamp(1, self.run);
        self.held = self.memory.read(va, &mut self.words[..run]).min(run);
        self.start = va;
        (self.held > 0).then(|| self.words[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counting(Cell<usize>);
    impl Memory for Counting {
        fn read(&self, va: u64, out: &mut [u32]) -> usize {
            self.0.set(self.0.get() + out.len());
            for (i, word) in out.iter_mut().enumerate() {
                *word = (va / 4) as u32 + i as u32;
            }
            out.len()
        }
    }

    #[test]
    fn no_word_is_copied_twice_and_none_beyond_what_was_allowed() {
        let memory = Counting(Cell::new(0));
        let mut reader = Reader::new(&memory);
        for i in 0..1000u64 {
            assert_eq!(reader.word(i * 4, 1000 - i), Some(i as u32));
        }
        assert_eq!(memory.0.get(), 1000);
    }
}
