//! What the tracker does, by example. Read these first.
//!
//! `C`, `T` and `I` are places: a dispatch's storage accesses, a copy's, an indirect dispatch's arguments. Most
//! examples begin with a *warm-up*, a barrier and an operation that settle what came before the command buffer, so
//! that the rest shows one rule alone.

use super::programs::*;
use crate::model::{Dependency, Later, Pair};
use crate::{Access, Barrier, Carry, Cause, Due, Flags, Policy, Scope, Stages, Tracker};

/// A tracker that has already emitted `barriers` for what came before.
fn warm(barriers: &[Barrier]) -> Tracker {
    let mut tracker = Tracker::new(Carry::AskedJoin);
    for barrier in barriers {
        tracker.asked(*barrier);
        tracker.operation(&[write(C, 99), write(T, 99)]);
    }
    tracker
}

fn cause(due: Option<Due>) -> Option<Cause> {
    due.map(|due| due.cause)
}

#[test]
fn a_barrier_between_disjoint_operations_is_held_back_until_a_real_dependency_comes() {
    let b = barrier(C, "rw", C, "rw");
    let mut tracker = warm(&[b]);
    assert_eq!(tracker.operation(&[write(C, 0)]), None);
    tracker.asked(b);
    assert_eq!(tracker.operation(&[write(C, 1)]), None, "other bytes");
    tracker.asked(b);
    let due = tracker.operation(&[read(C, 0)]);
    assert_eq!(due, Some(Due { barrier: b, cause: Cause::Raw }));
    tracker.asked(b);
    assert_eq!(
        tracker.operation(&[read(C, 0)]),
        None,
        "two reads need no order, and the write is visible already"
    );
}

#[test]
fn nothing_is_due_for_what_the_application_left_unordered() {
    let mut tracker = warm(&[barrier(C, "rw", C, "rw")]);
    assert_eq!(tracker.operation(&[write(C, 0)]), None);
    assert_eq!(tracker.operation(&[read(C, 0)]), None, "no barrier was asked for between the two");
}

#[test]
fn overwriting_needs_a_barrier_even_when_it_carries_no_access_flags() {
    let b = barrier(C, "", C, "");
    let mut tracker = warm(&[b]);
    tracker.operation(&[read(C, 0)]);
    tracker.asked(b);
    assert_eq!(cause(tracker.operation(&[write(C, 0)])), Some(Cause::War));
}

#[test]
fn a_barrier_without_source_write_flags_orders_no_write() {
    let (execution, full) = (barrier(C, "", C, ""), barrier(C, "rw", C, "rw"));
    let mut tracker = warm(&[full]);
    tracker.operation(&[write(C, 0)]);
    tracker.asked(execution);
    assert_eq!(
        tracker.operation(&[read(C, 0)]),
        None,
        "never available, so the application has no order to lose"
    );
    assert_eq!(tracker.operation(&[write(C, 0)]), None);
}

#[test]
fn a_write_only_second_scope_orders_writes_but_shows_nothing_to_reads() {
    let program = |last: Access| {
        vec![ask(C, "rw", C, "rw"), op([write(C, 9)]), op([write(C, 0)]), ask(C, "w", C, "w"), op([last])]
    };
    let required = |program: &[Step]| {
        let pairs = crate::model::required_pairs(&events(program, Tracking::new(Carry::AskedJoin)));
        pairs.iter().map(|pair| pair.dependency).collect::<Vec<_>>()
    };
    assert_eq!(required(&program(write(C, 0))), [Dependency::Waw]);
    assert_eq!(required(&program(read(C, 0))), [], "not visible to reads, so not a required pair");
}

#[test]
fn two_barriers_make_a_chain_across_two_stages() {
    // The dispatch and the last copy have no barrier of their own in common: only the two together order them.
    let (first, second) = (barrier(C, "w", T, ""), barrier(T, "", T, "rw"));
    let mut tracker = warm(&[first.join(second)]);
    tracker.operation(&[write(C, 0)]);
    tracker.asked(first);
    assert_eq!(tracker.operation(&[read(C, 5)]), None);
    tracker.asked(second);
    assert_eq!(
        cause(tracker.operation(&[read(T, 0)])),
        Some(Cause::Raw),
        "available by one, visible by the other"
    );
}

#[test]
fn an_emission_does_not_clear_what_its_scopes_do_not_cover() {
    // D1 writes X. A barrier C to T. A copy reads X and forces the barrier out. A barrier T to C. D2 reads X.
    let (down, up) = (barrier(C, "rw", T, "rw"), barrier(T, "rw", C, "rw"));
    let mut tracker = Tracker::new(Carry::PendingJoin);
    tracker.operation(&[write(C, 0)]);
    tracker.asked(down);
    assert_eq!(tracker.operation(&[read(T, 0)]).map(|due| due.barrier), Some(down));
    tracker.asked(up);
    assert_eq!(tracker.operation(&[read(C, 0)]).map(|due| due.barrier), Some(up), "the second is due too");
}

