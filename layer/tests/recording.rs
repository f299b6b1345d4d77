//! Recordings beside each other, objects that come and go, and commands that nobody has heard of.

mod mock;

use ash::vk;
use mock::App;
use zinc_mock_driver::{Call, calls, reuse_handles};

const COMPUTE: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;

fn app() -> App {
    let negotiate = zinc_barrier::entry::negotiate as *const ();
    // SAFETY: one function pointer as another; the structure is the same.
    App::new(unsafe { std::mem::transmute::<*const (), mock::Negotiate>(negotiate) })
}

/// A pipeline that reads one buffer and writes another, and a set for each pair of buffers.
struct Kernel {
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    set_layout: vk::DescriptorSetLayout,
}

impl Kernel {
    fn new(app: &App) -> Kernel {
        let set_layout = app.set_layout(vk::DescriptorType::STORAGE_BUFFER, 2, Default::default());
        let layout = app.pipeline_layout(&[set_layout]);
        let pipeline = app.pipeline(layout, &zinc_mock_driver::shader::words(2).unwrap());
        Kernel { layout, pipeline, set_layout }
    }

    fn set(&self, app: &App, buffers: [vk::Buffer; 2]) -> vk::DescriptorSet {
        let set = app.sets(self.set_layout, 1)[0];
        app.write(set, &buffers);
        set
    }

    fn dispatch(&self, app: &App, commands: vk::CommandBuffer, set: vk::DescriptorSet, x: u32) {
        // SAFETY: as in `mock`.
        unsafe {
            app.device.cmd_bind_pipeline(commands, COMPUTE, self.pipeline);
            app.device.cmd_bind_descriptor_sets(commands, COMPUTE, self.layout, 0, &[set], &[]);
            app.device.cmd_dispatch(commands, x, 1, 1);
        }
    }
}

/// Records four dispatches with barriers between them, of which the last reads what the second wrote.
fn record(app: &App, kernel: &Kernel, commands: vk::CommandBuffer, sets: &[vk::DescriptorSet; 4]) -> String {
    app.begin(commands);
    for (x, set) in (1..).zip(sets) {
        kernel.dispatch(app, commands, *set, x);
        app.barrier(commands);
    }
    app.end(commands)
}

fn sets(app: &App, kernel: &Kernel) -> [vk::DescriptorSet; 4] {
    let b: [vk::Buffer; 6] = std::array::from_fn(|_| app.buffer(256));
    [[b[0], b[1]], [b[0], b[2]], [b[0], b[3]], [b[2], b[4]]].map(|pair| kernel.set(app, pair))
}

/// The first barrier is for what may have come before, the last for what may follow.
const RECORDED: &str = "1 B 2 3 B 4 B";

#[test]
fn two_devices_of_two_instances_know_nothing_of_each_other() {
    let (one, two) = (app(), app());
    let kernels = [Kernel::new(&one), Kernel::new(&two)];
    let all = [sets(&one, &kernels[0]), sets(&two, &kernels[1])];
    assert_eq!(record(&one, &kernels[0], one.commands(), &all[0]), RECORDED);
    assert_eq!(record(&two, &kernels[1], two.commands(), &all[1]), RECORDED);
    drop(one);
    assert_eq!(record(&two, &kernels[1], two.commands(), &all[1]), RECORDED, "once the other is gone, too");
}

#[test]
fn what_a_recording_has_in_common_with_the_last_one_changes_no_answer() {
    let app = app();
    let kernel = Kernel::new(&app);
    let b: [vk::Buffer; 6] = std::array::from_fn(|_| app.buffer(256));
    let mut all = [[b[0], b[1]], [b[0], b[2]], [b[0], b[3]], [b[2], b[4]]].map(|pair| kernel.set(&app, pair));
    let commands = app.commands();
    let again = |all: &[vk::DescriptorSet; 4]| record(&app, &kernel, commands, all);
    for _ in 0..3 {
        assert_eq!(again(&all), RECORDED);
    }
    app.write(all[3], &[b[0], b[4]]);
    assert_eq!(again(&all), "1 B 2 3 4 B", "the same set no longer reads what the second wrote");
    app.write(all[3], &[b[0], b[5]]);
    assert_eq!(again(&all), "1 B 2 3 4 B", "and so it is with other contents of which the same follows");
    app.write(all[3], &[b[3], b[5]]);
    assert_eq!(again(&all), "1 B 2 3 B 4 B");
    // SAFETY: as in `mock`.
    unsafe {
        let copy = vk::CopyDescriptorSet::default().src_set(all[0]).dst_set(all[3]).descriptor_count(1);
        app.device.update_descriptor_sets(&[], &[copy]);
    }
    assert_eq!(again(&all), "1 B 2 3 4 B", "a copy changes a set, too");
    all.swap(1, 3);
    assert_eq!(again(&all), "1 B 2 3 4 B", "other sets");
    all[3] = kernel.set(&app, [b[5], b[4]]);
    assert_eq!(again(&all), "1 B 2 3 B 4 B", "a set that there was not");
    let other = Kernel::new(&app);
    assert_eq!(record(&app, &other, commands, &all), "1 B 2 3 B 4 B", "another pipeline");
}

