//! The numbers, and the identity that they owe each other.
//!
//! One count type serves three questions: what was executed, what was recorded, and what another policy would
//! have done with the same stream. A *barrier* is one command of the application or of the layer
//! (`vkCmdPipelineBarrier` or its second version), however many memory barriers it lists: this is the unit in which
//! applications reason and in which drivers flush.
//!
//! Arithmetic saturates. The counters run inside somebody else's process, where a wrong figure after 2^64 events
//! is nothing and a panic is everything.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Which kind of dependence forced an emission; each forced emission counts once, under the first kind found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hazards {
    /// Read after write.
    pub raw: u64,
    /// Write after read.
    pub war: u64,
    /// Write after write.
    pub waw: u64,
    /// Something before the command buffer, of which the layer knows nothing.
    pub prefix: u64,
    /// A point where whatever is pending must go out: the end of a command buffer, a synchronising dispatch.
    pub flush: u64,
    /// A command that the layer has no model of, so that whatever is pending must go out before it. No pair of accesses is
    /// known to need the barrier.
    #[serde(default)]
    pub unmodelled: u64,
}

impl Hazards {
    /// All forced emissions together.
    pub fn total(&self) -> u64 {
        [self.raw, self.war, self.waw, self.prefix, self.flush, self.unmodelled]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// The counts with the words that people use for them, in the order in which they are shown.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("read after write", self.raw),
            ("write after read", self.war),
            ("write after write", self.waw),
            ("earlier command buffers", self.prefix),
            ("flush points", self.flush),
            ("commands without a model", self.unmodelled),
        ]
    }

    fn zip(self, other: Hazards, f: impl Fn(u64, u64) -> u64) -> Hazards {
        Hazards {
            raw: f(self.raw, other.raw),
            war: f(self.war, other.war),
            waw: f(self.waw, other.waw),
            prefix: f(self.prefix, other.prefix),
            flush: f(self.flush, other.flush),
            unmodelled: f(self.unmodelled, other.unmodelled),
        }
    }
}

impl Add for Hazards {
    type Output = Hazards;

    fn add(self, other: Hazards) -> Hazards {
        self.zip(other, u64::saturating_add)
    }
}

impl AddAssign for Hazards {
    fn add_assign(&mut self, other: Hazards) {
        *self = *self + other;
    }
}

/// What happened to a stream of commands.
///
/// Always: `barriers_asked + barriers_added = barriers_emitted + barriers_elided`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// Batches submitted (`VkSubmitInfo`, `VkSubmitInfo2`); 0 where recordings are counted.
    pub submits: u64,
    /// Command buffers: executions in `totals`, recordings in `recorded`.
    pub command_buffers: u64,
    /// Dispatches of any kind.
    pub dispatches: u64,
    /// Copies, fills and updates.
    pub transfers: u64,
    /// Pipeline barriers that the application recorded.
    pub barriers_asked: u64,
    /// Pipeline barriers that reached the driver.
    pub barriers_emitted: u64,
    /// Barriers that did not reach the driver: merged into another, superseded, or needed by no pair of accesses.
    pub barriers_elided: u64,
    /// Barriers that the application did not ask for.
    pub barriers_added: u64,
    /// Asked barriers that the layer does not reason about and handed on unchanged; part of asked and of emitted.
    pub barriers_passed_through: u64,
    /// Barriers withheld on purpose by the mutation setting; part of elided.
    #[serde(default)]
    pub barriers_mutated: u64,
    /// What forced the emissions, where the policy emits only what is forced.
    pub hazards: Hazards,
    /// Operations that the layer does not know, and so takes to read and write everything.
    #[serde(default)]
    pub unknown_operations: u64,
}

impl Counts {
    /// The same stream executed `times` times: every count multiplied.
    pub fn scaled(self, times: u64) -> Counts {
        let with_self = |a: u64, _: u64| a.saturating_mul(times);
        self.zip(self, with_self)
    }

    /// Whether the numbers can be true together.
    ///
    /// # Errors
    ///
    /// The first contradiction found, with the numbers in it.
    pub fn check(&self) -> Result<(), Inconsistent> {
        let wide = u128::from;
        if wide(self.barriers_asked) + wide(self.barriers_added)
            != wide(self.barriers_emitted) + wide(self.barriers_elided)
        {
            return Err(Inconsistent::Identity {
                asked: self.barriers_asked,
                added: self.barriers_added,
                emitted: self.barriers_emitted,
                elided: self.barriers_elided,
            });
        }
        let parts = [
            ("barriers_passed_through", self.barriers_passed_through, "barriers_asked", self.barriers_asked),
            (
                "barriers_passed_through",
                self.barriers_passed_through,
                "barriers_emitted",
                self.barriers_emitted,
            ),
            ("barriers_mutated", self.barriers_mutated, "barriers_elided", self.barriers_elided),
            (
                "hazards",
                self.hazards.total(),
                "barriers_emitted and barriers_mutated together",
                self.barriers_emitted.saturating_add(self.barriers_mutated),
            ),
        ];
        match parts.into_iter().find(|(_, part, _, whole)| part > whole) {
            Some((part_name, part, whole_name, whole)) => {
                Err(Inconsistent::Part { part_name, part, whole_name, whole })
            }
            None => Ok(()),
        }
    }

