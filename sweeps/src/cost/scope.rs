//! What stands between two dispatches while they are timed.
//!
//! Each sort is data: the masks as Vulkan has them. `none-again` is the control: it is the same commands as `none`, so
//! what it "costs" is how far this measurement can be believed.

use ash::vk::{AccessFlags as A, PipelineStageFlags as S};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sort of ordering between two dispatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Nothing: what all others are compared with.
    None,
    /// Nothing, measured once more.
    NoneAgain,
    /// COMPUTE to COMPUTE without access masks.
    Execution,
    /// SHADER_WRITE made available, nothing made visible.
    WriteOnly,
    /// Nothing made available, SHADER_READ made visible.
    ReadOnly,
    /// SHADER_WRITE to SHADER_READ.
    Shader,
    /// The same of the buffer that is written and of nothing else.
    Buffer,
    /// COMPUTE and TRANSFER with all their accesses to the same, as llama.cpp asks.
    Transfer,
    /// SHADER_WRITE to HOST_READ.
    Host,
    /// ALL_COMMANDS with MEMORY_READ and MEMORY_WRITE to the same.
    All,
    /// `shader` and directly behind it `all`: what the layer's policy `every` leaves where the application had one.
    ShaderThenAll,
    /// vkCmdSetEvent and vkCmdWaitEvents, SHADER_WRITE to SHADER_READ.
    Event,
    /// No command: a counter in memory within one resident dispatch that does the work of all.
    InKernel,
}

/// The masks of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Masks {
    /// `srcStageMask` and `srcAccessMask`.
    pub src: (S, A),
    /// `dstStageMask` and `dstAccessMask`.
    pub dst: (S, A),
}

/// The commands of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    /// None.
    Nothing,
    /// vkCmdPipelineBarrier with one VkMemoryBarrier, once for each of these.
    Memory(&'static [Masks]),
    /// vkCmdPipelineBarrier with one VkBufferMemoryBarrier.
    Buffer(Masks),
    /// An event set and waited for.
    Event(Masks),
    /// Within the kernel.
    InKernel,
}

const COMPUTE: S = S::COMPUTE_SHADER;
const NOTHING: A = A::empty();
const SHADER: Masks = Masks { src: (COMPUTE, A::SHADER_WRITE), dst: (COMPUTE, A::SHADER_READ) };
const FULL: (S, A) = (S::ALL_COMMANDS, A::from_raw(A::MEMORY_READ.as_raw() | A::MEMORY_WRITE.as_raw()));
const BOTH: (S, A) = (
    S::from_raw(COMPUTE.as_raw() | S::TRANSFER.as_raw()),
    A::from_raw(
        A::SHADER_READ.as_raw()
            | A::SHADER_WRITE.as_raw()
            | A::TRANSFER_READ.as_raw()
            | A::TRANSFER_WRITE.as_raw(),
    ),
);

impl Scope {
    /// All of them, in the order in which they are shown.
    pub const EVERY: [Scope; 13] = [
        Scope::None,
        Scope::NoneAgain,
        Scope::Execution,
        Scope::WriteOnly,
        Scope::ReadOnly,
        Scope::Shader,
        Scope::Buffer,
        Scope::Transfer,
        Scope::Host,
        Scope::All,
        Scope::ShaderThenAll,
        Scope::Event,
        Scope::InKernel,
    ];

    /// Its commands.
    pub fn commands(self) -> Commands {
        match self {
            Self::None | Self::NoneAgain => Commands::Nothing,
            Self::Execution => {
                Commands::Memory(&[Masks { src: (COMPUTE, NOTHING), dst: (COMPUTE, NOTHING) }])
            }
            Self::WriteOnly => {
                Commands::Memory(&[Masks { src: (COMPUTE, A::SHADER_WRITE), dst: (COMPUTE, NOTHING) }])
            }
            Self::ReadOnly => {
                Commands::Memory(&[Masks { src: (COMPUTE, NOTHING), dst: (COMPUTE, A::SHADER_READ) }])
            }
            Self::Shader => Commands::Memory(&[SHADER]),
            Self::Buffer => Commands::Buffer(SHADER),
            Self::Transfer => Commands::Memory(&[Masks { src: BOTH, dst: BOTH }]),
            Self::Host => {
                Commands::Memory(&[Masks { src: (COMPUTE, A::SHADER_WRITE), dst: (S::HOST, A::HOST_READ) }])
            }
            Self::All => Commands::Memory(&[Masks { src: FULL, dst: FULL }]),
            Self::ShaderThenAll => Commands::Memory(&[SHADER, Masks { src: FULL, dst: FULL }]),
            Self::Event => Commands::Event(SHADER),
            Self::InKernel => Commands::InKernel,
        }
    }

