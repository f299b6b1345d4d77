//! Which barriers does a stream of GPU operations need?
//!
//! This crate answers without Vulkan: operations are sets of [`Access`]es, barriers are pairs of [`Scope`]s, and
//! everything else is arithmetic on them. The layer feeds it what an application records; the engine and the tests
//! feed it streams of their own.

pub mod access;
mod config;
mod memo;
pub mod model;
pub mod planner;
pub mod policy;
mod ranges;
mod relation;
pub mod scope;
mod state;
pub mod tracker;
pub mod whole;

pub use access::{Access, Kind, MemoryId, Range};
pub use planner::{Counts, Hazards, Nature, Planner, Step, Verdict};
pub use policy::{Policy, UnknownPolicy};
pub use scope::{Barrier, Flags, Scope, Side, Stages};
pub use tracker::{Carry, Cause, Due, Tracker};
pub use whole::{Emission, Fate, Freedom, Issue, Plan, Stretch, Witness};

#[cfg(test)]
mod tests;
