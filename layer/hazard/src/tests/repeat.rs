//! A planner with a log gives the answers of one without, whatever the recordings have in common.

use super::*;
use crate::tests::budget;
use crate::tests::programs::{Program, Step as Recorded};
use crate::tests::random;
use proptest::prelude::*;

/// What a planner answered, in order, and its counts at the end.
type Answers = (Vec<(Option<Due>, Option<Barrier>, bool)>, Counts);

/// What the two kinds of planner have in common.
trait Decides {
    fn ask(&mut self, barrier: Barrier) -> Verdict;
    fn operate(&mut self, accesses: &[Access], nature: Nature) -> Step;
    fn end(&mut self) -> Option<Due>;
    fn begin_anew(&mut self);
    fn pass(&mut self);
    fn books(&self) -> Counts;
}

impl Decides for Planner {
    fn ask(&mut self, barrier: Barrier) -> Verdict {
        self.asked(barrier)
    }
    fn operate(&mut self, accesses: &[Access], nature: Nature) -> Step {
        self.operation_of(nature, accesses, true)
    }
    fn end(&mut self) -> Option<Due> {
        self.flush()
    }
    fn begin_anew(&mut self) {
        self.restart();
    }
    fn pass(&mut self) {
        self.passed_through();
    }
    fn books(&self) -> Counts {
        self.counts()
    }
}

/// Names operations by their accesses, some of them not at all, and some of them wrongly if it `lies`.
struct Named<'a> {
    planner: &'a mut RepeatingPlanner,
    names: &'a mut Vec<(Vec<Access>, Nature)>,
    lies: bool,
}

impl Decides for Named<'_> {
    fn ask(&mut self, barrier: Barrier) -> Verdict {
        self.planner.asked(barrier)
    }
    fn operate(&mut self, accesses: &[Access], nature: Nature) -> Step {
        let of = (accesses.to_vec(), nature);
        let at = self.names.iter().position(|n| *n == of).unwrap_or_else(|| {
            self.names.push(of);
            self.names.len() - 1
        });
        let name = if self.lies { 0 } else { at as u64 };
        // Every third has no name, and every fifth none that lasts.
        let key = (name % 3 != 2).then_some(Key([name, 0, 0]));
        self.planner.operation(key, true, |out| {
            out.extend_from_slice(accesses);
            Derived { nature, lasting: name % 5 != 4 }
        })
    }
    fn end(&mut self) -> Option<Due> {
        self.planner.flush()
    }
    fn begin_anew(&mut self) {
        self.planner.restart();
    }
    fn pass(&mut self) {
        self.planner.passed_through();
    }
    fn books(&self) -> Counts {
        self.planner.counts()
    }
}

fn nature(accesses: &[Access]) -> Nature {
    match accesses.len() {
        3 => Nature::Synchronises,
        2 => Nature::Stays,
        _ => Nature::Movable,
    }
}

fn record(program: &[Recorded], mut planner: impl Decides) -> Answers {
    let mut answers = Vec::new();
    for step in program {
        match step {
            Recorded::Ask(barrier) => answers.push((None, None, planner.ask(*barrier) == Verdict::Emit)),
            Recorded::Do(accesses) => {
                let step = planner.operate(accesses, nature(accesses));
                answers.push((step.before, step.after, false));
            }
            Recorded::Unknown => {
                answers.push((planner.end(), None, false));
                planner.pass();
                planner.begin_anew();
            }
            Recorded::End => {}
        }
    }
    answers.push((planner.end(), None, false));
    (answers, planner.books())
}

/// Recordings one after the other: each is the one before, or the beginning of it with something else behind, or with one
/// step exchanged.
fn recordings() -> impl Strategy<Value = Vec<Program>> {
    let change = (0u8..4, 0usize..12, prop::collection::vec(random::step(), 1..10));
    (prop::collection::vec(random::step(), 0..12), prop::collection::vec(change, 1..6)).prop_map(
        |(first, changes)| {
            let mut all = vec![first];
            for (kind, at, other) in changes {
                let mut next = all[all.len() - 1].clone();
                match kind {
                    0 | 1 => {}
                    2 => {
                        next.truncate(at);
                        next.extend(other);
                    }
                    _ => {
                        if let Some(step) = next.get_mut(at) {
                            *step = other[0].clone();
                        }
                    }
                }
                all.push(next);
            }
            all
        },
    )
}

/// The first recording that is answered otherwise than by a planner without a log.
fn first_difference(recordings: &[Program], lies: bool) -> Option<usize> {
    let (mut planner, mut names) = (RepeatingPlanner::new(Policy::AliasOnly), Vec::new());
    recordings.iter().position(|recording| {
        planner.reset();
        let named = Named { planner: &mut planner, names: &mut names, lies };
        record(recording, named) != record(recording, Planner::new(Policy::AliasOnly))
    })
}

proptest! {
    #![proptest_config(budget::cases(4_000))]

    #[test]
    fn answers_and_counts_are_those_of_a_planner_without_a_log(recordings in recordings()) {
        prop_assert_eq!(first_difference(&recordings, false), None);
    }
}

#[test]
fn keys_that_lie_are_noticed_by_the_comparison_above() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = recordings();
    let noticed = (0..500).filter(|_| {
        let recordings = strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current();
        first_difference(&recordings, true).is_some()
    });
    assert!(noticed.count() > 5);
}

fn chain(length: u64) -> Program {
    let bytes = |i: u64| crate::Range::bytes(crate::MemoryId(1), i * 256, 256, 64);
    let step = |i| Recorded::Do(vec![Access::shader_read(bytes(i)), Access::shader_write(bytes(i + 1))]);
    (0..length).flat_map(|i| [step(i), Recorded::Ask(Barrier::FULL)]).collect()
}

#[test]
fn what_repeats_is_not_decided_again_and_what_differs_is_from_there_on() {
    let (mut planner, mut names) = (RepeatingPlanner::new(Policy::AliasOnly), Vec::new());
    let mut run = |program: &[Recorded]| {
        planner.reset();
        record(program, Named { planner: &mut planner, names: &mut names, lies: false });
        planner.repeated()
    };
    assert_eq!(run(&chain(10)), 0, "there is nothing to repeat yet");
    assert_eq!(run(&chain(10)), 21, "ten operations, ten barriers, the end");
    assert_eq!(run(&chain(9)), 0, "it ended earlier");
    assert_eq!(run(&chain(9)), 19);
    let mut other = chain(9);
    other.swap(12, 14);
    assert_eq!((run(&other), run(&other)), (0, 19));
}

#[test]
#[cfg_attr(miri, ignore = "some hundred thousand barriers")]
fn a_recording_beyond_the_log_is_decided_without_it_and_so_is_what_decides_otherwise() {
    let mut planner = RepeatingPlanner::new(Policy::AliasOnly);
    for _ in 0..2 {
        planner.reset();
        (0..LONGEST.0 + 10).for_each(|_| assert_eq!(planner.asked(Barrier::FULL), Verdict::Hold));
        assert_eq!((planner.repeated(), planner.counts().asked), (0, LONGEST.0 as u64 + 10));
        assert!(planner.log.events.is_empty());
    }
    for policy in Policy::ALL.into_iter().filter(|p| *p != Policy::AliasOnly) {
        let mut planner = RepeatingPlanner::new(policy);
        for _ in 0..2 {
            planner.reset();
            planner.asked(Barrier::FULL);
            planner.flush();
            assert_eq!((planner.repeated(), planner.counts().asked), (0, 1), "{policy}");
        }
    }
}
