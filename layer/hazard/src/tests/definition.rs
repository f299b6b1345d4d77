//! Is the model itself right?
//!
//! It is small, but everything else rests on it. So it is held against the definition taken literally: accesses are
//! taken apart into single stages and flags, and *every* subsequence of the barriers between two operations is tried as
//! a chain.

use super::programs::*;
use crate::model::{Dependency, Event, Later, Model, Pair, Spelled, required_pairs};
use crate::{Access, Barrier, Flags, Kind, Scope, Side, Stages};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// One stage, one flag.
type Atom = (u64, u64);

fn atoms(access: &Access) -> Vec<Atom> {
    let bits = |mask: u64| (0..64).map(|n| 1u64 << n).filter(move |bit| mask & bit != 0);
    bits(access.stages.bits()).flat_map(|s| bits(access.flags.bits()).map(move |f| (s, f))).collect()
}

/// The definition: is there a subsequence of `barriers` that is a chain from `a` to `b`?
fn is_chained(barriers: &[Spelled], dependency: Dependency, a: Atom, b: Atom) -> bool {
    (1u32..1 << barriers.len()).any(|subset| {
        let chain: Vec<&Spelled> = barriers
            .iter()
            .enumerate()
            .filter(|(n, _)| subset >> n & 1 == 1)
            .map(|(_, barrier)| barrier)
            .collect();
        let (first, last) = (chain[0], chain[chain.len() - 1]);
        let linked = chain.windows(2).all(|two| two[0].dst_execution & two[1].src_execution != 0);
        let available = first.src_stages & a.0 != 0 && first.src_flags & a.1 != 0;
        let visible = last.dst_stages & b.0 != 0 && last.dst_flags & b.1 != 0;
        let begins = first.src_execution & a.0 != 0;
        let ends = last.dst_execution & b.0 != 0;
        linked
            && match dependency {
                Dependency::War => begins && ends,
                Dependency::Waw => available && ends,
                Dependency::Raw => available && visible,
            }
    })
}

/// Every required pair by the definition, operations only.
fn literally(events: &[Event]) -> Vec<Pair> {
    let operations: Vec<(usize, &Vec<Access>)> = events
        .iter()
        .enumerate()
        .filter_map(|(at, event)| match event {
            Event::Operation(accesses) => Some((at, accesses)),
            _ => None,
        })
        .collect();
    let mut pairs = Vec::new();
    for (later, (to, now)) in operations.iter().enumerate() {
        for (earlier, (from, before)) in operations[..later].iter().enumerate() {
            let between = &events[*from..*to];
            let asked: Vec<Spelled> = between
                .iter()
                .filter_map(|e| if let Event::Asked(b) = e { Some(Spelled::new(b)) } else { None })
                .collect();
            let emitted: Vec<Spelled> = between
                .iter()
                .filter_map(|e| if let Event::Emitted(b) = e { Some(Spelled::new(b)) } else { None })
                .collect();
            for dependency in [Dependency::Raw, Dependency::War, Dependency::Waw] {
                let (first, second) = match dependency {
                    Dependency::Raw => (Kind::Write, Kind::Read),
                    Dependency::War => (Kind::Read, Kind::Write),
                    Dependency::Waw => (Kind::Write, Kind::Write),
                };
                let required: Vec<bool> = before
                    .iter()
                    .filter(|a| a.kind == first)
                    .flat_map(|a| {
                        now.iter()
                            .filter(|b| b.kind == second && a.range.overlaps(&b.range))
                            .map(move |b| (a, b))
                    })
                    .flat_map(|(a, b)| {
                        atoms(a).into_iter().flat_map(move |x| atoms(b).into_iter().map(move |y| (x, y)))
                    })
                    .filter(|(x, y)| is_chained(&asked, dependency, *x, *y))
                    .map(|(x, y)| is_chained(&emitted, dependency, x, y))
                    .collect();
                if !required.is_empty() {
                    let ordered = required.iter().all(|ordered| *ordered);
                    pairs.push(Pair { earlier, later: Later::Operation(later), dependency, ordered });
                }
            }
        }
    }
    pairs
}

fn stages() -> impl Strategy<Value = Stages> {
    prop::sample::subsequence(
        vec![
            Stages::COMPUTE_SHADER,
            Stages::COPY,
            Stages::DRAW_INDIRECT,
            Stages::FRAGMENT_SHADER,
            Stages::VERTEX_SHADER,
        ],
        1..5,
    )
    .prop_map(|list| list.into_iter().collect())
}

fn flags() -> impl Strategy<Value = Flags> {
    prop::sample::subsequence(
        vec![
            Flags::SHADER_STORAGE_READ,
            Flags::SHADER_STORAGE_WRITE,
            Flags::TRANSFER_READ,
            Flags::TRANSFER_WRITE,
            Flags::MEMORY_READ,
        ],
        0..6,
    )
    .prop_map(|list| list.into_iter().collect())
}

fn scope() -> impl Strategy<Value = Scope> {
    (stages(), flags()).prop_map(|(stages, flags)| Scope { stages, flags })
}

