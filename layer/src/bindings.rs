//! What a dispatch depends on, kept so that it can be issued from somewhere else than where it was recorded.
//!
//! Two parts of the layer do that: `segment` while a command buffer is recorded, and `replay` when it is submitted. Both
//! bind everything anew, since neither knows what is bound at the place where it issues.

use crate::footprint::BoundSet;
use crate::layouts::{PipelineLayout, Sameness};
use crate::next::Next;
use ash::vk;
use smallvec::SmallVec;
use std::sync::Arc;

/// A `vkCmdPushConstants`, kept.
#[derive(Clone, Debug)]
struct Push {
    layout: Arc<PipelineLayout>,
    stages: vk::ShaderStageFlags,
    offset: u32,
    bytes: Vec<u8>,
}

/// A set that can be bound again.
#[derive(Clone, Debug)]
struct Rebound {
    handle: vk::DescriptorSet,
    layout: Arc<PipelineLayout>,
    /// In bytes.
    dynamic_offsets: SmallVec<[u32; 4]>,
}

/// It is not certain which sets a bind leaves bound, or one of them can't be bound again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsure;

/// The compute state that a dispatch depends on.
///
/// Of any two sets that are bound, the layouts are compatible for the lower number. So they can be bound in the order of
/// their numbers, whatever is bound before, and none of them disturbs another.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// The pipeline; null where none is bound.
    pub pipeline: vk::Pipeline,
    /// By set number.
    sets: Vec<Option<Rebound>>,
    pushes: Arc<Vec<Push>>,
}

impl Bindings {
    /// The application binds `sets` from number `first` on, one after the other, with `layout`. What that disturbs is bound no
    /// more ("Pipeline Layout Compatibility" in the specification): a lower set that was bound with a layout incompatible
    /// for it; all higher ones where the set of the same number was.
    ///
    /// # Errors
    ///
    /// [`Unsure`] where it is not certain what is disturbed, where a set can't be bound again, and where no set of the same
    /// number was bound and a higher one has a layout that is not compatible: the specification leaves that one bound, but
    /// no order of binds is sure to. Then nothing has changed.
    pub fn bind_sets(
        &mut self,
        first: usize,
        sets: &[Option<BoundSet>],
        layout: &Arc<PipelineLayout>,
    ) -> Result<(), Unsure> {
        layout.own().ok_or(Unsure)?;
        let mut after = self.sets.clone();
        if after.len() < first + sets.len() {
            after.resize(first + sets.len(), None);
        }
        for (number, set) in (first..).zip(sets) {
            let set = set.as_ref().filter(|s| s.pushed.is_none() && !s.lost).ok_or(Unsure)?;
            let (lower, here) = after.split_at_mut(number);
            for (at, place) in lower.iter_mut().enumerate() {
                let Some(bound) = place else { continue };
                match bound.layout.is_compatible(layout, at) {
                    Sameness::Same => {}
                    Sameness::Different => *place = None,
                    Sameness::Unsure => return Err(Unsure),
                }
            }
            let [here, higher @ ..] = here else { return Err(Unsure) };
            let leaves = |bound: &Rebound| bound.layout.is_compatible(layout, number);
            match here.as_ref().map(leaves) {
                Some(Sameness::Same) => {}
                Some(Sameness::Different) => higher.fill(None),
                Some(Sameness::Unsure) if higher.iter().any(Option::is_some) => return Err(Unsure),
                None if higher.iter().flatten().any(|bound| leaves(bound) != Sameness::Same) => {
                    return Err(Unsure);
                }
                Some(Sameness::Unsure) | None => {}
            }
            *here = Some(Rebound {
                handle: set.handle,
                layout: layout.clone(),
                dynamic_offsets: set.dynamic_offsets.clone(),
            });
        }
        self.sets = after;
        Ok(())
    }

