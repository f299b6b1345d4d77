//! Would the tests notice a broken tracker?
//!
//! Each fault is planted, and the same spaces that the working tracker passes are walked, shortest programs first,
//! until one is refused. That program is printed: it is the smallest reason why the rule exists.

use super::enumerate::{Refused, Space};
use super::exhaustive::spaces;
use super::programs::*;
use crate::Carry;
use crate::tracker::Fault;

/// The first program, by number of operations, in which the broken tracker leaves a required pair unordered.
fn smallest_victim(fault: Fault) -> Option<(&'static str, Refused)> {
    let longest = spaces().iter().map(|space| space.length).max().unwrap_or(0);
    for length in 1..=longest {
        let mut spaces: Vec<Space> = spaces().into_iter().filter(|space| length <= space.length).collect();
        spaces.sort_by_key(|space| space.expected(length));
        for space in &mut spaces {
            space.length = length;
            let seen = space.explore(&Queue::new(Tracking::broken(Carry::AskedJoin, fault)));
            if let Some(refused) = seen.refused {
                return Some((space.name, refused));
            }
        }
    }
    None
}

fn is_caught(fault: Fault) {
    let (space, refused) = smallest_victim(fault).unwrap_or_else(|| panic!("no program notices {fault:?}"));
    println!("{fault:?} is caught in \"{space}\" by\n{}", show(&refused.program));
    let sound = violations(&refused.program, Tracking::new(Carry::AskedJoin));
    assert_eq!(sound, [], "the working tracker passes the same program");
}

#[test]
fn forgetting_reads_is_caught() {
    is_caught(Fault::ForgetWar);
}

#[test]
fn forgetting_chains_is_caught() {
    is_caught(Fault::ForgetChains);
}

#[test]
fn taking_an_emission_to_clear_everything_is_caught() {
    is_caught(Fault::EmissionClearsEverything);
}

#[test]
fn forgetting_the_prefix_after_the_first_barrier_is_caught() {
    is_caught(Fault::PrefixOnlyBeforeFirstBarrier);
}

#[test]
fn forgetting_the_final_flush_is_caught() {
    is_caught(Fault::ForgetFinalFlush);
}
