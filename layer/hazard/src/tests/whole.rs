//! The whole-stretch planner against the model, over every small program and over random ones.
//!
//! Each program is planned in both ways. The model, in its form for streams that were issued in another order
//! (`model::issued`), sees what the application recorded and what the planner issued, with something in front of it and
//! something behind it that did everything. What must hold: every required pair is ordered; no conflicting pair changes
//! places; the number of barriers is T1's, or T5's where operations may move (`heaviest`); and no emission names a stage
//! or a flag that it could do without, except for what serves the unknown.

use super::enumerate::*;
use super::exhaustive::{at_one_stage, at_three_stages, each};
use super::heaviest::Conflicts;
use super::minimal::{Gaps, before, ended, holds, is_equal};
use super::programs::*;
use super::random;
use crate::model::issued::{Findings, Issued, Queue};
use crate::model::{Event, Later};
use crate::whole::{Fate, Fault, Freedom, Issue, Plan, Stretch};
use crate::{Access, Barrier, Cause, Flags, Kind, Policy, Scope, Stages};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

pub(super) const BOTH: [Freedom; 2] = [Freedom::InOrder, Freedom::AnyOrder];

/// The stretch that a program of one command buffer without unknown commands records.
fn stretch(program: &[Step], fault: Option<Fault>) -> Stretch {
    let mut stretch = Stretch::new();
    if let Some(fault) = fault {
        stretch.break_with(fault);
    }
    for step in program {
        match step {
            Step::Ask(barrier) => stretch.asked(*barrier),
            Step::Do(accesses) => stretch.operation(accesses, false),
            Step::Unknown | Step::End => panic!("these are of one stretch"),
        }
    }
    stretch
}

/// What a plan issues, the first operation having the number `first`.
fn issued(plan: &Plan, first: usize) -> Vec<Issued> {
    let one = |issue: &Issue| match issue {
        Issue::Operation(number) => Issued::Operation(first + number),
        Issue::Barrier(number) => Issued::Emitted(plan.emissions[*number].barrier),
    };
    plan.issue.iter().map(one).collect()
}

fn recorded(program: &[Step]) -> Vec<Event> {
    program
        .iter()
        .filter_map(|step| match step {
            Step::Ask(barrier) => Some(Event::Asked(*barrier)),
            Step::Do(accesses) => Some(Event::Operation(accesses.clone())),
            Step::Unknown => Some(Event::Operation(Access::unknown().to_vec())),
            Step::End => None,
        })
        .collect()
}

/// The model's view of a plan between two things that did everything.
pub(super) fn findings(program: &[Step], plan: &Plan) -> Findings {
    let mut queue = Queue::new();
    let (earlier, operations) = before();
    let mut first = Vec::new();
    let mut number = 0;
    for event in &earlier {
        match event {
            Event::Operation(_) => {
                first.push(Issued::Operation(number));
                number += 1;
            }
            Event::Emitted(barrier) => first.push(Issued::Emitted(*barrier)),
            Event::Asked(_) => {}
        }
    }
    assert_eq!(number, operations);
    let mut all = queue.submit(&earlier, &first);
    let unknown = [Event::Operation(Access::unknown().to_vec())];
    for (recorded, issued) in
        [(recorded(program), issued(plan, 0)), (unknown.to_vec(), vec![Issued::Operation(0)])]
    {
        let more = queue.submit(&recorded, &issued);
        all.required += more.required;
        all.violations.extend(more.violations);
        all.swaps.extend(more.swaps);
        all.lost.extend(more.lost);
    }
    all
}

fn is_sound(program: &[Step], plan: &Plan) -> Result<(), String> {
    let findings = findings(program, plan);
    if findings.is_sound() { Ok(()) } else { Err(format!("{findings:?}\nfor {plan:?}")) }
}

