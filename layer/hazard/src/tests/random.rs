//! Longer programs, at random: everything at once.
//!
//! Up to a dozen operations in up to three command buffers; ranges that overlap in part, alias, or are unknown;
//! accesses at several stages with several flags; barriers with compound bits, wrong masks, and the host. What the
//! exhaustive spaces leave out of their product is mixed here.

use super::programs::*;
use crate::model::{Event, Later, audit, required_pairs};
use crate::tracker::Fault;
use crate::{Access, Barrier, Carry, Flags, Kind, MemoryId, Policy, Range, Scope, Stages};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn any_range() -> impl Strategy<Value = Range> {
    let bytes = |memory, start, end| Range::Bytes { memory: MemoryId(memory), start, end };
    prop_oneof![
        9 => select(vec![bytes(1, 0, 64), bytes(1, 32, 96), bytes(1, 64, 128), bytes(2, 0, 64)]),
        1 => select(vec![Range::Anywhere, bytes(1, 16, 16)]),
    ]
}

fn storage() -> impl Strategy<Value = Access> {
    let kinds = vec![
        (Kind::Read, Flags::SHADER_STORAGE_READ),
        (Kind::Write, Flags::SHADER_STORAGE_WRITE),
        (Kind::Read, Flags::UNIFORM_READ),
    ];
    (any_range(), select(kinds)).prop_map(|(range, (kind, flags))| Access {
        range,
        kind,
        stages: Stages::COMPUTE_SHADER,
        flags,
    })
}

/// An access of which little is known.
fn vague() -> impl Strategy<Value = Access> {
    let stages = subsequence(
        vec![
            Stages::COMPUTE_SHADER,
            Stages::COPY,
            Stages::DRAW_INDIRECT,
            Stages::FRAGMENT_SHADER,
            Stages::from_bits_retain(1 << 60),
        ],
        1..4,
    );
    let reads = vec![Flags::SHADER_STORAGE_READ, Flags::TRANSFER_READ, Flags::INDIRECT_COMMAND_READ];
    let writes = vec![Flags::SHADER_STORAGE_WRITE, Flags::TRANSFER_WRITE, Flags::from_bits_retain(1 << 60)];
    let some = |kind, list| (Just(kind), subsequence(list, 1..3));
    (any_range(), stages, prop_oneof![some(Kind::Read, reads), some(Kind::Write, writes)]).prop_map(
        |(range, stages, (kind, flags))| Access {
            range,
            kind,
            stages: stages.into_iter().collect(),
            flags: flags.into_iter().collect(),
        },
    )
}

fn operation() -> impl Strategy<Value = Vec<Access>> {
    let at = |kind, stages, flags| any_range().prop_map(move |range| Access { range, kind, stages, flags });
    let copy_read = at(Kind::Read, Stages::COPY, Flags::TRANSFER_READ);
    let copy_write = at(Kind::Write, Stages::COPY, Flags::TRANSFER_WRITE);
    let arguments = at(Kind::Read, Stages::DRAW_INDIRECT, Flags::INDIRECT_COMMAND_READ);
    prop_oneof![
        6 => prop::collection::vec(storage(), 1..4),
        3 => (copy_read, copy_write).prop_map(|(from, to)| vec![from, to]),
        1 => at(Kind::Write, Stages::CLEAR, Flags::TRANSFER_WRITE).prop_map(|fill| vec![fill]),
        2 => (arguments, storage()).prop_map(|(arguments, access)| vec![arguments, access]),
        2 => prop::collection::vec(vague(), 1..3),
        1 => Just(Access::unknown().to_vec()),
    ]
}

