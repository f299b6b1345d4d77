//! Rule 16 of docs/semantics.md: with ZINC_BARRIER_RANGES=tight what is bound counts only as far as the shader reaches.
//!
//! Pairs as in `needed_and_free`, over bindings that all cover the whole buffer: by what is bound every barrier here is
//! needed, and that is the control.

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
