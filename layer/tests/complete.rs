//! That the layer copes with each part of Vulkan that an application may bring, named one by one, with the tests that show it.
//!
//! [`THINGS`] is the list. A test fails where a thing has no test, or names one that does not exist; so nothing can be
//! claimed here that nobody tries. What needs memory that is really written runs on lavapipe (`tests/tests`), the rest on
//! the mock driver, which has every function and says what reached it.

mod mock;
mod rig;

use ash::vk::{self, AccessFlags as Access, PipelineStageFlags as Stage};
use rig::{ALWAYS_STAYS, COMPUTE, Rig, STAYS_AND_GOES};
use std::ffi::CString;
use vk::DescriptorType as Type;
use zinc_mock_driver::{Call, created_with};

/// Where tests stand.
const FILES: [(&str, &str); 10] = [
    ("complete", include_str!("complete.rs")),
    ("bindings", include_str!("bindings.rs")),
    ("edges", include_str!("edges.rs")),
    ("recording", include_str!("recording.rs")),
    ("registry", include_str!("registry.rs")),
    ("rules", include_str!("rules.rs")),
    ("needed_and_free", include_str!("../../tests/tests/needed_and_free.rs")),
    ("policies", include_str!("../../tests/tests/policies.rs")),
    ("loading", include_str!("../../tests/tests/loading.rs")),
    // Streams that `needed_and_free` plays, by their names.
    ("recordings of needed_and_free", include_str!("../../tests/src/pairs/recordings.rs")),
];

/// A thing, and its tests: file and test, or file and stream.
type Thing = (&'static str, &'static [(&'static str, &'static str)]);