fn scope() -> impl Strategy<Value = Scope> {
    let stages = vec![
        Stages::COMPUTE_SHADER,
        Stages::COPY,
        Stages::ALL_TRANSFER,
        Stages::DRAW_INDIRECT,
        Stages::FRAGMENT_SHADER,
        Stages::ALL_GRAPHICS,
        Stages::VERTEX_INPUT,
        Stages::TOP_OF_PIPE,
        Stages::BOTTOM_OF_PIPE,
    ];
    let flags = vec![
        Flags::MEMORY_READ,
        Flags::MEMORY_WRITE,
        Flags::SHADER_READ,
        Flags::SHADER_WRITE,
        Flags::SHADER_STORAGE_READ,
        Flags::UNIFORM_READ,
        Flags::TRANSFER_READ,
        Flags::TRANSFER_WRITE,
        Flags::INDIRECT_COMMAND_READ,
    ];
    prop_oneof![
        6 => (subsequence(stages, 1..3), subsequence(flags.clone(), 0..4))
            .prop_map(|(stages, flags)| (stages.into_iter().collect(), flags.into_iter().collect())),
        3 => Just((Stages::COMPUTE_SHADER, Flags::SHADER_READ | Flags::SHADER_WRITE)),
        2 => Just((Stages::ALL_COMMANDS, Flags::MEMORY_READ | Flags::MEMORY_WRITE)),
        1 => subsequence(flags, 0..3).prop_map(|flags| (Stages::ALL_COMMANDS, flags.into_iter().collect())),
        1 => Just((Stages::HOST, Flags::HOST_READ | Flags::HOST_WRITE)),
    ]
    .prop_map(|(stages, flags)| Scope { stages, flags })
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => operation().prop_map(Step::Do),
        9 => (scope(), scope()).prop_map(|(src, dst)| Step::Ask(Barrier { src, dst })),
        1 => Just(Step::Unknown),
    ]
}

/// Up to three command buffers.
pub fn program() -> impl Strategy<Value = Program> {
    prop::collection::vec(prop::collection::vec(step(), 0..8), 1..4)
        .prop_map(|buffers| buffers.join(&Step::End))
}

/// The planner's events, and its counts after the last command buffer has ended.
fn planned(program: &[Step], policy: Policy) -> (Vec<Event>, [u64; 4]) {
    let mut planning = Planning::new(policy);
    let mut events = Vec::new();
    for step in program.iter().chain([&Step::End]) {
        planning.follow(step, &mut events);
    }
    (events, planning.counts)
}

fn asked_count(program: &[Step]) -> u64 {
    program.iter().filter(|step| matches!(step, Step::Ask(_))).count() as u64
}

