//! Pipeline layouts: what their sets are, and which of two layouts disturb each other's bindings.
//!
//! Where operations are issued elsewhere than they were recorded, sets and push constants are bound again, perhaps when they
//! are submitted, with a layout that the application may have destroyed in between: `vkDestroyPipelineLayout` is allowed as
//! soon as no recording is in progress that has used the layout. So the layer binds with a layout of its own, made from the
//! same create info in the same call, and leaves the application's to the application. It is destroyed with the last
//! recording that refers to it.
//!
//! Two layouts are compatible for set N when they have identical push constant ranges, identically defined set layouts
//! from 0 to N, and both or neither allow independent sets ("Pipeline Layout Compatibility" in the specification).
//! Handles do not matter: an application may make each layout twice. What this file can't read makes the answer
//! [`Sameness::Unsure`], and then nothing may rely on either answer.

use crate::abi::slice;
use crate::device::Device;
use crate::objects::{Allocator, create, destroy};
use crate::set_layouts::SetLayout;
use ash::vk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of a comparison of two definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// Identically defined.
    Same,
    /// Defined differently.
    Different,
    /// Something in one of the definitions is not known.
    Unsure,
}

impl Sameness {
    /// [`Sameness::Same`] if `equal`.
    pub fn of(equal: bool) -> Sameness {
        if equal { Sameness::Same } else { Sameness::Different }
    }

    /// The sameness of a whole of which this is one part and `rest` the other.
    pub fn and(self, rest: impl FnOnce() -> Sameness) -> Sameness {
        match self {
            Sameness::Different => Sameness::Different,
            Sameness::Same => rest(),
            Sameness::Unsure => match rest() {
                Sameness::Different => Sameness::Different,
                _ => Sameness::Unsure,
            },
        }
    }
}

/// A pipeline layout of the layer's own, destroyed with its last owner.
#[derive(Debug)]
struct Own {
    handle: vk::PipelineLayout,
    device: vk::Device,
    destroy: vk::PFN_vkDestroyPipelineLayout,
    device_lives: Arc<AtomicBool>,
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.device_lives.load(Ordering::Acquire) {
            // SAFETY: made by the layer without callbacks, referred to by no recording any more, and the device lives.
            unsafe { (self.destroy)(self.device, self.handle, std::ptr::null()) };
        }
    }
}

/// One set of a pipeline layout.
#[derive(Clone, Debug)]
enum SetOf {
    /// `VK_NULL_HANDLE`: layouts with independent sets have such places.
    Null,
    Known(Arc<SetLayout>),
    /// The creation of the set layout was not seen.
    Unseen,
}

/// One `VkPipelineLayout`.
#[derive(Debug)]
pub struct PipelineLayout {
    sets: Vec<SetOf>,
    /// Stages, offset and size, as the application listed them.
    push_constants: Vec<(u32, u32, u32)>,
    flags: vk::PipelineLayoutCreateFlags,
    /// The create info had a `pNext` list.
    extended: bool,
    /// `None` where nothing is bound again on this device, or the driver refused.
    own: Option<Own>,
}