const THINGS: [Thing; 24] = [
    (
        "push descriptors",
        &[
            ("bindings", "pushed_descriptors_and_what_an_earlier_push_left"),
            ("bindings", "the_second_version_of_the_push"),
            ("edges", "a_push_leaves_what_it_does_not_reach_whatever_the_handle_of_the_layout"),
        ],
    ),
    (
        "templates",
        &[("bindings", "sets_updated_with_a_template"), ("bindings", "descriptors_pushed_with_a_template")],
    ),
    (
        "update-after-bind",
        &[
            ("bindings", "sets_that_may_change_after_they_were_bound"),
            ("rules", "rule_07_a_set_that_may_change_once_it_is_bound_is_anywhere"),
        ],
    ),
    ("inline uniform blocks", &[("bindings", "an_inline_uniform_block_is_memory_that_no_dispatch_writes")]),
    ("mutable descriptors", &[("bindings", "mutable_descriptors_are_what_was_written")]),
    (
        "descriptor buffers",
        &[
            ("complete", "descriptor_buffers_hide_what_a_dispatch_touches"),
            ("bindings", "pipelines_that_say_more_than_the_layer_reads_touch_everything"),
        ],
    ),
    ("shader objects", &[("bindings", "shader_objects_touch_everything")]),
    (
        "pipeline libraries",
        &[
            ("complete", "a_pipeline_of_libraries_or_binaries_touches_everything"),
            ("complete", "a_graphics_pipeline_stands_beside_the_compute_pipeline"),
        ],
    ),
    ("SPIR-V within the stage (maintenance5)", &[("complete", "spirv_that_comes_with_the_stage_is_read")]),
    ("pipeline binaries", &[("complete", "a_pipeline_of_libraries_or_binaries_touches_everything")]),
    (
        "device groups",
        &[
            ("complete", "memory_that_is_bound_to_single_devices_of_a_group_is_anywhere"),
            ("complete", "what_waits_goes_out_before_the_devices_of_a_group_change"),
            ("complete", "a_dispatch_with_a_base_touches_what_a_plain_one_does"),
        ],
    ),
    (
        "secondary command buffers",
        &[
            ("complete", "a_secondary_begins_and_ends_by_itself"),
            ("recordings of needed_and_free", "a secondary command buffer with a barrier of its own"),
            ("recordings of needed_and_free", "a barrier before a secondary command buffer"),
            ("policies", "dispatches_of_secondary_command_buffers_are_executed_ones"),
        ],
    ),
    (
        "simultaneous use",
        &[
            ("recordings of needed_and_free", "a command buffer that is submitted twice at once"),
            ("needed_and_free", "across_command_buffers_and_submits"),
        ],
    ),
    (
        "resubmission",
        &[
            ("policies", "executed_commands_count_as_often_as_they_are_submitted_and_recorded_ones_once"),
            ("policies", "a_command_buffer_that_is_recorded_again_starts_clean"),
        ],
    ),
    (
        "recording from many threads",
        &[
            ("recording", "many_threads_record_at_once_while_objects_come_and_go"),
            ("policies", "several_threads_record_at_the_same_time"),
        ],
    ),
    (
        "two devices and two instances in a process",
        &[("recording", "two_devices_of_two_instances_know_nothing_of_each_other")],
    ),
    (
        "handles reused after destruction",
        &[
            ("recording", "the_same_handle_of_a_new_object_is_a_new_object"),
            ("complete", "every_sort_of_handle_can_be_used_again"),
        ],
    ),
    ("images as ranges", &[("bindings", "images_are_the_bytes_that_they_are_bound_to")]),
    (
        "external memory",
        &[
            ("rules", "rule_10_exported_sparse_and_protected_buffers_may_be_the_same_bytes"),
            ("complete", "imported_and_exported_memory_is_one_place"),
        ],
    ),
    (
        "sparse and protected memory",
        &[
            ("rules", "rule_10_exported_sparse_and_protected_buffers_may_be_the_same_bytes"),
            ("bindings", "images_are_the_bytes_that_they_are_bound_to"),
            ("complete", "protected_and_disjoint_images_are_anywhere"),
        ],
    ),
    ("conditional rendering", &[("recording", "a_dispatch_under_conditional_rendering_reads_the_predicate")]),
    (
        "synchronising dispatches",
        &[("rules", "rule_05_what_waits_goes_out_before_a_dispatch_that_synchronises")],
    ),
    (
        "unknown commands",
        &[
            ("recording", "a_command_from_the_future_comes_after_all_that_waits"),
            ("rules", "rule_14_what_waits_goes_out_before_a_command_that_nobody_has_heard_of"),
            ("registry", "a_command_from_the_future_is_noticed"),
            ("edges", "after_a_command_that_nobody_has_heard_of_what_is_bound_is_unknown"),
            ("edges", "after_a_function_that_nobody_has_heard_of_no_set_is_believed"),
        ],
    ),
    (
        "extensions and features passed down unchanged",
        &[
            ("complete", "what_a_device_is_created_with_reaches_the_driver_unchanged"),
            ("complete", "functions_that_the_layer_has_no_part_in_are_the_drivers_own"),
            ("loading", "vulkaninfo_says_the_same_with_the_layer"),
        ],
    ),
];

/// Whether `file` holds the test or the stream `name`.
fn exists(file: &str, name: &str) -> bool {
    let test = format!("#[test]\nfn {name}()");
    // A stream's name is text and has spaces.
    file.contains(&test) || (name.contains(' ') && file.contains(&format!("\"{name}\",")))
}

/// The things of which nothing shows that they work, and the names that stand for nothing.
fn unshown(things: &[Thing]) -> Vec<String> {
    let mut faults = Vec::new();
    for (thing, tests) in things {
        if tests.is_empty() {
            faults.push(format!("{thing}: no test"));
        }
        for (place, name) in *tests {
            let file = FILES.iter().find(|(known, _)| known == place);
            if !file.is_some_and(|(_, text)| exists(text, name)) {
                faults.push(format!("{thing}: {place} has no {name}"));
            }
        }
    }
    faults
}