/// Rule 15: a second scope that names a later write for an earlier one is kept. The model knows no such requirement, so
/// each pair of writes is judged alone, with the later one dressed as a read that has the write's flag.
fn names_later_writes(program: &[Step], plan: &Plan) -> Result<(), String> {
    let writes = |accesses: &[Access]| -> Vec<Access> {
        accesses.iter().filter(|access| access.kind == Kind::Write).copied().collect()
    };
    let operations: Vec<Vec<Access>> = program
        .iter()
        .filter_map(|step| if let Step::Do(a) = step { Some(writes(a)) } else { None })
        .collect();
    for (later, second) in operations.iter().enumerate() {
        for (earlier, first) in operations[..later].iter().enumerate() {
            if !first.iter().any(|a| second.iter().any(|b| a.range.overlaps(&b.range))) {
                continue;
            }
            let mut number = 0..;
            let alone: Program = program
                .iter()
                .map(|step| match step {
                    Step::Do(_) => Step::Do(match number.next() {
                        Some(n) if n == earlier => first.clone(),
                        Some(n) if n == later => {
                            second.iter().map(|write| Access { kind: Kind::Read, ..*write }).collect()
                        }
                        _ => Vec::new(),
                    }),
                    other => other.clone(),
                })
                .collect();
            // What came before and what follows serves itself.
            let known = before().1;
            let mut lost = findings(&alone, plan).violations;
            lost.retain(|pair| {
                pair.earlier == known + earlier && pair.later == Later::Operation(known + later)
            });
            if !lost.is_empty() {
                return Err(format!("{lost:?}: write {later} is not named for write {earlier} by {plan:?}"));
            }
        }
    }
    Ok(())
}

/// All emissions of a plan with one bit less, except for bits that are kept on purpose.
fn smaller(plan: &Plan) -> Vec<(usize, Plan)> {
    let mut all = Vec::new();
    for (number, emission) in plan.emissions.iter().enumerate() {
        let mut without = |cut: fn(&mut Barrier, u64)| {
            for bit in (0..64).map(|n| 1u64 << n) {
                let mut barrier = emission.barrier;
                cut(&mut barrier, bit);
                if barrier != emission.barrier && barrier.join(emission.kept) == barrier {
                    let mut plan = plan.clone();
                    plan.emissions[number].barrier = barrier;
                    all.push((number, plan));
                }
            }
        };
        without(|b, bit| b.src.stages.remove(Stages::from_bits_retain(bit)));
        without(|b, bit| b.src.flags.remove(Flags::from_bits_retain(bit)));
        without(|b, bit| b.dst.stages.remove(Stages::from_bits_retain(bit)));
        without(|b, bit| b.dst.flags.remove(Flags::from_bits_retain(bit)));
    }
    all
}

/// No bit that is not kept can go.
fn is_least(program: &[Step], plan: &Plan) -> Result<(), String> {
    for (number, smaller) in smaller(plan) {
        if findings(program, &smaller).is_sound() && names_later_writes(program, &smaller).is_ok() {
            return Err(format!(
                "emission {number} of {plan:?}\ncould be {}",
                show_barrier(&smaller.emissions[number].barrier)
            ));
        }
    }
    Ok(())
}

