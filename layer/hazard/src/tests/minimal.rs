//! How few barriers? The claims T1 to T3 of docs/semantics.md, each over every program of some spaces.
//!
//! A claim about a number needs to say what stands at the two ends of a command buffer. Here the program gets them
//! spelled out, so that the model sees what the tracker has to assume: before it, writes that are already available at
//! one stage each and then an operation that did everything everywhere; behind it, an operation that does everything
//! everywhere. The required pairs of that whole which what came before has not ordered yet are what must be ordered by
//! barriers in the program's own gaps.
//!
//! - **T1** Any placement has to put a barrier into the interval of each required pair, whatever scopes it uses. The
//!   least number of points that stab all intervals is found by trying every subset of gaps. The tracker that emits full
//!   barriers reaches it.
//! - **T2** When all asked barriers are equal, the tracker that emits asked scopes reaches the same number.
//! - **T3** When they are mixed, it is least among the placements that emit, in each chosen gap, the join of all that was
//!   asked so far. Every subset of gaps with one barrier less is tried, with the model as the judge. Joining only what is
//!   pending is sound too, and sometimes needs one more: a test searches for the smallest such program.

use super::budget;
use super::enumerate::*;
use super::exhaustive::{at_one_stage, at_three_stages, each};
use super::programs::*;
use crate::model::{Event, Later, required_pairs};
use crate::{Access, Barrier, Carry, Flags, Kind, Range, Scope, Stages};

/// What may have happened before, as events, and how many operations that is.
///
/// A write that is available at one stage and nothing more: written at a stage that only `ALL_COMMANDS` names, and
/// made available from there. One for each stage at which a barrier of the spaces could continue.
pub fn before() -> (Vec<Event>, usize) {
    let mut events = Vec::new();
    let continued = [
        Stages::COMPUTE_SHADER,
        Stages::COPY,
        Stages::CLEAR,
        Stages::DRAW_INDIRECT,
        Stages::FRAGMENT_SHADER,
        Stages::INDEX_INPUT,
        Stages::HOST,
    ];
    for (n, at) in continued.iter().enumerate() {
        let stages = Stages::from_bits_retain(1 << (50 + n));
        let flags = Flags::SHADER_STORAGE_WRITE;
        let available =
            Barrier { src: Scope { stages, flags }, dst: Scope { stages: *at, flags: Flags::empty() } };
        events.push(Event::Operation(vec![Access {
            range: Range::Anywhere,
            kind: Kind::Write,
            stages,
            flags,
        }]));
        events.push(Event::Asked(available));
        events.push(Event::Emitted(available));
    }
    events.push(Event::Operation(Access::unknown().to_vec()));
    (events, continued.len() + 1)
}

/// A program of one command buffer: its operations, and what was asked in the gap before each and behind the last.
#[derive(Clone, Default)]
pub struct Gaps {
    pub asked: Vec<Vec<Barrier>>,
    pub operations: Vec<Vec<Access>>,
}

impl Gaps {
    pub fn of(program: &[Step]) -> Gaps {
        let mut gaps = Gaps { asked: vec![Vec::new()], operations: Vec::new() };
        for step in program {
            match step {
                Step::Ask(barrier) => gaps.asked.last_mut().expect("there is one").push(*barrier),
                Step::Do(accesses) => {
                    gaps.operations.push(accesses.clone());
                    gaps.asked.push(Vec::new());
                }
                Step::Unknown | Step::End => panic!("the claims are about one command buffer"),
            }
        }
        gaps
    }

    /// All events, with `emitted` in the gaps.
    pub fn events(&self, emitted: &[(usize, Barrier)]) -> Vec<Event> {
        let (mut events, _) = before();
        for (gap, asked) in self.asked.iter().enumerate() {
            events.extend(asked.iter().copied().map(Event::Asked));
            events.extend(emitted.iter().filter(|(at, _)| *at == gap).map(|(_, b)| Event::Emitted(*b)));
            events.push(Event::Operation(match self.operations.get(gap) {
                Some(accesses) => accesses.clone(),
                None => Access::unknown().to_vec(),
            }));
        }
        events
    }