#[test]
fn what_came_before_the_command_buffer_did_everything_everywhere() {
    let b = barrier(C, "rw", C, "rw");
    let mut tracker = Tracker::new(Carry::AskedJoin);
    assert_eq!(tracker.operation(&[read(C, 0)]), None, "nothing was asked for");
    tracker.asked(b);
    assert_eq!(cause(tracker.operation(&[read(C, 7)])), Some(Cause::Prefix));
    tracker.asked(b);
    assert_eq!(tracker.operation(&[read(C, 8)]), None, "equal scopes pay once");
    tracker.asked(barrier(C, "rw", T, "rw"));
    assert_eq!(cause(tracker.operation(&[read(T, 8)])), Some(Cause::Prefix), "new scopes pay again");
}

#[test]
fn a_write_made_available_in_an_earlier_command_buffer_is_carried_on_by_a_barrier_without_source_flags() {
    // The second barrier names no source access at all; it continues a chain that began in another command buffer.
    let program = vec![
        op([write(C, 0)]),
        ask(C, "w", T, ""),
        op([read(T, 5)]),
        Step::End,
        ask(T, "", C, "r"),
        op([read(C, 0)]),
    ];
    let queue = events(&program, Tracking::new(Carry::AskedJoin));
    let raw = Pair { earlier: 0, later: Later::Operation(2), dependency: Dependency::Raw, ordered: true };
    assert!(crate::model::required_pairs(&queue).contains(&raw), "{queue:?}");
}

#[test]
fn the_end_emits_what_is_pending_and_nothing_when_nothing_is() {
    let b = barrier(C, "rw", C, "rw");
    let mut tracker = warm(&[b]);
    tracker.operation(&[write(C, 0)]);
    tracker.asked(b);
    assert_eq!(tracker.flush(), Some(Due { barrier: b, cause: Cause::Flush }));
    assert_eq!(tracker.flush(), None);
    tracker.asked(b);
    assert_eq!(tracker.flush(), None, "nothing happened between the two barriers");
}

#[test]
fn a_write_flag_in_a_second_scope_is_nothing_to_wait_for() {
    // The copy is in no first scope, and what came before is ordered already; nobody reads through a write flag.
    let wide = Barrier {
        src: Scope { stages: Stages::COMPUTE_SHADER, flags: Flags::SHADER_WRITE },
        dst: Scope { stages: Stages::COMPUTE_SHADER | Stages::COPY, flags: Flags::SHADER_READ },
    };
    let mut tracker = Tracker::new(Carry::AskedJoin);
    tracker.asked(wide);
    assert_eq!(cause(tracker.operation(&[write(T, 0)])), Some(Cause::Prefix));
    tracker.asked(barrier(C, "w", C, "w"));
    assert_eq!(tracker.flush(), None);
}

#[test]
fn the_host_is_served_before_the_next_operation() {
    let host = Barrier {
        src: Scope { stages: Stages::COMPUTE_SHADER, flags: Flags::SHADER_WRITE },
        dst: Scope { stages: Stages::HOST, flags: Flags::HOST_READ },
    };
    let mut tracker = warm(&[barrier(C, "rw", C, "rw")]);
    tracker.operation(&[write(C, 0)]);
    tracker.asked(host);
    let due = tracker.operation(&[read(C, 50)]).expect("the host has no command that could flush");
    assert!(due.barrier.dst.stages.contains(Stages::HOST));
    assert_eq!(due.cause, Cause::Flush);
}

#[test]
fn aliases_and_partial_overlaps_are_the_same_bytes() {
    use crate::{MemoryId, Range};
    let b = barrier(C, "rw", C, "rw");
    let bytes = |start, size| Range::bytes(MemoryId(4), start, size, 64);
    let mut tracker = warm(&[b]);
    tracker.operation(&[Access::shader_write(bytes(0, 256))]);
    tracker.asked(b);
    assert_eq!(tracker.operation(&[Access::shader_read(bytes(256, 4))]), None);
    assert_eq!(cause(tracker.operation(&[Access::shader_read(bytes(250, 1))])), Some(Cause::Raw));
}

#[test]
fn each_policy_does_what_its_name_says() {
    let b = barrier(C, "rw", C, "rw");
    let program = vec![op([write(C, 0)]), ask(C, "rw", C, "rw"), op([write(C, 1)]), op([read(C, 0)])];
    let of = |policy| emissions(&events(&program, Planning::new(policy)));
    assert_eq!(of(Policy::Stock), [(1, b)]);
    let full = |n| (n, Barrier::FULL);
    assert_eq!(of(Policy::Every), [full(1), (1, b), full(2), full(3)]);
    assert_eq!(of(Policy::AliasOnly), [(1, b)], "due to what came before the command buffer");
    assert_eq!(of(Policy::None), []);
    for policy in Policy::ALL.into_iter().filter(|policy| policy.freedom().is_none()) {
        assert_eq!(violations(&program, Planning::new(policy)).is_empty(), policy.is_correct(), "{policy}");
    }
}
