//! Vulkan: thin shells around the calls that the engine needs.
//!
//! Everything unsafe is in this folder. Each type owns one kind of object, frees it when it goes away, and holds the
//! device that it came from, so objects cannot outlive it. What to do is decided elsewhere ([`crate::plan`]); here is
//! only how. The calls are the plainest that Vulkan has: one queue, vkCmdPipelineBarrier, descriptor sets, and no extension
//! but the one that reads the device's clock beside the host's, for profiles, that of cooperative matrices, for prompts,
//! and that by which drivers tell what they made of a kernel, for `engine micro`.
//! Of the optional features only two are used, where they are there and a fused plan asks for them: the Vulkan memory
//! model and dot products of bytes. A layer between the engine and the driver then sees what a simple application does.

mod account;
mod buffer;
mod calibrate;
mod choose;
mod cooperative;
mod device;
mod error;
mod handles;
mod instance;
mod measure;
mod memory;
mod pipeline;
mod program;
pub mod requirements;
mod sets;
mod stream;
mod timing;
mod upload;

pub use buffer::{Buffer, Use};
pub use choose::{Kind, Selector, choose};
pub use device::Device;
pub use error::Error;
pub use handles::Handles;
pub use instance::{Instance, Physical};
pub use program::{Barriers, Counts, Descriptors, Levers, Program, Record, Submit};
pub use upload::Uploader;
