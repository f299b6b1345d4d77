//! Recording waits for nobody: a whole command buffer goes through while every lock of the layer is held.

use crate::device::registry;
use ash::vk;
use std::sync::mpsc::channel;
use std::time::Duration;

#[path = "../tests/mock/mod.rs"]
mod mock;

#[test]
fn a_recording_goes_on_while_all_locks_are_held() {
    let negotiate = crate::entry::negotiate as *const ();
    // SAFETY: one function pointer as another; the structure is the same.
    let app = mock::App::new(unsafe { std::mem::transmute::<*const (), mock::Negotiate>(negotiate) });
    let layout = app.set_layout(vk::DescriptorType::STORAGE_BUFFER, 2, Default::default());
    let pipeline_layout = app.pipeline_layout(&[layout]);
    let pipeline = app.pipeline(pipeline_layout, &zinc_mock_driver::shader::words(2).unwrap());
    let (read, written) = (app.buffer(256), app.buffer(256));
    let set = app.sets(layout, 1)[0];
    let commands = app.commands();
    let record = |app: &mock::App| {
        app.write(set, &[read, written]);
        // SAFETY: as in `mock`.
        unsafe {
            app.device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline);
            let point = vk::PipelineBindPoint::COMPUTE;
            app.device.cmd_bind_descriptor_sets(commands, point, pipeline_layout, 0, &[set], &[]);
            app.device.cmd_dispatch(commands, 1, 1, 1);
            app.device.cmd_fill_buffer(commands, written, 0, 16, 0);
        }
        app.barrier(commands);
    };
    app.begin(commands);
    // What was never seen before is worked out once a process, under a lock.
    (0..4).for_each(|_| record(&app));
    let (done, finished) = channel();
    std::thread::scope(|scope| {
        let app = &app;
        let went_on = registry().with_every_lock_held(|| {
            scope.spawn(move || {
                (0..100).for_each(|_| record(app));
                let _ = done.send(());
            });
            finished.recv_timeout(Duration::from_secs(20)).is_ok()
        });
        assert!(went_on, "a recording waits for a lock");
    });
    app.end(commands);
}