#[test]
fn command_buffers_that_are_allocated_again_owe_nothing_to_those_that_were_freed() {
    let app = app();
    let kernel = Kernel::new(&app);
    let (all, mut others) = (sets(&app, &kernel), sets(&app, &kernel));
    others.swap(1, 2);
    // SAFETY: as in `mock`.
    unsafe {
        let pool = app.device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap();
        for round in 0..20 {
            let commands = app.commands_of(pool, vk::CommandBufferLevel::PRIMARY).unwrap();
            let (sets, expected) = if round % 3 == 1 { (&others, "1 B 2 3 B 4 B") } else { (&all, RECORDED) };
            match round % 5 {
                // Freed in the middle of a recording.
                4 => {
                    app.begin(commands);
                    kernel.dispatch(&app, commands, sets[0], 1);
                }
                _ => assert_eq!(record(&app, &kernel, commands, sets), expected, "round {round}"),
            }
            app.device.free_command_buffers(pool, &[commands]);
        }
    }
}

#[test]
fn the_layer_is_the_first_of_the_tools_that_are_active() {
    let app = app();
    assert_eq!(app.tools(None), (vk::Result::SUCCESS, 1, String::new()));
    assert_eq!(app.tools(Some(0)), (vk::Result::INCOMPLETE, 0, String::new()));
    assert_eq!(app.tools(Some(4)), (vk::Result::SUCCESS, 1, "zinc_barrier".into()));
}

#[test]
fn many_threads_record_at_once_while_objects_come_and_go() {
    let app = app();
    let kernel = Kernel::new(&app);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let sets = sets(&app, &kernel);
                    assert_eq!(record(&app, &kernel, app.commands(), &sets), RECORDED);
                    let gone = app.buffer(64);
                    // SAFETY: as in `mock`.
                    unsafe { app.device.destroy_buffer(gone, None) };
                }
            });
        }
    });
}

#[test]
fn a_command_from_the_future_comes_after_all_that_waits() {
    let app = app();
    let kernel = Kernel::new(&app);
    let [one, two, three, _] = sets(&app, &kernel);
    let commands = app.commands();
    // SAFETY: the driver's function takes the command buffer and no more.
    let future: unsafe extern "system" fn(vk::CommandBuffer) =
        unsafe { app.function(c"vkCmdFromTheFutureEXT") };
    app.begin(commands);
    kernel.dispatch(&app, commands, one, 1);
    app.barrier(commands);
    // SAFETY: as above.
    unsafe { future(commands) };
    kernel.dispatch(&app, commands, two, 2);
    kernel.dispatch(&app, commands, three, 3);
    // SAFETY: the driver's own.
    let log = unsafe {
        app.device.end_command_buffer(commands).unwrap();
        calls(commands)
    };
    let at = |wanted: &dyn Fn(&Call) -> bool| log.iter().position(wanted).unwrap();
    let (barrier, command) =
        (at(&|c| matches!(c, Call::Barrier { .. })), at(&|c| *c == Call::Other("vkCmdFromTheFutureEXT")));
    let (first, second) =
        (at(&|c| *c == Call::Dispatch([1, 1, 1])), at(&|c| *c == Call::Dispatch([2, 1, 1])));
    assert!(first < barrier && barrier < command && command < second, "{log:?}");
}

