//! How a shader comes by its memory: for each way, a pair of dispatches between which the barrier must stay, and a pair
//! between which it must go (docs/semantics.md, rules 6, 7, 10 and 12 to 14).

mod mock;
mod rig;

use ash::vk;
use mock::App;
use rig::{ALWAYS_STAYS, COMPUTE, Rig, STAYS_AND_GOES};
use vk::DescriptorType as Type;

fn infos(buffers: &[vk::Buffer]) -> Vec<vk::DescriptorBufferInfo> {
    buffers.iter().map(|b| vk::DescriptorBufferInfo::default().buffer(*b).range(256)).collect()
}

#[test]
fn bound_sets() {
    let rig = Rig::new();
    let found = rig.pair(|rig, buffers| {
        let set = rig.app.sets(rig.set_layout, 1)[0];
        rig.app.write(set, &buffers);
        rig.bind(set);
    });
    assert_eq!(found, STAYS_AND_GOES);
}

#[test]
fn the_second_version_of_the_bind() {
    let rig = Rig::new();
    // SAFETY: the name's type.
    let bind: vk::PFN_vkCmdBindDescriptorSets2KHR = unsafe { rig.app.function(c"vkCmdBindDescriptorSets2") };
    let with = |stages| {
        rig.pair(|rig, buffers| {
            let sets = rig.app.sets(rig.set_layout, 1);
            rig.app.write(sets[0], &buffers);
            let info = vk::BindDescriptorSetsInfoKHR::default()
                .stage_flags(stages)
                .layout(rig.layout)
                .descriptor_sets(&sets);
            // SAFETY: as in `mock`.
            unsafe { bind(rig.commands, &raw const info) };
        })
    };
    assert_eq!(with(vk::ShaderStageFlags::COMPUTE), STAYS_AND_GOES);
    assert_eq!(with(vk::ShaderStageFlags::FRAGMENT), ALWAYS_STAYS, "the dispatches stay with the set aside");
}

#[test]
fn pushed_descriptors_and_what_an_earlier_push_left() {
    let rig = Rig::of(Type::STORAGE_BUFFER, vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR);
    // SAFETY: the name's type.
    let push: vk::PFN_vkCmdPushDescriptorSetKHR = unsafe { rig.app.function(c"vkCmdPushDescriptorSetKHR") };
    let write = |rig: &Rig, binding, buffers: &[vk::Buffer]| {
        let infos = infos(buffers);
        let write = vk::WriteDescriptorSet::default()
            .dst_binding(binding)
            .descriptor_type(Type::STORAGE_BUFFER)
            .buffer_info(&infos);
        // SAFETY: as in `mock`.
        unsafe { push(rig.commands, COMPUTE, rig.layout, 0, 1, &raw const write) };
    };
    assert_eq!(rig.pair(|rig, buffers| write(rig, 0, &buffers)), STAYS_AND_GOES);

    let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
    let left = |second: vk::Buffer| {
        rig.needs(|x| match x {
            1 => write(&rig, 0, &[read, one]),
            // Binding 1 stays what the first push made it.
            _ => write(&rig, 0, &[second]),
        })
    };
    assert!(left(two), "both write to the buffer that was pushed once");
}

#[test]
fn the_second_version_of_the_push() {
    let rig = Rig::of(Type::STORAGE_BUFFER, vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR);
    // SAFETY: the name's type.
    let push: vk::PFN_vkCmdPushDescriptorSet2KHR = unsafe { rig.app.function(c"vkCmdPushDescriptorSet2") };
    let with = |known: bool| {
        rig.pair(|rig, buffers| {
            let infos = infos(&buffers);
            let writes =
                [vk::WriteDescriptorSet::default().descriptor_type(Type::STORAGE_BUFFER).buffer_info(&infos)];
            let info = vk::PushDescriptorSetInfoKHR::default()
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
                .layout(if known { rig.layout } else { vk::PipelineLayout::null() })
                .descriptor_writes(&writes);
            // SAFETY: as in `mock`.
            unsafe { push(rig.commands, &raw const info) };
        })
    };
    assert_eq!(with(true), STAYS_AND_GOES);
    assert_eq!(with(false), ALWAYS_STAYS, "a layout that is not known");
}

