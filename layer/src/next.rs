//! The next link of the chain: the functions below this layer, fetched once per device.
//!
//! Only what the layer itself calls is here. A function that the device does not have is `None`, and then the layer
//! does not offer its own either.

use ash::vk;
use std::ffi::CStr;

macro_rules! next_functions {
    ($( $field:ident : $ty:ty = $( $name:literal )|+ ; )*) => {
        /// Functions of the next layer or the driver.
        #[derive(Clone, Copy)]
        pub struct Next {
            /// `vkGetDeviceProcAddr`.
            pub get_device_proc_addr: vk::PFN_vkGetDeviceProcAddr,
            $(
                #[doc = concat!("`", $($name, "` ",)+)]
                pub $field: Option<$ty>,
            )*
        }

        impl Next {
            /// Fetches all of them.
            ///
            /// # Safety
            ///
            /// `get_device_proc_addr` must be the next link's, and `device` a device that it knows.
            pub unsafe fn load(get_device_proc_addr: vk::PFN_vkGetDeviceProcAddr, device: vk::Device) -> Next {
                // SAFETY: by the caller; the names are C strings.
                let fetch = |name: &CStr| unsafe { get_device_proc_addr(device, name.as_ptr()) };
                Next {
                    get_device_proc_addr,
                    $(
                        $field: {
                            let mut found = None;
                            $(
                                if found.is_none() {
                                    found = fetch(to_cstr(concat!($name, "\0")));
                                }
                            )+
                            // SAFETY: the name stands for a function of this type.
                            found.map(|f| unsafe {
                                std::mem::transmute::<unsafe extern "system" fn(), $ty>(f)
                            })
                        },
                    )*
                }
            }
        }
    };
}

fn to_cstr(with_nul: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(with_nul.as_bytes()).unwrap_or(c"")
}