#[test]
fn everything_that_an_application_may_bring_has_a_test() {
    assert_eq!(unshown(&THINGS), Vec::<String>::new());
    // The control: a thing without a test, a test that is not there, one in the wrong file, and a function that is none.
    let wrong: [Thing; 4] = [
        ("nothing", &[]),
        ("a test", &[("bindings", "there_is_no_such_test")]),
        ("another's", &[("bindings", "rule_05_what_waits_goes_out_before_a_dispatch_that_synchronises")]),
        ("no test", &[("bindings", "template")]),
    ];
    assert_eq!(unshown(&wrong).len(), 4, "{:?}", unshown(&wrong));
}

/// A compute pipeline that this info describes.
fn made(rig: &Rig, info: vk::ComputePipelineCreateInfo<'_>) -> vk::Pipeline {
    // SAFETY: here and below as in `mock`.
    unsafe { rig.app.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None).unwrap()[0] }
}

/// What becomes of barriers between dispatches of `pipeline`.
fn pair_of(rig: &Rig, pipeline: vk::Pipeline) -> (bool, bool) {
    rig.pair(|rig, buffers| {
        rig.bind_buffers(buffers);
        // SAFETY: as above.
        unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, pipeline) };
    })
}

#[test]
fn spirv_that_comes_with_the_stage_is_read() {
    let rig = Rig::new();
    let words = zinc_mock_driver::shader::words(2).unwrap();
    let with = |words: &[u32], flags: Option<u64>| {
        let mut inline = vk::ShaderModuleCreateInfo::default().code(words);
        let mut more = vk::PipelineCreateFlags2CreateInfoKHR::default()
            .flags(vk::PipelineCreateFlags2KHR::from_raw(flags.unwrap_or(0)));
        let stage = vk::PipelineShaderStageCreateInfo::default().name(c"main").push_next(&mut inline);
        let mut info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(rig.layout);
        if flags.is_some() {
            info = info.push_next(&mut more);
        }
        pair_of(&rig, made(&rig, info))
    };
    assert_eq!(with(&words, None), STAYS_AND_GOES);
    assert_eq!(with(&words, Some(0)), STAYS_AND_GOES, "64 bits of flags, of which none is set");
    assert_eq!(with(&words, Some(1 << 40)), ALWAYS_STAYS, "a flag that nobody has heard of");
    assert_eq!(with(&words[..5], None), ALWAYS_STAYS, "no module at all");
}

#[test]
fn a_pipeline_of_libraries_or_binaries_touches_everything() {
    let rig = Rig::new();
    let words = zinc_mock_driver::shader::words(2).unwrap();
    let mut inline = vk::ShaderModuleCreateInfo::default().code(&words);
    let plain = vk::PipelineShaderStageCreateInfo::default().name(c"main");
    let code = plain.push_next(&mut inline);
    let info = |stage, list| vk::ComputePipelineCreateInfo {
        p_next: list,
        ..vk::ComputePipelineCreateInfo::default().stage(stage).layout(rig.layout)
    };
    // VkPipelineBinaryInfoKHR (1000483002, Vulkan's registry) is newer than these bindings.
    let none = [0u64; 3];
    let binaries = (1_000_483_002u64, std::ptr::null::<u8>(), none);
    let libraries = vk::PipelineLibraryCreateInfoKHR::default();
    let (binaries, libraries) = ((&raw const binaries).cast(), (&raw const libraries).cast());
    assert_eq!(pair_of(&rig, made(&rig, info(code, std::ptr::null()))), STAYS_AND_GOES, "code alone");
    assert_eq!(pair_of(&rig, made(&rig, info(plain, std::ptr::null()))), ALWAYS_STAYS, "nothing");
    assert_eq!(pair_of(&rig, made(&rig, info(plain, binaries))), ALWAYS_STAYS, "binaries");
    assert_eq!(pair_of(&rig, made(&rig, info(code, binaries))), ALWAYS_STAYS, "code and binaries");
    assert_eq!(pair_of(&rig, made(&rig, info(code, libraries))), ALWAYS_STAYS, "code and libraries");
}

