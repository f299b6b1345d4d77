//! Descriptor update templates: what it takes to read a descriptor that arrives without its type.
//!
//! A template says where in the application's own memory the descriptors lie.

use crate::abi::slice;
use crate::descriptors::{Resolve, Set};
use crate::objects::{Allocator, create, destroy};
use ash::vk;

/// One `VkDescriptorUpdateTemplate`.
#[derive(Debug)]
pub struct Template {
    entries: Vec<vk::DescriptorUpdateTemplateEntry>,
    /// For pushed descriptors of compute pipelines.
    pub pushes_compute: bool,
}

impl Template {
    /// Writes to `set` what lies at `data`.
    ///
    /// # Safety
    ///
    /// `data` must be what the template describes.
    pub unsafe fn apply(&self, set: &Set, data: *const u8, resolve: &impl Resolve) {
        for entry in &self.entries {
            let place = (entry.dst_binding, entry.dst_array_element);
            let array = (data.wrapping_add(entry.offset), entry.stride, entry.descriptor_count);
            // SAFETY: by the caller.
            unsafe { set.put(place, entry.descriptor_type, array, resolve) };
        }
    }
}

pub unsafe extern "system" fn create_descriptor_update_template(
    device: vk::Device,
    info: *const vk::DescriptorUpdateTemplateCreateInfo<'_>,
    allocator: Allocator<'_>,
    template: *mut vk::DescriptorUpdateTemplate,
) -> vk::Result {
    create!(device.create_descriptor_update_template(info, allocator, template), |d| {
        let info = &*info;
        let entries = slice(info.p_descriptor_update_entries, info.descriptor_update_entry_count).to_vec();
        let pushes_compute = info.template_type == vk::DescriptorUpdateTemplateType::PUSH_DESCRIPTORS_KHR
            && info.pipeline_bind_point == vk::PipelineBindPoint::COMPUTE;
        d.templates.insert(*template, Template { entries, pushes_compute });
    })
}

pub unsafe extern "system" fn destroy_descriptor_update_template(
    device: vk::Device,
    template: vk::DescriptorUpdateTemplate,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_descriptor_update_template(template, allocator), |d| {
        d.templates.remove(template);
    })
}
