//! What was evaluated before, for those who ask at every dispatch.
//!
//! An evaluation takes a good part of a millisecond. That is paid once for what a dispatch brings that the index
//! arithmetic looks at: its workgroups and those push constants that decide something. A dispatch whose other push
//! constants change (a scale, a seed) is found, too. To find one takes no lock and no allocation, and writes nothing that
//! another thread reads: its few words are hashed and then compared with what is remembered. What is remembered stays as
//! long as the cache. Once there is a certain number of it nothing new is evaluated, so that an application which never
//! repeats itself neither fills its memory nor waits at every dispatch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Dispatch, Extents, Footprint};

/// Most dispatches that are remembered for one pipeline.
const MOST: usize = 4096;

/// Chains of the table: few enough for a pipeline with few dispatches, enough for the longest to be some thirty long.
const CHAINS: usize = 128;

#[derive(Debug)]
struct Known<T> {
    hash: u64,
    /// Workgroups, first workgroup, push constants that matter.
    key: Box<[u8]>,
    value: T,
    next: OnceLock<Box<Known<T>>>,
}

/// A footprint, with what was made of its evaluated extents.
#[derive(Debug)]
pub struct Cache<T> {
    footprint: Footprint,
    /// Offset and length of each run of push constants that matter.
    pushes: Box<[(usize, usize)]>,
    known: Box<[OnceLock<Box<Known<T>>>]>,
    count: AtomicUsize,
}

impl<T> Cache<T> {
    /// Nothing is known yet of the footprint's dispatches.
    pub fn new(footprint: Footprint) -> Cache<T> {
        let mut pushes: Vec<(usize, usize)> = Vec::new();
        for (offset, length) in footprint.push_constants_used() {
            let (offset, length) = (*offset as usize, *length as usize);
            match pushes.last_mut().filter(|(at, long)| at + long >= offset) {
                Some((at, long)) => *long = (*long).max(offset + length - *at),
                None => pushes.push((offset, length)),
            }
        }
        let known = std::iter::repeat_with(OnceLock::new).take(CHAINS).collect();
        Cache { footprint, pushes: pushes.into(), known, count: AtomicUsize::new(0) }
    }

    /// What [`Cache::get`] evaluates.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// How many dispatches were evaluated.
    pub fn evaluated(&self) -> usize {
        self.count.load(Ordering::Relaxed).min(MOST)
    }

    /// What `make` made of the extents of a dispatch, now or before; `None` when it is new and no more is to be
    /// remembered.
    pub fn get(&self, dispatch: &Dispatch<'_>, make: impl FnOnce(&Extents) -> T) -> Option<&T> {
        let hash = self.hash(dispatch);
        let mut place = &self.known[(hash >> 32) as usize % CHAINS];
        while let Some(known) = place.get() {
            if known.hash == hash && self.is(known, dispatch) {
                return Some(&known.value);
            }
            place = &known.next;
        }
        self.evaluate(dispatch, hash, place, make)
    }

    #[cold]
    fn evaluate<'a>(
        &'a self,
        dispatch: &Dispatch<'_>,
        hash: u64,
        mut place: &'a OnceLock<Box<Known<T>>>,
        make: impl FnOnce(&Extents) -> T,
    ) -> Option<&'a T> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.count.store(MOST, Ordering::Relaxed);
            return None;
        }
        let value = make(&self.footprint.evaluate(dispatch));
        let grid = dispatch.groups.iter().chain(&dispatch.base).flat_map(|number| number.to_le_bytes());
        let key = grid.chain(self.pieces(dispatch).flatten().copied()).collect();
        let mut new = Box::new(Known { hash, key, value, next: OnceLock::new() });
        // To the end of the chain. Whoever was there first may have added the same; then it is there twice.
        loop {
            match place.set(new) {
                Ok(()) => return place.get().map(|known| &known.value),
                Err(back) => {
                    new = back;
                    place = &place.get()?.next;
                }
            }
        }
    }

    /// The push constants that decide, in pieces. What was not given is not there, and the pieces are that much shorter.
    fn pieces<'d>(&'d self, dispatch: &'d Dispatch<'_>) -> impl Iterator<Item = &'d [u8]> {
        let given = dispatch.push_constants;
        self.pushes.iter().map(|(at, long)| &given[(*at).min(given.len())..(at + long).min(given.len())])
    }

    fn hash(&self, dispatch: &Dispatch<'_>) -> u64 {
        let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let grid = dispatch.groups.iter().chain(&dispatch.base).fold(0, |sum, n| mix(sum, u64::from(*n)));
        self.pieces(dispatch).fold(grid, |sum, piece| {
            piece.chunks(8).fold(sum, |sum, chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                mix(sum, u64::from_le_bytes(word))
            })
        })
    }

    fn is(&self, known: &Known<T>, dispatch: &Dispatch<'_>) -> bool {
        let mut rest = &known.key[..];
        let mut is_next = |piece: &[u8]| match rest.strip_prefix(piece) {
            Some(behind) => {
                rest = behind;
                true
            }
            None => false,
        };
        dispatch.groups.iter().chain(&dispatch.base).all(|number| is_next(&number.to_le_bytes()))
            && self.pieces(dispatch).all(&mut is_next)
            && rest.is_empty()
    }
}
