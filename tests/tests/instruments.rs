//! The instruments that show a missing barrier: what each catches, what it lets pass, and that none of them breaks a
//! program that is right.
//!
//! On lavapipe, which executes in order, a missing barrier changes nothing by itself. So a stream whose result changes
//! under an instrument, and under this one only, shows what the instrument is for.

use zinc_tests::{Layer, Stream};

/// Instruments by name, as settings of the layer.
const INSTRUMENTS: [(&str, &[(&str, &str)]); 5] = [
    ("shuffle", &[("SHUFFLE", "reverse")]),
    ("delay", &[("DELAY", "1")]),
    ("slice", &[("SLICE", "1")]),
    ("delay and slice", &[("DELAY", "1"), ("SLICE", "1")]),
    ("all", &[("SHUFFLE", "5"), ("DELAY", "1"), ("SLICE", "1")]),
];

fn with(layer: Layer, instrument: &str) -> Layer {
    let (_, settings) = INSTRUMENTS.iter().find(|(name, _)| *name == instrument).expect("it is in the table");
    settings.iter().fold(layer, |layer, (name, value)| layer.set(name, *value))
}

/// The single instruments under which the stream's result is another one, and the audit if it has something to say.
fn caught_by(stream: &Stream, policy: &str) -> Vec<&'static str> {
    let truth = stream.bare().digest;
    let caught = |name: &&str| stream.with(|layer| with(layer.policy(policy), name)).digest != truth;
    let audited = stream.with(|layer| layer.policy(policy).set("AUDIT", "1"));
    assert_eq!(audited.digest, truth, "an audit changes nothing");
    let violations = audited.report.and_then(|report| report.audit).expect("audited").violations;
    let executing = ["shuffle", "delay", "slice"].into_iter().filter(caught);
    executing.chain((violations > 0).then_some("audit")).collect()
}

/// A write of buffer a and a read of it into b, with `between` between the two.
fn write_and_read(between: &str) -> Stream {
    Stream::new(format!(
        "
        buffer a 4096
        buffer b 4096
        data a words 5
        begin x
            dispatch write a k 3
            {between}
            dispatch step a b
        end
        submit x
        wait
    "
    ))
}

const RIGHT: &str = "barrier compute_shader/shader_write -> compute_shader/shader_read";

#[test]
fn only_the_delay_sees_a_barrier_that_orders_and_makes_nothing_visible() {
    for between in [
        "barrier compute_shader/shader_read -> compute_shader/shader_read",
        "barrier compute_shader -> compute_shader",
        "barrier compute_shader/shader_write -> compute_shader/shader_write",
        "barrier compute_shader/shader_write -> compute_shader/uniform_read",
        "barrier compute_shader/transfer_write -> compute_shader/memory_read",
    ] {
        assert_eq!(caught_by(&write_and_read(between), "stock"), ["delay"], "{between}");
    }
    for between in [
        RIGHT,
        "barrier all_commands/memory_write -> all_commands/memory_read",
        "barrier2 compute_shader/shader_storage_write -> compute_shader/shader_storage_read",
        // A chain: available by the first, visible by the second.
        "barrier compute_shader/shader_write -> all_transfer
         barrier all_transfer -> compute_shader/shader_read",
    ] {
        assert_eq!(caught_by(&write_and_read(between), "stock"), [""; 0], "{between}");
    }
}

#[test]
fn only_the_delay_sees_that_nothing_was_flushed_between_two_submits() {
    let two = |first: &str, second: &str| {
        Stream::new(format!(
            "
            buffer a 4096
            buffer b 4096
            begin x
                dispatch write a k 3
                {first}
            end
            begin y
                {second}
                dispatch step a b
            end
            submit x
            submit y
            wait
        "
        ))
    };
    assert_eq!(caught_by(&two("", ""), "stock"), ["delay"]);
    assert_eq!(caught_by(&two(RIGHT, ""), "stock"), [""; 0], "the first command buffer's end");
    assert_eq!(caught_by(&two("", RIGHT), "stock"), [""; 0], "the second one's beginning");
    let halves =
        ["compute_shader/shader_write -> all_transfer", "all_transfer -> compute_shader/shader_read"]
            .map(|masks| format!("barrier {masks}"));
    assert_eq!(caught_by(&two(&halves[0], &halves[1]), "stock"), [""; 0], "half of a chain in each");
    assert_eq!(caught_by(&two(&halves[1], &halves[0]), "stock"), ["delay"], "the halves in the wrong order");
    // A policy that drops what it was asked for is found out, and one that is right is not.
    for (policy, caught) in [("none", true), ("alias-only", false), ("narrow", false), ("reorder", false)] {
        assert_eq!(caught_by(&two("", RIGHT), policy).contains(&"delay"), caught, "{policy}");
    }
}

