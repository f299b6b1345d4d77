//! Tests of the whole crate against its model.
//!
//! - `examples`: one rule a test; the manual.
//! - `definition`: the model against the definition spelled out in the most literal way, and the two readings of the
//!   specification's masks against each other.

mod definition;
mod examples;
mod programs;
