//! What an application asks for with a pipeline barrier, in one shape for both versions of the command.
//!
//! All memory, buffer and image barriers of one command are joined into one global barrier: their execution part is
//! global anyway, and drivers look at stages and access masks alone. What does more than order memory (a layout
//! transition, a queue family transfer), or carries something that this layer does not read, must be passed on as it
//! is (rule 3).

use ash::vk;
use zinc_hazard::{Barrier, Flags, Scope, Stages};

/// A pipeline barrier, as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The join of all its parts.
    pub barrier: Barrier,
    /// It must reach the driver unchanged and in order.
    pub pass_through: bool,
}

fn scope(stages: u64, flags: u64) -> Scope {
    Scope { stages: Stages::from_bits_retain(stages), flags: Flags::from_bits_retain(flags) }
}

fn transfers_ownership(from: u32, to: u32) -> bool {
    from != to
}

fn plain(flags: vk::DependencyFlags) -> bool {
    (flags & !vk::DependencyFlags::BY_REGION).is_empty()
}

impl Asked {
    /// From the arguments of `vkCmdPipelineBarrier`.
    pub fn v1(
        src: vk::PipelineStageFlags,
        dst: vk::PipelineStageFlags,
        dependency: vk::DependencyFlags,
        memory: &[vk::MemoryBarrier<'_>],
        buffers: &[vk::BufferMemoryBarrier<'_>],
        images: &[vk::ImageMemoryBarrier<'_>],
    ) -> Asked {
        let (src, dst) = (u64::from(src.as_raw()), u64::from(dst.as_raw()));
        let part = |from: vk::AccessFlags, to: vk::AccessFlags| Barrier {
            src: scope(src, from.as_raw().into()),
            dst: scope(dst, to.as_raw().into()),
        };
        let mut asked = Asked {
            barrier: Barrier { src: scope(src, 0), dst: scope(dst, 0) },
            pass_through: !plain(dependency),
        };
        for m in memory {
            asked.add(part(m.src_access_mask, m.dst_access_mask), !m.p_next.is_null());
        }
        for b in buffers {
            asked.add(
                part(b.src_access_mask, b.dst_access_mask),
                !b.p_next.is_null()
                    || transfers_ownership(b.src_queue_family_index, b.dst_queue_family_index),
            );
        }
        for i in images {
            asked.add(
                part(i.src_access_mask, i.dst_access_mask),
                !i.p_next.is_null()
                    || i.old_layout != i.new_layout
                    || transfers_ownership(i.src_queue_family_index, i.dst_queue_family_index),
            );
        }
        asked
    }

    /// From the argument of `vkCmdPipelineBarrier2`.
    pub fn v2(
        dependency: vk::DependencyFlags,
        has_next: bool,
        memory: &[vk::MemoryBarrier2<'_>],
        buffers: &[vk::BufferMemoryBarrier2<'_>],
        images: &[vk::ImageMemoryBarrier2<'_>],
    ) -> Asked {
        let part = |src: (vk::PipelineStageFlags2, vk::AccessFlags2),
                    dst: (vk::PipelineStageFlags2, vk::AccessFlags2)| {
            Barrier { src: scope(src.0.as_raw(), src.1.as_raw()), dst: scope(dst.0.as_raw(), dst.1.as_raw()) }
        };
        let mut asked = Asked { barrier: Barrier::default(), pass_through: has_next || !plain(dependency) };
        for m in memory {
            asked.add(
                part((m.src_stage_mask, m.src_access_mask), (m.dst_stage_mask, m.dst_access_mask)),
                !m.p_next.is_null(),
            );
        }
        for b in buffers {
            asked.add(
                part((b.src_stage_mask, b.src_access_mask), (b.dst_stage_mask, b.dst_access_mask)),
                !b.p_next.is_null()
                    || transfers_ownership(b.src_queue_family_index, b.dst_queue_family_index),
            );
        }
        for i in images {
            asked.add(
                part((i.src_stage_mask, i.src_access_mask), (i.dst_stage_mask, i.dst_access_mask)),
                !i.p_next.is_null()
                    || i.old_layout != i.new_layout
                    || transfers_ownership(i.src_queue_family_index, i.dst_queue_family_index),
            );
        }
        asked
    }

    fn add(&mut self, part: Barrier, pass_through: bool) {
        self.barrier = self.barrier.join(part);
        self.pass_through |= pass_through;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTE: vk::PipelineStageFlags = vk::PipelineStageFlags::COMPUTE_SHADER;

    fn image(
        old: vk::ImageLayout,
        new: vk::ImageLayout,
        from: u32,
        to: u32,
    ) -> vk::ImageMemoryBarrier<'static> {
        vk::ImageMemoryBarrier::default()
            .old_layout(old)
            .new_layout(new)
            .src_queue_family_index(from)
            .dst_queue_family_index(to)
    }

    fn asked_of(image: vk::ImageMemoryBarrier<'_>) -> Asked {
        Asked::v1(COMPUTE, COMPUTE, vk::DependencyFlags::empty(), &[], &[], &[image])
    }

    #[test]
    fn only_a_true_transition_or_transfer_passes_through() {
        let (general, read) = (vk::ImageLayout::GENERAL, vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL);
        let ignored = vk::QUEUE_FAMILY_IGNORED;
        assert!(!asked_of(image(general, general, ignored, ignored)).pass_through);
        assert!(!asked_of(image(general, general, 1, 1)).pass_through);
        assert!(asked_of(image(general, read, ignored, ignored)).pass_through);
        assert!(asked_of(image(general, general, 0, 1)).pass_through);
    }

    #[test]
    fn execution_only_barriers_keep_their_stages() {
        let asked =
            Asked::v1(COMPUTE, vk::PipelineStageFlags::TRANSFER, vk::DependencyFlags::empty(), &[], &[], &[]);
        assert_eq!(asked.barrier.src, scope(1 << 11, 0));
        assert_eq!(asked.barrier.dst, scope(1 << 12, 0));
        assert!(!asked.pass_through);
    }

    #[test]
    fn unknown_dependency_flags_and_extensions_pass_through() {
        let by_region = Asked::v1(COMPUTE, COMPUTE, vk::DependencyFlags::BY_REGION, &[], &[], &[]);
        let view_local = Asked::v1(COMPUTE, COMPUTE, vk::DependencyFlags::VIEW_LOCAL, &[], &[], &[]);
        assert!(!by_region.pass_through && view_local.pass_through);
        assert!(Asked::v2(vk::DependencyFlags::empty(), true, &[], &[], &[]).pass_through);
    }

    #[test]
    fn the_parts_of_a_second_version_barrier_are_joined() {
        use vk::{AccessFlags2 as A, PipelineStageFlags2 as S};
        let memory = [
            vk::MemoryBarrier2::default()
                .src_stage_mask(S::COPY)
                .src_access_mask(A::TRANSFER_WRITE)
                .dst_stage_mask(S::COMPUTE_SHADER)
                .dst_access_mask(A::SHADER_STORAGE_READ),
            vk::MemoryBarrier2::default().src_stage_mask(S::CLEAR).dst_stage_mask(S::HOST),
        ];
        let barrier = Asked::v2(vk::DependencyFlags::empty(), false, &memory, &[], &[]).barrier;
        assert_eq!(barrier.src.stages, Stages::COPY | Stages::CLEAR);
        assert_eq!(barrier.dst.stages, Stages::COMPUTE_SHADER | Stages::HOST);
        assert_eq!(barrier.src.flags, Flags::TRANSFER_WRITE);
    }
}