proptest! {
    #![proptest_config(super::budget::cases(10_000))]

    #[test]
    fn every_correct_policy_orders_every_required_pair(program in program()) {
        for policy in Policy::ALL.into_iter().filter(|p| p.is_correct() && p.freedom().is_none()) {
            let (events, [asked, emitted, added, elided]) = planned(&program, policy);
            prop_assert_eq!(audit(&events).violations, [], "{}:\n{}", policy, show(&program));
            prop_assert_eq!(asked, asked_count(&program));
            prop_assert_eq!(emitted, emissions(&events).len() as u64);
            prop_assert_eq!(asked + added, emitted + elided, "{}", policy);
            prop_assert!(policy == Policy::Every || added == 0);
            prop_assert!(policy == Policy::AliasOnly || elided == 0);
        }
    }

    #[test]
    fn every_way_to_carry_is_sound(program in program()) {
        for carry in [Carry::AskedJoin, Carry::PendingJoin, Carry::Full] {
            prop_assert_eq!(violations(&program, Tracking::new(carry)), [], "{:?}:\n{}", carry, show(&program));
        }
    }

    #[test]
    fn stock_emits_what_was_asked_where_it_was_asked(program in program()) {
        let (events, _) = planned(&program, Policy::Stock);
        let asked: Vec<&Event> = events.iter().filter(|event| matches!(event, Event::Asked(_))).collect();
        prop_assert_eq!(asked.len() as u64, asked_count(&program));
        for (n, event) in events.iter().enumerate() {
            match event {
                Event::Asked(barrier) => prop_assert_eq!(events.get(n + 1), Some(&Event::Emitted(*barrier))),
                Event::Emitted(barrier) => prop_assert_eq!(&events[n - 1], &Event::Asked(*barrier)),
                Event::Operation(_) => {}
            }
        }
    }

    #[test]
    fn every_adds_a_full_barrier_after_each_operation_to_what_stock_emits(program in program()) {
        let (stock, _) = planned(&program, Policy::Stock);
        let (every, [_, _, added, _]) = planned(&program, Policy::Every);
        let mut expected = Vec::new();
        let mut known = program.iter().filter(|step| matches!(step, Step::Do(_) | Step::Unknown));
        for event in stock {
            let is_operation = matches!(event, Event::Operation(_));
            expected.push(event);
            if is_operation && matches!(known.next(), Some(Step::Do(_))) {
                expected.push(Event::Emitted(Barrier::FULL));
            }
        }
        prop_assert_eq!(every, expected);
        prop_assert_eq!(added, program.iter().filter(|step| matches!(step, Step::Do(_))).count() as u64);
    }

    #[test]
    fn none_emits_nothing_and_the_model_says_so(program in program()) {
        let (events, [asked, emitted, added, elided]) = planned(&program, Policy::None);
        prop_assert_eq!((emitted, added, elided), (0, 0, asked));
        let required = required_pairs(&events);
        prop_assert!(required.iter().all(|pair| !pair.ordered));
        prop_assert_eq!(audit(&events).violations, required);
    }
}

/// The first of `tries` random programs in which `follower` leaves a required pair unordered.
fn first_victim<F: Follower>(tries: usize, follower: impl Fn() -> F) -> Option<Program> {
    let mut runner = TestRunner::deterministic();
    let strategy = program();
    (0..tries)
        .map(|_| strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current())
        .find(|program| !violations(program, follower()).is_empty())
}

#[test]
fn random_programs_are_worth_running() {
    let mut runner = TestRunner::deterministic();
    let strategy = program();
    let (mut host, mut across, mut elided) = (0, 0, 0);
    let mut pairs = [0; 3];
    for _ in 0..2000 {
        let program = strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current();
        let (events, counts) = planned(&program, Policy::AliasOnly);
        elided += u32::from(counts[3] > 0);
        // The number of the first operation in each command buffer but the first.
        let mut starts = Vec::new();
        let mut operations = 0;
        for step in &program {
            match step {
                Step::Do(_) | Step::Unknown => operations += 1,
                Step::End => starts.push(operations),
                Step::Ask(_) => {}
            }
        }
        for pair in required_pairs(&events) {
            match pair.later {
                Later::HostBefore(_) => host += 1,
                Later::Operation(later) => {
                    pairs[pair.dependency as usize] += 1;
                    across += u32::from(starts.iter().any(|start| pair.earlier < *start && *start <= later));
                }
            }
        }
    }
    println!(
        "2000 programs: {pairs:?} RAW, WAR, WAW; {host} with the host; {across} across command buffers;"
    );
    println!("{elided} programs in which a barrier was elided");
    assert!(pairs.iter().all(|n| *n > 500) && host > 200 && across > 500 && elided > 500);
}

#[test]
fn random_programs_notice_a_policy_without_barriers() {
    assert!(first_victim(50, || Planning::new(Policy::None)).is_some());
}

#[test]
fn random_programs_notice_every_fault() {
    for fault in [
        Fault::ForgetWar,
        Fault::ForgetChains,
        Fault::EmissionClearsEverything,
        Fault::PrefixOnlyBeforeFirstBarrier,
        Fault::ForgetFinalFlush,
    ] {
        let victim = first_victim(20_000, || Tracking::broken(Carry::AskedJoin, fault));
        assert!(victim.is_some(), "{fault:?}");
    }
}
