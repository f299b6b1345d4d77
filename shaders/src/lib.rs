//! The engine's kernels: GLSL compute shaders, compiled to SPIR-V when this crate is built.
//!
//! Each kernel is one static [`Kernel`] with everything that a program needs to make a pipeline of it, and each family of kernels
//! that take the same has a module of types, made from what the compiled shaders say: `softmax::Constants`, `softmax::Push` and
//! `softmax::Bindings` have a field for everything that `softmax.comp` declares, under the name that it has there, and
//! [`Takes::call`] makes a [`Call`] of them. The values of `softmax::Build` are the kernels of the family: one, or several; what
//! only some of them take is an `Option`.
//!
//! ```
//! use zinc_shaders::Takes as _;
//! use zinc_shaders::softmax::{Bindings, Build, Constants, Push};
//! let bindings = Bindings { step: "position", scores: "scores", result: "weights" };
//! let push = Push { context: 256, window: 256 };
//! let call = push.call(Build::SOFTMAX, Constants { workgroup: 64 }, bindings);
//! assert_eq!((call.constants, call.push), (vec![(0, 64)], vec![256, 256]));
//! ```
//!
//! What a shader takes and a caller leaves out, or calls by another name, does not compile:
//!
//! ```compile_fail,E0063
//! use zinc_shaders::Takes as _;
//! use zinc_shaders::softmax::{Bindings, Build, Constants, Push};
//! let bindings = Bindings { step: "position", scores: "scores", result: "weights" };
//! let push = Push { context: 256 };
//! let call = push.call(Build::SOFTMAX, Constants { workgroup: 64 }, bindings);
//! ```
//!
//! ```compile_fail,E0560
//! use zinc_shaders::Takes as _;
//! use zinc_shaders::softmax::{Bindings, Build, Constants, Push};
//! let bindings = Bindings { step: "position", logits: "scores", result: "weights" };
//! let push = Push { context: 256, window: 256 };
//! let call = push.call(Build::SOFTMAX, Constants { workgroup: 64 }, bindings);
//! ```
//!
//! They have in common:
//!
//! * one descriptor set of storage buffers, numbered from 0 without gaps; the plain kernels, one for each operation,
//!   either read or write each of them, the fused ones may do both to caches and counters;
//! * specialization constant 0 is the workgroup size along x, a power of two from 4 up; every other id, too, is of the constant of
//!   one name in all kernels;
//! * push constants hold shapes only. What changes from token to token is read from a small buffer, so a recorded
//!   command buffer serves every token;
//! * results do not depend on scheduling: no subgroup operations but where there are cooperative matrices, reductions in a
//!   fixed order, atomics only to count who has arrived and to hand values over. The same device gives the same bits on every run.
//!
//! # A new kernel
//!
//! 1. Write `name.comp` in this crate's folder. Its first comment says what it computes and becomes the documentation of its static.
//!    Mark buffers `readonly` or `writeonly` where they are, and give blocks, members and constants the names that Rust
//!    shall have: of a block `QNorm`, the field is `q_norm`.
//! 2. Give a constant the id that it has in other shaders, or a new one if there is none of its name: the build says which is free.
//! 3. A line `// variants: A B-` builds it more than once (`build.rs` says how), a line `// family: other` puts it into the module of
//!    kernels that take the same.
//! 4. Make dispatches of it in one function, in `engine/src/plan/kernels/`, and give it cases in `engine/src/ops/`: a test there
//!    fails as long as it has none.

pub use rspirv::spirv::Capability;

/// What a kernel does with the buffer bound to one of its bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Reads and writes.
    ReadWrite,
}

impl Direction {
    /// Whether the kernel may read the buffer.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether the kernel may write the buffer.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
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
    /// Its specialization constants, by id.
    pub constants: &'static [Constant],
    /// Capabilities that the module declares.
    pub capabilities: &'static [Capability],
    /// The module; its entry point is `main`.
    pub spirv: &'static [u32],
}

impl Kernel {
    /// The kernel of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KERNELS.iter().find(|kernel| kernel.name == name).copied()
    }
}

impl PartialEq for Kernel {
    /// Kernels are compared by name, which is unique.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kernel {}

/// A specialization constant of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// Its id, which has this name in all kernels.
    pub id: u32,
    /// Its name in GLSL; `WORKGROUP` is the workgroup's size along x.
    pub name: &'static str,
    /// The bits of the shader's own value.
    pub default: u32,
}