#[test]
fn a_graphics_pipeline_stands_beside_the_compute_pipeline() {
    let rig = Rig::new();
    let mut libraries = vk::PipelineLibraryCreateInfoKHR::default();
    let info = vk::GraphicsPipelineCreateInfo::default()
        .flags(vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT)
        .push_next(&mut libraries);
    // SAFETY: as above.
    let linked = unsafe {
        rig.app.device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None).unwrap()[0]
    };
    let found = rig.pair(|rig, buffers| {
        rig.bind_buffers(buffers);
        // SAFETY: as above.
        unsafe {
            rig.app.device.cmd_bind_pipeline(rig.commands, vk::PipelineBindPoint::GRAPHICS, linked);
        }
    });
    assert_eq!(found, STAYS_AND_GOES);
}

#[test]
fn descriptor_buffers_hide_what_a_dispatch_touches() {
    type Bind = unsafe extern "system" fn(vk::CommandBuffer, u32, *const u8);
    type Offsets = unsafe extern "system" fn(
        vk::CommandBuffer,
        vk::PipelineBindPoint,
        vk::PipelineLayout,
        u32,
        u32,
        *const u32,
        *const u64,
    );
    let rig = Rig::new();
    // SAFETY: as above; the names' types.
    let (bind, offsets): (Bind, Offsets) = unsafe {
        (
            rig.app.function(c"vkCmdBindDescriptorBuffersEXT"),
            rig.app.function(c"vkCmdSetDescriptorBufferOffsetsEXT"),
        )
    };
    let found = rig.pair(|rig, _| {
        // SAFETY: as above; the counts are 0.
        unsafe {
            bind(rig.commands, 0, std::ptr::null());
            offsets(rig.commands, COMPUTE, rig.layout, 0, 0, std::ptr::null(), std::ptr::null());
        }
    });
    assert_eq!(found, ALWAYS_STAYS);
}

#[test]
fn memory_that_is_bound_to_single_devices_of_a_group_is_anywhere() {
    let rig = Rig::new();
    let buffer = |group: bool| {
        let devices = [0u32];
        let mut to = vk::BindBufferMemoryDeviceGroupInfo::default().device_indices(&devices);
        let (device, size) = (&rig.app.device, 256);
        // SAFETY: as above.
        unsafe {
            let buffer = device.create_buffer(&vk::BufferCreateInfo::default().size(size), None).unwrap();
            let memory = vk::MemoryAllocateInfo::default().allocation_size(size);
            let memory = device.allocate_memory(&memory, None).unwrap();
            let mut bind = vk::BindBufferMemoryInfo::default().buffer(buffer).memory(memory);
            if group {
                bind = bind.push_next(&mut to);
            }
            device.bind_buffer_memory2(&[bind]).unwrap();
            buffer
        }
    };
    let read = rig.app.buffer(256);
    let needs = |buffers: [vk::Buffer; 2]| rig.needs(|x| rig.bind_buffers([read, buffers[x as usize - 1]]));
    assert!(!needs([false, false].map(buffer)));
    assert!(needs([false, true].map(buffer)));
}

/// Two dispatches that have nothing in common, a barrier, and what `between` records behind it.
fn apart(between: impl Fn(&Rig)) -> String {
    let rig = Rig::new();
    let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
    let log = rig.script(|rig| {
        rig.go(1, [read, one]);
        rig.app.barrier(rig.commands);
        between(rig);
        rig.go(2, [read, two]);
    });
    log.trim_end_matches(" B").to_owned()
}

#[test]
fn what_waits_goes_out_before_the_devices_of_a_group_change() {
    // SAFETY: as above.
    assert_eq!(apart(|rig| unsafe { rig.app.device.cmd_set_device_mask(rig.commands, 1) }), "1 B 2");
    assert_eq!(apart(|_| ()), "1 2");
}

