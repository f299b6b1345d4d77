//! The edges: pointers that the specification says are ignored, states that were not seen, objects that died half. For each a
//! pair: a barrier that must stay, and one, as like it as can be, that must go.

mod mock;
mod rig;

use ash::vk::{self, Handle};
use rig::{ALWAYS_STAYS, COMPUTE, Rig, STAYS_AND_GOES, app_with};
use std::ffi::c_void;
use vk::DescriptorType as Type;
use zinc_mock_driver::{Call, calls, pipeline_layouts, remember_layouts, sets_of_layout};

const POLICIES: [&str; 6] = ["stock", "every", "alias-only", "narrow", "reorder", "none"];

fn rig_with(policy: &str) -> Rig {
    Rig::on(app_with(&[("policy", policy)], false), Type::STORAGE_BUFFER, Default::default())
}

/// Begins a command buffer with these flags, and a pointer to inheritance info that is what it is.
fn begin(
    rig: &Rig,
    commands: vk::CommandBuffer,
    flags: vk::CommandBufferUsageFlags,
    inheritance: *const vk::CommandBufferInheritanceInfo<'_>,
) {
    let info = vk::CommandBufferBeginInfo::default().flags(flags);
    let info = vk::CommandBufferBeginInfo { p_inheritance_info: inheritance, ..info };
    // SAFETY: here and below as in `mock`.
    unsafe { rig.app.device.begin_command_buffer(commands, &info).unwrap() };
}

/// Two dispatches of different buffers with a barrier between them, behind a prefix that needs nothing any more: what the
/// driver gets between the two.
fn two_dispatches(rig: &Rig, commands: vk::CommandBuffer) -> String {
    let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
    let go = |x: u32, buffers: &[vk::Buffer]| {
        let set = rig.app.sets(rig.set_layout, 1)[0];
        rig.app.write(set, buffers);
        // SAFETY: as above.
        unsafe {
            let device = &rig.app.device;
            device.cmd_bind_pipeline(commands, COMPUTE, rig.pipeline);
            device.cmd_bind_descriptor_sets(commands, COMPUTE, rig.layout, 0, &[set], &[]);
            device.cmd_dispatch(commands, x, 1, 1);
        }
    };
    let aside = rig.app.buffer(64);
    go(9, &[aside, aside]);
    rig.app.barrier(commands);
    go(9, &[aside, aside]);
    go(1, &[read, one]);
    rig.app.barrier(commands);
    go(2, &[read, two]);
    let log = rig.app.end(commands);
    let (_, between) = log.split_once("9 1").unwrap_or_else(|| panic!("{log}"));
    between.split_once('2').unwrap_or_else(|| panic!("{log}")).0.trim().to_owned()
}

fn secondary(rig: &Rig) -> vk::CommandBuffer {
    // SAFETY: as above.
    let pool =
        unsafe { rig.app.device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap() };
    rig.app.commands_of(pool, vk::CommandBufferLevel::SECONDARY).unwrap()
}