fn template(rig: &Rig, ty: vk::DescriptorUpdateTemplateType) -> vk::DescriptorUpdateTemplate {
    // Both descriptors in one entry, which spills over, at an odd place in the application's data.
    let entries = [vk::DescriptorUpdateTemplateEntry {
        dst_binding: 0,
        dst_array_element: 0,
        descriptor_count: 2,
        descriptor_type: Type::STORAGE_BUFFER,
        offset: 4,
        stride: 36,
    }];
    let info = vk::DescriptorUpdateTemplateCreateInfo::default()
        .descriptor_update_entries(&entries)
        .template_type(ty)
        .descriptor_set_layout(rig.set_layout)
        .pipeline_layout(rig.layout)
        .pipeline_bind_point(COMPUTE);
    // SAFETY: as in `mock`.
    unsafe { rig.app.device.create_descriptor_update_template(&info, None).unwrap() }
}

fn template_data(buffers: &[vk::Buffer]) -> [u8; 96] {
    let mut data = [0; 96];
    for (i, info) in infos(buffers).iter().enumerate() {
        // SAFETY: 4 + 36 + 24 bytes are in the array.
        unsafe {
            data.as_mut_ptr().add(4 + 36 * i).cast::<vk::DescriptorBufferInfo>().write_unaligned(*info)
        };
    }
    data
}

#[test]
fn sets_updated_with_a_template() {
    let rig = Rig::new();
    let template = template(&rig, vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET);
    let found = rig.pair(|rig, buffers| {
        let set = rig.app.sets(rig.set_layout, 1)[0];
        let data = template_data(&buffers);
        // SAFETY: as in `mock`.
        unsafe { rig.app.device.update_descriptor_set_with_template(set, template, data.as_ptr().cast()) };
        rig.bind(set);
    });
    assert_eq!(found, STAYS_AND_GOES);
}

#[test]
fn descriptors_pushed_with_a_template() {
    let rig = Rig::of(Type::STORAGE_BUFFER, vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR);
    let template = template(&rig, vk::DescriptorUpdateTemplateType::PUSH_DESCRIPTORS_KHR);
    // SAFETY: the name's type.
    let push: vk::PFN_vkCmdPushDescriptorSetWithTemplateKHR =
        unsafe { rig.app.function(c"vkCmdPushDescriptorSetWithTemplateKHR") };
    let found = rig.pair(|rig, buffers| {
        let data = template_data(&buffers);
        // SAFETY: as in `mock`.
        unsafe { push(rig.commands, template, rig.layout, 0, data.as_ptr().cast()) };
    });
    assert_eq!(found, STAYS_AND_GOES);
}

#[test]
fn sets_that_may_change_after_they_were_bound() {
    let rig = Rig::of(Type::STORAGE_BUFFER, vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL);
    let found = rig.pair(|rig, buffers| {
        let set = rig.app.sets(rig.set_layout, 1)[0];
        rig.app.write(set, &buffers);
        rig.bind(set);
    });
    assert_eq!(found, ALWAYS_STAYS);
}

#[test]
fn mutable_descriptors_are_what_was_written() {
    let rig = Rig::of(Type::MUTABLE_EXT, Default::default());
    let found = rig.pair(|rig, buffers| {
        let set = rig.app.sets(rig.set_layout, 1)[0];
        rig.app.write(set, &buffers);
        rig.bind(set);
    });
    assert_eq!(found, STAYS_AND_GOES);
}

#[test]
fn an_inline_uniform_block_is_memory_that_no_dispatch_writes() {
    let rig = Rig::new();
    let bindings =
        [(0, Type::INLINE_UNIFORM_BLOCK, 64), (1, Type::STORAGE_BUFFER, 1)].map(|(at, ty, count)| {
            vk::DescriptorSetLayoutBinding::default().binding(at).descriptor_type(ty).descriptor_count(count)
        });
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    // SAFETY: as in `mock`.
    let layout = unsafe { rig.app.device.create_descriptor_set_layout(&info, None).unwrap() };
    let found = rig.pair(|rig, [_, written]| {
        let set = rig.app.sets(layout, 1)[0];
        let mut block = vk::WriteDescriptorSetInlineUniformBlock::default().data(&[7; 16]);
        let infos = infos(&[written]);
        let writes = [
            vk::WriteDescriptorSet {
                descriptor_count: 16,
                ..vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_array_element(32)
                    .descriptor_type(Type::INLINE_UNIFORM_BLOCK)
                    .push_next(&mut block)
            },
            vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(1)
                .descriptor_type(Type::STORAGE_BUFFER)
                .buffer_info(&infos),
        ];
        // SAFETY: as in `mock`.
        unsafe { rig.app.device.update_descriptor_sets(&writes, &[]) };
        rig.bind(set);
    });
    assert_eq!(found, STAYS_AND_GOES);
}

