//! The whole command against a stand-in engine that can be told to misbehave in any single run.

mod applications;
mod bench;
mod containment;
mod gates;
mod knobs;
mod missing;
mod parts;
mod real_shims;
mod reports;
mod resume;
mod shims;
mod verdicts;