#[test]
fn the_inheritance_info_of_a_primary_is_not_looked_at() {
    let garbage: *const vk::CommandBufferInheritanceInfo<'_> = std::ptr::without_provenance(0xdead_beef);
    for policy in POLICIES {
        let rig = rig_with(policy);
        begin(&rig, rig.commands, vk::CommandBufferUsageFlags::empty(), garbage);
        rig.app.end(rig.commands);
    }
    // That of a secondary is: with a predicate around it, each of its dispatches reads it.
    let rig = Rig::new();
    let commands = secondary(&rig);
    let conditional = |enable| {
        let mut conditional = vk::CommandBufferInheritanceConditionalRenderingInfoEXT::default()
            .conditional_rendering_enable(enable);
        let info = vk::CommandBufferInheritanceInfo::default().push_next(&mut conditional);
        begin(&rig, commands, vk::CommandBufferUsageFlags::empty(), &raw const info);
        let device = &rig.app.device;
        let [read, written] = [(); 2].map(|()| rig.app.buffer(256));
        // SAFETY: as above.
        unsafe {
            device.cmd_bind_pipeline(commands, COMPUTE, rig.pipeline);
            let set = rig.app.sets(rig.set_layout, 1)[0];
            rig.app.write(set, &[read, written]);
            device.cmd_bind_descriptor_sets(commands, COMPUTE, rig.layout, 0, &[set], &[]);
            device.cmd_dispatch(commands, 1, 1, 1);
            let access = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::SHADER_WRITE)
                .dst_access_mask(vk::AccessFlags::CONDITIONAL_RENDERING_READ_EXT)];
            let (from, to) =
                (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::CONDITIONAL_RENDERING_EXT);
            for _ in 0..2 {
                device.cmd_pipeline_barrier(commands, from, to, Default::default(), &access, &[], &[]);
                let set = rig.app.sets(rig.set_layout, 1)[0];
                rig.app.write(set, &[read, rig.app.buffer(64)]);
                device.cmd_bind_descriptor_sets(commands, COMPUTE, rig.layout, 0, &[set], &[]);
                device.cmd_dispatch(commands, 2, 1, 1);
            }
        }
        rig.app.end(commands)
    };
    assert_eq!(conditional(true), "1 B 2 B 2", "what is written may be the predicate");
    assert_eq!(conditional(false).trim_end_matches(" B"), "1 2 2");
}

#[test]
fn a_primary_is_in_no_render_pass_whatever_its_flags_say() {
    let (flag, none) = (vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE, std::ptr::null());
    let rig = Rig::new();
    begin(&rig, rig.commands, flag, none);
    assert_eq!(two_dispatches(&rig, rig.commands), "", "ignored for a primary");
    let commands = secondary(&rig);
    let inheritance = vk::CommandBufferInheritanceInfo::default();
    begin(&rig, commands, flag, &raw const inheritance);
    assert_eq!(two_dispatches(&rig, commands), "B", "inside rendering a barrier passes through");
}

#[test]
fn what_is_held_in_such_a_primary_goes_before_an_event() {
    let rig = rig_with("narrow");
    begin(&rig, rig.commands, vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE, std::ptr::null());
    // SAFETY: as above.
    unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, COMPUTE, rig.pipeline) };
    let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
    rig.go(1, [read, one]);
    // SAFETY: as above.
    unsafe {
        rig.app.device.cmd_set_event(rig.commands, vk::Event::null(), vk::PipelineStageFlags::COMPUTE_SHADER);
    }
    rig.go(2, [read, two]);
    rig.app.end(rig.commands);
    // SAFETY: as above.
    let calls = unsafe { calls(rig.commands) };
    let at = |wanted: Call| calls.iter().position(|c| *c == wanted).unwrap();
    let event = at(Call::Other("vkCmdSetEvent"));
    assert!(at(Call::Dispatch([1, 1, 1])) < event && event < at(Call::Dispatch([2, 1, 1])), "{calls:?}");
}

#[test]
fn a_push_leaves_what_it_does_not_reach_whatever_the_handle_of_the_layout() {
    for policy in ["alias-only", "narrow", "reorder"] {
        let app = app_with(&[("policy", policy)], false);
        let flags = vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR;
        let rig = Rig::on(app, Type::STORAGE_BUFFER, flags);
        // The same definition under other handles; and one that has a binding more.
        let alike = rig.app.pipeline_layout(&[rig.app.set_layout(Type::STORAGE_BUFFER, 2, flags)]);
        let longer = rig.app.pipeline_layout(&[rig.app.set_layout(Type::STORAGE_BUFFER, 3, flags)]);
        // SAFETY: the name's type.
        let push: vk::PFN_vkCmdPushDescriptorSetKHR =
            unsafe { rig.app.function(c"vkCmdPushDescriptorSetKHR") };
        let write = |layout, binding, buffer| {
            let infos = [vk::DescriptorBufferInfo::default().buffer(buffer).range(256)];
            let write = vk::WriteDescriptorSet::default()
                .dst_binding(binding)
                .descriptor_type(Type::STORAGE_BUFFER)
                .buffer_info(&infos);
            // SAFETY: as above.
            unsafe { push(rig.commands, COMPUTE, layout, 0, 1, &raw const write) };
        };
        let [read, one, two, three] = [(); 4].map(|()| rig.app.buffer(256));
        // The first writes `one`; the second reads what was pushed for binding 0, and writes another buffer.
        let second_reads = |first: vk::Buffer, layout| {
            rig.needs(|x| match x {
                1 => {
                    write(rig.layout, 0, read);
                    write(rig.layout, 1, one);
                }
                _ => {
                    write(rig.layout, 0, first);
                    write(layout, 1, two);
                }
            })
        };
        assert!(second_reads(one, alike), "{policy}: it reads what the first one wrote");
        assert!(!second_reads(three, alike), "{policy}: it reads another buffer");
        assert!(second_reads(three, longer), "{policy}: what another layout leaves is not known");
    }
}