/// The books: each emission stands for one asked barrier, and its witness is a pair that it orders.
fn is_explained(program: &[Step], plan: &Plan) -> Result<(), String> {
    let mut stands = vec![0; plan.emissions.len()];
    for fate in &plan.fates {
        match fate {
            Fate::Emitted(number) => stands[*number] += 1,
            Fate::Merged(number) if *number < stands.len() => {}
            Fate::Merged(number) => return Err(format!("merged into emission {number}, which is not there")),
            Fate::Idle => {}
        }
    }
    let asked = program.iter().filter(|step| matches!(step, Step::Ask(_))).count();
    if plan.fates.len() != asked || stands.iter().any(|n| *n != 1) {
        return Err(format!("{:?} for {:?}", plan.fates, plan.emissions));
    }
    for (number, emission) in plan.emissions.iter().enumerate() {
        let at = |wanted| plan.issue.iter().position(|issue| *issue == wanted).expect("all is issued");
        let barrier = at(Issue::Barrier(number));
        let witness = emission.witness;
        let before = witness.earlier.is_none_or(|i| at(Issue::Operation(i)) < barrier);
        let behind = witness.later.is_none_or(|j| barrier < at(Issue::Operation(j)));
        let known = match witness.cause {
            Cause::Raw | Cause::War | Cause::Waw => witness.earlier.is_some() && witness.later.is_some(),
            Cause::Prefix => witness.earlier.is_none() && witness.later.is_some(),
            Cause::Flush => witness.later.is_none(),
        };
        if !before || !behind || !known {
            return Err(format!("witness {witness:?} of emission {number} in {:?}", plan.issue));
        }
        let (Some(touched), Some(touches)) = (witness.touched, witness.touches) else { continue };
        if !touched.overlaps(&touches) {
            return Err(format!("the two sides of witness {witness:?} do not meet"));
        }
    }
    Ok(())
}

/// The most pairs of operations that any choice of `count` gaps which stabs every interval leaves side by side.
fn most_side_by_side(gaps: &Gaps, count: usize) -> u64 {
    let intervals = gaps.intervals();
    let operations = gaps.operations.len();
    let stabs = |chosen: &u32| {
        chosen.count_ones() as usize == count && intervals.iter().all(|gaps| gaps & chosen != 0)
    };
    let pairs = |chosen: u32| {
        let between = |i: usize, j: usize| (i + 1..=j).any(|gap| chosen >> gap & 1 == 1);
        let apart = |i: usize| (i + 1..operations).filter(move |j| !between(i, *j)).count() as u64;
        (0..operations).map(apart).sum()
    };
    (0u32..1 << gaps.asked.len()).filter(stabs).map(pairs).max().expect("the planner found one")
}

/// T4 for a program that ends as it stands.
fn t4(program: &[Step]) -> Result<(), String> {
    let plan = stretch(program, None).plan(Freedom::InOrder);
    is_sound(program, &plan)?;
    names_later_writes(program, &plan)?;
    let gaps = Gaps::of(program);
    is_equal("T1", plan.emissions.len(), gaps.stabbing_number())?;
    let most = most_side_by_side(&gaps, plan.emissions.len());
    if plan.side_by_side != most {
        return Err(format!("{} pairs stay side by side, {most} could: {:?}", plan.side_by_side, plan.issue));
    }
    is_least(program, &plan)?;
    is_explained(program, &plan)
}

/// T5 likewise.
fn t5(program: &[Step]) -> Result<(), String> {
    let plan = stretch(program, None).plan(Freedom::AnyOrder);
    is_sound(program, &plan)?;
    names_later_writes(program, &plan)?;
    let conflicts = Conflicts::of(&Gaps::of(program));
    is_equal("the heaviest path", plan.emissions.len(), conflicts.heaviest_path())?;
    is_equal("the best of all orders", plan.emissions.len(), conflicts.least_over_all_orders())?;
    is_least(program, &plan)?;
    is_explained(program, &plan)
}

fn both(program: &[Step]) -> Result<(), String> {
    t4(program).map_err(|why| format!("narrow: {why}"))?;
    t5(program).map_err(|why| format!("reorder: {why}"))
}

/// `both`, also with a barrier behind the last operation.
fn both_ends(program: &[Step]) -> Result<(), String> {
    both(program)?;
    let asked = program.iter().rev().find_map(|step| if let Step::Ask(b) = step { Some(*b) } else { None });
    asked.map_or(Ok(()), |barrier| ended(both, program, barrier))
}

