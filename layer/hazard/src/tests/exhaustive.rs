//! The contract over every small program.
//!
//! Each space below is walked whole (`enumerate`), and each required pair of each program must be ordered. Numbers are
//! printed; `cargo test -p zinc-hazard exhaustive -- --nocapture` shows them. What the spaces cover together:
//!
//! | space | operations | accesses | places | barriers in a gap | command buffers |
//! | --- | --- | --- | --- | --- | --- |
//! | sets at one stage | up to 4 | any sets over 2 ranges | C | 3 kinds or none | 1 |
//! | sets at two stages | up to 4 | any sets over 2 ranges | C, T | the one that llama.cpp asks for, or none | 1 |
//! | sets at three stages | up to 3 | any sets over 2 ranges | C, T, I | 8 kinds or none | 1 |
//! | three stages | up to 4 | one each, 2 ranges | C, T, I | 7 kinds or none | 1 |
//! | two barriers in a gap | up to 3 | one each, 2 ranges | C, T | any 0 to 2 of 7 | 1 |
//! | cuts | up to 3 | one each, 2 ranges | C, T | 5 kinds or none, on either or both sides of a cut | up to 3 |
//! | cuts, longer | up to 4 | one each, 2 ranges | C, T | 2 kinds or none, on one side of a cut | up to 4 |
//! | six accesses | up to 6 | one each, 3 ranges | C | 2 kinds or none | 1 |
//! | five accesses, execution | up to 5 | one each, 3 ranges | C | execution only or all flags | 1 |
//! | five accesses, cuts | up to 5 | one each, 3 ranges | C | all flags or none, on one side of a cut | up to 5 |
//!
//! The full product (four operations, any sets, three stages, eight barriers) has over a thousand million programs and
//! is not walked. A required pair and the chain that makes it required involve two accesses, so the rows cover each two
//! of the features (sets and length, sets and stages, stages and length) rather than all at once; the random programs
//! of `random` mix all of them.

use super::budget;
use super::enumerate::*;
use super::programs::*;
use crate::{Barrier, Carry, Flags, Scope, Stages};
use std::time::Instant;

impl Judge for Queue<Tracking> {
    fn take(&mut self, step: &Step) -> Result<(), String> {
        if self.step(step) { Ok(()) } else { Err(UNORDERED.into()) }
    }

    fn last(&self, step: &Step) -> Result<(), String> {
        match step {
            Step::Do(accesses) if self.last_operation(accesses) => Ok(()),
            Step::Do(_) => Err(UNORDERED.into()),
            _ => self.clone().take(step),
        }
    }
}

const UNORDERED: &str = "a required pair is not ordered";

/// What llama.cpp asks for: dispatches and copies to dispatches and copies.
fn both_places() -> Barrier {
    let scope = Scope {
        stages: Stages::COMPUTE_SHADER | Stages::ALL_TRANSFER,
        flags: Flags::SHADER_READ | Flags::SHADER_WRITE | Flags::TRANSFER_READ | Flags::TRANSFER_WRITE,
    };
    Barrier { src: scope, dst: scope }
}

/// Barriers at one stage: the usual one, write to read, execution only.
pub fn at_one_stage() -> [Barrier; 3] {
    [barrier(C, "rw", C, "rw"), barrier(C, "w", C, "r"), barrier(C, "", C, "")]
}

/// Narrow and wide ones, links without flags, one through the indirect stage, and everything to everything.
pub fn at_three_stages() -> [Barrier; 8] {
    [
        Barrier::FULL,
        barrier(C, "rw", C, "rw"),
        barrier(C, "rw", T, "rw"),
        barrier(T, "rw", C, "rw"),
        barrier(C, "w", T, ""),
        barrier(T, "", C, "r"),
        barrier(C, "w", I, "r"),
        both_places(),
    ]
}

fn one(barrier: Barrier) -> Program {
    vec![Step::Ask(barrier)]
}

pub fn each(barriers: impl IntoIterator<Item = Barrier>) -> Vec<Program> {
    barriers.into_iter().map(one).collect()
}