/// The kernels of a family: they take the same, but for what only some of them have.
pub trait Build: Copy + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// The kernel.
    fn kernel(self) -> &'static Kernel;

    /// The one of this name.
    fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|build| build.kernel().name == name)
    }
}

/// The push constants of a family of kernels, and with them all else that it takes.
pub trait Takes: Copy {
    /// The kernels; made from `()` where there is one.
    type Build: Build;
    /// Specialization constants; made from the workgroup's size where there is nothing else.
    type Constants;
    /// What is bound to each binding.
    type Bindings<B>;

    /// As 32-bit words.
    fn words(self) -> Vec<u32>;

    /// A kernel with all that it takes.
    ///
    /// # Panics
    ///
    /// If something that only some of the kernels have is missing for one that has it, or is there for one that lacks it.
    fn call<B>(self, build: Self::Build, constants: Self::Constants, bindings: Self::Bindings<B>) -> Call<B>;
}

/// A kernel with all that it takes; made by [`Takes::call`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call<B> {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// Id and bits of each of its specialization constants, by id.
    pub constants: Vec<(u32, u32)>,
    /// Push constants, as 32-bit words.
    pub push: Vec<u32>,
    /// What is bound to each binding, in order.
    pub bindings: Vec<B>,
}

impl<B> Call<B> {
    fn new(
        kernel: &'static Kernel,
        constants: Vec<(u32, u32)>,
        push: Vec<u32>,
        bindings: impl IntoIterator<Item = Option<B>>,
    ) -> Self {
        let bindings: Vec<B> = bindings.into_iter().flatten().collect();
        let declared = kernel.constants.iter().map(|constant| constant.id);
        assert!(constants.iter().map(|c| c.0).eq(declared), "{}: {constants:?}", kernel.name);
        assert_eq!(bindings.len(), kernel.bindings.len(), "bindings of {}", kernel.name);
        Self { kernel, constants, push, bindings }
    }

    /// Invocations in a workgroup.
    pub fn workgroup(&self) -> u32 {
        self.constants.first().map_or(1, |constant| constant.1)
    }

    /// The same with other things bound.
    pub fn map<C>(self, bound: impl FnMut(B) -> C) -> Call<C> {
        let Self { kernel, constants, push, bindings } = self;
        Call { kernel, constants, push, bindings: bindings.into_iter().map(bound).collect() }
    }
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

#[cfg(test)]
#[path = "../cooperative.rs"]
mod cooperative;

#[cfg(test)]
mod tests {
    use super::*;

    /// A module of these instructions, opcode and operands.
    fn module(instructions: &[(u32, &[u32])]) -> Vec<u32> {
        let mut words = vec![0x0723_0203, 0x0001_0300, 0, 22, 0];
        for (op, operands) in instructions {
            words.push((operands.len() as u32 + 1) << 16 | op);
            words.extend_from_slice(operands);
        }
        words
    }

    /// A product of two matrices in NVIDIA's words: uint is 1, true and false 2 and 3, the types 4 to 6, loads 7 to 9, from an element
    /// of an array of vectors of so many uints.
    fn product(of: [u32; 3], elements: u32) -> Vec<u32> {
        module(&[
            (17, &[5357]),
            (21, &[1, 32, 0]),
            (23, &[19, 1, elements]),
            (32, &[20, 4, 19]),
            (65, &[20, 15, 21, 2]),
            (41, &[10, 2]),
            (42, &[10, 3]),
            (5358, &[4, 11, 1, 12, 13]),
            (5358, &[5, 11, 1, 13, 12]),
            (5358, &[6, 14, 1, 12, 12]),
            (5359, &[of[0], 7, 15, 16, 2]),
            (5359, &[of[1], 8, 15, 16, 3, 0x20]),
            (61, &[of[2], 9, 17]),
            (5361, &[of[2], 18, 7, 8, 9]),
            (5360, &[15, 18, 16, 3]),
        ])
    }