#[test]
fn a_dispatch_with_a_base_touches_what_a_plain_one_does() {
    let rig = Rig::new();
    let [a, b, c] = [(); 3].map(|()| rig.app.buffer(256));
    let then = |second: [vk::Buffer; 2]| {
        let log = rig.script(|rig| {
            for (x, buffers) in [(1, [a, b]), (2, second)] {
                rig.bind_buffers(buffers);
                // SAFETY: as above.
                unsafe { rig.app.device.cmd_dispatch_base(rig.commands, 4, 0, 0, x, 1, 1) };
                rig.app.barrier(rig.commands);
            }
        });
        log.trim_end_matches(" B").to_owned()
    };
    assert_eq!(then([b, c]), "1 B 2");
    assert_eq!(then([a, c]), "1 2");
}

#[test]
fn a_secondary_begins_and_ends_by_itself() {
    let rig = Rig::new();
    let [read, one, two, three] = [(); 4].map(|()| rig.app.buffer(256));
    let set = |written| {
        let set = rig.app.sets(rig.set_layout, 1)[0];
        rig.app.write(set, &[read, written]);
        set
    };
    let (own, later) = (set(one), set(three));
    // SAFETY: as above.
    let (secondary, log) = unsafe {
        let device = &rig.app.device;
        let pool = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap();
        let secondary = rig.app.commands_of(pool, vk::CommandBufferLevel::SECONDARY).unwrap();
        let inherited = vk::CommandBufferInheritanceInfo::default();
        let begin = vk::CommandBufferBeginInfo::default().inheritance_info(&inherited);
        device.begin_command_buffer(secondary, &begin).unwrap();
        device.cmd_bind_pipeline(secondary, COMPUTE, rig.pipeline);
        for (x, set) in [(5, own), (6, later)] {
            rig.app.barrier(secondary);
            device.cmd_bind_descriptor_sets(secondary, COMPUTE, rig.layout, 0, &[set], &[]);
            device.cmd_dispatch(secondary, x, 1, 1);
        }
        rig.app.barrier(secondary);
        (secondary, rig.app.end(secondary))
    };
    assert_eq!(log, "B 5 6 B", "what came before it, and what follows, is unknown");
    rig.app.begin(rig.commands);
    // SAFETY: as above.
    unsafe {
        rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, rig.pipeline);
        rig.go(1, [read, one]);
        rig.app.barrier(rig.commands);
        rig.app.device.cmd_execute_commands(rig.commands, &[secondary]);
        rig.app.barrier(rig.commands);
        // The state that was bound is not inherited back.
        rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, rig.pipeline);
    }
    rig.go(2, [read, two]);
    rig.app.end(rig.commands);
    // SAFETY: the driver's own.
    let calls = unsafe { zinc_mock_driver::calls(rig.commands) };
    let words = calls.iter().filter_map(|call| match call {
        Call::Barrier { .. } => Some("B".to_owned()),
        Call::Dispatch([x, ..]) => Some(x.to_string()),
        Call::Other("vkCmdExecuteCommands") => Some("execute".to_owned()),
        _ => None,
    });
    assert_eq!(words.collect::<Vec<_>>().join(" "), "1 B execute B 2");
}

#[test]
fn imported_and_exported_memory_is_one_place() {
    let rig = Rig::new();
    let read = rig.app.buffer(256);
    let mut import =
        vk::ImportMemoryFdInfoKHR::default().handle_type(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD).fd(-1);
    let mut export =
        vk::ExportMemoryAllocateInfo::default().handle_types(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD);
    let plain = vk::MemoryAllocateInfo::default().allocation_size(256);
    let buffer = |info: vk::MemoryAllocateInfo<'_>| {
        // SAFETY: as above.
        unsafe {
            let device = &rig.app.device;
            let buffer = device.create_buffer(&vk::BufferCreateInfo::default().size(256), None).unwrap();
            device.bind_buffer_memory(buffer, device.allocate_memory(&info, None).unwrap(), 0).unwrap();
            buffer
        }
    };
    let (imported, exported) = (buffer(plain.push_next(&mut import)), buffer(plain.push_next(&mut export)));
    let own = buffer(plain);
    let needs = |buffers: [vk::Buffer; 2]| rig.needs(|x| rig.bind_buffers([read, buffers[x as usize - 1]]));
    assert!(needs([imported, exported]), "an import may be what was exported");
    assert!(!needs([imported, own]), "and is nobody's own memory");
}