impl PipelineLayout {
    /// The record of a layout that `info` creates; `find` finds the record of a set layout.
    ///
    /// # Safety
    ///
    /// `info` must be valid.
    unsafe fn new<'a>(
        info: &vk::PipelineLayoutCreateInfo<'_>,
        find: impl Fn(vk::DescriptorSetLayout) -> Option<&'a Arc<SetLayout>>,
    ) -> PipelineLayout {
        // SAFETY: by the caller.
        let (sets, ranges) = unsafe {
            (
                slice(info.p_set_layouts, info.set_layout_count),
                slice(info.p_push_constant_ranges, info.push_constant_range_count),
            )
        };
        let set = |handle: &vk::DescriptorSetLayout| match find(*handle) {
            _ if *handle == vk::DescriptorSetLayout::null() => SetOf::Null,
            Some(layout) => SetOf::Known(layout.clone()),
            None => SetOf::Unseen,
        };
        PipelineLayout {
            sets: sets.iter().map(set).collect(),
            push_constants: ranges.iter().map(|r| (r.stage_flags.as_raw(), r.offset, r.size)).collect(),
            flags: info.flags,
            extended: !info.p_next.is_null(),
            own: None,
        }
    }

    /// The layout of set `number`, if its creation was seen.
    pub fn set(&self, number: usize) -> Option<&Arc<SetLayout>> {
        match self.sets.get(number) {
            Some(SetOf::Known(layout)) => Some(layout),
            _ => None,
        }
    }

    /// A handle to bind with that lives as long as this record; `None` where there is none.
    pub fn own(&self) -> Option<vk::PipelineLayout> {
        self.own.as_ref().map(|own| own.handle)
    }

    /// Whether this layout and `other` are compatible for set `number`: a bind of that set with one of them leaves what was
    /// bound with the other.
    pub fn is_compatible(&self, other: &PipelineLayout, number: usize) -> Sameness {
        if std::ptr::eq(self, other) {
            return Sameness::Same;
        }
        if self.extended || other.extended {
            return Sameness::Unsure;
        }
        let constants = || match self.push_constants == other.push_constants {
            true => Sameness::Same,
            // The same ranges in another order: "identical" does not say whether that counts.
            false if sorted(&self.push_constants) == sorted(&other.push_constants) => Sameness::Unsure,
            false => Sameness::Different,
        };
        let set = |at: usize| match (self.sets.get(at), other.sets.get(at)) {
            (None, None) => Sameness::Same,
            (Some(SetOf::Known(one)), Some(SetOf::Known(two))) => one.is_defined_as(two),
            (Some(SetOf::Null), Some(SetOf::Null)) => Sameness::Same,
            // A place without a set may stand for any set, and for none.
            (Some(SetOf::Unseen | SetOf::Null), Some(_)) | (Some(_), Some(SetOf::Unseen | SetOf::Null)) => {
                Sameness::Unsure
            }
            (None, Some(_)) | (Some(_), None) => Sameness::Different,
        };
        (0..=number)
            .fold(Sameness::of(self.flags == other.flags).and(constants), |same, at| same.and(|| set(at)))
    }
}

fn sorted(ranges: &[(u32, u32, u32)]) -> Vec<(u32, u32, u32)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    sorted
}

pub unsafe extern "system" fn create_pipeline_layout(
    device: vk::Device,
    info: *const vk::PipelineLayoutCreateInfo<'_>,
    allocator: Allocator<'_>,
    layout: *mut vk::PipelineLayout,
) -> vk::Result {
    create!(device.create_pipeline_layout(info, allocator, layout), |d| {
        let mut record = PipelineLayout::new(&*info, |set| d.set_layouts.get(set));
        record.own = own(d, info);
        d.pipeline_layouts.insert(*layout, Arc::new(record));
    })
}

/// A layout of the layer's own, where things are bound again.
///
/// # Safety
///
/// `info` must be valid, and the device alive.
unsafe fn own(device: &Device, info: *const vk::PipelineLayoutCreateInfo<'_>) -> Option<Own> {
    if !device.keeps_bindings() {
        return None;
    }
    let (create, destroy) = (device.next.create_pipeline_layout?, device.next.destroy_pipeline_layout?);
    let mut handle = vk::PipelineLayout::null();
    // SAFETY: by the caller: the application has just made a layout with this info.
    let made = unsafe { create(device.handle, info, std::ptr::null(), &raw mut handle) };
    (made == vk::Result::SUCCESS).then(|| Own {
        handle,
        device: device.handle,
        destroy,
        device_lives: device.lives.clone(),
    })
}