/// Spaces that are small enough for every order of every program.
fn spaces() -> Vec<Space> {
    let [all, narrow, execution] = at_one_stage();
    vec![
        Space::of_single_accesses("one stage", &[C], 2, 4)
            .first(each([all]))
            .between(each([all, narrow, execution])),
        Space::of_sets("sets", &[C], 2, 3).first(each([all])).between(each([narrow])),
        Space::of_single_accesses("three stages", &[C, T, I], 2, 3)
            .first(each([at_three_stages()[4]]))
            .between(each(at_three_stages().into_iter().skip(2).take(3))),
        Space::of_single_accesses("two stages, longer", &[C, T], 1, 4)
            .first(each([at_three_stages()[2]]))
            .between(each([at_three_stages()[1], at_three_stages()[4]])),
    ]
}

#[test]
fn t4_and_t5_every_small_program_is_sound_least_in_number_and_least_in_masks() {
    holds(both_ends, spaces());
}

/// Runs the planner over a program of several command buffers. `fixed` says which operations nothing moves across.
fn run(program: &[Step], freedom: Freedom, fixed: &[bool], fault: Option<Fault>) -> (Findings, Vec<Plan>) {
    let fresh = || {
        let mut stretch = Stretch::new();
        if let Some(fault) = fault {
            stretch.break_with(fault);
        }
        stretch
    };
    let mut queue = Queue::new();
    let mut plans = Vec::new();
    let mut all = Findings::default();
    let mut fixed = fixed.iter().copied().cycle();
    for buffer in program.split(|step| matches!(step, Step::End)) {
        let mut sent = Vec::new();
        let mut first = 0;
        let mut open = fresh();
        for step in buffer {
            match step {
                Step::Ask(barrier) => open.asked(*barrier),
                Step::Do(accesses) => {
                    let fixed = fixed.next().unwrap_or(false);
                    if fixed {
                        open.flush();
                    }
                    open.operation(accesses, fixed);
                }
                Step::Unknown => {
                    let plan = open.plan(freedom);
                    sent.extend(issued(&plan, first));
                    first += open.len();
                    sent.push(Issued::Operation(first));
                    first += 1;
                    plans.push(plan);
                    open = fresh();
                }
                Step::End => {}
            }
        }
        let plan = open.plan(freedom);
        sent.extend(issued(&plan, first));
        plans.push(plan);
        let more = queue.submit(&recorded(buffer), &sent);
        all.required += more.required;
        all.violations.extend(more.violations);
        all.swaps.extend(more.swaps);
        all.lost.extend(more.lost);
    }
    let end = queue.finish();
    all.required += end.required;
    all.violations.extend(end.violations);
    (all, plans)
}

fn emitted(plans: &[Plan]) -> usize {
    plans.iter().map(|plan| plan.emissions.len()).sum()
}

/// A program of one stretch without the host.
pub(super) fn one_stretch() -> impl Strategy<Value = Program> {
    prop::collection::vec(random::step(), 0..9).prop_map(|steps| {
        let host = |b: &Barrier| (b.src.stages | b.dst.stages).contains(Stages::HOST);
        steps
            .into_iter()
            .filter(|step| !matches!(step, Step::Unknown))
            .filter(|step| !matches!(step, Step::Ask(b) if host(b)))
            .collect()
    })
}

