//! What the integration tests stand on: built programs, children that are watched, the layer injected as a stranger
//! would inject it, streams of Vulkan commands, and the oracles.
//!
//! Nothing here links the layer or the engine. Tests run real programs through the real loader on a real driver
//! (lavapipe), and look at what comes out: bytes of memory, exit statuses, reports. What a child sees of the
//! environment is decided here and nowhere else, so that neither a layer that the developer has installed nor a
//! variable left in a shell can change a result.

pub mod artefacts;
pub mod child;
pub mod gguf;
pub mod layer;
pub mod oracle;
pub mod pairs;
pub mod rewrite;
pub mod shims;
pub mod stream;
pub mod vulkan;

pub use child::{Child, Ended};
pub use layer::Layer;
pub use stream::{Played, Stream};