    /// Its name in documents and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NoneAgain => "none-again",
            Self::Execution => "execution",
            Self::WriteOnly => "write-only",
            Self::ReadOnly => "read-only",
            Self::Shader => "shader",
            Self::Buffer => "buffer",
            Self::Transfer => "transfer",
            Self::Host => "host",
            Self::All => "all",
            Self::ShaderThenAll => "shader-then-all",
            Self::Event => "event",
            Self::InKernel => "in-kernel",
        }
    }

    /// What it is, for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::None => "nothing in between",
            Self::NoneAgain => "nothing again (control: must cost nothing)",
            Self::Execution => "COMPUTE to COMPUTE, no access masks",
            Self::WriteOnly => "SHADER_WRITE to no access",
            Self::ReadOnly => "no access to SHADER_READ",
            Self::Shader => "SHADER_WRITE to SHADER_READ",
            Self::Buffer => "the same, of one buffer",
            Self::Transfer => "COMPUTE and TRANSFER, all their accesses",
            Self::Host => "SHADER_WRITE to HOST_READ",
            Self::All => "ALL_COMMANDS, MEMORY_READ and _WRITE",
            Self::ShaderThenAll => "`shader`, then `all`",
            Self::Event => "event set and waited for",
            Self::InKernel => "counter within one resident dispatch",
        }
    }

    /// The sort that costs what a barrier with these masks costs, `[srcStages, srcFlags, dstStages, dstFlags]` as Vulkan's
    /// 64-bit masks. What is not among the sorts counts as the dearest that it could be, `all`.
    pub fn of_masks([src_stages, src_flags, dst_stages, dst_flags]: [u64; 4]) -> Scope {
        let compute = u64::from(COMPUTE.as_raw());
        let host = u64::from(S::HOST.as_raw());
        // TRANSFER, and COPY, RESOLVE, BLIT and CLEAR of the second version.
        let transfer = u64::from(S::TRANSFER.as_raw()) | 0xf_0000_0000;
        let stages = src_stages | dst_stages;
        match () {
            () if stages & !(compute | transfer | host) != 0 => Self::All,
            () if stages & host != 0 => Self::Host,
            () if stages & transfer != 0 => Self::Transfer,
            () if src_flags | dst_flags == 0 => Self::Execution,
            () if dst_flags == 0 => Self::WriteOnly,
            () if src_flags == 0 => Self::ReadOnly,
            () => Self::Shader,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_document() {
        for scope in Scope::EVERY {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.name());
        }
    }

    #[test]
    fn every_sort_of_barrier_is_recognised_by_its_own_masks() {
        let mut seen = 0;
        for scope in Scope::EVERY {
            if let Commands::Memory([m]) = scope.commands() {
                let wide = |(s, a): (S, A)| [u64::from(s.as_raw()), u64::from(a.as_raw())];
                let ([a, b], [c, d]) = (wide(m.src), wide(m.dst));
                assert_eq!(Scope::of_masks([a, b, c, d]), scope);
                seen += 1;
            }
        }
        assert_eq!(seen, 7);
    }

    #[test]
    fn a_barrier_with_a_stage_that_was_not_measured_counts_as_the_dearest() {
        let fragment = u64::from(S::FRAGMENT_SHADER.as_raw());
        assert_eq!(Scope::of_masks([fragment, 0, 0x800, 0x20]), Scope::All);
    }
}