/// Whether a barrier towards writes stays between two dispatches that have nothing in common, inside or outside of
/// conditional rendering.
fn write_after_predicate(
    app: &App,
    kernel: &Kernel,
    sets: &[vk::DescriptorSet; 4],
    conditional: bool,
) -> String {
    let commands = app.commands();
    // SAFETY: as in `mock`; the names' types, with arguments that the driver does not look at.
    unsafe {
        let begin: unsafe extern "system" fn(vk::CommandBuffer, *const u8) =
            app.function(c"vkCmdBeginConditionalRenderingEXT");
        let end: unsafe extern "system" fn(vk::CommandBuffer) =
            app.function(c"vkCmdEndConditionalRenderingEXT");
        app.begin(commands);
        if conditional {
            begin(commands, std::ptr::null());
        }
        let barrier = || {
            let (from, to) =
                (vk::PipelineStageFlags::CONDITIONAL_RENDERING_EXT, vk::PipelineStageFlags::COMPUTE_SHADER);
            let none = vk::DependencyFlags::empty();
            app.device.cmd_pipeline_barrier(commands, from, to, none, &[], &[], &[]);
        };
        kernel.dispatch(app, commands, sets[0], 1);
        barrier();
        kernel.dispatch(app, commands, sets[1], 2);
        barrier();
        kernel.dispatch(app, commands, sets[2], 3);
        if conditional {
            end(commands);
        }
    }
    app.end(commands)
}

#[test]
fn a_dispatch_under_conditional_rendering_reads_the_predicate() {
    let app = app();
    let kernel = Kernel::new(&app);
    let sets = sets(&app, &kernel);
    assert_eq!(write_after_predicate(&app, &kernel, &sets, false), "1 B 2 3");
    assert_eq!(write_after_predicate(&app, &kernel, &sets, true), "1 B 2 B 3");
}

#[test]
fn the_same_handle_of_a_new_object_is_a_new_object() {
    let app = app();
    let kernel = Kernel::new(&app);
    let [read, aside] = [(); 2].map(|()| app.buffer(256));
    let commands = app.commands();
    let other = kernel.set(&app, [read, aside]);
    // SAFETY: as in `mock`; what is destroyed is used by nothing that is submitted.
    unsafe {
        let make = || {
            let info = vk::BufferCreateInfo::default().size(256);
            let buffer = app.device.create_buffer(&info, None).unwrap();
            let memory = app.device.allocate_memory(&vk::MemoryAllocateInfo::default(), None).unwrap();
            app.device.bind_buffer_memory(buffer, memory, 0).unwrap();
            (buffer, memory)
        };
        reuse_handles(true);
        let (first, first_memory) = make();
        reuse_handles(false);
        let one = kernel.set(&app, [read, first]);
        let again = kernel.set(&app, [read, first]);
        app.begin(commands);
        kernel.dispatch(&app, commands, other, 8);
        app.barrier(commands);
        kernel.dispatch(&app, commands, other, 9);
        kernel.dispatch(&app, commands, one, 1);
        app.device.destroy_buffer(first, None);
        app.device.free_memory(first_memory, None);
        reuse_handles(true);
        let (second, second_memory) = make();
        reuse_handles(false);
        assert_eq!((first, first_memory), (second, second_memory));
        let two = kernel.set(&app, [read, second]);
        app.barrier(commands);
        kernel.dispatch(&app, commands, two, 2);
        // A set that was written with the first still means the first.
        kernel.dispatch(&app, commands, again, 3);
        assert_eq!(app.end(commands), "8 B 9 1 2 B 3");
    }
}

/// A submission under slices to a driver that executes nothing, so that what it computes by them is wrong.
#[test]
fn a_submission_whose_memory_stays_as_it_was() {
    let app = app();
    zinc_mock_driver::map_memory(1 << 20);
    let kernel = Kernel::new(&app);
    let sets = sets(&app, &kernel);
    let commands = app.commands();
    record(&app, &kernel, commands, &sets);
    let queue = app.queue();
    let buffers = [commands];
    let submit = [vk::SubmitInfo::default().command_buffers(&buffers)];
    for _ in 0..2 {
        // SAFETY: as in `mock`.
        unsafe { app.device.queue_submit(queue, &submit, vk::Fence::null()).unwrap() };
    }
}

#[test]
fn on_a_driver_that_computes_other_numbers_by_bases_nothing_is_cut_and_it_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let output = mock::this_program()
        .args(["--exact", "--nocapture", "a_submission_whose_memory_stays_as_it_was"])
        .env("ZINC_BARRIER_SLICE", "1")
        .env("ZINC_BARRIER_REPORT", &report)
        .output()
        .expect("the test can be started again");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().filter(|l| l.contains("ZINC_BARRIER_SLICE is off")).collect();
    let [line] = lines[..] else { panic!("{said}") };
    assert!(line.contains("computes other numbers") && line.contains(" wrong)"), "{line}");
    let text = std::fs::read_to_string(&report).expect("a report was written");
    assert!(text.contains("ZINC_BARRIER_SLICE is off"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let replayed = &report["replayed"];
    assert_eq!((&replayed["cut"], &replayed["replayed"]), (&0.into(), &2.into()), "{text}");
}
