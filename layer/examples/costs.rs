//! What the layer costs where applications do a great deal of one thing: `cargo run --release -p zinc-barrier --example costs`.
//!
//! The driver below is the mock one, which does nothing, so that all that is measured is the layer and the calls themselves.
//! Each row is a fresh device under one policy. Bytes are those of the process's resident set, before and after; some hundred
//! for each pipeline layout are the mock driver's own.

#[path = "../tests/mock/mod.rs"]
mod mock;

use ash::vk;
use mock::App;
use std::time::Instant;

const COMPUTE: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;

fn app(policy: &str) -> App {
    let negotiate = zinc_barrier::entry::negotiate as *const ();
    // SAFETY: one function pointer as another; the structure is the same.
    let negotiate = unsafe { std::mem::transmute::<*const (), mock::Negotiate>(negotiate) };
    App::with(negotiate, &[("policy", policy), ("report", "off")], false)
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Runs `f` on a fresh device and prints a row.
fn row(what: &str, policy: &str, f: impl FnOnce(&App)) {
    let app = app(policy);
    let (before, began) = (resident(), Instant::now());
    f(&app);
    let (took, stays) = (began.elapsed(), resident().saturating_sub(before));
    println!("| {what} | {policy} | {:.2} s | {} MiB |", took.as_secs_f64(), stays >> 20);
}

/// Allocates and frees so many sets of one pool, one by one, in the order in which they were allocated.
fn sets(app: &App, count: usize) {
    let layout = app.set_layout(vk::DescriptorType::STORAGE_BUFFER, 2, Default::default());
    let layouts = vec![layout; count];
    // SAFETY: here and below: objects are the device's, and alive.
    unsafe {
        let pool = app.device.create_descriptor_pool(&Default::default(), None).unwrap();
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        for set in app.device.allocate_descriptor_sets(&info).unwrap() {
            app.device.free_descriptor_sets(pool, &[set]).unwrap();
        }
    }
}

/// Makes and destroys so many pipeline layouts.
fn layouts(app: &App, count: usize) {
    let sets = [app.set_layout(vk::DescriptorType::STORAGE_BUFFER, 2, Default::default())];
    let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
    for _ in 0..count {
        // SAFETY: as above.
        unsafe {
            let layout = app.device.create_pipeline_layout(&info, None).unwrap();
            app.device.destroy_pipeline_layout(layout, None);
        }
    }
}

/// Allocates so many sets of a layout whose last binding has room for `bound`, each with `count` descriptors.
fn variable(app: &App, sets: usize, bound: u32, count: u32) {
    type Flags = vk::DescriptorBindingFlags;
    let binding = [vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(bound)];
    let flags = [Flags::VARIABLE_DESCRIPTOR_COUNT | Flags::PARTIALLY_BOUND];
    let mut flags = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&flags);
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding).push_next(&mut flags);
    // SAFETY: as above.
    unsafe {
        let layout = app.device.create_descriptor_set_layout(&info, None).unwrap();
        let pool = app.device.create_descriptor_pool(&Default::default(), None).unwrap();
        let (layouts, counts) = (vec![layout; sets], vec![count; sets]);
        let mut counts =
            vk::DescriptorSetVariableDescriptorCountAllocateInfo::default().descriptor_counts(&counts);
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(pool)
            .set_layouts(&layouts)
            .push_next(&mut counts);
        app.device.allocate_descriptor_sets(&info).unwrap();
    }
}

/// Records streams of 50 dispatches, none like another, so many by each of `threads`.
fn streams(app: &App, threads: usize, each: usize) {
    let set_layout = app.set_layout(vk::DescriptorType::STORAGE_BUFFER, 2, Default::default());
    let layout = app.pipeline_layout(&[set_layout]);
    let pipeline = app.pipeline(layout, &zinc_mock_driver::shader::words(2).unwrap());
    let buffers: Vec<_> = (0..24).map(|_| app.buffer(256)).collect();
    let sets: Vec<_> = (0..buffers.len() * buffers.len())
        .map(|pair| {
            let set = app.sets(set_layout, 1)[0];
            app.write(set, &[buffers[pair / buffers.len()], buffers[pair % buffers.len()]]);
            set
        })
        .collect();
    let commands: Vec<_> = (0..threads).map(|_| app.commands()).collect();
    std::thread::scope(|scope| {
        for (thread, commands) in commands.iter().enumerate() {
            let sets = &sets;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                for _ in 0..each {
                    app.begin(*commands);
                    // SAFETY: as above.
                    unsafe { app.device.cmd_bind_pipeline(*commands, COMPUTE, pipeline) };
                    for _ in 0..50 {
                        let set = sets[random.usize(0..sets.len())];
                        // SAFETY: as above.
                        unsafe {
                            app.device.cmd_bind_descriptor_sets(*commands, COMPUTE, layout, 0, &[set], &[]);
                            app.device.cmd_dispatch(*commands, 1, 1, 1);
                        }
                        app.barrier(*commands);
                    }
                    // SAFETY: as above.
                    unsafe { app.device.end_command_buffer(*commands).unwrap() };
                }
            });
        }
    });
}

fn main() {
    println!("| what | policy | took | memory that stays |\n| --- | --- | --- | --- |");
    for policy in ["stock", "alias-only"] {
        for count in [40_000, 160_000] {
            row(&format!("{count} sets freed one by one"), policy, |app| sets(app, count));
        }
    }
    for policy in ["alias-only", "reorder"] {
        row("400000 pipeline layouts made and destroyed", policy, |app| layouts(app, 400_000));
    }
    row("600 sets of up to 500000 descriptors, 16 each", "alias-only", |app| variable(app, 600, 500_000, 16));
    for policy in ["alias-only", "narrow", "reorder"] {
        for threads in [1, 2, 16] {
            let each = 4_000 / threads;
            let what = format!("200000 dispatches in streams none like another, {threads} threads");
            row(&what, policy, |app| streams(app, threads, each));
        }
    }
    row("1000000 dispatches in streams none like another, 2 threads", "narrow", |app| {
        streams(app, 2, 10_000)
    });
}