#[test]
fn that_nothing_can_be_held_is_no_reason_to_emit_what_waits() {
    let emitted = |policy, pushes: bool| {
        let flags = match pushes {
            true => vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR,
            false => Default::default(),
        };
        let rig = Rig::on(app_with(&[("policy", policy)], false), Type::STORAGE_BUFFER, flags);
        // SAFETY: the name's type.
        let push: vk::PFN_vkCmdPushDescriptorSetKHR =
            unsafe { rig.app.function(c"vkCmdPushDescriptorSetKHR") };
        let read = rig.app.buffer(256);
        let log = rig.script(|rig| {
            for x in 1..=16 {
                let buffers = [read, rig.app.buffer(256)];
                if pushes {
                    let infos = buffers.map(|b| vk::DescriptorBufferInfo::default().buffer(b).range(256));
                    let write = vk::WriteDescriptorSet::default()
                        .descriptor_type(Type::STORAGE_BUFFER)
                        .buffer_info(&infos);
                    // SAFETY: as above.
                    unsafe { push(rig.commands, COMPUTE, rig.layout, 0, 1, &raw const write) };
                    rig.dispatch(x);
                } else {
                    rig.go(x, buffers);
                }
                rig.app.barrier(rig.commands);
            }
        });
        log.matches('B').count()
    };
    for pushes in [false, true] {
        let found = ["alias-only", "narrow", "reorder"].map(|policy| emitted(policy, pushes));
        assert_eq!(
            found,
            [1, 1, 1],
            "16 dispatches that have nothing to do with each other, pushes: {pushes}"
        );
    }
    assert_eq!(emitted("stock", true), 16);
}

#[test]
fn a_descriptor_whose_write_was_not_seen_may_be_anything() {
    let rig = Rig::new();
    let layout = |flags: vk::DescriptorBindingFlags| {
        let bindings = [0, 1].map(|at| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(at)
                .descriptor_type(Type::STORAGE_BUFFER)
                .descriptor_count(1)
        });
        let flags = [flags; 2];
        let mut flags = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&flags);
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).push_next(&mut flags);
        // SAFETY: as above.
        unsafe { rig.app.device.create_descriptor_set_layout(&info, None).unwrap() }
    };
    let partly = |layout| {
        let [one, two] = [(); 2].map(|()| rig.app.buffer(256));
        rig.needs(|x| {
            let set = rig.app.sets(layout, 1)[0];
            // Binding 1 is not written.
            rig.app.write(set, &[if x == 1 { one } else { two }]);
            rig.bind(set);
        })
    };
    assert!(
        partly(layout(vk::DescriptorBindingFlags::empty())),
        "a dispatch may reach it, so it was written"
    );
    assert!(!partly(layout(vk::DescriptorBindingFlags::PARTIALLY_BOUND)), "it need not have been written");
}

