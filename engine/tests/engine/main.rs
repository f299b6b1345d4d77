//! The engine as its users see it: on a real loader and driver, and from the command line.
//!
//! These tests need a Vulkan device; a CPU driver such as lavapipe is enough. Without one they fail, and say what to
//! install: a suite that skips itself shows nothing.

mod bad_files;
mod chat;
mod command_line;
mod correctness;
mod files;
mod hub;
mod levers;
mod metadata;
mod models;
mod profile;
mod prompt;
mod support;