#[test]
fn a_host_that_waits_sees_everything_and_a_device_that_was_waited_for_too() {
    let stream = Stream::new(
        "
        buffer a 4096
        buffer b 4096
        begin x
            dispatch write a k 3
        end
        begin y
            dispatch step a b
        end
        submit x
        wait
        submit2 y
        wait
    ",
    );
    assert_eq!(caught_by(&stream, "stock"), [""; 0]);
}

#[test]
fn only_a_shuffle_sees_an_overwrite_that_nothing_orders() {
    let stream = |between: &str| {
        Stream::new(format!(
            "
            buffer a 256
            buffer b 256
            data a iota
            begin x
                dispatch step a b
                {between}
                dispatch write a k 9
            end
            submit x
            wait
        "
        ))
    };
    assert_eq!(caught_by(&stream(""), "stock"), ["shuffle"]);
    // A barrier that is there and names other stages orders nothing, and the shuffle knows.
    let other = "barrier all_transfer/memory_write -> all_transfer/memory_read";
    assert_eq!(caught_by(&stream(other), "stock"), ["shuffle"]);
    let execution = "barrier compute_shader -> compute_shader";
    assert_eq!(caught_by(&stream(execution), "stock"), [""; 0]);
}

#[test]
fn only_slices_see_what_goes_wrong_when_two_dispatches_overlap_in_part() {
    // Before the first dispatch all of a is alike, and behind it too: the second one sees a difference only in between.
    let stream = |between: &str| {
        Stream::new(format!(
            "
            buffer a 4096
            buffer b 4096
            begin x
                dispatch flat a k 7
                {between}
                dispatch ends a b
            end
            submit x
            wait
        "
        ))
    };
    assert_eq!(caught_by(&stream(""), "stock"), ["slice"]);
    assert_eq!(caught_by(&stream(RIGHT), "stock"), [""; 0]);
}

#[test]
fn only_the_audit_sees_a_lost_barrier_that_changes_no_value() {
    // Twice the same bytes: in whichever order and however delayed, the result is the same. The barrier is required all
    // the same, and a device may do worse than executing in another order.
    let stream = Stream::new(
        "
        buffer a 4096
        begin x
            dispatch flat a k 7
            barrier compute_shader/shader_write -> compute_shader/shader_write
            dispatch flat a k 7
        end
        submit x
        wait
    ",
    );
    let lost = |layer: Layer| layer.policy("alias-only").set("MUTATE", "0");
    let truth = stream.bare().digest;
    for (name, _) in INSTRUMENTS {
        assert_eq!(stream.with(|layer| with(lost(layer), name)).digest, truth, "{name}");
    }
    let violations = |mutate: &str| {
        let played = stream.with(|layer| layer.policy("alias-only").set("AUDIT", "1").set("MUTATE", mutate));
        played.report.expect("played under the layer").audit.expect("audited").violations
    };
    assert_eq!((violations("0"), violations("off")), (1, 0));
}

/// A chain of dispatches, copies and fills in three submissions, right under every policy, in which every barrier counts.
fn long_and_right() -> Stream {
    let mut text = String::from("buffer a 4096\nbuffer b 4096\nbuffer c 4096\ndata a iota\n");
    let both = "barrier compute_shader+all_transfer/memory_write+memory_read -> \
                compute_shader+all_transfer/memory_write+memory_read";
    for i in 0..3 {
        text += &format!(
            "begin x{i}
                {both}
                dispatch scale b k {i}
                dispatch count c k {i}
                dispatch count c k 1
                {both}
                copy b[0:1024] a[1024:1024]
                dispatch step c[1024:2048] b[1024:2048] k {i}
                {both}
                dispatch add a b c
                {both}
                update a[0:64] {i} 2 3
                dispatch views b[3072:]
                {both}
                dispatch gather a c b
             end
             submit x{i}\n"
        );
    }
    Stream::new(text + "wait\n")
}