#[test]
fn protected_and_disjoint_images_are_anywhere() {
    let rig = Rig::of(Type::STORAGE_IMAGE, Default::default());
    let view = |flags| {
        // SAFETY: as above.
        unsafe {
            let device = &rig.app.device;
            let image = device.create_image(&vk::ImageCreateInfo::default().flags(flags), None).unwrap();
            let memory = vk::MemoryAllocateInfo::default().allocation_size(1 << 20);
            device.bind_image_memory(image, device.allocate_memory(&memory, None).unwrap(), 0).unwrap();
            device.create_image_view(&vk::ImageViewCreateInfo::default().image(image), None).unwrap()
        }
    };
    let none = vk::ImageCreateFlags::empty();
    let read = view(none);
    let needs = |views: [vk::ImageView; 2]| {
        rig.needs(|x| {
            let set = rig.app.sets(rig.set_layout, 1)[0];
            let infos =
                [read, views[x as usize - 1]].map(|v| vk::DescriptorImageInfo::default().image_view(v));
            let write = vk::WriteDescriptorSet::default().dst_set(set).descriptor_type(Type::STORAGE_IMAGE);
            // SAFETY: as above.
            unsafe { rig.app.device.update_descriptor_sets(&[write.image_info(&infos)], &[]) };
            rig.bind(set);
        })
    };
    assert!(!needs([view(none), view(none)]));
    for flag in [vk::ImageCreateFlags::PROTECTED, vk::ImageCreateFlags::DISJOINT] {
        assert!(needs([view(none), view(flag)]), "{flag:?}");
    }
}

#[test]
fn every_sort_of_handle_can_be_used_again() {
    let rig = Rig::new();
    let [a, b, c] = [(); 3].map(|()| rig.app.buffer(256));
    let device = &rig.app.device;
    let synchronises = zinc_mock_driver::shader::synchronising().unwrap();
    let words = zinc_mock_driver::shader::words(2).unwrap();
    // What a pipeline, a set and a command buffer were before must not be seen in what has their handle now.
    let pipeline = |words: &[u32]| {
        zinc_mock_driver::reuse_handles(true);
        let made = rig.app.pipeline(rig.layout, words);
        zinc_mock_driver::reuse_handles(false);
        made
    };
    let log = |pipeline| {
        apart_of(&rig, [[a, b], [a, c]], |rig| {
            // SAFETY: as above.
            unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, pipeline) };
        })
    };
    let first = pipeline(&synchronises);
    assert_eq!(log(first), "1 B 2");
    // SAFETY: as above; nothing that uses it is submitted.
    unsafe { device.destroy_pipeline(first, None) };
    let second = pipeline(&words);
    assert_eq!(first, second);
    assert_eq!(log(second), "1 2");
    let set = |buffers: [vk::Buffer; 2]| {
        zinc_mock_driver::reuse_handles(true);
        let set = rig.app.sets(rig.set_layout, 1)[0];
        zinc_mock_driver::reuse_handles(false);
        rig.app.write(set, &buffers);
        set
    };
    let found = rig.needs(|x| rig.bind(set(if x == 1 { [a, b] } else { [a, c] })));
    assert!(!found, "a set of the same handle, allocated again and written anew");
}

