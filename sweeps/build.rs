//! Writes into the program which commit it is built from.

fn main() {
    zinc_commit::emit(&[
        "Cargo.lock",
        "sweeps/src",
        "sweeps/packets/core/src",
        "engine/src",
        "layer/src",
        "layer/hazard/src",
        "layer/reflect/src",
        "layer/report/src",
        "layer/settings/src",
        "shaders",
    ]);
}
