//! `zinc_barrier`: a Vulkan layer that drops the barriers no pair of accesses needs, and counts the rest.
//!
//! The loader calls [`entry::negotiate`]; from there on every function that an application fetches is either the next
//! link's own, one of the hooks listed in `hooks`, or a stub (`stubs`) in front of a command that the layer does not
//! model. What the hooks see goes into records of objects (`memory`, `descriptors`, `pipelines`); what is recorded into
//! a command buffer goes to its `recorder`, which asks `zinc_hazard` what is due; `context` carries the answer out.
//!
//! Two rules hold everywhere. What the layer does not know reads and writes everything, so a gap in its knowledge
//! costs speed and never correctness. And nothing it does may end the application: no panic leaves a hook, and after a
//! failure the layer passes everything through.

mod abi;
mod addresses;
mod application;
mod asked;
mod audit;
mod bindings;
mod capture;
mod commands;
mod context;
mod descriptors;
mod device;
mod emit;
pub mod entry;
mod exclusive;
mod footprint;
mod handles;
mod hooks;
mod images;
mod in_force;
pub mod journal;
mod labels;
mod layouts;
mod mappings;
mod memory;
mod next;
#[cfg(test)]
mod no_lock;
mod objects;
mod output;
mod pipelines;
mod pushes;
mod queries;
mod recorder;
mod registry;
mod replay;
mod reporting;
mod script;
mod segment;
mod set_layouts;
mod stubs;
mod submits;
mod templates;
mod tight;
mod tooling;
pub mod trace;
mod transfers;
