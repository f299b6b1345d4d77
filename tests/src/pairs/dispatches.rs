//! Hazards between dispatches. Direction comes from the shader, never from the descriptor's type (rule 6).

use super::{BARRIER, Case, EVERYTHING, Raw, War, Waw, pair};

pub fn cases() -> Vec<Case> {
    let execution = "barrier compute_shader -> compute_shader";
    let bottom = "barrier bottom_of_pipe -> top_of_pipe";
    let second = "barrier2 compute_shader/shader_storage_write -> compute_shader/shader_storage_read";
    let buffer = "buffer-barrier b compute_shader/shader_write -> compute_shader/shader_read";
    let buffer_second = "buffer-barrier2 b[0:1024] compute_shader/shader_write -> compute_shader/shader_read";
    let raw = |barrier: &'static str| {
        [
            ["dispatch step a b k 1", barrier, "dispatch step b c k 2"],
            ["dispatch step a b k 1", barrier, "dispatch step a c k 2"],
        ]
    };
    let mut cases = Vec::new();
    for (rule, barrier) in [
        ("a read after a write", BARRIER),
        ("a read after a write, behind ALL_COMMANDS", EVERYTHING),
        ("a read after a write, behind vkCmdPipelineBarrier2", second),
        ("a read after a write, behind a buffer barrier", buffer),
        ("a read after a write, behind a second-version buffer barrier", buffer_second),
    ] {
        let [needed, free] = raw(barrier);
        cases.extend(pair(rule, Raw, "", &needed, &free));
    }
    for (rule, barrier) in [
        ("a write after a read, behind an execution barrier", execution),
        ("a write after a read, behind bottom to top of pipe", bottom),
        ("a write after a read, behind a memory barrier", BARRIER),
    ] {
        let needed = ["dispatch step a b", barrier, "dispatch write a k 5"];
        cases.extend(pair(rule, War, "", &needed, &["dispatch step a b", barrier, "dispatch write c k 5"]));
    }
    cases.extend(pair(
        "a write after a write",
        Waw,
        "",
        &["dispatch write a k 1", BARRIER, "dispatch write a k 2"],
        &["dispatch write a k 1", BARRIER, "dispatch write b k 2"],
    ));
    cases.extend(pair(
        "two readers of what nobody writes, and one that writes it",
        War,
        "",
        &["dispatch add a b c", BARRIER, "dispatch write b"],
        &["dispatch add a b c", BARRIER, "dispatch add a b d"],
    ));
    cases.extend(pair(
        "reading and writing in place",
        Raw,
        "",
        &["dispatch scale a k 1", BARRIER, "dispatch scale a k 2"],
        &["dispatch scale a k 1", BARRIER, "dispatch scale b k 2"],
    ));
    // Khronos validation leaves atomics out of its account, because their order seldom matters.
    let [needed, free] = pair(
        "a relaxed atomic is an ordinary access",
        Raw,
        "",
        &["dispatch count a k 4", BARRIER, "dispatch step a b"],
        &["dispatch count a k 4", BARRIER, "dispatch step c b"],
    );
    cases.extend([Case { validation_sees: false, ..needed }, free]);
    cases.extend(pair(
        "two variables on one binding, read through one and written through the other",
        Raw,
        "",
        &["dispatch views a k 3", BARRIER, "dispatch step a b"],
        &["dispatch views a k 3", BARRIER, "dispatch step c b"],
    ));
    cases.extend(pair(
        "a binding that is declared and never touched",
        Raw,
        "",
        &["dispatch unused a b c", BARRIER, "dispatch step b d"],
        &["dispatch unused a b c", BARRIER, "dispatch write c k 8"],
    ));
    cases.extend(pair(
        "an index that comes from memory",
        Raw,
        "",
        &["dispatch step a b", BARRIER, "dispatch gather c b d k 1"],
        &["dispatch step a b", BARRIER, "dispatch gather c a d k 1"],
    ));
    cases.extend(pair(
        "a dispatch with a base",
        Raw,
        "",
        &["dispatch write b base 2 1 k 7", BARRIER, "dispatch step b c"],
        &["dispatch write b base 2 1 k 7", BARRIER, "dispatch step a c"],
    ));
    cases
}
