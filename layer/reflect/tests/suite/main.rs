//! The tests of the crate, by theme. Needs `glslangValidator` (Debian package glslang-tools) and `spirv-as`
//! (spirv-tools).

mod odd_modules;
mod pipelines;
mod raw;
mod raw_modules;
mod robust;
mod soundness;
mod tables;
mod tools;
