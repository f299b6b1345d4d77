//! Every program of a kind, once.
//!
//! A [`Space`] is an alphabet of operations, alphabets of what may stand before the first operation and between two,
//! and a length. [`Space::explore`] walks its programs as a tree, since a program's beginning is a program too and its
//! state need not be computed again, and hands each step to a [`Judge`].
//!
//! Which range is called 0 and which 1 changes nothing that the tracker or the model could see, so one program of each
//! class under renaming is enough: the one whose sequence of operations is least. No other symmetry is used. The
//! number of programs is known beforehand by Burnside's lemma ([`Space::expected`]), which shares nothing with the walk;
//! tests compare the two, so that an enumeration cannot shrink unnoticed.

use super::programs::{Place, Program, Step, read, show, write};
use crate::Access;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Looks at a program as it grows.
pub trait Judge: Clone + Sync {
    /// Takes the next step.
    fn take(&mut self, step: &Step) -> Result<(), String>;

    /// Takes the last operation of a program.
    fn last(&self, step: &Step) -> Result<(), String> {
        self.clone().take(step)
    }
}

/// What an operation does to one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Touch {
    Not,
    Reads,
    Writes,
    Both,
}

/// One kind of operation: a place and what it does to each range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    place: usize,
    touches: Vec<Touch>,
}

/// The programs of `1..=length` operations over some alphabets.
pub struct Space {
    pub name: &'static str,
    places: Vec<Place>,
    ranges: usize,
    single: bool,
    kinds: Vec<Kind>,
    /// What may stand before the first operation.
    pub first: Vec<Program>,
    /// What may stand between two operations.
    pub between: Vec<Program>,
    pub length: usize,
}

/// A program that a judge refused.
#[derive(Debug)]
pub struct Refused {
    pub program: Program,
    pub why: String,
}

/// What an exploration saw.
#[derive(Debug)]
pub struct Seen {
    /// Programs by their number of operations; index 0 is one operation.
    pub programs: Vec<u64>,
    pub refused: Option<Refused>,
}

impl Seen {
    pub fn total(&self) -> u64 {
        self.programs.iter().sum()
    }
}

impl Space {
    /// Operations that do anything to any of the ranges, at one of the places.
    pub fn of_sets(name: &'static str, places: &[Place], ranges: usize, length: usize) -> Space {
        let mut kinds = Vec::new();
        for (place, p) in places.iter().enumerate() {
            for code in 1..4usize.pow(ranges as u32) {
                let touches: Vec<Touch> = (0..ranges)
                    .map(|r| {
                        [Touch::Not, Touch::Reads, Touch::Writes, Touch::Both]
                            [code / 4usize.pow(r as u32) % 4]
                    })
                    .collect();
                if !p.write.is_empty() || touches.iter().all(|t| matches!(t, Touch::Not | Touch::Reads)) {
                    kinds.push(Kind { place, touches });
                }
            }
        }
        Space::new(name, places, ranges, length, kinds, false)
    }

    /// Operations with a single access.
    pub fn of_single_accesses(name: &'static str, places: &[Place], ranges: usize, length: usize) -> Space {
        let mut space = Space::of_sets(name, places, ranges, length);
        space.kinds.retain(|kind| {
            let touched: Vec<&Touch> = kind.touches.iter().filter(|t| **t != Touch::Not).collect();
            touched.len() == 1 && *touched[0] != Touch::Both
        });
        space.single = true;
        space
    }

    fn new(
        name: &'static str,
        places: &[Place],
        ranges: usize,
        length: usize,
        kinds: Vec<Kind>,
        single: bool,
    ) -> Space {
        let nothing = vec![Program::new()];
        Space {
            name,
            places: places.to_vec(),
            ranges,
            single,
            kinds,
            first: nothing.clone(),
            between: nothing,
            length,
        }
    }

    /// What may stand before the first operation, besides nothing.
    pub fn first(mut self, first: impl IntoIterator<Item = Program>) -> Space {
        self.first.extend(first);
        self
    }

    /// What may stand between two operations, besides nothing.
    pub fn between(mut self, between: impl IntoIterator<Item = Program>) -> Space {
        self.between.extend(between);
        self
    }

    /// How many programs of `n` operations there are up to renaming: the mean, over all permutations of the ranges, of
    /// the number of programs that the permutation leaves as they are.
    pub fn expected(&self, n: usize) -> u64 {
        let permutations = permutations(self.ranges);
        let fixed = |permutation: &Vec<usize>| -> u64 {
            let per_place = |p: &Place| -> u64 {
                let directions = if p.write.is_empty() { 1 } else { 2 };
                if self.single {
                    let still = permutation.iter().enumerate().filter(|(i, p)| i == *p).count() as u64;
                    directions * still
                } else {
                    2u64.pow((directions as u32) * cycles(permutation)) - 1
                }
            };
            self.places.iter().map(per_place).sum::<u64>().pow(n as u32)
        };
        let operations = permutations.iter().map(fixed).sum::<u64>() / permutations.len() as u64;
        operations * self.first.len() as u64 * (self.between.len() as u64).pow(n as u32 - 1)
    }