#[test]
fn a_set_that_the_host_writes_past_every_call_is_unknown() {
    let rig = Rig::new();
    // SAFETY: the name's type.
    let map: vk::PFN_vkGetDescriptorSetHostMappingVALVE =
        unsafe { rig.app.function(c"vkGetDescriptorSetHostMappingVALVE") };
    let with = |mapped: bool| {
        rig.pair(|rig, buffers| {
            let set = rig.app.sets(rig.set_layout, 1)[0];
            rig.app.write(set, &buffers);
            let mut at: *mut c_void = std::ptr::null_mut();
            if mapped {
                // SAFETY: as above.
                unsafe { map(rig.app.device.handle(), set, &raw mut at) };
            }
            rig.bind(set);
        })
    };
    assert_eq!(with(false), STAYS_AND_GOES);
    assert_eq!(with(true), ALWAYS_STAYS);
}

#[test]
fn the_variable_count_of_a_set_is_its_own() {
    let rig = Rig::new();
    let bindings = [(0, 1), (1, 500_000)].map(|(at, count)| {
        vk::DescriptorSetLayoutBinding::default()
            .binding(at)
            .descriptor_type(Type::STORAGE_BUFFER)
            .descriptor_count(count)
    });
    let flags = [vk::DescriptorBindingFlags::empty(), vk::DescriptorBindingFlags::VARIABLE_DESCRIPTOR_COUNT];
    let mut flags = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&flags);
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).push_next(&mut flags);
    // SAFETY: as above.
    let layout = unsafe { rig.app.device.create_descriptor_set_layout(&info, None).unwrap() };
    let pair = |count: u32| {
        rig.pair(|rig, buffers| {
            // SAFETY: as above.
            let set = unsafe {
                let pool = rig.app.device.create_descriptor_pool(&Default::default(), None).unwrap();
                let (counts, layouts) = ([count], [layout]);
                let mut counts = vk::DescriptorSetVariableDescriptorCountAllocateInfo::default()
                    .descriptor_counts(&counts);
                let info = vk::DescriptorSetAllocateInfo::default()
                    .descriptor_pool(pool)
                    .set_layouts(&layouts)
                    .push_next(&mut counts);
                rig.app.device.allocate_descriptor_sets(&info).unwrap()[0]
            };
            rig.app.write(set, &buffers);
            rig.bind(set);
        })
    };
    assert_eq!(pair(1), STAYS_AND_GOES);
    assert_eq!(pair(0), ALWAYS_STAYS, "the shader reaches a descriptor that the set does not have");
}

#[test]
fn after_a_command_that_nobody_has_heard_of_what_is_bound_is_unknown() {
    for policy in ["alias-only", "narrow", "reorder"] {
        let rig = rig_with(policy);
        // SAFETY: here and below: the mock's commands take nothing but the command buffer, and ignore what else is passed.
        let (future, known) = unsafe {
            type Command = unsafe extern "system" fn(vk::CommandBuffer);
            (
                rig.app.function::<Command>(c"vkCmdFromTheFutureEXT"),
                rig.app.function::<Command>(c"vkCmdSetEvent"),
            )
        };
        let after = |command: unsafe extern "system" fn(vk::CommandBuffer), bound_again: bool| {
            let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
            let log = rig.script(|rig| {
                // SAFETY: as above.
                unsafe { command(rig.commands) };
                rig.app.barrier(rig.commands);
                if bound_again {
                    rig.go(1, [read, one]);
                } else {
                    rig.dispatch(1);
                }
                rig.app.barrier(rig.commands);
                rig.go(2, [read, two]);
            });
            log.trim_end_matches(" B").to_owned()
        };
        assert_eq!(after(known, true), "B 1 2", "{policy}: what was there before is a prefix");
        assert_eq!(after(known, false), "B 1 2", "{policy}: what is bound stays bound");
        assert_eq!(after(future, true), "B 1 B 2", "{policy}: it may have begun rendering");
        assert_eq!(after(future, false), "B 1 B 2", "{policy}: it may have bound something");
    }
}

