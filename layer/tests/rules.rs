//! For each numbered rule of docs/semantics.md a pair: a stream in which the barrier must stay, and one, as like it as can be,
//! in which it must go. What reaches a driver that executes nothing says which it was; that memory ends right, in any
//! order, is what `tests/tests/needed_and_free.rs` shows of many more such pairs on a driver that executes.

mod mock;
mod rig;

use ash::vk::{self, AccessFlags as Access, PipelineStageFlags as Stage};
use rig::{ALWAYS_STAYS, COMPUTE, Rig, STAYS_AND_GOES, app_with};
use vk::DescriptorType as Type;

/// Rules whose pairs stand elsewhere: rule, file, the test in which it stays, the test in which it goes.
const ELSEWHERE: [(u32, &str, &str, &str); 5] = [
    (
        8,
        include_str!("../../tests/tests/tight_ranges.rs"),
        "a_barrier_between_two_addresses_that_meet_stays",
        "a_barrier_between_two_addresses_in_parts_that_stay_apart_goes",
    ),
    (
        13,
        include_str!("recording.rs"),
        "the_same_handle_of_a_new_object_is_a_new_object",
        "the_same_handle_of_a_new_object_is_a_new_object",
    ),
    (
        16,
        include_str!("../../tests/tests/tight_ranges.rs"),
        "a_barrier_between_parts_that_meet_stays",
        "a_barrier_between_parts_that_the_shader_keeps_apart_goes",
    ),
    (
        17,
        include_str!("marks.rs"),
        "a_barrier_that_a_timestamp_waits_for_goes_out_before_it_and_no_other",
        "a_timestamp_is_no_reason_to_emit_what_waits",
    ),
    (
        18,
        include_str!("marks.rs"),
        "a_region_of_an_earlier_command_buffer_ends_after_what_it_encloses",
        "every_dispatch_is_issued_in_the_regions_that_it_was_recorded_in",
    ),
];

/// The numbers of the rules on the page.
fn numbered(page: &str) -> Vec<u32> {
    let rules =
        page.split("## The rules").nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default();
    rules.lines().filter_map(|line| line.split_once(". **")?.0.parse().ok()).collect()
}

/// The numbers of the rules that have a pair.
fn with_a_pair(source: &str) -> Vec<u32> {
    let has = |file: &str, test: &str| file.contains(&format!("fn {test}()"));
    let here =
        source.lines().filter_map(|line| line.strip_prefix("fn rule_")?.split('_').next()?.parse().ok());
    let elsewhere = ELSEWHERE.iter().filter(|(_, file, stays, goes)| has(file, stays) && has(file, goes));
    here.chain(elsewhere.map(|(rule, ..)| *rule)).collect()
}

#[test]
fn every_rule_of_the_page_has_a_pair() {
    let rules = numbered(include_str!("../../docs/semantics.md"));
    assert_eq!(rules, (1..=rules.len() as u32).collect::<Vec<_>>(), "the page numbers its rules in order");
    assert!(rules.len() >= 16, "{rules:?}");
    let pairs = with_a_pair(include_str!("rules.rs"));
    let without: Vec<_> = rules.iter().filter(|rule| !pairs.contains(rule)).collect();
    assert!(without.is_empty(), "rules {without:?} have no pair");
    // The control: a rule more, and a pair less, are noticed.
    assert_eq!(numbered("## The rules\n1. **A.**\n12. **B.**\n\n## Limits\n13. **C.**"), [1, 12]);
    assert!(!with_a_pair("fn rule_01_x() {}\n// fn rule_02_y() {}").contains(&2));
}

fn buffers<const N: usize>(rig: &Rig) -> [vk::Buffer; N] {
    std::array::from_fn(|_| rig.app.buffer(256))
}

#[test]
fn rule_01_the_first_barrier_is_due_to_what_came_before_and_the_next_is_not() {
    let rig = Rig::new();
    let [read, written] = buffers(&rig);
    rig.app.begin(rig.commands);
    // SAFETY: here and below as in `mock`.
    unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, rig.pipeline) };
    rig.app.barrier(rig.commands);
    rig.go(1, [read, written]);
    rig.app.barrier(rig.commands);
    rig.bind(rig.aside);
    rig.dispatch(2);
    assert_eq!(rig.app.end(rig.commands).trim_end_matches(" B"), "B 1 2");
}

#[test]
fn rule_02_what_waits_goes_out_at_the_end_and_what_orders_nothing_more_does_not() {
    let rig = Rig::new();
    let [read, written] = buffers(&rig);
    let asked = |times: usize| {
        rig.script(|rig| {
            rig.go(1, [read, written]);
            (0..times).for_each(|_| rig.app.barrier(rig.commands));
        })
    };
    assert_eq!(asked(1), "1 B");
    assert_eq!(asked(2), "1 B", "the second of two in a row");
}

