//! Rule 16 of docs/semantics.md: with ZINC_BARRIER_RANGES=tight what is bound counts only as far as the shader reaches.
//!
//! Pairs as in `needed_and_free`, over bindings that all cover the whole buffer: by what is bound every barrier here is
//! needed, and that is the control. So it is with rule 8, by what an address is taken for: anywhere.

use zinc_tests::Stream;

/// A stream of two dispatches with a barrier in between, after a prefix that settles what came before. Both bind the
/// whole of `b`; `push` and `go` of each say what they touch of it.
fn stream(first: (u32, &str), second: (u32, &str)) -> Stream {
    Stream::new(format!(
        "
    buffer b 4096
    buffer z 1024
    data b iota
    set s
    write s 0 b
    begin x once
        dispatch write z
        barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write
        bind window
        use s
        push {}
        go {}
        barrier compute_shader/shader_read+shader_write -> compute_shader/shader_read+shader_write
        push {}
        go {}
    end
    submit x
    wait
",
        first.0, first.1, second.0, second.1
    ))
}

/// Write after write hazards that `alias-only` was forced by.
fn forced(stream: &Stream, ranges: &str) -> u64 {
    let played = stream.with(|layer| layer.policy("alias-only").set("RANGES", ranges));
    assert_eq!(played.digest, stream.bare().digest, "ranges {ranges}: the result, in order");
    played.totals().hazards.waw
}

#[test]
fn a_barrier_between_parts_that_the_shader_keeps_apart_goes() {
    for second in [(64, "1"), (512, "2"), (192, "base 1 3")] {
        let free = stream((0, "1"), second);
        assert_eq!(forced(&free, "tight"), 0, "{second:?}");
        assert_eq!(forced(&free, "bound"), 1, "the control: by what is bound it is needed, {second:?}");
    }
}

#[test]
fn a_barrier_between_parts_that_meet_stays() {
    for second in [(63, "1"), (0, "4"), (32, "base 0 1")] {
        let needed = stream((0, "1"), second);
        assert_eq!(forced(&needed, "tight"), 1, "{second:?}");
    }
}

#[test]
fn an_extent_beyond_what_is_bound_counts_as_what_is_bound() {
    // Robustness may send what is out of bounds anywhere within.
    let beyond = stream((1000, "1"), (0, "1"));
    let played = beyond.with(|layer| layer.policy("alias-only").set("RANGES", "tight"));
    assert_eq!(played.totals().hazards.waw, 1);
}

#[test]
fn what_is_told_apart_by_push_constants_has_the_same_result_in_any_order() {
    let free = stream((0, "4"), (256, "4"));
    let truth = free.bare().digest;
    for shuffle in ["reverse", "1", "2"] {
        let played =
            free.with(|layer| layer.policy("alias-only").set("RANGES", "tight").set("SHUFFLE", shuffle));
        assert_eq!(played.digest, truth, "shuffle {shuffle}");
        assert_eq!(played.totals().hazards.waw, 0);
    }
    // The control: where the parts meet, losing the barrier shows.
    let needed = stream((0, "4"), (1, "4"));
    let shuffled = needed.with(|layer| layer.policy("none").set("SHUFFLE", "reverse"));
    assert_ne!(shuffled.digest, needed.bare().digest, "nothing was swapped");
}

#[test]
fn a_capture_holds_each_dispatch_with_its_shader_its_constants_and_what_it_binds() {
    let folder = zinc_tests::stream::scratch();
    let capture = folder.path().join("capture");
    let played = || stream((0, "1"), (64, "2")).with(|layer| layer.set("CAPTURE", capture.clone()));
    let read = || std::fs::read_to_string(capture.join("stream.txt")).expect("the capture was written");
    let digest = played().digest;
    let text = read();
    let dispatches: Vec<&str> = text.lines().filter(|line| line.starts_with("D ")).collect();
    assert_eq!(dispatches.len(), 3, "{text}");
    assert!(dispatches[2].contains(" 2 1 1 0 0 0 x40000000 0.0:Write:"), "{text}");
    assert_eq!(text.lines().filter(|line| *line == "B").count(), 2, "{text}");
    let number = dispatches[2].split(' ').nth(1).expect("a pipeline");
    let code = std::fs::read(capture.join(format!("{number}.spv"))).expect("its shader was written");
    assert_eq!(code[..4], 0x0723_0203u32.to_le_bytes(), "SPIR-V");
    // A folder that is there is left alone, and the application goes on.
    assert_eq!(played().digest, digest);
    assert_eq!(read(), text);
}

