//! A report says what barriers were kept for where no two accesses need them, and why accesses are not known.

mod mock;
mod rig;

use ash::vk;
use rig::{Rig, app_with};
use std::collections::BTreeMap;
use vk::DescriptorType as Type;
use zinc_report::Report;

/// The report of a device on which `record` records one command buffer, which is submitted twice.
fn report(policy: &str, record: impl FnOnce(&Rig)) -> Report {
    report_with(&[("policy", policy)], record)
}

/// The same with any settings.
fn report_with(settings: &[(&str, &str)], record: impl FnOnce(&Rig)) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let settings = [settings, &[("report", path.to_str().unwrap())]].concat();
    let rig = Rig::on(app_with(&settings, false), Type::STORAGE_BUFFER, Default::default());
    rig.script(record);
    rig.app.submit(rig.commands);
    rig.app.submit(rig.commands);
    drop(rig);
    Report::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn map(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
    entries.iter().map(|(name, times)| ((*name).to_string(), *times)).collect()
}

#[test]
fn what_was_kept_for_a_command_without_a_model_is_counted_apart_and_named() {
    for policy in ["alias-only", "narrow", "reorder"] {
        let found = report(policy, |rig| {
            let buffers: Vec<vk::Buffer> = (0..8).map(|_| rig.app.buffer(256)).collect();
            for x in 0..3 {
                rig.go(100 + x, [buffers[2 * x as usize], buffers[2 * x as usize + 1]]);
                rig.app.barrier(rig.commands);
                // SAFETY: as in `mock`; the mock does not look at the event.
                unsafe {
                    rig.app.device.cmd_set_event(
                        rig.commands,
                        vk::Event::null(),
                        vk::PipelineStageFlags::TRANSFER,
                    );
                }
            }
        });
        assert_eq!(found.kept_by, map(&[("vkCmdSetEvent", 3)]), "{policy}");
        assert_eq!((found.recorded.hazards.unmodelled, found.totals.hazards.unmodelled), (3, 6), "{policy}");
        assert_eq!(found.recorded.hazards.flush, 0, "{policy}: nothing waits at the end");
        let meaning = found.meaning();
        assert!(meaning.contains("6 more were emitted only because a command came next"), "{meaning}");
        assert!(found.notes.iter().any(|note| note.contains("vkCmdSetEvent (3)")), "{:?}", found.notes);
        // The control: without the event nothing is, and what waits at the end is a flush.
        let found = report(policy, |rig| {
            rig.go(100, [rig.app.buffer(256), rig.app.buffer(256)]);
            rig.app.barrier(rig.commands);
        });
        assert_eq!((found.kept_by, found.recorded.hazards.unmodelled), (map(&[]), 0), "{policy}");
        assert_eq!(found.recorded.hazards.flush, 1, "{policy}");
    }
}

#[test]
fn a_transition_that_passes_through_is_named_as_what_it_is() {
    let found = report("alias-only", |rig| {
        rig.go(100, [rig.app.buffer(256), rig.app.buffer(256)]);
        rig.app.barrier(rig.commands);
        let image = vk::ImageMemoryBarrier::default()
            .old_layout(vk::ImageLayout::UNDEFINED)
            .new_layout(vk::ImageLayout::GENERAL);
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        // SAFETY: as above.
        unsafe {
            rig.app.device.cmd_pipeline_barrier(
                rig.commands,
                all,
                all,
                Default::default(),
                &[],
                &[],
                &[image],
            );
        }
    });
    assert_eq!(found.kept_by, map(&[("vkCmdPipelineBarrier", 1)]));
    assert_eq!(found.recorded.barriers_passed_through, 1);
}

#[test]
fn why_accesses_are_not_known_is_named() {
    let found = report("alias-only", |rig| {
        // A capability of which the layer knows nothing, behind that of shaders.
        let mut words = zinc_mock_driver::shader::words(2).unwrap();
        words.splice(7..7, [2 << 16 | 17, 5000]);
        let odd = rig.app.pipeline(rig.layout, &words);
        let [a, b] = [(); 2].map(|()| rig.app.buffer(256));
        // SAFETY: as in `mock`.
        unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, rig::COMPUTE, odd) };
        rig.go(100, [a, b]);
        rig.go(101, [a, b]);
        // SAFETY: as above.
        unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, rig::COMPUTE, rig.pipeline) };
        let never_written = rig.app.sets(rig.set_layout, 1)[0];
        rig.bind(never_written);
        rig.dispatch(102);
    });
    assert_eq!(found.recorded.unknown_operations, 3);
    let reasons: Vec<(&str, u64)> = found.unknown_because.iter().map(|(why, n)| (why.as_str(), *n)).collect();
    let [(descriptor, 1), (shader, 2)] = reasons[..] else { panic!("{reasons:?}") };
    assert_eq!(descriptor, "a descriptor whose write was not seen");
    assert!(shader.starts_with("a shader that is not understood") && shader.contains("5000"), "{shader}");
}

#[test]
fn a_command_that_binds_what_the_layer_does_not_follow_is_named_with_the_dispatches_after_it() {
    for (name, reason) in [
        ("vkCmdBindShadersEXT", "bound in a way that the layer does not follow, by vkCmdBindShadersEXT"),
        (
            "vkCmdBindDescriptorBuffersEXT",
            "bound in a way that the layer does not follow, by vkCmdBindDescriptorBuffersEXT",
        ),
    ] {
        let found = report("alias-only", |rig| {
            let name = std::ffi::CString::new(name).unwrap();
            // SAFETY: the mock's commands take nothing but the command buffer, and ignore what else is passed.
            let bind: unsafe extern "system" fn(vk::CommandBuffer) = unsafe { rig.app.function(&name) };
            for x in 100..104 {
                // SAFETY: as above.
                unsafe { bind(rig.commands) };
                rig.dispatch(x);
            }
        });
        assert_eq!(found.unknown_because, map(&[(reason, 4)]));
    }
}

#[test]
fn a_policy_that_is_only_counted_counts_what_was_kept_once() {
    let found = report_with(&[("policy", "alias-only"), ("would_emit", "1")], |rig| {
        let buffers: Vec<vk::Buffer> = (0..4).map(|_| rig.app.buffer(256)).collect();
        let (all, any) = (
            vk::PipelineStageFlags::ALL_COMMANDS,
            vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::MEMORY_READ,
        );
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(1);
        // SAFETY: as in `mock`; its commands take nothing but the command buffer, and ignore what else is passed.
        let (pool, taint) = unsafe {
            let taint: unsafe extern "system" fn(vk::CommandBuffer) =
                rig.app.function(c"vkCmdBindShadersEXT");
            (rig.app.device.create_query_pool(&info, None).unwrap(), taint)
        };
        rig.go(100, [buffers[0], buffers[1]]);
        rig.barrier((all, any), (all, any));
        // A stamp that the barrier must come before: what `narrow` held has a barrier for it when holding stops.
        // SAFETY: as above.
        unsafe {
            rig.app.device.cmd_write_timestamp(rig.commands, vk::PipelineStageFlags::TOP_OF_PIPE, pool, 0);
            taint(rig.commands);
            for _ in 0..5 {
                rig.app.device.cmd_set_event(
                    rig.commands,
                    vk::Event::null(),
                    vk::PipelineStageFlags::TRANSFER,
                );
            }
        }
    });
    let would = found.would_emit.unwrap();
    for policy in ["narrow", "reorder"] {
        assert_eq!(would[policy].hazards.unmodelled, 0, "{policy}: nothing waits before any of the events");
        assert!(would[policy].hazards.flush > 0, "{policy}: the barrier of the stamp");
    }
}
