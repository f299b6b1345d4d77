//! Policies and checks on whole streams: what they count, what they change, and that the checks can fail.

use zinc_tests::Stream;

const BARRIER: &str =
    "barrier compute_shader/shader_read+shader_write -> compute_shader/shader_read+shader_write";

/// Ten dispatches, each on what the one before it wrote, with a barrier between each two.
fn chain() -> Stream {
    let mut text = String::from("buffer a 1024\nbuffer b 1024\ndata a iota\nbegin x\n");
    for i in 0..10 {
        let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
        if i > 0 {
            text += &format!("{BARRIER}\n");
        }
        text += &format!("dispatch step {from} {to} k {i}\n");
    }
    Stream::new(text + "end\nsubmit x\nwait\n")
}

/// Eight dispatches that have nothing to do with one another, with a barrier between each two all the same.
fn independent() -> Stream {
    let mut text = String::from("buffer a 4096\nbuffer b 4096\ndata a iota\nbegin x\n");
    for i in 0..8 {
        let at = i * 512;
        text += &format!("dispatch step a[{at}:512] b[{at}:512] k {i}\n{BARRIER}\n");
    }
    Stream::new(text + "end\nsubmit x\nwait\n")
}

#[test]
fn a_chain_keeps_every_barrier_and_each_single_loss_shows() {
    let stream = chain();
    let truth = stream.bare().digest;
    let played = stream.under("alias-only");
    let emitted = played.totals().barriers_emitted;
    assert_eq!((emitted, played.totals().barriers_elided), (9, 0));
    for k in 0..emitted {
        let mutated =
            stream.with(|l| l.policy("alias-only").set("SHUFFLE", "reverse").set("MUTATE", k.to_string()));
        assert_ne!(mutated.digest, truth, "nothing notices that emitted barrier {k} was dropped");
        assert_eq!(mutated.totals().barriers_emitted, emitted - 1, "barrier {k}");
        assert_eq!(mutated.totals().barriers_mutated, 1, "barrier {k}");
    }
    let beyond =
        stream.with(|l| l.policy("alias-only").set("SHUFFLE", "reverse").set("MUTATE", emitted.to_string()));
    assert_eq!(beyond.digest, truth, "there is no such barrier to drop");
}

#[test]
fn independent_dispatches_keep_one_barrier_for_what_came_before_and_one_for_what_comes() {
    let totals = independent().under("alias-only").totals();
    assert_eq!(totals.barriers_asked, 8);
    assert_eq!((totals.hazards.prefix, totals.hazards.flush), (1, 1), "{totals:?}");
    assert_eq!((totals.barriers_emitted, totals.barriers_elided), (2, 6));
}

#[test]
fn each_policy_emits_what_its_definition_says() {
    let stream = independent();
    let totals = |policy: &str| stream.under(policy).totals();
    let (stock, every, none) = (totals("stock"), totals("every"), totals("none"));
    assert_eq!((stock.barriers_asked, stock.barriers_emitted, stock.barriers_added), (8, 8, 0));
    assert_eq!((every.barriers_asked, every.barriers_emitted, every.barriers_added), (8, 16, 8));
    assert_eq!((none.barriers_asked, none.barriers_emitted, none.barriers_elided), (8, 0, 8));
}

#[test]
fn the_report_says_what_every_other_policy_would_have_emitted() {
    let stream = chain();
    let played = stream.with(|layer| layer.policy("stock").set("WOULD_EMIT", "1"));
    let would = played.report.as_ref().and_then(|r| r.would_emit.clone()).expect("it was asked for");
    for policy in ["every", "alias-only", "narrow", "reorder", "none"] {
        let really = stream.under(policy).totals();
        let said = would.get(policy).unwrap_or_else(|| panic!("nothing about {policy}: {would:?}"));
        assert_eq!(said.barriers_emitted, really.barriers_emitted, "{policy}");
        assert_eq!(said.barriers_elided, really.barriers_elided, "{policy}");
    }
}

#[test]
fn executed_commands_count_as_often_as_they_are_submitted_and_recorded_ones_once() {
    let text = format!(
        "
        buffer a 1024
        begin x
            dispatch scale a k 1
            {BARRIER}
            dispatch scale a k 2
            {BARRIER}
            dispatch scale a k 3
        end
        begin never
            dispatch scale a
        end
        submit x
        wait
        submit x
        wait
        submit2 x
        wait
    "
    );
    let report = Stream::new(text).under("alias-only").report.expect("played under the layer");
    let (totals, recorded) = (report.totals, report.recorded);
    assert_eq!(
        (totals.submits, totals.command_buffers, totals.dispatches, totals.barriers_asked),
        (3, 3, 9, 6)
    );
    assert_eq!((recorded.command_buffers, recorded.dispatches, recorded.barriers_asked), (2, 4, 2));
}

