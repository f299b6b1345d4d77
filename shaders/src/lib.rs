//! The engine's kernels: GLSL compute shaders, compiled to SPIR-V when this crate is built.
//!
//! Each kernel is one static [`Kernel`] with everything that a program needs to make a pipeline of it. They have in
//! common:
//!
//! * one descriptor set of storage buffers, numbered from 0 without gaps, each either read or written, never both;
//! * specialization constant 0 is the workgroup size along x, a power of two from 4 up; constant 1, in the
//!   matrix-vector kernels, is the number of rows that one workgroup computes;
//! * push constants hold shapes only. What changes from token to token is read from a small buffer, so a recorded
//!   command buffer serves every token;
//! * results do not depend on scheduling: no atomics, no subgroup operations, reductions in a fixed order. The same
//!   device gives the same bits on every run.

/// What a kernel does with the buffer bound to one of its bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
}

/// One compute shader.
#[derive(Debug)]
pub struct Kernel {
    /// The file's name without extension.
    pub name: &'static str,
    /// Direction of each binding; the index is the binding number.
    pub bindings: &'static [Direction],
    /// Size of the push-constant block in bytes.
    pub push_bytes: u32,
    /// The module; its entry point is `main`.
    pub spirv: &'static [u32],
}

impl PartialEq for Kernel {
    /// Kernels are compared by name, which is unique.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kernel {}

/// Specialization constant of the workgroup size along x.
pub const WORKGROUP_SIZE_ID: u32 = 0;
/// Specialization constant of the rows that one workgroup of a matrix-vector kernel computes.
pub const ROWS_ID: u32 = 1;

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_a_spirv_module_that_writes_exactly_its_last_binding() {
        assert!(KERNELS.len() >= 13);
        for kernel in KERNELS {
            assert_eq!(kernel.spirv[0], 0x0723_0203, "{}", kernel.name);
            let (last, inputs) =
                kernel.bindings.split_last().expect("a kernel without bindings does nothing");
            assert_eq!(*last, Direction::Write, "{}", kernel.name);
            assert!(inputs.iter().all(|d| *d == Direction::Read), "{}", kernel.name);
        }
    }

    #[test]
    fn push_constants_fit_the_128_bytes_that_every_device_has() {
        for kernel in KERNELS {
            assert!(kernel.push_bytes > 0 && kernel.push_bytes <= 128, "{}", kernel.name);
        }
        assert_eq!(SCORES.push_bytes, 24);
    }

    #[test]
    fn no_kernel_uses_a_capability_beyond_the_plain_shader_one() {
        for kernel in KERNELS {
            let mut at = 5;
            while at < kernel.spirv.len() {
                let (count, opcode) = (kernel.spirv[at] >> 16, kernel.spirv[at] & 0xffff);
                if opcode == 17 {
                    assert_eq!(
                        kernel.spirv[at + 1],
                        1,
                        "{} declares a capability other than Shader",
                        kernel.name
                    );
                }
                at += count as usize;
            }
        }
    }
}
