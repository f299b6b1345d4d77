//! A recording that was made once before costs no allocation.

mod mock;

use ash::vk;
use mock::App;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator, with a count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the caller.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: by the caller.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DISPATCHES: usize = 400;

#[test]
fn a_warm_recording_allocates_nothing() {
    let negotiate = zinc_barrier::entry::negotiate as *const ();
    // SAFETY: one function pointer as another; the structure is the same.
    let app = App::new(unsafe { std::mem::transmute::<*const (), mock::Negotiate>(negotiate) });
    let layout = app.set_layout(vk::DescriptorType::STORAGE_BUFFER, 4, Default::default());
    let pipeline_layout = app.pipeline_layout(&[layout]);
    let pipeline = app.pipeline(pipeline_layout, &zinc_mock_driver::shader::words(4).unwrap());
    let buffers: Vec<_> = (0..DISPATCHES + 3).map(|_| app.buffer(256)).collect();
    let sets = app.sets(layout, DISPATCHES);
    for chained in [true, false] {
        for (i, set) in sets.iter().enumerate() {
            let source = if chained { buffers[2 + i] } else { buffers[0] };
            app.write(*set, &[source, buffers[0], buffers[1], buffers[3 + i]]);
        }
        let commands = app.commands();
        let record = || {
            let access = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
            let barrier = [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
            let (stage, none) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::DependencyFlags::empty());
            let infos = [vk::DescriptorBufferInfo::default().buffer(buffers[0]).range(256)];
            app.begin(commands);
            let before = COUNT.get();
            for set in &sets {
                let write = vk::WriteDescriptorSet::default()
                    .dst_set(*set)
                    .dst_binding(1)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(&infos);
                // SAFETY: as in `mock`.
                unsafe {
                    app.device.update_descriptor_sets(&[write], &[]);
                    app.device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline);
                    app.device.cmd_bind_descriptor_sets(
                        commands,
                        vk::PipelineBindPoint::COMPUTE,
                        pipeline_layout,
                        0,
                        &[*set],
                        &[],
                    );
                    let constants = [0u8; 16];
                    let stages = vk::ShaderStageFlags::COMPUTE;
                    app.device.cmd_push_constants(commands, pipeline_layout, stages, 0, &constants);
                    app.device.cmd_dispatch(commands, 1, 1, 1);
                    app.device.cmd_fill_buffer(commands, buffers[1], 0, 16, 0);
                    app.device.cmd_pipeline_barrier(commands, stage, stage, none, &barrier, &[], &[]);
                }
            }
            let allocated = COUNT.get() - before;
            app.end(commands);
            allocated
        };
        let cold = record();
        // Sets of ranges trade places from one recording to the next, and each grows once to what the largest needs.
        for _ in 0..8 {
            record();
        }
        let warm = (0..3).map(|_| record()).sum::<u64>();
        assert!(cold > 0, "the count counts");
        assert_eq!(
            warm, 0,
            "{warm} allocations in {DISPATCHES} dispatches, chained: {chained}; the first time {cold}"
        );
    }
}

#[test]
fn neither_does_one_whose_shaders_are_followed_to_the_bytes_that_they_touch() {
    let output = mock::this_program()
        .args(["--exact", "a_warm_recording_allocates_nothing"])
        .env("ZINC_BARRIER_RANGES", "tight")
        .output()
        .expect("the test can be started again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