    fn zip(self, other: Counts, f: impl Fn(u64, u64) -> u64) -> Counts {
        Counts {
            submits: f(self.submits, other.submits),
            command_buffers: f(self.command_buffers, other.command_buffers),
            dispatches: f(self.dispatches, other.dispatches),
            transfers: f(self.transfers, other.transfers),
            barriers_asked: f(self.barriers_asked, other.barriers_asked),
            barriers_emitted: f(self.barriers_emitted, other.barriers_emitted),
            barriers_elided: f(self.barriers_elided, other.barriers_elided),
            barriers_added: f(self.barriers_added, other.barriers_added),
            barriers_passed_through: f(self.barriers_passed_through, other.barriers_passed_through),
            barriers_mutated: f(self.barriers_mutated, other.barriers_mutated),
            hazards: self.hazards.zip(other.hazards, &f),
            unknown_operations: f(self.unknown_operations, other.unknown_operations),
        }
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        self.zip(other, u64::saturating_add)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        *self = *self + other;
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), Counts::add)
    }
}

/// Counts that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistent {
    /// Barriers appeared or vanished.
    #[error("asked {asked} + added {added} is not emitted {emitted} + elided {elided}")]
    #[allow(missing_docs)]
    Identity { asked: u64, added: u64, emitted: u64, elided: u64 },
    /// A part is larger than its whole.
    #[error("{part_name} is {part}, more than {whole_name}, which is {whole}")]
    #[allow(missing_docs)]
    Part { part_name: &'static str, part: u64, whole_name: &'static str, whole: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small() -> impl Strategy<Value = Counts> {
        prop::array::uniform17(0u64..1000).prop_map(|n| Counts {
            submits: n[0],
            command_buffers: n[1],
            dispatches: n[2],
            transfers: n[3],
            barriers_asked: n[4],
            barriers_emitted: n[5],
            barriers_elided: n[6],
            barriers_added: n[7],
            barriers_passed_through: n[8],
            barriers_mutated: n[9],
            hazards: Hazards {
                raw: n[10],
                war: n[11],
                waw: n[12],
                prefix: n[13],
                flush: n[14],
                unmodelled: n[16],
            },
            unknown_operations: n[15],
        })
    }

    fn sound() -> impl Strategy<Value = Counts> {
        (0u64..100, 0u64..100, 0u64..100, 0u64..100, 0u64..100).prop_map(
            |(through, forced, merged, cut, added)| Counts {
                barriers_asked: through + forced + merged + cut,
                barriers_emitted: through + forced + added,
                barriers_elided: merged + cut,
                barriers_added: added,
                barriers_passed_through: through,
                barriers_mutated: cut,
                hazards: Hazards { raw: forced, ..Hazards::default() },
                ..Counts::default()
            },
        )
    }

    proptest! {
        #[test]
        fn executing_a_stream_three_times_is_adding_it_three_times(a in small()) {
            prop_assert_eq!(a.scaled(3), a + a + a);
            prop_assert_eq!(a.scaled(0), Counts::default());
            prop_assert_eq!([a, a].into_iter().sum::<Counts>(), a.scaled(2));
        }

        #[test]
        fn sums_and_multiples_of_sound_counts_are_sound(a in sound(), b in sound(), n in 0u64..10) {
            prop_assert_eq!(a.check(), Ok(()));
            prop_assert_eq!((a + b.scaled(n)).check(), Ok(()));
        }

        #[test]
        fn one_barrier_too_many_is_found_wherever_it_is(a in sound(), place in 0usize..4) {
            let mut broken = a;
            let field = [
                &mut broken.barriers_asked,
                &mut broken.barriers_emitted,
                &mut broken.barriers_elided,
                &mut broken.barriers_added,
            ];
            *field.into_iter().nth(place).unwrap() += 1;
            let found = matches!(broken.check(), Err(Inconsistent::Identity { .. }));
            prop_assert!(found);
        }
    }

    #[test]
    fn a_part_larger_than_its_whole_is_named() {
        let one = Counts { barriers_asked: 1, barriers_emitted: 1, ..Counts::default() };
        let cases = [
            (Counts { barriers_passed_through: 2, ..one }, "barriers_passed_through is 2"),
            (Counts { barriers_mutated: 1, ..one }, "barriers_mutated is 1"),
            (Counts { hazards: Hazards { war: 2, ..Hazards::default() }, ..one }, "hazards is 2"),
        ];
        for (counts, start) in cases {
            let message = counts.check().unwrap_err().to_string();
            assert!(message.starts_with(start), "{message}");
        }
    }

    #[test]
    fn counters_stop_at_the_top_instead_of_wrapping_or_panicking() {
        let top = Counts { dispatches: u64::MAX, ..Counts::default() };
        assert_eq!((top + top).dispatches, u64::MAX);
        assert_eq!(top.scaled(u64::MAX).dispatches, u64::MAX);
        let hazards = Hazards { raw: u64::MAX, war: 1, ..Hazards::default() };
        assert_eq!(hazards.total(), u64::MAX);
    }
}