    /// The application pushes constants.
    pub fn push(
        &mut self,
        layout: Arc<PipelineLayout>,
        stages: vk::ShaderStageFlags,
        offset: u32,
        bytes: &[u8],
    ) {
        let pushes = Arc::make_mut(&mut self.pushes);
        let end = offset as usize + bytes.len();
        pushes.retain(|p| {
            let inside = p.offset >= offset && p.offset as usize + p.bytes.len() <= end;
            !(inside && p.stages == stages && Arc::ptr_eq(&p.layout, &layout))
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
                let Some((set, layout)) = set.as_ref().and_then(|s| Some((s, s.layout.own()?))) else {
                    continue;
                };
                let offsets = &set.dynamic_offsets;
                let (count, data) = (offsets.len() as u32, offsets.as_ptr());
                bind(buffer, POINT, layout, number, 1, &set.handle, count, data);
            }
        }
        if let Some(push) = next.cmd_push_constants {
            for p in state.pushes.iter() {
                let Some(layout) = p.layout.own() else { continue };
                push(buffer, layout, p.stages, p.offset, p.bytes.len() as u32, p.bytes.as_ptr().cast());
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
    use crate::layouts::tests::{layout, with_a_handle};
    use ash::vk::Handle;

    /// Binds a set for each number and layout, one call each; the handle of each is its place in the list.
    fn bound(binds: &[(usize, &Arc<PipelineLayout>)]) -> Result<Vec<Option<u64>>, Unsure> {
        let mut state = Bindings::default();
        for (handle, (number, layout)) in (1..).zip(binds) {
            let set = BoundSet { handle: vk::DescriptorSet::from_raw(handle), ..BoundSet::nothing() };
            state.bind_sets(*number, &[Some(set)], layout)?;
        }
        Ok(state.sets.iter().map(|s| s.as_ref().map(|s| s.handle.as_raw())).collect())
    }

    #[test]
    fn a_bind_disturbs_what_the_specification_says() {
        let [one, alike, other] = [&[1, 1, 1][..], &[1, 1, 2], &[2, 1, 1]].map(with_a_handle);
        assert_eq!(bound(&[(0, &one), (1, &alike)]), Ok(vec![Some(1), Some(2)]), "compatible for set 0");
        assert_eq!(bound(&[(0, &one), (1, &other)]), Ok(vec![None, Some(2)]), "a lower set is disturbed");
        let higher = [(0, &one), (1, &one), (2, &one), (0, &other)];
        assert_eq!(bound(&higher), Ok(vec![Some(4), None, None]), "and so are the higher ones");
        let higher = [(0, &one), (1, &one), (2, &one), (0, &alike)];
        assert_eq!(bound(&higher), Ok(vec![Some(4), Some(2), Some(3)]));
        let higher = [(0, &one), (1, &one), (2, &one), (2, &alike)];
        assert_eq!(bound(&higher), Ok(vec![Some(1), Some(2), Some(4)]));
    }

    #[test]
    fn what_no_order_of_binds_is_sure_to_leave_bound_is_not_bound_again() {
        let [one, other] = [&[1, 1][..], &[2, 1]].map(with_a_handle);
        assert_eq!(bound(&[(1, &other), (0, &one)]), Err(Unsure), "no set 0 was bound before");
        assert_eq!(bound(&[(1, &one), (0, &one)]), Ok(vec![Some(2), Some(1)]));
        assert_eq!(bound(&[(0, &layout(&[1]))]), Err(Unsure), "without a layout to bind with");
    }

    #[test]
    fn a_push_replaces_only_what_it_covers_for_the_same_stages() {
        let mut state = Bindings::default();
        let layout = layout(&[]);
        let compute = vk::ShaderStageFlags::COMPUTE;
        state.push(layout.clone(), compute, 0, &[1; 8]);
        state.push(layout.clone(), compute, 4, &[2; 8]);
        state.push(layout.clone(), vk::ShaderStageFlags::ALL, 0, &[3; 16]);
        assert_eq!(state.pushes.len(), 3, "partial covers and other stages keep the older push");
        state.push(layout, compute, 0, &[4; 16]);
        let left: Vec<u8> = state.pushes.iter().map(|p| p.bytes[0]).collect();
        assert_eq!(left, [3, 4]);
    }
}
