//! What each entry point of a SPIR-V module reads and writes, binding by binding.
//!
//! Whoever wants to know whether two dispatches touch the same memory in a conflicting way needs the *direction* of
//! every descriptor. Neither its type (a storage buffer may only be read) nor its decorations (`NonWritable` is a
//! promise about one variable, and another variable may share the binding) give it: the instructions do. This crate
//! follows every pointer and image handle from the descriptors through access chains, copies, phis, selects,
//! function calls and local variables to the instructions that touch memory, and reports per (set, binding) what
//! they do.
//!
//! The one rule behind every decision: **a wrong guess may cost speed, never correctness.** What is listed in
//! the `meaning` module is understood; an instruction that isn't reads and writes whatever its words could denote
//! ([`Binding::stopped_by`] names it), and a capability that isn't makes the whole entry point unknown
//! ([`EntryPoint::unknown`] names it).
//!
//! ```
//! // Five header words and nothing else: a module without entry points.
//! let module = zinc_reflect::reflect(&[0x0723_0203, 0x0001_0000, 0, 1, 0])?;
//! assert!(module.entry_points.is_empty());
//! # Ok::<(), zinc_reflect::ReflectError>(())
//! ```
//!
//! [`reflect`] answers for a module, [`reflect_specialized`] for a pipeline, whose specialization constants are fixed.
//! *Where* in its buffers a dispatch lands is [`Footprint`]'s part.

mod api;
mod blocks;
mod capabilities;
mod constants;
mod decorations;
mod effects;
mod error;
mod flow;
mod meaning;
mod module;
mod newer;
mod ranges;
mod resource;
mod specialization;
mod specialize;
mod types;
mod words;

pub use api::{Binding, Class, Count, Direction, Elements, EntryPoint, Module, Stage};
pub use error::ReflectError;
#[doc(hidden)]
pub use ranges::Fault;
pub use ranges::{
    AddressExtent, AddressSource, Because, BindingExtent, Cache, Dispatch, Extent, Extents, Footprint,
};
pub use specialization::Specialization;

/// Reads a SPIR-V module, one `u32` a word in the host's byte order.
///
/// Never panics and never touches anything outside `words`. The time is linear in the module for what compilers
/// emit; pointer graphs that no compiler makes are given up on (the entry point becomes unknown).
///
/// # Errors
///
/// When the words are no well-formed module: cut off, byte-swapped, no SPIR-V, or contradicting themselves. The
/// caller then treats the pipeline as reading and writing everything.
pub fn reflect(words: &[u32]) -> Result<Module, ReflectError> {
    Ok(module::parse(words, Fault::None)?.reflected())
}

/// Reads a SPIR-V module as a pipeline with these specialization constants sees it.
///
/// Branches that the constants decide are followed on one side only, and indices and array lengths that they give
/// are constant. What holds for [`reflect`] holds here.
///
/// # Errors
///
/// As [`reflect`].
pub fn reflect_specialized(words: &[u32], specialization: &Specialization) -> Result<Module, ReflectError> {
    let specialized = specialize::specialize(words, specialization, Fault::None)?;
    let mut parsed = module::parse(&specialized.words, Fault::None)?;
    parsed.objection = specialized.objection.or(parsed.objection);
    Ok(parsed.reflected())
}