/// An image bound to `memory`, and a view of it.
fn image(app: &App, flags: vk::ImageCreateFlags, memory: vk::DeviceMemory) -> vk::ImageView {
    // SAFETY: as in `mock`.
    unsafe {
        let image = app.device.create_image(&vk::ImageCreateInfo::default().flags(flags), None).unwrap();
        app.device.bind_image_memory(image, memory, 0).unwrap();
        app.device.create_image_view(&vk::ImageViewCreateInfo::default().image(image), None).unwrap()
    }
}

fn memory(app: &App) -> vk::DeviceMemory {
    // SAFETY: as in `mock`.
    unsafe {
        app.device.allocate_memory(&vk::MemoryAllocateInfo::default().allocation_size(1 << 20), None).unwrap()
    }
}

#[test]
fn images_are_the_bytes_that_they_are_bound_to() {
    let rig = Rig::of(Type::STORAGE_IMAGE, Default::default());
    let none = vk::ImageCreateFlags::empty();
    let bind = |views: [vk::ImageView; 2]| {
        let set = rig.app.sets(rig.set_layout, 1)[0];
        let infos = views.map(|v| vk::DescriptorImageInfo::default().image_view(v));
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(Type::STORAGE_IMAGE)
            .image_info(&infos);
        // SAFETY: as in `mock`.
        unsafe { rig.app.device.update_descriptor_sets(&[write], &[]) };
        rig.bind(set);
    };
    let shared = memory(&rig.app);
    let [read, one, two] = [(); 3].map(|()| image(&rig.app, none, memory(&rig.app)));
    let [alias, other_alias] = [(); 2].map(|()| image(&rig.app, none, shared));
    let sparse = image(&rig.app, vk::ImageCreateFlags::SPARSE_BINDING, memory(&rig.app));
    let needs = |first, second| rig.needs(|x| bind([read, if x == 1 { first } else { second }]));
    assert!(needs(one, one), "one image");
    assert!(!needs(one, two), "two images");
    assert!(needs(alias, other_alias), "two images on the same bytes");
    assert!(needs(one, sparse), "a sparse image may be anywhere");
}

#[test]
fn pipelines_that_say_more_than_the_layer_reads_touch_everything() {
    let rig = Rig::new();
    // A list with a member that nobody has heard of, and the flag of descriptor buffers.
    let strange = vk::BaseInStructure {
        s_type: vk::StructureType::from_raw(0x7000_0001),
        p_next: std::ptr::null(),
        ..Default::default()
    };
    let words = zinc_mock_driver::shader::words(2).unwrap();
    let mut inline = vk::ShaderModuleCreateInfo::default().code(&words);
    let make = |info: vk::ComputePipelineCreateInfo<'_>| {
        // SAFETY: as in `mock`.
        unsafe {
            rig.app.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None).unwrap()[0]
        }
    };
    let stage = vk::PipelineShaderStageCreateInfo::default().name(c"main").push_next(&mut inline);
    let plain = vk::ComputePipelineCreateInfo::default().stage(stage).layout(rig.layout);
    let odd = vk::ComputePipelineCreateInfo { p_next: (&raw const strange).cast(), ..plain };
    let buffers = plain.flags(vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT);
    for (info, expected) in [(plain, STAYS_AND_GOES), (odd, ALWAYS_STAYS), (buffers, ALWAYS_STAYS)] {
        let pipeline = make(info);
        let found = rig.pair(|rig, buffers| {
            let set = rig.app.sets(rig.set_layout, 1)[0];
            rig.app.write(set, &buffers);
            rig.bind(set);
            // SAFETY: as in `mock`.
            unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, pipeline) };
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn shader_objects_touch_everything() {
    let rig = Rig::new();
    // SAFETY: the name's type.
    let bind: vk::PFN_vkCmdBindShadersEXT = unsafe { rig.app.function(c"vkCmdBindShadersEXT") };
    let found = rig.pair(|rig, _| {
        let (stage, shader) = (vk::ShaderStageFlags::COMPUTE, vk::ShaderEXT::null());
        // SAFETY: as in `mock`.
        unsafe { bind(rig.commands, 1, &raw const stage, &raw const shader) };
    });
    assert_eq!(found, ALWAYS_STAYS);
}