#[test]
fn no_instrument_changes_what_a_right_program_computes_under_a_right_policy() {
    let stream = long_and_right();
    let truth = stream.bare().digest;
    for policy in ["stock", "every", "alias-only", "narrow", "reorder"] {
        for (name, _) in INSTRUMENTS {
            let played = stream.with(|layer| with(layer.policy(policy), name));
            assert_eq!(played.digest, truth, "{policy}, {name}");
        }
    }
    let caught = caught_by(&stream, "none");
    assert!(caught.contains(&"shuffle") && caught.contains(&"delay"), "without barriers: {caught:?}");
}

#[test]
fn each_single_loss_shows_and_the_delay_alone_sees_all_but_the_overwrite_of_what_was_read() {
    let stream = long_and_right();
    let truth = stream.bare().digest;
    // The count begins anew with each submission. The barrier number 3 keeps an update behind a read.
    for lost in 0..5 {
        let sees = |instrument| {
            let lost = lost.to_string();
            stream.with(|l| with(l.policy("alias-only").set("MUTATE", lost), instrument)).digest != truth
        };
        assert_eq!(sees("delay"), lost != 3, "barrier {lost} of each submission");
        assert!(lost != 3 || sees("shuffle"), "barrier {lost} of each submission");
    }
}

#[test]
fn only_single_losses_see_that_a_check_is_blind_to_one_barrier_of_several() {
    // What is read is overwritten behind the second barrier. Without any barrier the delay sees that something is wrong, so the
    // check seems to be a good one; that it can't see the loss of the second barrier only the loss of that one shows.
    let stream = Stream::new(format!(
        "
        buffer a 256
        buffer b 256
        begin x
            dispatch write a k 3
            {RIGHT}
            dispatch step a b
            barrier compute_shader -> compute_shader
            dispatch write a k 9
        end
        submit x
        wait
    "
    ));
    let truth = stream.bare().digest;
    let under = |policy: &'static str| move |l: Layer| l.policy(policy);
    let passes =
        |settings: &dyn Fn(Layer) -> Layer| stream.with(|l| with(settings(l), "delay")).digest == truth;
    assert!(passes(&under("alias-only")) && !passes(&under("none")), "the check seems to be a good one");
    let lost = |number: &'static str| move |l: Layer| l.policy("alias-only").set("MUTATE", number);
    assert!(!passes(&lost("0")) && passes(&lost("1")), "and is blind to the second loss");
    assert!(passes(&lost("2")), "there is no third");
    // Nothing else tells: the audit of what was really emitted is content.
    assert_eq!(caught_by(&stream, "alias-only"), [""; 0]);
}

#[test]
fn the_report_says_what_could_be_replayed_and_what_could_not() {
    let played = long_and_right().with(|layer| with(layer.policy("alias-only"), "delay and slice"));
    let replayed = played.report.expect("played under the layer").replayed.expect("it was asked for");
    assert_eq!((replayed.replayed, replayed.passed_through), (3, 0));
    // Atomics meet without barriers: two dispatches of 'count' in each of three submissions.
    assert_eq!((replayed.delayed > 0, replayed.not_delayed), (true, 6), "{replayed:?}");
    assert!(replayed.cut > 0 && replayed.whole > 0, "{replayed:?}");

    let with_queries = Stream::new(format!(
        "
        buffer a 4096
        buffer b 4096
        begin x
            dispatch write a k 3
        end
        begin y
            reset-queries
            timestamp
            {RIGHT}
            dispatch step a b
        end
        submit x
        submit y
        wait
    "
    ));
    let truth = with_queries.bare().digest;
    for (name, _) in INSTRUMENTS {
        let played = with_queries.with(|layer| with(layer.policy("alias-only"), name));
        assert_eq!(played.digest, truth, "{name}: what can't be replayed sees everything");
        let replayed = played.report.and_then(|report| report.replayed).expect("it was asked for");
        assert_eq!((replayed.replayed, replayed.passed_through), (1, 1), "{name}");
    }
    assert!(with_queries.under("alias-only").report.is_some_and(|report| report.replayed.is_none()));
}