#[test]
fn a_command_buffer_that_is_recorded_again_starts_clean() {
    for again in ["reset x\n        wait", "wait"] {
        let text = format!(
            "
            buffer a 1024
            buffer b 1024
            data a iota
            begin x
                {BARRIER}
                dispatch step a b
                {BARRIER}
                dispatch step b a
                {BARRIER}
            end
            {again}
            begin x
                dispatch step a b k 4
                {BARRIER}
                dispatch step b a k 5
            end
            submit x
            wait
        "
        );
        let stream = Stream::new(text);
        for policy in ["alias-only", "narrow", "reorder"] {
            let played = stream.under(policy);
            assert_eq!(played.digest, stream.bare().digest);
            let totals = played.totals();
            assert_eq!(
                (totals.dispatches, totals.barriers_asked, totals.barriers_emitted),
                (2, 1, 1),
                "{totals:?}"
            );
            assert_eq!(stream.shuffled(policy, "reverse").digest, played.digest);
        }
    }
}

#[test]
fn dispatches_of_secondary_command_buffers_are_executed_ones() {
    let text = format!(
        "
        buffer a 1024
        begin s secondary simultaneous
            dispatch scale a k 1
            {BARRIER}
            dispatch scale a k 2
            {BARRIER}
        end
        begin x
            execute s
            execute s
        end
        submit x
        wait
    "
    );
    let stream = Stream::new(text);
    let totals = stream.under("stock").totals();
    assert_eq!((totals.submits, totals.dispatches, totals.barriers_asked), (1, 4, 4), "{totals:?}");
    for policy in ["alias-only", "narrow", "reorder"] {
        let played = stream.shuffled(policy, "reverse");
        assert_eq!(played.digest, stream.bare().digest, "{policy}");
        assert_eq!(played.totals().dispatches, 4);
    }
}

#[test]
fn several_threads_record_at_the_same_time() {
    let mut text = String::from("threads\n");
    let mut setup = String::new();
    let mut names = String::new();
    for thread in 0..8 {
        setup += &format!("buffer a{thread} 1024\nbuffer b{thread} 1024\ndata a{thread} iota\n");
        names += &format!(" t{thread}");
        text += &format!("begin t{thread}\n");
        for i in 0..40 {
            let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
            text += &format!("dispatch step {from}{thread} {to}{thread} k {i}\n{BARRIER}\n");
        }
        text += "end\n";
    }
    let stream = Stream::new(format!("{setup}{text}join\nsubmit{names}\nwait\n"));
    let truth = stream.bare().digest;
    for (policy, shuffle) in [
        ("alias-only", "off"),
        ("alias-only", "reverse"),
        ("alias-only", "5"),
        ("narrow", "5"),
        ("reorder", "reverse"),
    ] {
        let played = stream.shuffled(policy, shuffle);
        assert_eq!(played.digest, truth, "{policy}, shuffle={shuffle}");
        let totals = played.totals();
        assert_eq!((totals.command_buffers, totals.dispatches, totals.barriers_asked), (8, 320, 320));
    }
}

#[test]
fn two_chains_that_were_recorded_one_after_the_other_share_their_barriers_where_operations_may_move() {
    let chain = |a: &str, b: &str| {
        let step = |from: &str, to: &str| format!("dispatch step {from} {to}\n{BARRIER}\n");
        [step(a, b), step(b, a), step(a, b)].concat()
    };
    let text = format!(
        "
        buffer a 1024
        buffer b 1024
        buffer c 1024
        buffer d 1024
        data a iota
        data c words 2 7 1
        begin x
        {}{}
        barrier compute_shader/shader_write -> all_transfer/transfer_read+transfer_write
        copy b a
        copy d c
        end
        submit x
        wait
    ",
        chain("a", "b"),
        chain("c", "d")
    );
    let stream = Stream::new(text);
    let truth = stream.bare().digest;
    let mut emitted = Vec::new();
    for policy in ["alias-only", "narrow", "reorder"] {
        for shuffle in ["off", "reverse", "1", "2"] {
            let played = stream.shuffled(policy, shuffle);
            assert_eq!(played.digest, truth, "{policy}, shuffle={shuffle}");
            if shuffle == "off" {
                emitted.push(played.totals().barriers_emitted);
            }
        }
    }
    assert_eq!(emitted[0], emitted[1], "narrow needs as many as alias-only: {emitted:?}");
    assert!(emitted[2] < emitted[1], "reorder needs fewer: {emitted:?}");
    // Each barrier of the moved stream is needed: without any one of them some order shows it.
    for lost in 0..emitted[2] {
        let caught = ["reverse", "1", "2", "3"].iter().any(|shuffle| {
            let played = stream.with(|layer| {
                layer.policy("reorder").set("SHUFFLE", *shuffle).set("MUTATE", lost.to_string())
            });
            played.digest != truth
        });
        assert!(caught || lost == 0, "nothing notices that barrier {lost} of {} is lost", emitted[2]);
    }
}