    /// The interval of every required pair, as a set of gaps.
    pub fn intervals(&self) -> Vec<u32> {
        let (_, earlier_operations) = before();
        required_pairs(&self.events(&[]))
            .iter()
            .filter(|pair| !pair.ordered)
            .filter_map(|pair| {
                let Later::Operation(later) = pair.later else {
                    panic!("no barrier of these spaces names the host")
                };
                let last = later.checked_sub(earlier_operations)?;
                let first = (pair.earlier + 1).saturating_sub(earlier_operations);
                Some((first..=last).fold(0, |gaps, gap| gaps | 1 << gap))
            })
            .collect()
    }

    /// The least number of gaps that stab the interval of every required pair.
    pub fn stabbing_number(&self) -> usize {
        let intervals = self.intervals();
        (0u32..1 << self.asked.len())
            .filter(|chosen| intervals.iter().all(|gaps| gaps & chosen != 0))
            .map(|chosen| chosen.count_ones() as usize)
            .min()
            .expect("all gaps together stab everything")
    }

    /// Whether the join of all that was asked so far, in each of the `chosen` gaps, orders every required pair.
    fn is_sound(&self, chosen: u32) -> bool {
        let mut join = Barrier::default();
        let mut emitted = Vec::new();
        for (gap, asked) in self.asked.iter().enumerate() {
            join = asked.iter().fold(join, |join, barrier| join.join(*barrier));
            if chosen >> gap & 1 == 1 {
                emitted.push((gap, join));
            }
        }
        required_pairs(&self.events(&emitted)).iter().all(|pair| pair.ordered)
    }

    /// Whether some placement of `count` joins of all asked so far is sound.
    fn some_placement(&self, count: usize) -> bool {
        (0u32..1 << self.asked.len())
            .any(|chosen| chosen.count_ones() as usize == count && self.is_sound(chosen))
    }
}

/// Counts what a tracker emits for a program, its end included, and compares.
#[derive(Clone)]
struct Counting {
    program: Program,
    claim: fn(&[Step]) -> Result<(), String>,
}

impl Judge for Counting {
    fn take(&mut self, step: &Step) -> Result<(), String> {
        self.program.push(step.clone());
        if matches!(step, Step::Do(_)) { (self.claim)(&self.program) } else { Ok(()) }
    }
}

fn emitted(program: &[Step], carry: Carry) -> Vec<(usize, Barrier)> {
    emissions(&events(program, Tracking::new(carry)))
}

pub fn is_equal(what: &str, got: usize, least: usize) -> Result<(), String> {
    if got == least { Ok(()) } else { Err(format!("{what}: {got} barriers are emitted, {least} are enough")) }
}

/// The barriers that a tracker emits, if they leave nothing unordered between the two ends.
fn sound(gaps: &Gaps, program: &[Step], carry: Carry) -> Result<usize, String> {
    let emitted = emitted(program, carry);
    if required_pairs(&gaps.events(&emitted)).iter().all(|pair| pair.ordered) {
        Ok(emitted.len())
    } else {
        Err(format!("{carry:?}: a required pair with what comes before or after is not ordered"))
    }
}

/// T1 and T2.
fn t2(program: &[Step]) -> Result<(), String> {
    let gaps = Gaps::of(program);
    let least = gaps.stabbing_number();
    is_equal("T1", sound(&gaps, program, Carry::Full)?, least)?;
    is_equal("T2", sound(&gaps, program, Carry::AskedJoin)?, least)
}

/// T1 and T3.
fn t3(program: &[Step]) -> Result<(), String> {
    let gaps = Gaps::of(program);
    let least = gaps.stabbing_number();
    is_equal("T1", sound(&gaps, program, Carry::Full)?, least)?;
    let joined = sound(&gaps, program, Carry::AskedJoin)?;
    if joined > least && gaps.some_placement(joined - 1) {
        return Err(format!("T3: {joined} barriers are emitted, {} are enough", joined - 1));
    }
    Ok(())
}

