//! Which barriers does a stream of GPU operations need?
//!
//! This crate answers without Vulkan: operations are sets of [`Access`]es, barriers are pairs of [`Scope`]s, and
//! everything else is arithmetic on them. The layer feeds it what an application records; the engine and the tests
//! feed it streams of their own.
//!
//! # For authors of engines
//!
//! Say what each dispatch touches, ask for a barrier wherever a naive engine would have one, and record what comes back.
//! Ranges are places in *allocations*: buffers bound to one `VkDeviceMemory` share its [`MemoryId`].
//!
//! ```
//! use zinc_hazard::{Access, Barrier, Flags, Freedom, Issue, MemoryId, Range, Scope, Stages, Stretch};
//!
//! let bytes = |start, end| Range::Bytes { memory: MemoryId(1), start, end };
//! let compute = Scope { stages: Stages::COMPUTE_SHADER, flags: Flags::SHADER_READ | Flags::SHADER_WRITE };
//! let naive = Barrier { src: compute, dst: compute };
//!
//! let mut token = Stretch::new();
//! // Three matrices times one vector, then the sum of the results.
//! for (read, written) in [(0, 256), (0, 512), (0, 768)] {
//!     let reads = Access::shader_read(bytes(read, read + 256));
//!     let writes = Access::shader_write(bytes(written, written + 256));
//!     token.operation(&[reads, writes], false);
//!     token.asked(naive);
//! }
//! token.operation(&[Access::shader_read(bytes(256, 1024)), Access::shader_write(bytes(1024, 1280))], false);
//! token.asked(naive);
//!
//! let plan = token.decide(Freedom::AnyOrder, false);
//! for issue in &plan.issue {
//!     match issue {
//!         Issue::Operation(number) => println!("vkCmdDispatch, number {number}"),
//!         Issue::Barrier(number) => {
//!             let barrier = plan.emissions[*number].barrier;
//!             println!("vkCmdPipelineBarrier, {:?} to {:?}", barrier.src, barrier.dst);
//!         }
//!     }
//! }
//! // One for what came before, one before the sum, one for what follows: three of the four that were asked for.
//! assert_eq!(plan.emissions.len(), 3);
//! ```
//!
//! [`Stretch`] wants the whole command buffer; [`Tracker`] answers while you record, and needs as few barriers as any
//! placement in recorded order. The example `own_barriers` does both for a transformer's layer. What must be told to be
//! safe is in docs/semantics.md: a kernel whose workgroups wait for one another stays where it is (`fixed`), and what
//! came before and what follows is taken to have done anything. The engine of this repository places its own barriers this
//! way (`engine/src/plan/barriers.rs`).

pub mod access;
mod config;
mod memo;
pub mod model;
pub mod planner;
pub mod policy;
mod ranges;
mod relation;
pub mod repeat;
pub mod scope;
mod state;
pub mod tracker;
pub mod whole;

pub use access::{Access, Kind, MemoryId, Range};
pub use planner::{Counts, Hazards, Nature, Planner, Step, Verdict};
pub use policy::{Policy, UnknownPolicy};
pub use repeat::{Derived, Key, RepeatingPlanner};
pub use scope::{Barrier, Flags, Scope, Side, Stages};
pub use tracker::{Carry, Cause, Due, Tracker};
pub use whole::{Emission, Fate, Freedom, Issue, Plan, Stretch, Witness};

#[cfg(test)]
mod tests;