proptest! {
    #![proptest_config(super::budget::cases(1500))]

    #[test]
    fn long_random_programs_are_sound_and_never_need_more_than_alias_only(
        program in random::program(),
        fixed in prop::collection::vec(prop::bool::weighted(0.15), 1..8),
    ) {
        let mut counts = Vec::new();
        for freedom in BOTH {
            let (findings, plans) = run(&program, freedom, &fixed, None);
            prop_assert!(findings.is_sound(), "{:?} {:?}:\n{}\n{:?}", freedom, findings, show(&program), plans);
            counts.push(emitted(&plans));
        }
        prop_assert!(counts[1] <= counts[0], "moving never costs a barrier: {:?}\n{}", counts, show(&program));
        let (_, plans) = run(&program, Freedom::InOrder, &[false], None);
        let alias_only = emissions(&events(&program, Planning::new(Policy::AliasOnly))).len();
        prop_assert!(emitted(&plans) <= alias_only, "{} > {}:\n{}", emitted(&plans), alias_only, show(&program));
    }

    #[test]
    fn random_programs_have_the_numbers_and_the_masks_of_t4_and_t5(program in one_stretch()) {
        if let Err(why) = both(&program) {
            prop_assert!(false, "{}\n{}", why, show(&program));
        }
    }

    #[test]
    fn nothing_crosses_a_fixed_operation(
        program in one_stretch(),
        fixed in prop::collection::vec(prop::bool::weighted(0.3), 1..8),
    ) {
        let (_, plans) = run(&program, Freedom::AnyOrder, &fixed, None);
        let order: Vec<usize> = plans[0]
            .issue
            .iter()
            .filter_map(|issue| if let Issue::Operation(number) = issue { Some(*number) } else { None })
            .collect();
        let is_fixed = fixed.iter().copied().cycle();
        for (number, _) in (0..order.len()).zip(is_fixed).filter(|(_, fixed)| *fixed) {
            let at = order.iter().position(|n| *n == number).expect("it is issued");
            prop_assert!(order[..at].iter().all(|n| *n < number), "{:?} across {}", order, number);
            prop_assert_eq!(at, number);
        }
    }
}

/// Whether some program shows that the planner with `fault` is broken.
fn is_caught(fault: Fault, wrong: impl Fn(&[Step], &Plan) -> bool) -> bool {
    let mut runner = TestRunner::deterministic();
    let strategy = one_stretch();
    (0..20_000).any(|_| {
        let program = strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current();
        BOTH.iter().any(|freedom| {
            let found = wrong(&program, &stretch(&program, Some(fault)).plan(*freedom));
            if found {
                println!("{fault:?} is caught by\n{}", show(&program));
            }
            found
        })
    })
}

#[test]
fn broken_planners_are_caught() {
    for fault in [
        Fault::ForgetWar,
        Fault::SwapUnordered,
        Fault::CutThePrefix,
        Fault::CutTheFlush,
        Fault::ForgetVisibility,
        Fault::StabTooLate,
    ] {
        assert!(is_caught(fault, |program, plan| is_sound(program, plan).is_err()), "{fault:?}");
    }
}

#[test]
fn a_planner_that_moves_across_fixed_points_is_caught() {
    let mut runner = TestRunner::deterministic();
    let strategy = random::program();
    let caught = (0..20_000).any(|_| {
        let program = strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current();
        let (findings, _) = run(&program, Freedom::AnyOrder, &[false, true], Some(Fault::MoveAcrossLooks));
        !findings.is_sound()
    });
    assert!(caught);
}

#[test]
fn a_planner_that_cuts_the_later_write_away_is_caught_though_the_model_does_not_miss_it() {
    let wrong = |program: &[Step], plan: &Plan| {
        is_sound(program, plan).is_ok() && names_later_writes(program, plan).is_err()
    };
    assert!(is_caught(Fault::ForgetLaterWrite, wrong));
}

#[test]
fn a_write_after_a_write_keeps_the_write_in_the_second_scope_if_it_was_asked_for() {
    for (asked, cut) in [
        (barrier(C, "rw", C, "rw"), barrier(C, "w", C, "w")),
        (barrier(C, "w", C, "r"), barrier(C, "w", C, "")),
    ] {
        let program =
            [Step::Ask(wide()), op([write(C, 0)]), Step::Ask(asked), op([write(C, 0)]), Step::Ask(wide())];
        let plan = stretch(&program, None).plan(Freedom::InOrder);
        let barriers: Vec<Barrier> = plan.emissions.iter().map(|e| e.barrier).collect();
        assert_eq!(barriers[1], cut, "{asked:?}");
    }
}

