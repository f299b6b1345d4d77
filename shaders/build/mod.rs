//! The generator: from compiled modules to the Rust types of what they take.
//!
//! [`reflect`] reads a module, [`interface`] checks that constants mean one thing in all of them and joins the kernels of a
//! family, [`emit`] writes the Rust text. None of them reads or writes files, so that the tests of this crate can include them,
//! too; `build.rs` does that.

pub mod emit;
pub mod interface;
pub mod reflect;