    #[test]
    fn a_product_in_nvidias_words_becomes_one_in_those_of_khronos() {
        let expected = module(&[
            (17, &[6022]),
            (21, &[1, 32, 0]),
            (43, &[1, 22, 0]),
            (43, &[1, 23, 1]),
            (43, &[1, 24, 2]),
            (23, &[19, 1, 4]),
            (32, &[20, 4, 19]),
            (65, &[20, 15, 21, 2]),
            (41, &[10, 2]),
            (42, &[10, 3]),
            (4456, &[4, 11, 1, 12, 13, 22]),
            (4456, &[5, 11, 1, 13, 12, 23]),
            (4456, &[6, 14, 1, 12, 12, 24]),
            (4457, &[4, 7, 15, 23, 16]),
            (4457, &[5, 8, 15, 22, 16, 0x20]),
            (61, &[6, 9, 17]),
            (4459, &[6, 18, 7, 8, 9]),
            (4458, &[15, 18, 22, 16]),
        ]);
        let got = cooperative::translate(product([4, 5, 6], 4)).unwrap();
        assert_eq!((got[3], &got[5..]), (25, &expected[5..]));
    }

    #[test]
    fn what_cannot_be_translated_is_refused_and_what_need_not_be_stays() {
        // One type as both factors.
        assert!(cooperative::translate(product([4, 4, 6], 4)).unwrap_err().contains("two places"));
        // An array that need not begin where a matrix must.
        assert!(cooperative::translate(product([4, 5, 6], 2)).unwrap_err().contains("not uvec4"));
        let mut cut = product([4, 5, 6], 4);
        cut.pop();
        assert!(cooperative::translate(cut).unwrap_err().contains("truncated"));
        let plain = module(&[(17, &[1]), (21, &[1, 32, 0])]);
        assert_eq!(cooperative::translate(plain.clone()), Ok(plain));
    }

    #[test]
    fn every_kernel_is_a_spirv_module_and_a_plain_one_writes_exactly_its_last_binding() {
        assert!(KERNELS.len() >= 13);
        for kernel in KERNELS {
            assert_eq!(kernel.spirv[0], 0x0723_0203, "{}", kernel.name);
            if *kernel == NOTHING {
                assert!(kernel.bindings.is_empty());
                continue;
            }
            let (last, inputs) =
                kernel.bindings.split_last().expect("a kernel without bindings does nothing");
            assert!(last.writes(), "{}", kernel.name);
            if kernel.name.starts_with("chained") {
                // The last one says whether a wait was given up.
                let results = inputs.iter().filter(|d| **d == Direction::Write).count();
                assert_eq!((*last, results), (Direction::ReadWrite, 1), "{}", kernel.name);
                continue;
            }
            if !["fused_attention", "persistent", "advance", "batch_kv_write_blocks"]
                .iter()
                .any(|n| kernel.name.starts_with(n))
            {
                assert_eq!(*last, Direction::Write, "{}", kernel.name);
                assert!(inputs.iter().all(|d| *d == Direction::Read), "{}", kernel.name);
            }
        }
    }

    #[test]
    fn push_constants_fit_the_128_bytes_that_every_device_has() {
        for kernel in KERNELS {
            let some = kernel.push_bytes > 0 || *kernel == NOTHING;
            assert!(some && kernel.push_bytes <= 128, "{}", kernel.name);
        }
        assert_eq!(SCORES.push_bytes, 24);
    }

    /// What the engine asks of a device before it uses a kernel.
    const KNOWN: [Capability; 9] = [
        Capability::Shader,
        Capability::Float16,
        Capability::GroupNonUniform,
        Capability::GroupNonUniformArithmetic,
        Capability::VulkanMemoryModel,
        Capability::VulkanMemoryModelDeviceScope,
        Capability::DotProductInput4x8BitPacked,
        Capability::DotProduct,
        Capability::CooperativeMatrixKHR,
    ];

    #[test]
    fn every_capability_is_a_known_one_and_plain_kernels_need_none_but_shader() {
        for kernel in KERNELS {
            let known = kernel.capabilities.iter().all(|c| KNOWN.contains(c));
            assert!(known, "{} declares {:?}", kernel.name, kernel.capabilities);
            let product = ["fused_matvec", "chained_matvec"].iter().any(|n| kernel.name.starts_with(n));
            let dots = product && !kernel.name.ends_with("_plain");
            let matrices = kernel.name.contains("coop");
            assert_eq!(
                matrices,
                kernel.capabilities.contains(&Capability::CooperativeMatrixKHR),
                "{}",
                kernel.name
            );
            if !dots && !matrices && !kernel.name.starts_with("persistent") {
                assert_eq!(kernel.capabilities, [Capability::Shader], "{}", kernel.name);
            }
        }
    }
}
