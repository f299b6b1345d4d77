//! Copies, fills and updates are operations like dispatches, at stages of their own; and an indirect dispatch reads
//! its arguments (rule 9).

use super::{BARRIER, Case, EVERYTHING, FROM_TRANSFER, Raw, TO_TRANSFER, TRANSFERS, War, Waw, pair};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(pair(
        "a copy from what a dispatch wrote",
        Raw,
        "",
        &["dispatch step a b", TO_TRANSFER, "copy b c"],
        &["dispatch step a b", TO_TRANSFER, "copy a c"],
    ));
    cases.extend(pair(
        "a vkCmdCopyBuffer2 from what a dispatch wrote",
        Raw,
        "",
        &["dispatch step a b", TO_TRANSFER, "copy2 b c"],
        &["dispatch step a b", TO_TRANSFER, "copy2 a c"],
    ));
    cases.extend(pair(
        "a copy behind a barrier with the COPY stage",
        Raw,
        "",
        &[
            "dispatch step a b",
            "barrier2 compute_shader/shader_storage_write -> copy/transfer_read",
            "copy2 b[0:512] c[0:512]",
        ],
        &[
            "dispatch step a b[0:512]",
            "barrier2 compute_shader/shader_storage_write -> copy/transfer_read",
            "copy2 b[512:512] c[0:512]",
        ],
    ));
    cases.extend(pair(
        "a dispatch on what was copied",
        Raw,
        "",
        &["copy a b", FROM_TRANSFER, "dispatch step b c"],
        &["copy a b", FROM_TRANSFER, "dispatch step a c"],
    ));
    cases.extend(pair(
        "a copy of a copy",
        Raw,
        "",
        &["copy a b", TRANSFERS, "copy b c"],
        &["copy a b", TRANSFERS, "copy a c"],
    ));
    cases.extend(pair(
        "two copies to one place",
        Waw,
        "",
        &["copy a b", TRANSFERS, "copy c b"],
        &["copy a b", TRANSFERS, "copy c d"],
    ));
    cases.extend(pair(
        "copies inside one buffer",
        Raw,
        "",
        &["copy a[0:256] a[512:256]", TRANSFERS, "copy a[512:256] c[0:256]"],
        &["copy a[0:256] a[512:256]", TRANSFERS, "copy a[0:256] c[0:256]"],
    ));
    cases.extend(pair(
        "a fill of what a dispatch reads",
        War,
        "",
        &["dispatch step b c", "barrier compute_shader -> all_transfer", "fill b 7"],
        &["dispatch step b c", "barrier compute_shader -> all_transfer", "fill d 7"],
    ));
    cases.extend(pair(
        "a fill up to the end of a buffer",
        Raw,
        "",
        &["fill b[512:] 3", FROM_TRANSFER, "dispatch step b[768:256] c[0:256]"],
        &["fill b[512:] 3", FROM_TRANSFER, "dispatch step b[0:256] c[0:256]"],
    ));
    cases.extend(pair(
        "an update",
        Raw,
        "",
        &["update b[0:16] 7 7 7 7", FROM_TRANSFER, "dispatch step b[0:256] c[0:256]"],
        &["update b[0:16] 7 7 7 7", FROM_TRANSFER, "dispatch step b[256:256] c[0:256]"],
    ));
    let arguments = "
    buffer args 256
    buffer others 256
    data others words 4 1 1 0
";
    let to_indirect = "barrier compute_shader/shader_write -> draw_indirect/indirect_command_read";
    cases.extend(pair(
        "arguments of an indirect dispatch, written by a kernel",
        Raw,
        arguments,
        &["dispatch arguments args k 2", to_indirect, "dispatch step a b by args"],
        &["dispatch arguments args k 2", to_indirect, "dispatch step a b by others"],
    ));
    cases.extend(pair(
        "arguments of an indirect dispatch, filled in afterwards",
        War,
        arguments,
        &["dispatch step a b by others", "barrier draw_indirect -> all_transfer", "update others 1 1 1"],
        &["dispatch step a b by others", "barrier draw_indirect -> all_transfer", "update args 1 1 1"],
    ));
    cases.extend(pair(
        "a dispatch, a copy and a dispatch behind barriers between everything",
        Raw,
        "",
        &["dispatch step a b", EVERYTHING, "copy a c", EVERYTHING, "dispatch step b d"],
        &["dispatch step a b", EVERYTHING, "copy a c", EVERYTHING, "dispatch step a d", BARRIER],
    ));
    cases
}