/// A stream of two dispatches with a barrier in between. Both write by an address; `first` and `second` are the commands that
/// bind, push and go.
fn by_address(first: &[&str], second: &[&str]) -> Stream {
    Stream::new(format!(
        "
    memory m 65536
    buffer a 4096 in m at 0
    buffer b 4096 in m at 4096
    buffer overlap 4096 in m at 2048
    buffer zero 1024
    buffer z 1024
    data a iota
    data zero words 0
    set s
    write s 0 zero
    set t
    write t 0 b
    begin x once
        dispatch write z
        barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write
        use s
        {}
        barrier compute_shader/shader_read+shader_write -> compute_shader/shader_read+shader_write
        {}
    end
    submit x
    wait
",
        first.join("\n        "),
        second.join("\n        ")
    ))
}

/// What forced `alias-only`: reads after writes, writes after reads, writes after writes; after the result was compared in
/// another order, and under delay.
fn forced_by_address(stream: &Stream, ranges: &str) -> [u64; 3] {
    let truth = stream.bare().digest;
    let under = |name: &'static str, value: &'static str| {
        let played = stream.with(|layer| layer.policy("alias-only").set("RANGES", ranges).set(name, value));
        assert_eq!(played.digest, truth, "ranges {ranges}, {name}={value}");
        let hazards = played.totals().hazards;
        [hazards.raw, hazards.war, hazards.waw]
    };
    let forced = under("SHUFFLE", "reverse");
    if ranges == "tight" {
        under("DELAY", "1");
    }
    forced
}

const POINT_AT_A: [&str; 4] = ["bind point", "push 0", "push-address a", "go 4"];

#[test]
fn a_barrier_between_two_addresses_in_parts_that_stay_apart_goes() {
    for second in [
        &["bind point", "push 0", "push-address b", "go 4"][..],
        // The second half of what the first begins.
        &["bind point", "push 512", "push-address a", "go 4"],
        &["bind point", "push 0", "push-address a[2048:]", "go 4"],
        // Where in its buffer is read from memory: it is in the buffer around the address all the same.
        &["bind stray", "push 0", "push-address b", "go 4"],
        // What a descriptor binds.
        &["bind write", "use t", "push 0", "go 4"],
    ] {
        let free = by_address(&POINT_AT_A, second);
        assert_eq!(forced_by_address(&free, "tight"), [0; 3], "{second:?}");
        assert_ne!(forced_by_address(&free, "bound")[2], 0, "the control: anywhere, {second:?}");
    }
}

#[test]
fn a_barrier_between_two_addresses_that_meet_stays() {
    for second in [
        &["bind point", "push 255", "push-address a", "go 4"][..],
        &["bind stray", "push 0", "push-address a[2048:]", "go 1"],
        // Another buffer on the same bytes.
        &["bind point", "push 0", "push-address overlap", "go 1"],
        // An address of which a part comes from memory may be any.
        &["bind held", "push 0", "push-address b", "go 1"],
    ] {
        let first: &[&str] = match second {
            [_, _, "push-address overlap", _] => &["bind point", "push 512", "push-address a", "go 1"],
            _ => &POINT_AT_A,
        };
        let needed = by_address(first, second);
        assert_eq!(forced_by_address(&needed, "tight"), [0, 0, 1], "{second:?}");
    }
    // A read by address of what was written by one, with its control: losing the barrier shows.
    let read = by_address(&POINT_AT_A, &["bind peek", "use t", "push 0", "push-address a", "go 4"]);
    assert_eq!(forced_by_address(&read, "tight"), [1, 0, 0]);
    let lost = read.with(|layer| layer.policy("none").set("SHUFFLE", "reverse"));
    assert_ne!(lost.digest, read.bare().digest, "nothing was swapped");
}

#[test]
fn an_address_of_a_buffer_that_was_made_again_elsewhere_leads_to_where_it_is_now() {
    for (place, waw) in [(0, 1), (8192, 0)] {
        let stream = Stream::new(format!(
            "
    memory m 65536
    buffer a 4096 in m at 0
    buffer v 4096 in m at 16384
    buffer z 1024
    begin x
        bind point
        push 0
        push-address v
        go 1
    end
    submit x
    wait
    destroy v
    buffer v 4096 in m at {place}
    begin x
        dispatch write z
        barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write
        bind point
        push 0
        push-address a
        go 1
        barrier compute_shader/shader_read+shader_write -> compute_shader/shader_read+shader_write
        push-address v
        go 1
    end
    submit x
    wait
"
        ));
        assert_eq!(forced_by_address(&stream, "tight"), [0, 0, waw], "again at {place}");
    }
}
