//! What must go out, or pass through, whatever conflicts: the host, layout transitions, commands that the layer does
//! not know, shaders that may be talking to somebody else (rules 2 to 5).

use super::{BARRIER, Case, FROM_TRANSFER, Raw, TO_TRANSFER, War, within};

pub fn cases() -> Vec<Case> {
    let to_host = "barrier compute_shader/shader_write -> host/host_read";
    let mut cases = vec![
        Case::free(
            "a barrier for the host: out before the next operation",
            within("", &["dispatch step a b", to_host, "dispatch step a c"]),
        ),
        Case::free(
            "a dispatch that synchronises by itself",
            within(
                "",
                &["dispatch step a b", BARRIER, "dispatch handoff c k 1", BARRIER, "dispatch step b d"],
            ),
        ),
    ];
    let image = "
    image i
";
    let transitions = [
        "dispatch step a b",
        TO_TRANSFER,
        "image-barrier i undefined transfer_dst top_of_pipe -> all_transfer/transfer_write",
        "copy-to-image b i",
        "image-barrier2 i transfer_dst transfer_src copy/transfer_write -> copy/transfer_read",
        "copy-from-image i c",
        FROM_TRANSFER,
        "dispatch step c d",
    ];
    cases.push(Case {
        passed_through: 2,
        ..Case::free("layout transitions, and copies to and from an image", within(image, &transitions))
    });
    let no_transition = [
        "image-barrier i undefined general top_of_pipe -> all_transfer/transfer_write",
        "dispatch write z k 1",
        super::EVERYTHING,
        "dispatch step a b",
        "image-barrier i general general compute_shader -> compute_shader",
        "dispatch write a k 3",
    ];
    cases.push(Case {
        passed_through: 1,
        ..Case::needed(
            "an image barrier from a layout to itself: an ordinary one",
            War,
            within(image, &no_transition),
        )
    });
    // The barrier comes before something unknown, so it goes out before that, and what follows needs none.
    let commands = ["dispatch step a b", BARRIER, "set-event e compute_shader", "dispatch step b c"];
    cases.push(Case::free("between a barrier and its use, an event", within("\n    event e\n", &commands)));
    // A timestamp is nothing unknown. Nothing moves across it, so that no other order shows what is missing.
    let stamped = |first, second| within("", &["reset-queries", first, BARRIER, "timestamp", second]);
    cases.push(Case {
        visible: false,
        ..Case::needed(
            "between a barrier and its use, a timestamp",
            Raw,
            stamped("dispatch step a b", "dispatch step b c"),
        )
    });
    cases.push(Case::free(
        "a timestamp between two that share nothing",
        stamped("dispatch step a b", "dispatch step c d"),
    ));
    let event = [
        "dispatch step a b",
        "set-event e compute_shader",
        "wait-event e compute_shader/shader_write -> compute_shader/shader_read",
        "dispatch step b c",
    ];
    cases.push(Case::free("an event instead of a barrier", within("\n    event e\n", &event)));
    cases
}
