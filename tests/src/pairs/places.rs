//! Where an access is: ranges of memory rather than buffers, and descriptors by the specification's rules (rule 12).

use super::{BARRIER, BUFFERS, Case, EVERYTHING, Raw, pair, within};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(pair(
        "parts of one buffer",
        Raw,
        "",
        &["dispatch write b[0:512] k 1", BARRIER, "dispatch step b[256:512] c"],
        &["dispatch write b[0:512] k 1", BARRIER, "dispatch step b[512:512] c[0:512]"],
    ));
    cases.extend(pair(
        "a descriptor up to the end of its buffer",
        Raw,
        "",
        &["dispatch write b[768:256] k 1", BARRIER, "dispatch step b[256:] c"],
        &["dispatch write b[0:256] k 1", BARRIER, "dispatch step b[256:] c"],
    ));
    // Rounded outwards, because drivers that flush whole lines have shipped; so its loss shows nowhere here.
    let line = ["dispatch write b[0:32] k 1", BARRIER, "dispatch step b[32:32] c[0:32]"];
    let shares_a_line = within("", &line);
    cases.push(Case {
        visible: false,
        validation_sees: false,
        ..Case::needed("disjoint bytes in one line of 64: needed", Raw, shares_a_line)
    });

    let aliases = "
    memory m 8192
    buffer p 1024 in m at 1024
    buffer q 1024 in m at 1536
    buffer r 1024 in m at 4096
";
    cases.extend(pair(
        "two buffers in one memory",
        Raw,
        aliases,
        &["dispatch write p k 1", BARRIER, "dispatch step q c"],
        &["dispatch write p k 1", BARRIER, "dispatch step r c"],
    ));

    let dynamic = "
    set s dynamic
    write s 0 b[0:256]
";
    let at_512 = ["bind write dynamic", "use s 512 0 0 0", "push 9", "go 1", BARRIER];
    cases.extend(pair(
        "a dynamic offset",
        Raw,
        dynamic,
        &[&at_512[..], &["dispatch step b[512:256] c[0:256]"]].concat(),
        &[&at_512[..], &["dispatch step b[0:256] c[0:256]"]].concat(),
    ));

    let spill = "
    set s
    write s 0 a b c
";
    let add = ["bind add", "use s", "push 0", "go 4", BARRIER];
    cases.extend(pair(
        "one descriptor write that spills into the next bindings",
        Raw,
        spill,
        &[&add[..], &["dispatch step c d"]].concat(),
        &[&add[..], &["dispatch step a d"]].concat(),
    ));

    // The copy spills too; writing to its source afterwards must not reach it.
    let copied = "
    set s
    write s 0 a b
    set t
    copy-set s 0 t 0 2
    write s 1 d
";
    let step = ["bind step", "use t", "push 0", "go 4", BARRIER];
    cases.extend(pair(
        "a descriptor copy",
        Raw,
        copied,
        &[&step[..], &["dispatch step b c"]].concat(),
        &[&step[..], &["dispatch step d c"]].concat(),
    ));

    for (side, read) in [("needed", "c"), ("not needed", "b")] {
        let name = format!("a set that was written again between two recordings: {side}");
        let text = format!(
            "{BUFFERS}
    set s
    write s 0 a b
    begin x
        bind step
        use s
        push 0
        go 4
    end
    submit x
    wait
    write s 1 c
    begin x
        dispatch write z
        {EVERYTHING}
        bind step
        use s
        push 3
        go 4
        {BARRIER}
        dispatch step {read} d
    end
    submit x
    wait
"
        );
        cases.push(if read == "c" { Case::needed(name, Raw, text) } else { Case::free(name, text) });
    }

    // The second b has the first one's handle on many drivers, and lies elsewhere: on a's memory in one case.
    for (side, place) in [("needed", "1024"), ("not needed", "4096")] {
        let name = format!("a buffer made again in another place: {side}");
        let text = format!(
            "{BUFFERS}
    memory m 8192
    buffer p 1024 in m at 1024
    buffer v 1024 in m at 0
    begin x
        dispatch write v
    end
    submit x
    wait
    destroy v
    buffer v 1024 in m at {place}
    begin x
        dispatch write z
        {EVERYTHING}
        dispatch write p k 2
        {BARRIER}
        dispatch step v d
    end
    submit x
    wait
"
        );
        cases.push(if place == "1024" { Case::needed(name, Raw, text) } else { Case::free(name, text) });
    }

    // Nothing orders these, so a shuffled order may swap them: each has to take what was bound for it along.
    let kept = "
    set s
    write s 0 a b
    set t
    write t 0 c d
    buffer e 1024
    buffer f 1024
    set u
    write u 0 e f
";
    let bound =
        ["push 3", "bind step", "use s", "go 4", "use t", "go 2", "push 5", "bind copy", "use u", "go 4"];
    cases.push(Case::free(
        "pipelines, sets and push constants that were bound earlier: kept",
        within(kept, &bound),
    ));
    cases
}