/// Joining what is pending never needs more than joining all that was asked. (It does: this is refuted below.)
fn pending_is_as_good(program: &[Step]) -> Result<(), String> {
    let count = |carry| emitted(program, carry).len();
    is_equal("pending", count(Carry::PendingJoin), count(Carry::AskedJoin))
}

/// `program` with one more barrier at its end, so that the final gap takes part.
pub fn ended(
    claim: fn(&[Step]) -> Result<(), String>,
    program: &[Step],
    last: Barrier,
) -> Result<(), String> {
    let mut longer = program.to_vec();
    longer.push(Step::Ask(last));
    claim(&longer)
}

pub fn holds(claim: fn(&[Step]) -> Result<(), String>, spaces: impl IntoIterator<Item = Space>) {
    let mut programs = 0;
    for mut space in spaces {
        space.length = budget::length(space.length);
        programs += expect_all(&space, &space.explore(&Counting { program: Vec::new(), claim }));
    }
    println!("{programs:>10} programs");
}

#[test]
fn t1_and_t2_equal_scopes_reach_the_stabbing_number() {
    let [all, narrow, execution] = at_one_stage();
    fn claim(program: &[Step]) -> Result<(), String> {
        t2(program)?;
        let asked = program.iter().find_map(|step| if let Step::Ask(b) = step { Some(*b) } else { None });
        asked.map_or(Ok(()), |barrier| ended(t2, program, barrier))
    }
    let at_one = [all, narrow, execution]
        .map(|b| Space::of_single_accesses("T2, one stage", &[C], 3, 4).first(each([b])).between(each([b])));
    let at_three = at_three_stages().map(|b| {
        Space::of_single_accesses("T2, three stages", &[C, T, I], 2, 3).first(each([b])).between(each([b]))
    });
    let sets = [Space::of_sets("T2, sets", &[C], 2, 3).first(each([all])).between(each([all]))];
    holds(claim, at_one.into_iter().chain(at_three).chain(sets));
}

#[test]
fn t1_and_t3_mixed_scopes_are_least_among_joins_of_all_asked() {
    let spaces = [
        Space::of_single_accesses("T3, one stage", &[C], 2, 4)
            .first(each([at_one_stage()[0]]))
            .between(each(at_one_stage())),
        Space::of_single_accesses("T3, three stages", &[C, T, I], 2, 3)
            .first(each([at_three_stages()[4]]))
            .between(each(at_three_stages())),
        Space::of_single_accesses("T3, longer", &[C, T], 1, 4)
            .first(each([at_three_stages()[2]]))
            .between(each([at_three_stages()[1], at_three_stages()[4], at_three_stages()[5]])),
    ];
    fn claim(program: &[Step]) -> Result<(), String> {
        t3(program)?;
        if program.len() <= 5 { ended(t3, program, at_three_stages()[4]) } else { Ok(()) }
    }
    holds(claim, spaces);
}

#[test]
fn t3_needs_the_join_of_all_asked_joining_only_the_pending_ones_is_not_least() {
    let mut space = Space::of_single_accesses("pending", &[C, T], 2, 4)
        .first(each(at_three_stages()))
        .between(each(at_three_stages()));
    let refused = (1..=4)
        .find_map(|length| {
            space.length = length;
            space.explore(&Counting { program: Vec::new(), claim: pending_is_as_good }).refused
        })
        .expect("some program needs a barrier more when only the pending ones are joined");
    println!("{}\n{}", refused.why, show(&refused.program));
    let count = |carry| emitted(&refused.program, carry).len();
    assert!(count(Carry::PendingJoin) > count(Carry::AskedJoin));
    assert_eq!(
        violations(&refused.program, Tracking::new(Carry::PendingJoin)),
        [],
        "it is sound nevertheless"
    );
}
