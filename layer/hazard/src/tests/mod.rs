//! Tests of the whole crate against its model.
//!
//! Read them in this order:
//!
//! - `examples`: one rule a test; the manual of the tracker.
//! - `definition`: the model against the definition taken literally, and the two readings of the specification's masks
//!   against each other, bit by bit.
//! - `programs`, `enumerate`: how programs are written, run and enumerated.
//! - `exhaustive`: the contract over every small program; its header says what "every" covers.
//! - `minimal`: how few barriers are enough, the claims T1 to T3.
//! - `faults`: broken trackers are caught by the same programs.
//! - `heaviest`, `whole`: deciding over a whole stretch (T4 and T5): numbers from an independent program, masks without
//!   a bit too many, broken planners.
//! - `budget`: how much of it all a slow machine can afford.
//! - `random`: longer programs with everything mixed, every policy, every fault.
//!
//! `cargo test -p zinc-hazard -- --nocapture` prints how many programs were walked and which one catches which fault.

pub(crate) mod budget;
mod definition;
mod enumerate;
mod examples;
mod exhaustive;
mod faults;
mod heaviest;
mod minimal;
pub(crate) mod programs;
pub(crate) mod random;
mod timestamps;
mod whole;
