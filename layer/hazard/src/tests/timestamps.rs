//! Timestamps in a segment: what orders one is emitted before it, in both ways of planning.

use super::minimal::before;
use super::programs::*;
use super::whole::{BOTH, findings, one_stretch};
use crate::model::Later;
use crate::whole::{Freedom, Stretch};
use crate::{Access, Flags, Kind, Range, Stages};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// What is wrong with the plan for `program` with a timestamp before step `at`, which waits by itself for compute shaders, or for
/// nothing. To the model the timestamp is a write of everything at a stage that only all commands name; that nothing later
/// waits for it is what sets it apart. `is_known` says whether the planner knows of it.
fn wrong_with_a_timestamp(
    program: &[Step],
    at: usize,
    after_compute: bool,
    freedom: Freedom,
    is_known: bool,
) -> Vec<String> {
    let (before_it, behind) = program.split_at(at.min(program.len()));
    let operations = |steps: &[Step]| steps.iter().filter(|step| matches!(step, Step::Do(_))).count();
    let mut stretch = Stretch::new();
    for (steps, stamped) in [(before_it, true), (behind, false)] {
        for step in steps {
            match step {
                Step::Ask(barrier) => stretch.asked(*barrier),
                Step::Do(accesses) => stretch.operation(accesses, false),
                Step::Unknown | Step::End => panic!("these are of one stretch"),
            }
        }
        if stamped {
            if is_known {
                stretch.timestamp(after_compute);
            }
            stretch.operation(&[], true);
        }
    }
    let plan = stretch.plan(freedom);
    let flags = Flags::SHADER_STORAGE_WRITE;
    let stamp = Access { range: Range::Anywhere, kind: Kind::Write, stages: Stages::TIMESTAMPS, flags };
    let seen = [before_it, &[Step::Do(vec![stamp])], behind].concat();
    let findings = findings(&seen, &plan);
    let known = before().1;
    let number = known + operations(before_it);
    // What came before the stretch may have been made available to compute shaders, for which the timestamp waits.
    let waits_for = |earlier: usize| {
        let own = seen.iter().filter_map(|step| if let Step::Do(a) = step { Some(a) } else { None });
        let own = earlier.checked_sub(known).and_then(|n| own.clone().nth(n));
        after_compute && own.is_none_or(|own| own.iter().any(|a| a.stages.intersects(Stages::COMPUTE_SHADER)))
    };
    let broken = findings.violations.iter().filter(|pair| {
        let is_ordered = pair.later == Later::Operation(number) && waits_for(pair.earlier);
        pair.earlier != number && !is_ordered
    });
    let mut wrong: Vec<String> = broken.map(|pair| format!("{pair:?} for {plan:?}")).collect();
    wrong.extend(findings.swaps.iter().map(|swap| format!("{swap:?} for {plan:?}")));
    wrong.extend(findings.lost.iter().map(|lost| format!("lost {lost:?}")));
    wrong
}

proptest! {
    #![proptest_config(super::budget::cases(1500))]

    #[test]
    fn what_orders_a_timestamp_is_emitted_before_it(
        program in one_stretch(),
        at in 0usize..9,
        after_compute: bool,
    ) {
        for freedom in BOTH {
            let wrong = wrong_with_a_timestamp(&program, at, after_compute, freedom, true);
            prop_assert!(wrong.is_empty(), "{:?} before step {}\n{}", wrong, at, show(&program));
        }
    }
}

#[test]
fn a_planner_that_does_not_know_of_timestamps_is_caught() {
    let mut runner = TestRunner::deterministic();
    let strategy = one_stretch();
    for freedom in BOTH {
        let caught = (0..2000).any(|_| {
            let program = strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current();
            !wrong_with_a_timestamp(&program, 4, false, freedom, false).is_empty()
        });
        assert!(caught, "{freedom:?}");
    }
}