pub unsafe extern "system" fn destroy_pipeline_layout(
    device: vk::Device,
    layout: vk::PipelineLayout,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_pipeline_layout(layout, allocator), |d| {
        d.pipeline_layouts.remove(layout);
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::set_layouts::Definition;
    use vk::DescriptorType as Type;

    /// A set layout of `count` storage buffers, without a handle.
    pub fn set_layout(count: u32) -> Arc<SetLayout> {
        let bindings: Vec<_> = (0..count).map(|i| (i, Type::STORAGE_BUFFER, 1)).collect();
        let definition = Definition { bindings: bindings.clone(), ..Definition::default() };
        Arc::new(SetLayout::new(&bindings, false).defined(Some(definition)))
    }

    /// A pipeline layout of set layouts with so many storage buffers.
    pub fn layout(counts: &[u32]) -> Arc<PipelineLayout> {
        Arc::new(of(counts.iter().map(|c| SetOf::Known(set_layout(*c))).collect()))
    }

    /// The same with a handle of its own to bind with, of a device that is no more.
    pub fn with_a_handle(counts: &[u32]) -> Arc<PipelineLayout> {
        unsafe extern "system" fn destroy(
            _: vk::Device,
            _: vk::PipelineLayout,
            _: *const vk::AllocationCallbacks<'_>,
        ) {
        }
        let own = Own {
            handle: vk::PipelineLayout::null(),
            device: vk::Device::null(),
            destroy,
            device_lives: Arc::default(),
        };
        let sets = counts.iter().map(|c| SetOf::Known(set_layout(*c))).collect();
        Arc::new(PipelineLayout { own: Some(own), ..of(sets) })
    }

    fn of(sets: Vec<SetOf>) -> PipelineLayout {
        PipelineLayout {
            sets,
            push_constants: Vec::new(),
            flags: vk::PipelineLayoutCreateFlags::empty(),
            extended: false,
            own: None,
        }
    }

    #[test]
    fn layouts_are_compatible_as_far_as_their_sets_are_defined_alike() {
        let (one, two) = (layout(&[1, 2, 3]), layout(&[1, 2, 4]));
        assert_eq!(one.is_compatible(&two, 0), Sameness::Same, "other handles of the same definition");
        assert_eq!(one.is_compatible(&two, 1), Sameness::Same);
        assert_eq!(one.is_compatible(&two, 2), Sameness::Different);
        assert_eq!(one.is_compatible(&layout(&[2, 2, 3]), 2), Sameness::Different, "a lower set counts");
        assert_eq!(one.is_compatible(&layout(&[1]), 1), Sameness::Different, "a set that only one has");
    }

    #[test]
    fn push_constants_and_flags_count_for_every_set() {
        let plain = layout(&[1]);
        let with = |ranges: &[(u32, u32, u32)]| PipelineLayout {
            push_constants: ranges.to_vec(),
            ..of(vec![SetOf::Known(set_layout(1))])
        };
        assert_eq!(plain.is_compatible(&with(&[(32, 0, 4)]), 0), Sameness::Different);
        let (one, two) = (with(&[(32, 0, 4), (1, 4, 4)]), with(&[(1, 4, 4), (32, 0, 4)]));
        assert_eq!(one.is_compatible(&two, 0), Sameness::Unsure, "the order of ranges");
        let mut independent = of(vec![SetOf::Known(set_layout(1))]);
        independent.flags = vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT;
        assert_eq!(plain.is_compatible(&independent, 0), Sameness::Different);
    }

    #[test]
    fn what_was_not_seen_is_compatible_with_nothing_for_sure() {
        let plain = layout(&[1]);
        assert_eq!(plain.is_compatible(&of(vec![SetOf::Unseen]), 0), Sameness::Unsure);
        let extended = PipelineLayout { extended: true, ..of(vec![SetOf::Known(set_layout(1))]) };
        assert_eq!(plain.is_compatible(&extended, 0), Sameness::Unsure);
        assert_eq!(plain.is_compatible(&plain, 0), Sameness::Same);
        // What differs differs, whatever else is not known.
        let other = PipelineLayout {
            flags: vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT,
            ..of(vec![SetOf::Unseen])
        };
        assert_eq!(plain.is_compatible(&other, 0), Sameness::Different);
    }
}