/// A cut between two command buffers with none or one of `barriers` before it and none or one behind it; with `both`
/// also one on each side.
fn cuts(barriers: &[Barrier], both: bool) -> Vec<Program> {
    let sides: Vec<Option<Barrier>> = [None].into_iter().chain(barriers.iter().copied().map(Some)).collect();
    let mut all = Vec::new();
    for before in &sides {
        for behind in &sides {
            if both || before.is_none() || behind.is_none() {
                let ask = |b: &Option<Barrier>| b.map(Step::Ask);
                all.push(ask(before).into_iter().chain([Step::End]).chain(ask(behind)).collect());
            }
        }
    }
    all
}

/// The spaces, in the order of the table.
pub fn spaces() -> Vec<Space> {
    let [all, narrow, execution] = at_one_stage();
    let at_two: [Barrier; 7] = std::array::from_fn(|n| at_three_stages()[[0, 1, 2, 3, 4, 5, 7][n]]);
    let for_cuts = [at_two[1], at_two[2], at_two[3], at_two[4], at_two[5]];
    let two_in_a_gap = at_two.iter().flat_map(|a| at_two.iter().map(|b| vec![Step::Ask(*a), Step::Ask(*b)]));
    vec![
        Space::of_sets("sets at one stage", &[C], 2, 4)
            .first(each([all]))
            .between(each([all, narrow, execution])),
        Space::of_sets("sets at two stages", &[C, T], 2, 4)
            .first(each([both_places()]))
            .between(each([both_places()])),
        Space::of_sets("sets at three stages", &[C, T, I], 2, 3)
            .first(each([Barrier::FULL]))
            .between(each(at_three_stages())),
        Space::of_single_accesses("three stages", &[C, T, I], 2, 4)
            .first(each([barrier(C, "rw", C, "rw")]))
            .between(each(at_three_stages().into_iter().take(7))),
        Space::of_single_accesses("two barriers in a gap", &[C, T], 2, 3)
            .first(each([both_places()]))
            .between(each(at_two).into_iter().chain(two_in_a_gap)),
        Space::of_single_accesses("cuts", &[C, T], 2, 3)
            .first(each(for_cuts))
            .between(each(for_cuts).into_iter().chain(cuts(&for_cuts, true))),
        Space::of_single_accesses("cuts, longer", &[C, T], 2, 4)
            .first(each([at_two[4]]))
            .between(each([at_two[4], at_two[5]]).into_iter().chain(cuts(&[at_two[4], at_two[5]], false))),
        Space::of_single_accesses("six accesses", &[C], 3, 6).first(each([all])).between(each([all, narrow])),
        Space::of_single_accesses("five accesses, execution", &[C], 3, 5)
            .first(each([execution]))
            .between(each([all, execution])),
        Space::of_single_accesses("five accesses, cuts", &[C], 3, 5)
            .first(each([all]))
            .between(each([all]).into_iter().chain(cuts(&[all], false))),
    ]
}

#[test]
fn every_required_pair_of_every_small_program_is_ordered() {
    let mut total = 0;
    for mut space in spaces() {
        space.length = budget::length(space.length);
        let began = Instant::now();
        let seen = space.explore(&Queue::new(Tracking::new(Carry::AskedJoin)));
        let programs = expect_all(&space, &seen);
        total += programs;
        println!("{:>10} programs: {} ({:.1} s)", programs, space.name, began.elapsed().as_secs_f64());
    }
    println!("{total:>10} programs in all");
}

#[test]
fn the_other_ways_to_carry_are_sound_on_the_short_ones() {
    for carry in [Carry::PendingJoin, Carry::Full] {
        let mut total = 0;
        for mut space in spaces() {
            space.length = budget::length(if space.expected(3) < 200_000 { 3 } else { 2 });
            total += expect_all(&space, &space.explore(&Queue::new(Tracking::new(carry))));
        }
        println!("{total:>10} programs with {carry:?}");
    }
}
