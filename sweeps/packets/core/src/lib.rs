//! Command streams of AMD and Apple GPUs in, counts of their packets out; nothing here is unsafe or touches a system.
//!
//! A Vulkan driver turns each barrier into packets, and only the packets cost anything. Which ones it chooses is
//! written nowhere but in the stream that it submits. So this crate reads streams:
//!
//! - [`pm4`] and [`cdm`] walk one stream through a [`memory::Memory`], which stands for the GPU's view of memory;
//! - [`space`] keeps that view, as the application binds buffers to GPU addresses and maps them for the CPU;
//! - [`uapi`] knows the layout of the kernel calls that bind, map and submit, and [`tracker`] follows them;
//! - [`names`] gives bits their names, and [`report`] is the document that comes out.
//!
//! The crate `zinc-packets` beside it is the thin unsafe shell which puts this between a driver and libc. They are two
//! crates because the shell exports `ioctl` and `mmap`: linked into an ordinary program, which only wants to read a
//! report, those would silently take libc's place.
#![forbid(unsafe_code)]

mod amdgpu;
mod asahi;
pub mod cdm;
mod file;
pub mod memory;
pub mod names;
pub mod pm4;
pub mod report;
mod seen;
pub mod space;
mod summary;
pub mod tracker;
pub mod uapi;