fn any_access() -> impl Strategy<Value = Access> {
    let part = |list: Vec<Flags>| {
        prop::sample::subsequence(list, 1..3).prop_map(|list| list.into_iter().collect::<Flags>())
    };
    let reads = part(vec![Flags::SHADER_STORAGE_READ, Flags::TRANSFER_READ, Flags::UNIFORM_READ]);
    let writes = part(vec![Flags::SHADER_STORAGE_WRITE, Flags::TRANSFER_WRITE]);
    (
        prop_oneof![4 => Just(0), 1 => Just(1)],
        stages(),
        prop_oneof![(Just(Kind::Read), reads), (Just(Kind::Write), writes)],
    )
        .prop_map(|(r, stages, (kind, flags))| Access { range: range(r), kind, stages, flags })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        prop::collection::vec(any_access(), 1..3).prop_map(Event::Operation),
        (scope(), scope()).prop_map(|(src, dst)| Event::Asked(Barrier { src, dst })),
        (scope(), scope()).prop_map(|(src, dst)| Event::Emitted(Barrier { src, dst })),
    ]
}

proptest! {
    #![proptest_config(super::budget::cases(4000))]

    #[test]
    fn the_model_finds_exactly_the_pairs_of_the_definition(events in prop::collection::vec(event(), 3..16)) {
        let key = |pair: &Pair| (pair.later, pair.earlier, pair.dependency);
        let (mut found, mut defined) = (required_pairs(&events), literally(&events));
        found.sort_by_key(key);
        defined.sort_by_key(key);
        prop_assert_eq!(found, defined);
    }

    #[test]
    fn both_readings_of_any_mask_agree(src in any::<(u64, u64)>(), dst in any::<(u64, u64)>()) {
        compare(src, dst)?;
    }
}

/// Holds the tracker's reading of a barrier's masks against the model's.
fn compare(src: (u64, u64), dst: (u64, u64)) -> Result<(), TestCaseError> {
    let scope = |(s, f)| Scope { stages: Stages::from_bits_retain(s), flags: Flags::from_bits_retain(f) };
    let barrier = Barrier { src: scope(src), dst: scope(dst) };
    let spelled = Spelled::new(&barrier);
    prop_assert_eq!(barrier.src.stages.expand().bits(), spelled.src_stages, "source stages");
    prop_assert_eq!(barrier.dst.stages.expand().bits(), spelled.dst_stages, "destination stages");
    prop_assert_eq!(barrier.src.flags.expand().bits(), spelled.src_flags, "source flags");
    prop_assert_eq!(barrier.dst.flags.expand().bits(), spelled.dst_flags, "destination flags");
    let execution = |stages: Stages, side| stages.execution(side).bits();
    prop_assert_eq!(execution(barrier.src.stages, Side::First), spelled.src_execution, "source execution");
    prop_assert_eq!(
        execution(barrier.dst.stages, Side::Second),
        spelled.dst_execution,
        "destination execution"
    );
    Ok(())
}

#[test]
fn the_random_events_hold_pairs_of_every_kind() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop::collection::vec(event(), 3..16);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..2000 {
        let events = strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current();
        for pair in required_pairs(&events) {
            *seen.entry((pair.dependency, pair.ordered)).or_insert(0) += 1;
        }
    }
    assert!(seen.len() == 6 && seen.values().all(|n| *n >= 30), "{seen:?}");
}

#[test]
fn both_readings_agree_bit_by_bit() {
    let mut wrong = Vec::new();
    for n in 0..64 {
        let bit = 1u64 << n;
        if let Err(error) = compare((bit, bit), (bit, bit)) {
            wrong.push(format!("bit {n}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_host_is_a_reader_that_no_operation_stands_for() {
    let to_host = Barrier {
        src: Scope { stages: Stages::COMPUTE_SHADER, flags: Flags::SHADER_WRITE },
        dst: Scope { stages: Stages::HOST, flags: Flags::HOST_READ },
    };
    let mut model = Model::new();
    model.operation(&[write(C, 0)]);
    model.asked(&to_host);
    let pairs = model.operation(&[read(C, 9)]);
    let raw = Pair { earlier: 0, later: Later::HostBefore(1), dependency: Dependency::Raw, ordered: false };
    assert!(pairs.contains(&raw), "{pairs:?}");
    model.asked(&to_host);
    model.emitted(&to_host);
    assert!(model.finish().iter().all(|pair| pair.ordered), "at the end the host looks too");
    assert_eq!(model.finish(), [], "once");
}

#[test]
fn top_and_bottom_of_pipe_order_execution_and_never_memory() {
    let all = |stages| Scope { stages, flags: Flags::MEMORY_READ | Flags::MEMORY_WRITE };
    let compute = all(Stages::COMPUTE_SHADER);
    let pairs = |barrier, first, last| {
        required_pairs(&[Event::Operation(vec![first]), Event::Asked(barrier), Event::Operation(vec![last])])
    };
    let to_top = Barrier { src: compute, dst: all(Stages::TOP_OF_PIPE) };
    assert_eq!(pairs(to_top, write(C, 0), read(C, 0)), []);
    assert_eq!(pairs(to_top, write(C, 0), write(C, 0)).len(), 1, "available, and then everything waits");
    let from_bottom = Barrier { src: all(Stages::BOTTOM_OF_PIPE), dst: compute };
    assert_eq!(pairs(from_bottom, write(C, 0), write(C, 0)), [], "never available");
    assert_eq!(pairs(from_bottom, read(C, 0), write(C, 0)).len(), 1);
    let nothing = Barrier { src: all(Stages::TOP_OF_PIPE), dst: all(Stages::BOTTOM_OF_PIPE) };
    assert_eq!(pairs(nothing, read(C, 0), write(C, 0)), []);
}