#[test]
fn rule_03_a_layout_transition_passes_through_and_a_barrier_from_a_layout_to_itself_does_not() {
    let rig = Rig::new();
    let [read, one, two] = buffers(&rig);
    let with = |new| {
        rig.script(|rig| {
            rig.go(1, [read, one]);
            let image = [vk::ImageMemoryBarrier::default()
                .old_layout(vk::ImageLayout::GENERAL)
                .new_layout(new)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)];
            let (stage, none) = (Stage::COMPUTE_SHADER, vk::DependencyFlags::empty());
            // SAFETY: as above.
            unsafe {
                rig.app.device.cmd_pipeline_barrier(rig.commands, stage, stage, none, &[], &[], &image);
            }
            rig.go(2, [read, two]);
        })
    };
    assert_eq!(with(vk::ImageLayout::TRANSFER_SRC_OPTIMAL), "1 B 2");
    assert_eq!(with(vk::ImageLayout::GENERAL).trim_end_matches(" B"), "1 2");
}

#[test]
fn rule_04_a_barrier_for_the_host_goes_out_before_the_next_operation_and_one_for_everything_waits() {
    let rig = Rig::new();
    let [read, one, two] = buffers(&rig);
    let to = |to| {
        rig.script(|rig| {
            rig.go(1, [read, one]);
            rig.barrier((Stage::COMPUTE_SHADER, Access::SHADER_WRITE), to);
            rig.go(2, [read, two]);
        })
    };
    assert_eq!(to((Stage::HOST, Access::HOST_READ)), "1 B 2");
    assert_eq!(to((Stage::ALL_COMMANDS, Access::MEMORY_READ)).trim_end_matches(" B"), "1 2");
}

#[test]
fn rule_05_what_waits_goes_out_before_a_dispatch_that_synchronises() {
    let rig = Rig::new();
    let synchronises = rig.app.pipeline(rig.layout, &zinc_mock_driver::shader::synchronising().unwrap());
    let [read, one, two] = buffers(&rig);
    let before = |pipeline| {
        rig.script(|rig| {
            rig.go(1, [read, one]);
            rig.app.barrier(rig.commands);
            // SAFETY: as above.
            unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, pipeline) };
            rig.go(2, [read, two]);
        })
    };
    assert_eq!(before(synchronises), "1 B 2");
    assert_eq!(before(rig.pipeline).trim_end_matches(" B"), "1 2");
}

#[test]
fn rule_06_a_storage_buffer_is_what_the_shader_makes_of_it() {
    let rig = Rig::new();
    let [a, b, c] = buffers(&rig);
    let then =
        |second: [vk::Buffer; 2]| rig.needs(|x| rig.bind_buffers(if x == 1 { [a, b] } else { second }));
    assert!(then([b, c]), "what was written is read");
    assert!(!then([a, c]), "what was read is read");
    // A pipeline whose SPIR-V the layer does not see reads and writes everything.
    let unseen = rig.app.pipeline(rig.layout, &[0x0723_0203, 0x0001_0300, 0, 1, 0]);
    let found = rig.pair(|rig, buffers| {
        rig.bind_buffers(buffers);
        // SAFETY: as above.
        unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, unseen) };
    });
    assert_eq!(found, ALWAYS_STAYS);
}

#[test]
fn rule_07_a_set_that_may_change_once_it_is_bound_is_anywhere() {
    let flags = vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL;
    let changing = Rig::of(Type::STORAGE_BUFFER, flags);
    assert_eq!(changing.pair(|rig, buffers| rig.bind_buffers(buffers)), ALWAYS_STAYS);
    let settled = Rig::new();
    assert_eq!(settled.pair(|rig, buffers| rig.bind_buffers(buffers)), STAYS_AND_GOES);
}

#[test]
fn rule_09_a_fill_is_a_write_at_a_stage_of_its_own() {
    let rig = Rig::new();
    let [filled, other, written] = buffers(&rig);
    let transfer = (Stage::TRANSFER, Access::TRANSFER_WRITE);
    let compute = (Stage::COMPUTE_SHADER, Access::SHADER_READ);
    let after = |from, read| {
        rig.script(|rig| {
            // Transfers that came before the recording are settled, too.
            let everything = (Stage::ALL_COMMANDS, Access::MEMORY_READ | Access::MEMORY_WRITE);
            rig.barrier(everything, everything);
            rig.dispatch(8);
            // SAFETY: as above.
            unsafe { rig.app.device.cmd_fill_buffer(rig.commands, filled, 0, 256, 0) };
            rig.barrier(from, compute);
            rig.go(1, [read, written]);
        })
    };
    assert_eq!(after(transfer, filled), "B 8 B 1");
    assert_eq!(after(transfer, other).trim_end_matches(" B"), "B 8 1");
    let copies = (Stage::COMPUTE_SHADER, Access::SHADER_WRITE);
    assert_eq!(
        after(copies, filled).trim_end_matches(" B"),
        "B 8 1",
        "a barrier that does not name the fill"
    );
}

/// A buffer with memory of its own, both made as they are told.
fn buffer_of(rig: &Rig, flags: vk::BufferCreateFlags, exported: bool) -> vk::Buffer {
    let mut export =
        vk::ExportMemoryAllocateInfo::default().handle_types(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD);
    let info = vk::MemoryAllocateInfo::default().allocation_size(256);
    let info = if exported { info.push_next(&mut export) } else { info };
    let device = &rig.app.device;
    // SAFETY: as above.
    unsafe {
        let buffer =
            device.create_buffer(&vk::BufferCreateInfo::default().size(256).flags(flags), None).unwrap();
        let memory = device.allocate_memory(&info, None).unwrap();
        device.bind_buffer_memory(buffer, memory, 0).unwrap();
        buffer
    }
}