next_functions! {
    destroy_device: vk::PFN_vkDestroyDevice = "vkDestroyDevice";
    queue_submit: vk::PFN_vkQueueSubmit = "vkQueueSubmit";
    queue_submit2: vk::PFN_vkQueueSubmit2 = "vkQueueSubmit2" | "vkQueueSubmit2KHR";
    allocate_memory: vk::PFN_vkAllocateMemory = "vkAllocateMemory";
    free_memory: vk::PFN_vkFreeMemory = "vkFreeMemory";
    map_memory: vk::PFN_vkMapMemory = "vkMapMemory";
    map_memory2: vk::PFN_vkMapMemory2KHR = "vkMapMemory2" | "vkMapMemory2KHR";
    unmap_memory: vk::PFN_vkUnmapMemory = "vkUnmapMemory";
    unmap_memory2: vk::PFN_vkUnmapMemory2KHR = "vkUnmapMemory2" | "vkUnmapMemory2KHR";
    get_descriptor_set_host_mapping: vk::PFN_vkGetDescriptorSetHostMappingVALVE =
        "vkGetDescriptorSetHostMappingVALVE";
    create_buffer: vk::PFN_vkCreateBuffer = "vkCreateBuffer";
    destroy_buffer: vk::PFN_vkDestroyBuffer = "vkDestroyBuffer";
    bind_buffer_memory: vk::PFN_vkBindBufferMemory = "vkBindBufferMemory";
    bind_buffer_memory2: vk::PFN_vkBindBufferMemory2 = "vkBindBufferMemory2" | "vkBindBufferMemory2KHR";
    get_buffer_device_address: vk::PFN_vkGetBufferDeviceAddress =
        "vkGetBufferDeviceAddress" | "vkGetBufferDeviceAddressKHR" | "vkGetBufferDeviceAddressEXT";
    create_buffer_view: vk::PFN_vkCreateBufferView = "vkCreateBufferView";
    destroy_buffer_view: vk::PFN_vkDestroyBufferView = "vkDestroyBufferView";
    create_descriptor_set_layout: vk::PFN_vkCreateDescriptorSetLayout = "vkCreateDescriptorSetLayout";
    destroy_descriptor_set_layout: vk::PFN_vkDestroyDescriptorSetLayout = "vkDestroyDescriptorSetLayout";
    destroy_pipeline_layout: vk::PFN_vkDestroyPipelineLayout = "vkDestroyPipelineLayout";
    reset_descriptor_pool: vk::PFN_vkResetDescriptorPool = "vkResetDescriptorPool";
    destroy_descriptor_pool: vk::PFN_vkDestroyDescriptorPool = "vkDestroyDescriptorPool";
    allocate_descriptor_sets: vk::PFN_vkAllocateDescriptorSets = "vkAllocateDescriptorSets";
    free_descriptor_sets: vk::PFN_vkFreeDescriptorSets = "vkFreeDescriptorSets";
    update_descriptor_sets: vk::PFN_vkUpdateDescriptorSets = "vkUpdateDescriptorSets";
    update_descriptor_set_with_template: vk::PFN_vkUpdateDescriptorSetWithTemplate =
        "vkUpdateDescriptorSetWithTemplate" | "vkUpdateDescriptorSetWithTemplateKHR";
    create_image: vk::PFN_vkCreateImage = "vkCreateImage";
    destroy_image: vk::PFN_vkDestroyImage = "vkDestroyImage";
    get_image_memory_requirements: vk::PFN_vkGetImageMemoryRequirements = "vkGetImageMemoryRequirements";
    bind_image_memory: vk::PFN_vkBindImageMemory = "vkBindImageMemory";
    bind_image_memory2: vk::PFN_vkBindImageMemory2 = "vkBindImageMemory2" | "vkBindImageMemory2KHR";
    create_image_view: vk::PFN_vkCreateImageView = "vkCreateImageView";
    destroy_image_view: vk::PFN_vkDestroyImageView = "vkDestroyImageView";
    create_pipeline_layout: vk::PFN_vkCreatePipelineLayout = "vkCreatePipelineLayout";
    create_descriptor_update_template: vk::PFN_vkCreateDescriptorUpdateTemplate =
        "vkCreateDescriptorUpdateTemplate" | "vkCreateDescriptorUpdateTemplateKHR";
    destroy_descriptor_update_template: vk::PFN_vkDestroyDescriptorUpdateTemplate =
        "vkDestroyDescriptorUpdateTemplate" | "vkDestroyDescriptorUpdateTemplateKHR";
    create_shader_module: vk::PFN_vkCreateShaderModule = "vkCreateShaderModule";
    destroy_shader_module: vk::PFN_vkDestroyShaderModule = "vkDestroyShaderModule";
    create_compute_pipelines: vk::PFN_vkCreateComputePipelines = "vkCreateComputePipelines";
    destroy_pipeline: vk::PFN_vkDestroyPipeline = "vkDestroyPipeline";
    set_debug_utils_object_name: vk::PFN_vkSetDebugUtilsObjectNameEXT = "vkSetDebugUtilsObjectNameEXT";
    create_command_pool: vk::PFN_vkCreateCommandPool = "vkCreateCommandPool";
    queue_wait_idle: vk::PFN_vkQueueWaitIdle = "vkQueueWaitIdle";
    device_wait_idle: vk::PFN_vkDeviceWaitIdle = "vkDeviceWaitIdle";
    destroy_command_pool: vk::PFN_vkDestroyCommandPool = "vkDestroyCommandPool";
    allocate_command_buffers: vk::PFN_vkAllocateCommandBuffers = "vkAllocateCommandBuffers";
    free_command_buffers: vk::PFN_vkFreeCommandBuffers = "vkFreeCommandBuffers";
    begin_command_buffer: vk::PFN_vkBeginCommandBuffer = "vkBeginCommandBuffer";
    end_command_buffer: vk::PFN_vkEndCommandBuffer = "vkEndCommandBuffer";
    cmd_bind_pipeline: vk::PFN_vkCmdBindPipeline = "vkCmdBindPipeline";
    cmd_bind_descriptor_sets: vk::PFN_vkCmdBindDescriptorSets = "vkCmdBindDescriptorSets";
    cmd_bind_descriptor_sets2: vk::PFN_vkCmdBindDescriptorSets2KHR =
        "vkCmdBindDescriptorSets2" | "vkCmdBindDescriptorSets2KHR";
    cmd_push_constants2: vk::PFN_vkCmdPushConstants2KHR = "vkCmdPushConstants2" | "vkCmdPushConstants2KHR";
    cmd_push_descriptor_set: vk::PFN_vkCmdPushDescriptorSetKHR =
        "vkCmdPushDescriptorSet" | "vkCmdPushDescriptorSetKHR";
    cmd_push_descriptor_set2: vk::PFN_vkCmdPushDescriptorSet2KHR =
        "vkCmdPushDescriptorSet2" | "vkCmdPushDescriptorSet2KHR";
    cmd_push_descriptor_set_with_template: vk::PFN_vkCmdPushDescriptorSetWithTemplateKHR =
        "vkCmdPushDescriptorSetWithTemplate" | "vkCmdPushDescriptorSetWithTemplateKHR";
    cmd_push_descriptor_set_with_template2: vk::PFN_vkCmdPushDescriptorSetWithTemplate2KHR =
        "vkCmdPushDescriptorSetWithTemplate2" | "vkCmdPushDescriptorSetWithTemplate2KHR";
    cmd_push_constants: vk::PFN_vkCmdPushConstants = "vkCmdPushConstants";
    cmd_pipeline_barrier: vk::PFN_vkCmdPipelineBarrier = "vkCmdPipelineBarrier";
    cmd_pipeline_barrier2: vk::PFN_vkCmdPipelineBarrier2 = "vkCmdPipelineBarrier2" | "vkCmdPipelineBarrier2KHR";
    cmd_dispatch: vk::PFN_vkCmdDispatch = "vkCmdDispatch";
    cmd_dispatch_base: vk::PFN_vkCmdDispatchBase = "vkCmdDispatchBase" | "vkCmdDispatchBaseKHR";
    cmd_dispatch_indirect: vk::PFN_vkCmdDispatchIndirect = "vkCmdDispatchIndirect";
    cmd_reset_query_pool: vk::PFN_vkCmdResetQueryPool = "vkCmdResetQueryPool";
    cmd_write_timestamp: vk::PFN_vkCmdWriteTimestamp = "vkCmdWriteTimestamp";
    cmd_write_timestamp2: vk::PFN_vkCmdWriteTimestamp2 = "vkCmdWriteTimestamp2" | "vkCmdWriteTimestamp2KHR";
    cmd_begin_query: vk::PFN_vkCmdBeginQuery = "vkCmdBeginQuery";
    cmd_end_query: vk::PFN_vkCmdEndQuery = "vkCmdEndQuery";
    cmd_begin_query_indexed: vk::PFN_vkCmdBeginQueryIndexedEXT = "vkCmdBeginQueryIndexedEXT";
    cmd_end_query_indexed: vk::PFN_vkCmdEndQueryIndexedEXT = "vkCmdEndQueryIndexedEXT";
    cmd_copy_query_pool_results: vk::PFN_vkCmdCopyQueryPoolResults = "vkCmdCopyQueryPoolResults";
    cmd_begin_label: vk::PFN_vkCmdBeginDebugUtilsLabelEXT = "vkCmdBeginDebugUtilsLabelEXT";
    cmd_insert_label: vk::PFN_vkCmdInsertDebugUtilsLabelEXT = "vkCmdInsertDebugUtilsLabelEXT";
    cmd_end_label: vk::PFN_vkCmdEndDebugUtilsLabelEXT = "vkCmdEndDebugUtilsLabelEXT";
    cmd_marker_begin: vk::PFN_vkCmdDebugMarkerBeginEXT = "vkCmdDebugMarkerBeginEXT";
    cmd_marker_insert: vk::PFN_vkCmdDebugMarkerInsertEXT = "vkCmdDebugMarkerInsertEXT";
    cmd_marker_end: vk::PFN_vkCmdDebugMarkerEndEXT = "vkCmdDebugMarkerEndEXT";
    cmd_copy_buffer: vk::PFN_vkCmdCopyBuffer = "vkCmdCopyBuffer";
    cmd_copy_buffer2: vk::PFN_vkCmdCopyBuffer2 = "vkCmdCopyBuffer2" | "vkCmdCopyBuffer2KHR";
    cmd_fill_buffer: vk::PFN_vkCmdFillBuffer = "vkCmdFillBuffer";
    cmd_update_buffer: vk::PFN_vkCmdUpdateBuffer = "vkCmdUpdateBuffer";
    cmd_execute_commands: vk::PFN_vkCmdExecuteCommands = "vkCmdExecuteCommands";
}