#[test]
fn nothing_is_bound_again_once_something_unknown_may_have_bound() {
    let rig = rig_with("reorder");
    type Command = unsafe extern "system" fn(vk::CommandBuffer);
    // SAFETY: as above.
    let future: Command = unsafe { rig.app.function(c"vkCmdFromTheFutureEXT") };
    let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
    rig.script(|rig| {
        rig.go(1, [read, one]);
        // SAFETY: as above.
        unsafe { future(rig.commands) };
        // With what the command has bound, whatever that is.
        rig.dispatch(2);
        rig.dispatch(3);
        rig.go(4, [read, two]);
    });
    // SAFETY: as above.
    let calls = unsafe { calls(rig.commands) };
    let at = |wanted: Call| calls.iter().position(|c| *c == wanted).unwrap();
    let (future, last) = (at(Call::Other("vkCmdFromTheFutureEXT")), at(Call::Dispatch([3, 1, 1])));
    let binds = |call: &&Call| matches!(call, Call::Bind { .. } | Call::Other("vkCmdBindPipeline"));
    assert_eq!(calls[future..last].iter().filter(binds).count(), 0, "{calls:?}");
}

#[test]
fn after_a_function_that_nobody_has_heard_of_no_set_is_believed() {
    let rig = Rig::new();
    type Function = unsafe extern "system" fn(vk::Device);
    // SAFETY: the driver's functions ignore their arguments.
    let (known, future): (Function, Function) =
        unsafe { (rig.app.function(c"vkGetPipelineCacheData"), rig.app.function(c"vkFromTheFutureEXT")) };
    let pair = || {
        rig.pair(|rig, buffers| {
            let set = rig.app.sets(rig.set_layout, 1)[0];
            rig.app.write(set, &buffers);
            rig.bind(set);
        })
    };
    // SAFETY: as above.
    unsafe { known(rig.app.device.handle()) };
    assert_eq!(pair(), STAYS_AND_GOES);
    // SAFETY: as above.
    unsafe { future(rig.app.device.handle()) };
    assert_eq!(pair(), ALWAYS_STAYS, "it may have written any of them");
}

