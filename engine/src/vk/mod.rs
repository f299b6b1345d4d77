//! Vulkan: thin shells around the calls that the engine needs.
//!
//! Everything unsafe is in this folder. Each type owns one kind of object, frees it when it goes away, and holds the
//! device that it came from, so objects cannot outlive it. What to do is decided elsewhere ([`crate::plan`]); here is
//! only how. The calls are the plainest that Vulkan has: one queue, vkCmdPipelineBarrier, descriptor sets, no
//! extension, no optional feature. A layer between the engine and the driver then sees what a simple application does.

mod buffer;
mod choose;
mod device;
mod error;
mod instance;
mod memory;
mod pipeline;
mod program;
pub mod requirements;
mod stream;
mod upload;

pub use buffer::{Buffer, Use};
pub use choose::{Kind, Selector, choose};
pub use device::Device;
pub use error::Error;
pub use instance::{Instance, Physical};
pub use program::{Counts, Program, Record};
pub use upload::Uploader;
