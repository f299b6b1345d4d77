//! Descriptors that are pushed into a command buffer, and the second versions of the commands that bind.
//!
//! A pushed set belongs to the command buffer: the layer keeps it as a set of its own, by the set layout in the pipeline
//! layout that it is pushed with, and each push writes into it like an update. Where that layout is not known, neither is
//! the set. Nothing held back is moved across a push, since the layer could not push again what was pushed before.

use crate::abi::slice;
use crate::commands::{bind_compute_sets, push_constants};
use crate::context::{Context, context};
use crate::descriptors::Set;
use crate::footprint::BoundSet;
use ash::vk;
use std::ffi::c_void;
use std::sync::Arc;

/// Takes in a push to set `number` of `layout`; `write` writes the descriptors.
///
/// # Safety
///
/// The layout must be alive.
unsafe fn push(context: &Context<'_>, (layout, number): (vk::PipelineLayout, u32), write: impl FnOnce(&Set)) {
    let device = context.device;
    context.with(|state| {
        context.stop_holding(state);
        let number = number as usize;
        let sets = &mut state.recorder.bound.sets;
        if sets.len() <= number {
            sets.resize(number + 1, None);
        }
        // SAFETY: by the caller.
        let known = unsafe { device.pipeline_layouts.get(layout) };
        let Some(set_layout) = known.and_then(|l| l.set(number)) else {
            sets[number] = None;
            return;
        };
        // What was pushed before stays where this push does not reach, as long as the set is made alike; the handle of its
        // layout says nothing. If it is not, or if that is not certain, what this push does not reach may be anything.
        let before = sets[number].take().and_then(|s| s.pushed);
        let set = match before.filter(|s| s.layout.is_laid_out_as(set_layout)) {
            Some(set) => set,
            None => Arc::new(Set::unknown(set_layout.clone())),
        };
        write(&set);
        sets[number] = Some(BoundSet::pushed(set));
    });
}

/// Takes in an array of writes.
///
/// # Safety
///
/// The arguments must be the application's own.
unsafe fn push_writes(
    context: &Context<'_>,
    place: (vk::PipelineLayout, u32),
    writes: &[vk::WriteDescriptorSet<'_>],
) {
    // SAFETY: by the caller.
    unsafe { push(context, place, |set| writes.iter().for_each(|w| set.write(w, context.device))) }
}

/// Takes in a push with a template. Whether it is for compute, only the template says.
///
/// # Safety
///
/// As for [`push_writes`].
unsafe fn push_template(
    context: &Context<'_>,
    place: (vk::PipelineLayout, u32),
    template: vk::DescriptorUpdateTemplate,
    data: *const c_void,
) {
    // SAFETY: by the caller.
    unsafe {
        match context.device.templates.get(template) {
            Some(known) if known.pushes_compute => {
                push(context, place, |set| known.apply(set, data.cast(), context.device));
            }
            Some(_) => {}
            None => push(context, place, Set::taint),
        }
    }
}

pub unsafe extern "system" fn cmd_push_descriptor_set(
    buffer: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    layout: vk::PipelineLayout,
    set: u32,
    count: u32,
    writes: *const vk::WriteDescriptorSet<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        if point == vk::PipelineBindPoint::COMPUTE {
            push_writes(&context, (layout, set), slice(writes, count));
        }
        if let Some(push) = context.device.next.cmd_push_descriptor_set {
            push(buffer, point, layout, set, count, writes);
        }
    }
}

pub unsafe extern "system" fn cmd_push_descriptor_set2(
    buffer: vk::CommandBuffer,
    info: *const vk::PushDescriptorSetInfoKHR<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let of = &*info;
        if of.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            // A layout may come in the list, in place of a handle; that one is not known.
            let writes = slice(of.p_descriptor_writes, of.descriptor_write_count);
            push_writes(&context, (of.layout, of.set), writes);
        }
        if let Some(push) = context.device.next.cmd_push_descriptor_set2 {
            push(buffer, info);
        }
    }
}

pub unsafe extern "system" fn cmd_push_descriptor_set_with_template(
    buffer: vk::CommandBuffer,
    template: vk::DescriptorUpdateTemplate,
    layout: vk::PipelineLayout,
    set: u32,
    data: *const c_void,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        push_template(&context, (layout, set), template, data);
        if let Some(push) = context.device.next.cmd_push_descriptor_set_with_template {
            push(buffer, template, layout, set, data);
        }
    }
}

pub unsafe extern "system" fn cmd_push_descriptor_set_with_template2(
    buffer: vk::CommandBuffer,
    info: *const vk::PushDescriptorSetWithTemplateInfoKHR<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let of = &*info;
        push_template(&context, (of.layout, of.set), of.descriptor_update_template, of.p_data);
        if let Some(push) = context.device.next.cmd_push_descriptor_set_with_template2 {
            push(buffer, info);
        }
    }
}

pub unsafe extern "system" fn cmd_bind_descriptor_sets2(
    buffer: vk::CommandBuffer,
    info: *const vk::BindDescriptorSetsInfoKHR<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let of = &*info;
        if of.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            let sets = slice(of.p_descriptor_sets, of.descriptor_set_count);
            let offsets = slice(of.p_dynamic_offsets, of.dynamic_offset_count);
            bind_compute_sets(&context, (of.layout, of.first_set), sets, offsets);
        }
        if let Some(bind) = context.device.next.cmd_bind_descriptor_sets2 {
            bind(buffer, info);
        }
    }
}

pub unsafe extern "system" fn cmd_push_constants2(
    buffer: vk::CommandBuffer,
    info: *const vk::PushConstantsInfoKHR<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let of = &*info;
        // A layout may come in the list, in place of a handle; that one is not known.
        push_constants(&context, of.layout, of.stage_flags, (of.offset, slice(of.p_values.cast(), of.size)));
        if let Some(push) = context.device.next.cmd_push_constants2 {
            push(buffer, info);
        }
    }
}
