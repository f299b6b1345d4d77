//! Several command buffers: what came before one is unknown to it, and what is pending at its end must not be lost
//! (rules 1 and 2). Here losing a barrier moves nothing, since no order is permuted across command buffers; Khronos
//! validation and the counts see it.

use super::{BARRIER, BUFFERS, Case};

pub fn cases() -> Vec<Case> {
    let case = |name: &str, rest: &str| Case::free(name, format!("{BUFFERS}{rest}"));
    let mut cases = vec![
        case(
            "a barrier at the end of the first of two command buffers",
            &format!(
                "
    begin x
        dispatch step a b
        {BARRIER}
    end
    begin y
        dispatch step b c
    end
    submit x y
    wait
"
            ),
        ),
        case(
            "a barrier at the beginning of the second of two command buffers",
            &format!(
                "
    begin x
        dispatch step a b
    end
    begin y
        {BARRIER}
        dispatch step b c
    end
    submit x y
    wait
"
            ),
        ),
        case(
            "a barrier at the beginning of the second of two submits",
            &format!(
                "
    begin x
        dispatch step a b
    end
    begin y
        {BARRIER}
        dispatch step b c
        {BARRIER}
        dispatch step a d
    end
    submit x
    submit2 y
    wait
"
            ),
        ),
        case(
            "a command buffer that holds a barrier and nothing else",
            &format!(
                "
    begin x
        dispatch step a b
    end
    begin y
        {BARRIER}
    end
    begin w
        dispatch step b c
    end
    submit x y w
    wait
"
            ),
        ),
        case(
            "a secondary command buffer with a barrier of its own",
            &format!(
                "
    begin s secondary
        {BARRIER}
        dispatch step b c
    end
    begin x
        dispatch step a b
        execute s
        {BARRIER}
        dispatch step c d
    end
    submit x
    wait
"
            ),
        ),
        case(
            "a barrier before a secondary command buffer",
            &format!(
                "
    begin s secondary
        dispatch step b c
    end
    begin x
        dispatch step a b
        {BARRIER}
        execute s
    end
    submit x
    wait
"
            ),
        ),
        case(
            "a command buffer that is submitted twice at once",
            &format!(
                "
    begin x simultaneous
        {BARRIER}
        dispatch scale a k 1
        {BARRIER}
        dispatch scale a k 2
    end
    submit x x
    wait
"
            ),
        ),
    ];
    // In all of these the loss of the barrier makes a hazard that validation can see.
    for case in &mut cases {
        case.validation_sees = true;
    }
    // Each time the first barrier goes out for the prefix; in the last stream the second one is then needed, twice.
    if let Some(last) = cases.last_mut() {
        last.forced = [2, 0, 0];
        last.visible = true;
    }
    cases
}