    /// Walks all programs, in two threads, until `judge` refuses one.
    pub fn explore(&self, judge: &impl Judge) -> Seen {
        let renamings: Vec<Vec<usize>> = permutations(self.ranges).iter().map(|p| self.renaming(p)).collect();
        let operations: Vec<Step> = self.kinds.iter().map(|kind| Step::Do(self.accesses(kind))).collect();
        let walk = Walk {
            space: self,
            operations,
            renamings,
            programs: (0..self.length).map(|_| AtomicU64::new(0)).collect(),
            stop: AtomicBool::new(false),
            refused: Mutex::new(None),
        };
        let roots = self.first.len() * self.kinds.len();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let all: Vec<usize> = (0..walk.renamings.len()).collect();
                    let mut path = Vec::new();
                    let mut counts = vec![0; self.length];
                    loop {
                        let root = next.fetch_add(1, Ordering::Relaxed);
                        if root >= roots {
                            break;
                        }
                        let (first, kind) = (&self.first[root / self.kinds.len()], root % self.kinds.len());
                        walk.gap(judge, &all, first, kind..kind + 1, &mut path, &mut counts);
                    }
                    for (sum, n) in walk.programs.iter().zip(counts) {
                        sum.fetch_add(n, Ordering::Relaxed);
                    }
                });
            }
        });
        let programs = walk.programs.into_iter().map(AtomicU64::into_inner).collect();
        Seen { programs, refused: walk.refused.into_inner().expect("no thread panicked") }
    }

    /// Where a permutation of the ranges takes each kind.
    fn renaming(&self, permutation: &[usize]) -> Vec<usize> {
        self.kinds
            .iter()
            .map(|kind| {
                let mut touches = kind.touches.clone();
                for (from, to) in permutation.iter().enumerate() {
                    touches[*to] = kind.touches[from];
                }
                let image = Kind { place: kind.place, touches };
                self.kinds.iter().position(|k| *k == image).expect("kinds are closed under renaming")
            })
            .collect()
    }

    fn accesses(&self, kind: &Kind) -> Vec<Access> {
        let place = self.places[kind.place];
        let mut accesses = Vec::new();
        for (r, touch) in kind.touches.iter().enumerate() {
            if matches!(touch, Touch::Reads | Touch::Both) {
                accesses.push(read(place, r as u64));
            }
            if matches!(touch, Touch::Writes | Touch::Both) {
                accesses.push(write(place, r as u64));
            }
        }
        accesses
    }
}

struct Walk<'a> {
    space: &'a Space,
    operations: Vec<Step>,
    renamings: Vec<Vec<usize>>,
    programs: Vec<AtomicU64>,
    stop: AtomicBool,
    refused: Mutex<Option<Refused>>,
}

impl Walk<'_> {
    /// The programs that go on with `gap` and one of the operations `kinds`. `live` are the renamings that leave the
    /// operations so far as they are: none of them may make the next one less.
    fn gap<'s, J: Judge>(
        &'s self,
        before: &J,
        live: &[usize],
        gap: &'s [Step],
        kinds: Range<usize>,
        path: &mut Vec<&'s Step>,
        counts: &mut [u64],
    ) {
        let length = path.len();
        path.extend(gap);
        let mut judge = before.clone();
        match gap.iter().try_for_each(|step| judge.take(step)) {
            Ok(()) => kinds.for_each(|kind| self.operation(&judge, live, kind, path, counts)),
            Err(why) => self.refuse(path, why),
        }
        path.truncate(length);
    }

    /// The programs that go on with the operation `kind`.
    fn operation<'s, J: Judge>(
        &'s self,
        before: &J,
        live: &[usize],
        kind: usize,
        path: &mut Vec<&'s Step>,
        counts: &mut [u64],
    ) {
        if live.iter().any(|r| self.renamings[*r][kind] < kind) || self.stop.load(Ordering::Relaxed) {
            return;
        }
        let step = &self.operations[kind];
        path.push(step);
        let Some((counts, longer)) = counts.split_first_mut() else { unreachable!("programs have a length") };
        *counts += 1;
        if longer.is_empty() {
            if let Err(why) = before.last(step) {
                self.refuse(path, why);
            }
        } else {
            let mut judge = before.clone();
            match judge.take(step) {
                Ok(()) => {
                    let live: Vec<usize> =
                        live.iter().copied().filter(|r| self.renamings[*r][kind] == kind).collect();
                    for gap in &self.space.between {
                        self.gap(&judge, &live, gap, 0..self.operations.len(), path, longer);
                    }
                }
                Err(why) => self.refuse(path, why),
            }
        }
        path.pop();
    }

    fn refuse(&self, path: &[&Step], why: String) {
        self.stop.store(true, Ordering::Relaxed);
        let program = path.iter().map(|step| (*step).clone()).collect();
        self.refused.lock().expect("no thread panicked").get_or_insert(Refused { program, why });
    }
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in permutations(n - 1) {
        for at in 0..n {
            let mut longer = shorter.clone();
            longer.insert(at, n - 1);
            all.push(longer);
        }
    }
    all
}

fn cycles(permutation: &[usize]) -> u32 {
    let mut seen = vec![false; permutation.len()];
    let mut count = 0;
    for start in 0..permutation.len() {
        count += u32::from(!seen[start]);
        let mut at = start;
        while !seen[at] {
            seen[at] = true;
            at = permutation[at];
        }
    }
    count
}

/// Panics with the program when one was refused, and when the number of programs is not the expected one.
pub fn expect_all(space: &Space, seen: &Seen) -> u64 {
    if let Some(Refused { program, why }) = &seen.refused {
        panic!("{}: {why}\n{}", space.name, show(program));
    }
    for (n, programs) in seen.programs.iter().enumerate() {
        assert_eq!(*programs, space.expected(n + 1), "{}: programs of {} operations", space.name, n + 1);
    }
    seen.total()
}
