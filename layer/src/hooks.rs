//! Which functions the layer takes, by name.
//!
//! A name that is not here is passed down, or, if it records a command, gets a stub (`stubs`). The KHR name of a
//! function that became core later leads to the same hook: one device offers both, and they do the same.

use crate::entry::{get_device_proc_addr, void};
use crate::{
    commands as c, images as i, labels as lb, layouts as l, mappings as m, objects as o, pushes as p,
    queries as q, set_layouts as sl, submits as s, templates as t, transfers as x,
};
use ash::vk;
use std::ffi::CStr;

macro_rules! hooks {
    ($name:ident; $( $( $vk:literal )|+ => $function:path : $ty:ty ; )*) => {
        /// The layer's own function for the device command called `name`, if it has one.
        pub fn find(name: &CStr) -> Option<unsafe extern "system" fn()> {
            match name.to_str().ok()? {
                $( $( $vk )|+ => void!($function => $ty), )*
                _ => None,
            }
        }
    };
}

hooks! { find;
    "vkGetDeviceProcAddr" => get_device_proc_addr: vk::PFN_vkGetDeviceProcAddr;
    "vkDestroyDevice" => o::destroy_device: vk::PFN_vkDestroyDevice;
    "vkQueueWaitIdle" => s::queue_wait_idle: vk::PFN_vkQueueWaitIdle;
    "vkDeviceWaitIdle" => s::device_wait_idle: vk::PFN_vkDeviceWaitIdle;
    "vkCreateCommandPool" => o::create_command_pool: vk::PFN_vkCreateCommandPool;
    "vkQueueSubmit" => s::queue_submit: vk::PFN_vkQueueSubmit;
    "vkQueueSubmit2" | "vkQueueSubmit2KHR" => s::queue_submit2: vk::PFN_vkQueueSubmit2;
    "vkAllocateMemory" => o::allocate_memory: vk::PFN_vkAllocateMemory;
    "vkFreeMemory" => o::free_memory: vk::PFN_vkFreeMemory;
    "vkMapMemory" => m::map_memory: vk::PFN_vkMapMemory;
    "vkMapMemory2" | "vkMapMemory2KHR" => m::map_memory2: vk::PFN_vkMapMemory2KHR;
    "vkUnmapMemory" => m::unmap_memory: vk::PFN_vkUnmapMemory;
    "vkUnmapMemory2" | "vkUnmapMemory2KHR" => m::unmap_memory2: vk::PFN_vkUnmapMemory2KHR;
    "vkGetDescriptorSetHostMappingVALVE" =>
        o::get_descriptor_set_host_mapping: vk::PFN_vkGetDescriptorSetHostMappingVALVE;
    "vkCreateBuffer" => o::create_buffer: vk::PFN_vkCreateBuffer;
    "vkDestroyBuffer" => o::destroy_buffer: vk::PFN_vkDestroyBuffer;
    "vkBindBufferMemory" => o::bind_buffer_memory: vk::PFN_vkBindBufferMemory;
    "vkBindBufferMemory2" | "vkBindBufferMemory2KHR" => o::bind_buffer_memory2: vk::PFN_vkBindBufferMemory2;
    "vkGetBufferDeviceAddress" | "vkGetBufferDeviceAddressKHR" | "vkGetBufferDeviceAddressEXT" =>
        o::get_buffer_device_address: vk::PFN_vkGetBufferDeviceAddress;
    "vkCreateBufferView" => o::create_buffer_view: vk::PFN_vkCreateBufferView;
    "vkDestroyBufferView" => o::destroy_buffer_view: vk::PFN_vkDestroyBufferView;
    "vkCreateDescriptorSetLayout" => sl::create_descriptor_set_layout: vk::PFN_vkCreateDescriptorSetLayout;
    "vkDestroyDescriptorSetLayout" => sl::destroy_descriptor_set_layout: vk::PFN_vkDestroyDescriptorSetLayout;
    "vkDestroyPipelineLayout" => l::destroy_pipeline_layout: vk::PFN_vkDestroyPipelineLayout;
    "vkResetDescriptorPool" => o::reset_descriptor_pool: vk::PFN_vkResetDescriptorPool;
    "vkDestroyDescriptorPool" => o::destroy_descriptor_pool: vk::PFN_vkDestroyDescriptorPool;
    "vkAllocateDescriptorSets" => o::allocate_descriptor_sets: vk::PFN_vkAllocateDescriptorSets;
    "vkFreeDescriptorSets" => o::free_descriptor_sets: vk::PFN_vkFreeDescriptorSets;
    "vkUpdateDescriptorSets" => o::update_descriptor_sets: vk::PFN_vkUpdateDescriptorSets;
    "vkUpdateDescriptorSetWithTemplate" | "vkUpdateDescriptorSetWithTemplateKHR" =>
        o::update_descriptor_set_with_template: vk::PFN_vkUpdateDescriptorSetWithTemplate;
    "vkCreateImage" => i::create_image: vk::PFN_vkCreateImage;
    "vkDestroyImage" => i::destroy_image: vk::PFN_vkDestroyImage;
    "vkBindImageMemory" => i::bind_image_memory: vk::PFN_vkBindImageMemory;
    "vkBindImageMemory2" | "vkBindImageMemory2KHR" => i::bind_image_memory2: vk::PFN_vkBindImageMemory2;
    "vkCreateImageView" => i::create_image_view: vk::PFN_vkCreateImageView;
    "vkDestroyImageView" => i::destroy_image_view: vk::PFN_vkDestroyImageView;
    "vkCreatePipelineLayout" => l::create_pipeline_layout: vk::PFN_vkCreatePipelineLayout;
    "vkCreateDescriptorUpdateTemplate" | "vkCreateDescriptorUpdateTemplateKHR" =>
        t::create_descriptor_update_template: vk::PFN_vkCreateDescriptorUpdateTemplate;
    "vkDestroyDescriptorUpdateTemplate" | "vkDestroyDescriptorUpdateTemplateKHR" =>
        t::destroy_descriptor_update_template: vk::PFN_vkDestroyDescriptorUpdateTemplate;
    "vkCmdBindDescriptorSets2" | "vkCmdBindDescriptorSets2KHR" =>
        p::cmd_bind_descriptor_sets2: vk::PFN_vkCmdBindDescriptorSets2KHR;
    "vkCmdPushConstants2" | "vkCmdPushConstants2KHR" => p::cmd_push_constants2: vk::PFN_vkCmdPushConstants2KHR;
    "vkCmdPushDescriptorSet" | "vkCmdPushDescriptorSetKHR" =>
        p::cmd_push_descriptor_set: vk::PFN_vkCmdPushDescriptorSetKHR;
    "vkCmdPushDescriptorSet2" | "vkCmdPushDescriptorSet2KHR" =>
        p::cmd_push_descriptor_set2: vk::PFN_vkCmdPushDescriptorSet2KHR;
    "vkCmdPushDescriptorSetWithTemplate" | "vkCmdPushDescriptorSetWithTemplateKHR" =>
        p::cmd_push_descriptor_set_with_template: vk::PFN_vkCmdPushDescriptorSetWithTemplateKHR;
    "vkCmdPushDescriptorSetWithTemplate2" | "vkCmdPushDescriptorSetWithTemplate2KHR" =>
        p::cmd_push_descriptor_set_with_template2: vk::PFN_vkCmdPushDescriptorSetWithTemplate2KHR;
    "vkCreateShaderModule" => o::create_shader_module: vk::PFN_vkCreateShaderModule;
    "vkDestroyShaderModule" => o::destroy_shader_module: vk::PFN_vkDestroyShaderModule;
    "vkCreateComputePipelines" => o::create_compute_pipelines: vk::PFN_vkCreateComputePipelines;
    "vkSetDebugUtilsObjectNameEXT" => o::set_object_name: vk::PFN_vkSetDebugUtilsObjectNameEXT;
    "vkDestroyPipeline" => o::destroy_pipeline: vk::PFN_vkDestroyPipeline;
    "vkDestroyCommandPool" => o::destroy_command_pool: vk::PFN_vkDestroyCommandPool;
    "vkAllocateCommandBuffers" => o::allocate_command_buffers: vk::PFN_vkAllocateCommandBuffers;
    "vkFreeCommandBuffers" => o::free_command_buffers: vk::PFN_vkFreeCommandBuffers;
    "vkBeginCommandBuffer" => c::begin_command_buffer: vk::PFN_vkBeginCommandBuffer;
    "vkEndCommandBuffer" => c::end_command_buffer: vk::PFN_vkEndCommandBuffer;
    "vkCmdBindPipeline" => c::cmd_bind_pipeline: vk::PFN_vkCmdBindPipeline;
    "vkCmdBindDescriptorSets" => c::cmd_bind_descriptor_sets: vk::PFN_vkCmdBindDescriptorSets;
    "vkCmdPushConstants" => c::cmd_push_constants: vk::PFN_vkCmdPushConstants;
    "vkCmdPipelineBarrier" => c::cmd_pipeline_barrier: vk::PFN_vkCmdPipelineBarrier;
    "vkCmdPipelineBarrier2" | "vkCmdPipelineBarrier2KHR" =>
        c::cmd_pipeline_barrier2: vk::PFN_vkCmdPipelineBarrier2;
    "vkCmdDispatch" => c::cmd_dispatch: vk::PFN_vkCmdDispatch;
    "vkCmdDispatchBase" | "vkCmdDispatchBaseKHR" => c::cmd_dispatch_base: vk::PFN_vkCmdDispatchBase;
    "vkCmdDispatchIndirect" => c::cmd_dispatch_indirect: vk::PFN_vkCmdDispatchIndirect;
    "vkCmdCopyBuffer" => x::cmd_copy_buffer: vk::PFN_vkCmdCopyBuffer;
    "vkCmdCopyBuffer2" | "vkCmdCopyBuffer2KHR" => x::cmd_copy_buffer2: vk::PFN_vkCmdCopyBuffer2;
    "vkCmdFillBuffer" => x::cmd_fill_buffer: vk::PFN_vkCmdFillBuffer;
    "vkCmdUpdateBuffer" => x::cmd_update_buffer: vk::PFN_vkCmdUpdateBuffer;
    "vkCmdResetQueryPool" => q::cmd_reset_query_pool: vk::PFN_vkCmdResetQueryPool;
    "vkCmdWriteTimestamp" => q::cmd_write_timestamp: vk::PFN_vkCmdWriteTimestamp;
    "vkCmdWriteTimestamp2" | "vkCmdWriteTimestamp2KHR" => q::cmd_write_timestamp2: vk::PFN_vkCmdWriteTimestamp2;
    "vkCmdBeginQuery" => q::cmd_begin_query: vk::PFN_vkCmdBeginQuery;
    "vkCmdEndQuery" => q::cmd_end_query: vk::PFN_vkCmdEndQuery;
    "vkCmdBeginQueryIndexedEXT" => q::cmd_begin_query_indexed: vk::PFN_vkCmdBeginQueryIndexedEXT;
    "vkCmdEndQueryIndexedEXT" => q::cmd_end_query_indexed: vk::PFN_vkCmdEndQueryIndexedEXT;
    "vkCmdCopyQueryPoolResults" => q::cmd_copy_query_pool_results: vk::PFN_vkCmdCopyQueryPoolResults;
    "vkCmdBeginDebugUtilsLabelEXT" => lb::cmd_begin_label: vk::PFN_vkCmdBeginDebugUtilsLabelEXT;
    "vkCmdInsertDebugUtilsLabelEXT" => lb::cmd_insert_label: vk::PFN_vkCmdInsertDebugUtilsLabelEXT;
    "vkCmdEndDebugUtilsLabelEXT" => lb::cmd_end_label: vk::PFN_vkCmdEndDebugUtilsLabelEXT;
    "vkCmdDebugMarkerBeginEXT" => lb::cmd_marker_begin: vk::PFN_vkCmdDebugMarkerBeginEXT;
    "vkCmdDebugMarkerInsertEXT" => lb::cmd_marker_insert: vk::PFN_vkCmdDebugMarkerInsertEXT;
    "vkCmdDebugMarkerEndEXT" => lb::cmd_marker_end: vk::PFN_vkCmdDebugMarkerEndEXT;
    "vkCmdExecuteCommands" => c::cmd_execute_commands: vk::PFN_vkCmdExecuteCommands;
}