/// The sets that are bound where each dispatch is, by number, with the rules of the specification for layouts that disturb each
/// other's sets ("Pipeline Layout Compatibility"); here, one handle of a set layout stands for one definition.
fn bound_at_dispatches(calls: &[Call]) -> Vec<(u32, Vec<Option<u64>>)> {
    let mut bound: Vec<Option<(u64, Vec<u64>)>> = vec![None; 8];
    let mut found = Vec::new();
    for call in calls {
        match call {
            Call::Bind { layout, first, count, set } => {
                assert_eq!(*count, 1, "the test binds them one by one, and so does the layer");
                let (number, sets) = (*first as usize, sets_of_layout(*layout));
                let compatible = |other: &Option<(u64, Vec<u64>)>, at: usize| {
                    other.as_ref().is_some_and(|(_, theirs)| theirs[..=at] == sets[..=at])
                };
                let undisturbed = compatible(&bound[number], number);
                for (at, lower) in bound[..number].iter_mut().enumerate() {
                    if !compatible(lower, at) {
                        *lower = None;
                    }
                }
                if !undisturbed {
                    bound[number + 1..].fill(None);
                }
                bound[number] = Some((*set, sets));
            }
            Call::Dispatch([x, ..]) => {
                found.push((*x, bound.iter().map(|b| b.as_ref().map(|b| b.0)).collect()));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_dispatch_that_is_issued_later_finds_the_sets_that_it_was_recorded_with() {
    remember_layouts();
    for policy in ["stock", "narrow", "reorder"] {
        let rig = rig_with(policy);
        let [pair, three] = [2, 3].map(|n| rig.app.set_layout(Type::STORAGE_BUFFER, n, Default::default()));
        // Set 1 is the same in both, set 0 is not.
        let [other, own] = [[three, pair], [pair, pair]].map(|sets| rig.app.pipeline_layout(&sets));
        let pipeline = rig.app.pipeline(own, &zinc_mock_driver::shader::words(2).unwrap());
        let check = |binds: &[(vk::PipelineLayout, u32)]| {
            let device = &rig.app.device;
            begin(&rig, rig.commands, vk::CommandBufferUsageFlags::empty(), std::ptr::null());
            // SAFETY: as above.
            unsafe { device.cmd_bind_pipeline(rig.commands, COMPUTE, pipeline) };
            let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
            let mut expected = Vec::new();
            for (x, written) in [(1, one), (2, two)] {
                let mut zero = 0;
                for (layout, number) in binds {
                    let shape = if *number == 0 && *layout == other { three } else { pair };
                    let set = rig.app.sets(shape, 1);
                    rig.app.write(set[0], &[read, written]);
                    // SAFETY: as above.
                    unsafe {
                        device.cmd_bind_descriptor_sets(rig.commands, COMPUTE, *layout, *number, &set, &[])
                    };
                    if *number == 0 {
                        zero = set[0].as_raw();
                    }
                }
                expected.push((x, Some(zero)));
                // SAFETY: as above.
                unsafe { device.cmd_dispatch(rig.commands, x, 1, 1) };
                rig.app.barrier(rig.commands);
            }
            rig.app.end(rig.commands);
            // SAFETY: as above.
            let found = bound_at_dispatches(&unsafe { calls(rig.commands) });
            let zero: Vec<_> = found.iter().map(|(x, sets)| (*x, sets[0])).collect();
            assert_eq!(zero, expected, "{policy}, {binds:?}");
        };
        check(&[(own, 0), (own, 1)]);
        // Set 1 comes with a layout whose set 0 is another, and before set 0.
        check(&[(other, 1), (own, 0)]);
        check(&[(own, 0), (own, 1), (other, 1), (own, 0)]);
    }
}

/// Callbacks that are never called: the mock compares where they are.
fn callbacks() -> vk::AllocationCallbacks<'static> {
    vk::AllocationCallbacks::default()
}

#[test]
fn pipeline_layouts_are_destroyed_as_they_were_made_and_as_often() {
    for policy in POLICIES {
        let before = pipeline_layouts();
        let rig = rig_with(policy);
        let callbacks = callbacks();
        let alive = pipeline_layouts().alive;
        for _ in 0..1000 {
            let sets = [rig.set_layout];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            // SAFETY: as above.
            unsafe {
                let layout = rig.app.device.create_pipeline_layout(&info, Some(&callbacks)).unwrap();
                rig.app.device.destroy_pipeline_layout(layout, Some(&callbacks));
            }
        }
        assert_eq!(pipeline_layouts().alive, alive, "{policy}: no layout stays that nothing refers to");
        let [read, one, two] = [(); 3].map(|()| rig.app.buffer(256));
        begin(&rig, rig.commands, vk::CommandBufferUsageFlags::empty(), std::ptr::null());
        let sets = [rig.set_layout];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: as above.
        unsafe {
            let device = &rig.app.device;
            let layout = device.create_pipeline_layout(&info, Some(&callbacks)).unwrap();
            device.cmd_bind_pipeline(rig.commands, COMPUTE, rig.pipeline);
            let set = rig.app.sets(rig.set_layout, 1)[0];
            rig.app.write(set, &[read, one]);
            device.cmd_bind_descriptor_sets(rig.commands, COMPUTE, layout, 0, &[set], &[]);
            rig.dispatch(1);
            rig.app.barrier(rig.commands);
            rig.go(2, [read, two]);
            rig.app.end(rig.commands);
            // Allowed from here on, and what is recorded may be issued again when it is submitted.
            device.destroy_pipeline_layout(layout, Some(&callbacks));
        }
        // SAFETY: as above.
        let calls = unsafe { calls(rig.commands) };
        assert!(calls.contains(&Call::Dispatch([1, 1, 1])), "{policy}: {calls:?}");
        // SAFETY: as above.
        unsafe { rig.app.device.destroy_pipeline_layout(rig.layout, None) };
        drop(rig);
        let after = pipeline_layouts();
        assert_eq!((after.alive, after.wrong), (before.alive, before.wrong), "{policy}: at the device's end");
    }
}