#[test]
fn a_planner_with_a_bit_too_many_is_caught() {
    assert!(is_caught(Fault::Widen, |program, plan| is_least(program, plan).is_err()));
}

/// llama.cpp's barrier, for the examples.
fn wide() -> Barrier {
    let scope = Scope {
        stages: Stages::COMPUTE_SHADER | Stages::ALL_TRANSFER,
        flags: Flags::SHADER_READ | Flags::SHADER_WRITE | Flags::TRANSFER_READ | Flags::TRANSFER_WRITE,
    };
    Barrier { src: scope, dst: scope }
}

#[test]
fn a_barrier_is_cut_to_the_pairs_that_need_it() {
    // The first and the last serve what is unknown. Between them: one read-after-write, and one write-after-read.
    let program = [
        Step::Ask(wide()),
        op([write(C, 0)]),
        Step::Ask(wide()),
        op([read(C, 0), read(C, 1)]),
        Step::Ask(wide()),
        op([write(C, 1)]),
        Step::Ask(wide()),
    ];
    let plan = stretch(&program, None).plan(Freedom::InOrder);
    let barriers: Vec<Barrier> = plan.emissions.iter().map(|e| e.barrier).collect();
    assert_eq!(barriers, [wide(), barrier(C, "w", C, "r"), barrier(C, "", C, ""), wide()]);
    let causes: Vec<Cause> = plan.emissions.iter().map(|e| e.witness.cause).collect();
    assert_eq!(causes, [Cause::Prefix, Cause::Raw, Cause::War, Cause::Flush]);
}

#[test]
fn within_its_interval_a_barrier_stands_where_most_stays_side_by_side() {
    // The last two read what the first writes; the two between have nothing to do with either.
    let program = [
        Step::Ask(wide()),
        op([write(C, 0)]),
        Step::Ask(wide()),
        op([write(C, 2)]),
        op([write(C, 3)]),
        op([read(C, 0)]),
        op([read(C, 0), write(C, 4)]),
    ];
    let plan = stretch(&program, None).plan(Freedom::InOrder);
    use Issue::{Barrier, Operation};
    let issue =
        [Barrier(0), Operation(0), Barrier(1), Operation(1), Operation(2), Operation(3), Operation(4)];
    assert_eq!(plan.issue, issue, "a tracker that can't look ahead would emit before operation 3");
    assert_eq!(plan.side_by_side, 6);
}

#[test]
fn independent_chains_are_laid_side_by_side_where_operations_may_move() {
    // Two chains of three, recorded one after the other with a barrier after each step.
    let mut program = vec![Step::Ask(wide())];
    for chain in [0, 10] {
        for step in 0..3 {
            program.push(op([read(C, chain + step), write(C, chain + step + 1)]));
            program.push(Step::Ask(wide()));
        }
    }
    let count = |freedom| stretch(&program, None).plan(freedom).emissions.len();
    assert_eq!(count(Freedom::InOrder), 6, "prefix, 2 in each chain, end; none between the chains");
    assert_eq!(count(Freedom::AnyOrder), 4, "prefix, 2, end");
}

#[test]
fn copies_move_too() {
    let program = [
        Step::Ask(wide()),
        op([write(C, 0)]),
        Step::Ask(wide()),
        op([read(C, 0), write(C, 1)]),
        Step::Ask(wide()),
        op([read(C, 1), write(C, 2)]),
        Step::Ask(wide()),
        op([read(T, 5), write(T, 6)]),
        Step::Ask(wide()),
        op([read(T, 6), write(T, 7)]),
        Step::Ask(wide()),
        op([read(T, 7), write(T, 8)]),
    ];
    let count = |freedom| stretch(&program, None).plan(freedom).emissions.len();
    assert_eq!(count(Freedom::InOrder), 5, "prefix, 2 for the dispatches, 2 for the copies");
    assert_eq!(count(Freedom::AnyOrder), 4, "prefix, 2 for both, and one for what follows");
}