#[test]
fn rule_10_exported_sparse_and_protected_buffers_may_be_the_same_bytes() {
    let rig = Rig::new();
    let (none, read) = (vk::BufferCreateFlags::empty(), rig.app.buffer(256));
    let needs = |buffers: [vk::Buffer; 2]| rig.needs(|x| rig.bind_buffers([read, buffers[x as usize - 1]]));
    assert!(!needs([(); 2].map(|()| buffer_of(&rig, none, false))), "memory of the application's own");
    assert!(needs([(); 2].map(|()| buffer_of(&rig, none, true))), "two exports");
    assert!(
        !needs([true, false].map(|exported| buffer_of(&rig, none, exported))),
        "an export and a private one"
    );
    for flag in [vk::BufferCreateFlags::SPARSE_BINDING, vk::BufferCreateFlags::PROTECTED] {
        assert!(needs([flag, none].map(|flags| buffer_of(&rig, flags, false))), "{flag:?}");
    }
}

#[test]
fn rule_11_by_the_letter_a_write_of_a_robust_device_covers_its_buffer() {
    let letter = [("out_of_bounds", "whole-buffer")];
    // (Settings, robust, whether a barrier between writes to two parts of one buffer stays.)
    for (settings, robust, stays) in [(&letter[..], true, true), (&letter, false, false), (&[], true, false)]
    {
        let rig = Rig::on(app_with(settings, robust), Type::STORAGE_BUFFER, Default::default());
        let [read, written] = [256, 512].map(|size| rig.app.buffer(size));
        let found = rig.needs(|x| {
            let set = rig.app.sets(rig.set_layout, 1)[0];
            let part =
                |buffer, offset| vk::DescriptorBufferInfo::default().buffer(buffer).offset(offset).range(256);
            let infos = [part(read, 0), part(written, 256 * u64::from(x - 1))];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(set)
                .descriptor_type(Type::STORAGE_BUFFER)
                .buffer_info(&infos);
            // SAFETY: as above.
            unsafe { rig.app.device.update_descriptor_sets(&[write], &[]) };
            rig.bind(set);
        });
        assert_eq!(found, stays, "{settings:?}, robust {robust}");
    }
}

#[test]
fn rule_12_descriptors_are_what_they_are_when_the_dispatch_is_recorded() {
    let rig = Rig::new();
    let [read, one, two] = buffers(&rig);
    // One set, bound once and for all; what it holds by then decides.
    let set = rig.app.sets(rig.set_layout, 1)[0];
    let then = |second| {
        rig.needs(|x| {
            rig.app.write(set, &[read, if x == 1 { one } else { second }]);
            rig.bind(set);
        })
    };
    assert!(then(one));
    assert!(!then(two));
}

#[test]
fn rule_14_what_waits_goes_out_before_a_command_that_nobody_has_heard_of() {
    let rig = Rig::new();
    let [read, one, two] = buffers(&rig);
    // SAFETY: the driver's function takes the command buffer and no more.
    let future: unsafe extern "system" fn(vk::CommandBuffer) =
        unsafe { rig.app.function(c"vkCmdFromTheFutureEXT") };
    let with = |unknown: bool| {
        rig.script(|rig| {
            rig.go(1, [read, one]);
            rig.app.barrier(rig.commands);
            if unknown {
                // SAFETY: as above.
                unsafe { future(rig.commands) };
            }
            rig.go(2, [read, two]);
        })
    };
    assert_eq!(with(true), "1 B 2");
    assert_eq!(with(false).trim_end_matches(" B"), "1 2");
}

#[test]
fn rule_15_a_write_after_a_read_needs_execution_only_and_a_read_after_a_write_is_not_helped_by_it() {
    let rig = Rig::new();
    let [a, b, c] = buffers(&rig);
    let execution = (Stage::COMPUTE_SHADER, Access::empty());
    rig.app.begin(rig.commands);
    // SAFETY: as above.
    unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, rig.pipeline) };
    rig.go(1, [a, b]);
    rig.barrier(execution, execution);
    rig.go(2, [c, a]);
    assert_eq!(rig.app.end(rig.commands), "1 B 2");
    // SAFETY: the driver's own.
    let calls = unsafe { zinc_mock_driver::calls(rig.commands) };
    let barrier = calls.iter().find_map(|call| match call {
        zinc_mock_driver::Call::Barrier { src, dst } => Some((src.1, dst.1)),
        _ => None,
    });
    assert_eq!(barrier, Some((0, 0)), "no access bits were added");
    let read = rig.script(|rig| {
        rig.go(1, [a, b]);
        rig.barrier(execution, execution);
        rig.go(2, [b, c]);
    });
    assert_eq!(read.trim_end_matches(" B"), "1 2", "nothing is made available that could be relied on");
}