/// [`apart`] on a device that is there, with these buffers and what `before` records before the second dispatch.
fn apart_of(rig: &Rig, buffers: [[vk::Buffer; 2]; 2], before: impl Fn(&Rig)) -> String {
    let log = rig.script(|rig| {
        rig.go(1, buffers[0]);
        rig.app.barrier(rig.commands);
        before(rig);
        rig.go(2, buffers[1]);
    });
    log.trim_end_matches(" B").to_owned()
}

#[test]
fn what_a_device_is_created_with_reaches_the_driver_unchanged() {
    // One structure that everybody knows, and one that nobody has heard of.
    let strange = vk::BaseInStructure {
        s_type: vk::StructureType::from_raw(0x7000_0001),
        p_next: std::ptr::null(),
        ..Default::default()
    };
    let mut known = vk::PhysicalDeviceVulkan12Features::default().buffer_device_address(true);
    known.p_next = (&raw const strange).cast_mut().cast();
    let negotiate = zinc_barrier::entry::negotiate as *const ();
    let extensions = [c"VK_KHR_push_descriptor", c"VK_EXT_from_the_future"];
    let list = (&raw const known).cast();
    // SAFETY: one function pointer as another; the structure is the same.
    let negotiate = unsafe { std::mem::transmute::<*const (), mock::Negotiate>(negotiate) };
    for settings in [&[][..], &[("policy", "reorder"), ("delay", "1")]] {
        let app = mock::App::asking(negotiate, settings, true, &extensions, list);
        let created = created_with();
        assert_eq!(created.extensions, ["VK_KHR_push_descriptor", "VK_EXT_from_the_future"]);
        let wanted = [(known.s_type.as_raw(), list as usize), (0x7000_0001, &raw const strange as usize)];
        // The loader's own structure stands before what the application asks for.
        assert_eq!(created.list[1..], wanted, "{settings:?}");
        assert_ne!(created.features, 0);
        drop(app);
    }
    assert_eq!(known.buffer_device_address, vk::TRUE);
}

#[test]
fn functions_that_the_layer_has_no_part_in_are_the_drivers_own() {
    let rig = Rig::new();
    let table = include_str!("../registry/commands.txt");
    let rows = table.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    let (mut own, mut taken) = (0, 0);
    let more = ["vkGetFenceStatus", "vkCreateGraphicsPipelines", "vkGetPipelineCacheData"];
    for (name, word) in rows.chain(more.map(|name| (name, "apart"))) {
        let c_name = CString::new(name).unwrap();
        // SAFETY: the driver's own functions, with a name.
        let drivers = unsafe {
            zinc_mock_driver::get_device_proc_addr(vk::Device::null(), c_name.as_ptr()).map(|f| f as usize)
        };
        let answers = rig.app.answers(&c_name);
        if matches!(word, "apart" | "harmless") {
            own += 1;
            assert_eq!(answers.map(Some), [drivers; 2], "{name}");
        } else if !name.starts_with("vkCmdPushConstants") {
            taken += 1;
            assert!(answers.iter().all(|answer| Some(*answer) != drivers), "{name} is '{word}'");
        }
    }
    assert!(own > 100 && taken > 200, "{own} of the driver's own, {taken} taken");
    for name in
        [c"vkGetPhysicalDeviceFeatures2", c"vkGetPhysicalDeviceProperties2", c"vkEnumeratePhysicalDevices"]
    {
        // SAFETY: as above.
        let drivers =
            unsafe { zinc_mock_driver::get_instance_proc_addr(vk::Instance::null(), name.as_ptr()) };
        assert_eq!(Some(rig.app.answers(name)[1]), drivers.map(|f| f as usize), "{name:?}");
    }
    let barrier = (Stage::COMPUTE_SHADER, Access::SHADER_WRITE);
    rig.app.begin(rig.commands);
    rig.barrier(barrier, barrier);
    assert_eq!(rig.app.end(rig.commands), "B", "and the device that was asked still records");
}
