//! Writes into the command which commit it is built from: its own source and, since they are installed together, the
//! layer's.

fn main() {
    zinc_commit::emit(&[
        "Cargo.lock",
        "layer/src",
        "layer/tool/src",
        "layer/hazard/src",
        "layer/reflect/src",
        "layer/report/src",
        "layer/settings/src",
    ]);
}
