//! What a dispatch depends on, kept so that it can be issued from somewhere else than where it was recorded.
//!
//! Two parts of the layer do that: `segment` while a command buffer is recorded, and `replay` when it is submitted. Both
//! bind everything anew, since neither knows what is bound at the place where it issues.

use crate::footprint::BoundSet;
use crate::next::Next;
use ash::vk;
use std::sync::Arc;

/// A `vkCmdPushConstants`, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Push {
    layout: vk::PipelineLayout,
    stages: vk::ShaderStageFlags,
    offset: u32,
    bytes: Vec<u8>,
}

/// The compute state that a dispatch depends on.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// The pipeline; null where none is bound.
    pub pipeline: vk::Pipeline,
    /// By set number.
    pub sets: Vec<Option<BoundSet>>,
    pushes: Arc<Vec<Push>>,
}

impl Bindings {
    /// The application pushes constants.
    pub fn push(
        &mut self,
        layout: vk::PipelineLayout,
        stages: vk::ShaderStageFlags,
        offset: u32,
        bytes: &[u8],
    ) {
        let pushes = Arc::make_mut(&mut self.pushes);
        let end = offset as usize + bytes.len();
        pushes.retain(|p| {
            let inside = p.offset >= offset && p.offset as usize + p.bytes.len() <= end;
            !(inside && p.stages == stages && p.layout == layout)
        });
        pushes.push(Push { layout, stages, offset, bytes: bytes.to_vec() });
    }
}

/// How many workgroups, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// `vkCmdDispatch`.
    Plain([u32; 3]),
    /// `vkCmdDispatchBase`: base, then count.
    Base([u32; 3], [u32; 3]),
    /// `vkCmdDispatchIndirect`.
    Indirect(vk::Buffer, vk::DeviceSize),
}

impl Grid {
    /// The first workgroup and their number, if they are known when the dispatch is recorded.
    pub fn workgroups(&self) -> Option<([u32; 3], [u32; 3])> {
        match *self {
            Grid::Plain(groups) => Some(([0; 3], groups)),
            Grid::Base(base, groups) => Some((base, groups)),
            Grid::Indirect(..) => None,
        }
    }
}

/// A transfer, with copies of its arrays.
#[derive(Clone, Debug)]
pub enum Transfer {
    /// `vkCmdCopyBuffer`.
    Copy(vk::Buffer, vk::Buffer, Vec<vk::BufferCopy>),
    /// `vkCmdFillBuffer`: buffer, offset, size, word.
    Fill(vk::Buffer, vk::DeviceSize, vk::DeviceSize, u32),
    /// `vkCmdUpdateBuffer`.
    Update(vk::Buffer, vk::DeviceSize, Vec<u8>),
}

/// Binds a state.
///
/// # Safety
///
/// The command buffer must be recording, `next` its device's functions, and the handles alive.
pub unsafe fn bind(next: &Next, buffer: vk::CommandBuffer, state: &Bindings) {
    const POINT: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;
    // SAFETY: by the caller.
    unsafe {
        if let (Some(bind), true) = (next.cmd_bind_pipeline, state.pipeline != vk::Pipeline::null()) {
            bind(buffer, POINT, state.pipeline);
        }
        if let Some(bind) = next.cmd_bind_descriptor_sets {
            for (number, set) in (0u32..).zip(&state.sets) {
                let Some(set) = set else { continue };
                let offsets = &set.dynamic_offsets;
                let (count, data) = (offsets.len() as u32, offsets.as_ptr());
                bind(buffer, POINT, set.layout, number, 1, &set.handle, count, data);
            }
        }
        if let Some(push) = next.cmd_push_constants {
            for p in state.pushes.iter() {
                push(buffer, p.layout, p.stages, p.offset, p.bytes.len() as u32, p.bytes.as_ptr().cast());
            }
        }
    }
}

/// Issues a dispatch of what is bound.
///
/// # Safety
///
/// As for [`bind`].
pub unsafe fn dispatch(next: &Next, buffer: vk::CommandBuffer, grid: Grid) {
    // SAFETY: by the caller.
    unsafe {
        match grid {
            Grid::Plain([x, y, z]) => {
                if let Some(f) = next.cmd_dispatch {
                    f(buffer, x, y, z);
                }
            }
            Grid::Base([bx, by, bz], [x, y, z]) => {
                if let Some(f) = next.cmd_dispatch_base {
                    f(buffer, bx, by, bz, x, y, z);
                }
            }
            Grid::Indirect(arguments, offset) => {
                if let Some(f) = next.cmd_dispatch_indirect {
                    f(buffer, arguments, offset);
                }
            }
        }
    }
}

/// Issues a transfer.
///
/// # Safety
///
/// As for [`bind`].
pub unsafe fn transfer(next: &Next, buffer: vk::CommandBuffer, what: &Transfer) {
    // SAFETY: by the caller.
    unsafe {
        match what {
            Transfer::Copy(from, to, regions) => {
                if let Some(f) = next.cmd_copy_buffer {
                    f(buffer, *from, *to, regions.len() as u32, regions.as_ptr());
                }
            }
            Transfer::Fill(to, offset, size, word) => {
                if let Some(f) = next.cmd_fill_buffer {
                    f(buffer, *to, *offset, *size, *word);
                }
            }
            Transfer::Update(to, offset, bytes) => {
                if let Some(f) = next.cmd_update_buffer {
                    f(buffer, *to, *offset, bytes.len() as u64, bytes.as_ptr().cast());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;

    #[test]
    fn a_push_replaces_only_what_it_covers_for_the_same_stages() {
        let mut state = Bindings::default();
        let layout = vk::PipelineLayout::from_raw(1);
        let compute = vk::ShaderStageFlags::COMPUTE;
        state.push(layout, compute, 0, &[1; 8]);
        state.push(layout, compute, 4, &[2; 8]);
        state.push(layout, vk::ShaderStageFlags::ALL, 0, &[3; 16]);
        assert_eq!(state.pushes.len(), 3, "partial covers and other stages keep the older push");
        state.push(layout, compute, 0, &[4; 16]);
        let left: Vec<u8> = state.pushes.iter().map(|p| p.bytes[0]).collect();
        assert_eq!(left, [3, 4]);
    }
}
