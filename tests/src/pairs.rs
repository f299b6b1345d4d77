//! The catalogue: for each rule of docs/semantics.md that a stream can show, one stream in which the barrier must stay
//! and one in which it must go.
//!
//! The two differ in little more than the operand of one command, so a layer that keeps too much fails on one and a
//! layer that drops too much on the other. The same streams are judged in three independent ways: by the layer's own
//! counts, by the memory's digest under permuted orders, and by Khronos validation below the layer.
//!
//! # How a stream is put together
//!
//! Whatever came before a command buffer might conflict with anything, so the first barrier of each is due whatever
//! the rest does. Most streams here therefore begin with a dispatch that concerns nobody and a barrier between
//! everything and everything (`within`); what is forced after that is forced by what the pair is about.

mod dispatches;
mod flushes;
mod places;
mod recordings;
mod transfers;

use crate::Stream;

/// One stream with what the layer has to make of it under `alias-only`.
#[derive(Clone, Debug)]
pub struct Case {
    /// The rule, and which side of it this is.
    pub name: String,
    /// The stream.
    pub stream: Stream,
    /// Emissions that a read after a write, a write after a read, a write after a write forced.
    pub forced: [u64; 3],
    /// Barriers that have to be passed through.
    pub passed_through: u64,
    /// Whether losing all barriers shows when the order is reversed. It can't show where the two operations are in
    /// different command buffers, since nothing moves from one to the other.
    pub visible: bool,
    /// Whether Khronos validation can see that loss.
    pub validation_sees: bool,
}

impl Case {
    /// A stream in which nothing is forced after the prefix.
    fn free(name: impl Into<String>, stream: String) -> Case {
        Case {
            name: name.into(),
            stream: Stream::new(stream),
            forced: [0; 3],
            passed_through: 0,
            visible: false,
            validation_sees: false,
        }
    }

    /// A stream in which one dependence of this kind is forced, and its loss shows.
    fn needed(name: impl Into<String>, kind: Kind, stream: String) -> Case {
        let mut forced = [0; 3];
        forced[kind as usize] = 1;
        Case { forced, visible: true, validation_sees: true, ..Case::free(name, stream) }
    }
}

/// What kind of dependence a pair is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Raw,
    War,
    Waw,
}
use Kind::{Raw, War, Waw};

/// The barrier that llama.cpp and most others write between dispatches.
const BARRIER: &str =
    "barrier compute_shader/shader_read+shader_write -> compute_shader/shader_read+shader_write";
/// From compute to copies, fills and updates.
const TO_TRANSFER: &str = "barrier compute_shader/shader_write -> all_transfer/transfer_read+transfer_write";
/// The other way.
const FROM_TRANSFER: &str = "barrier all_transfer/transfer_write -> compute_shader/shader_read+shader_write";
/// Between transfers.
const TRANSFERS: &str = "barrier all_transfer/transfer_write -> all_transfer/transfer_read+transfer_write";
/// Between everything and everything but the host.
const EVERYTHING: &str =
    "barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write";

/// Buffers for all streams: 1024 bytes each, with different contents.
const BUFFERS: &str = "
    buffer a 1024
    buffer b 1024
    buffer c 1024
    buffer d 1024
    buffer z 1024
    data a iota
    data b words 3 1 4 1 5 9 2 6
    data c words 2 7 1 8
    data d words 1 6 1 8 0 3
";

/// A program that plays `commands` in one command buffer after the prefix is settled; `setup` may declare more.
fn within(setup: &str, commands: &[&str]) -> String {
    let commands = commands.join("\n        ");
    format!(
        "{BUFFERS}{setup}
    begin x once
        dispatch write z
        {EVERYTHING}
        {commands}
    end
    submit x
    wait
"
    )
}

/// Both sides of a rule, in one command buffer.
fn pair(rule: &str, kind: Kind, setup: &str, needed: &[&str], free: &[&str]) -> [Case; 2] {
    [
        Case::needed(format!("{rule}: needed"), kind, within(setup, needed)),
        Case::free(format!("{rule}: not needed"), within(setup, free)),
    ]
}

/// Hazards between dispatches, and which way a shader's accesses go.
pub fn dispatches() -> Vec<Case> {
    dispatches::cases()
}

/// Where the accesses are: ranges, aliases, descriptors.
pub fn places() -> Vec<Case> {
    places::cases()
}

/// Copies, fills, updates and indirect arguments.
pub fn transfers() -> Vec<Case> {
    transfers::cases()
}

/// Several command buffers and submissions.
pub fn recordings() -> Vec<Case> {
    recordings::cases()
}

/// What has to be emitted or passed through whatever conflicts.
pub fn flushes() -> Vec<Case> {
    flushes::cases()
}

/// The whole catalogue.
pub fn all() -> Vec<Case> {
    [dispatches(), places(), transfers(), recordings(), flushes()].concat()
}
