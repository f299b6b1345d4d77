//! Writes into the program which commit it is built from.

fn main() {
    zinc_commit::emit(&["Cargo.lock", "engine/src", "engine/model", "layer/hazard/src", "shaders"]);
}
