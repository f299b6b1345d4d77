//! Reruns the decode engine under barrier policies and proves that the numbers did not change.
//!
//! A rate is worth nothing if the numbers are wrong, and the numbers being right is worth nothing on a machine where
//! wrong barriers give right numbers. So a sweep is built around *gates that are themselves tested*: next to each
//! policy run permuted orders that would show a missing barrier, a control that must be noticed, and runs with one
//! barrier withheld, whose share of noticed ones (the mutation score) is printed.
//!
//! ```text
//! cli ─▶ session ─▶ drivers   which devices (patched: of our own builds; knobs: their switches)
//!           │   └─▶ plan      which runs, and why each
//!           ├─────▶ shims     drivers that record without executing: where they are, how to start on one
//!           ├─────▶ child     one run: environment, contain, the documents read back (packets: the driver's own) of the
//!           │         │       engine, an application (measure, digest: what is read off it) or a gate's own program (gate)
//!           │         └─▶ outcome: numbers and cases, or the reason why there are none
//!           ├─────▶ journal   every run as it ends, for --resume
//!           └─────▶ assemble ─▶ gates, agree, stats, costs, soak, notes: pure functions from outcomes to verdicts and intervals
//!                     └─▶ report ─▶ table, markdown, output
//! parts ─▶ a sweep in arms for several machines: plan, run one, merge
//! cost  ─▶ what one barrier costs, and what that predicts
//! ```
//!
//! All that decides (gates, verdicts, statistics, plan, environment) is pure and tested by itself; only `contain`,
//! `child`, `output` and parts of `shims` touch the world.

pub mod absent;
pub mod against;
pub mod agree;
pub mod application;
pub mod assemble;
pub mod charts;
pub mod child;
pub mod cli;
pub mod command_line;
pub mod compare;
pub mod contain;
pub mod cost;
pub mod costs;
pub mod differences;
pub mod digest;
pub mod display;
pub mod documents;
pub mod drivers;
pub mod environment;
pub mod error;
pub mod figures;
pub mod gate;
pub mod gates;
pub mod host;
pub mod html;
pub mod journal;
pub mod knobs;
pub mod limits;
pub mod lock;
pub mod markdown;
pub mod measure;
pub mod neighbours;
pub mod notes;
pub mod outcome;
pub mod output;
pub mod packets;
pub mod parts;
pub mod patched;
pub mod pattern;
pub mod plan;
pub mod programs;
pub mod progress;
pub mod reading;
pub mod report;
pub mod require;
pub mod schemas;
pub mod scored;
pub mod seconds;
pub mod serial;
pub mod session;
pub mod shims;
pub mod soak;
pub mod stats;
pub mod table;
pub mod target;
pub mod variables;
pub mod verdict;
