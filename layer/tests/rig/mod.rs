//! A device under the layer with what most tests of a rule use, and a question: does this barrier stay?
#![allow(dead_code, reason = "each test binary uses a part")]

use crate::mock::{self, App};
use ash::vk;
use vk::DescriptorType as Type;

pub const COMPUTE: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;

/// A device, and what most tests use of it.
pub struct Rig {
    /// The device.
    pub app: App,
    /// Of two bindings.
    pub set_layout: vk::DescriptorSetLayout,
    /// Of one such set.
    pub layout: vk::PipelineLayout,
    /// Reads binding 0, writes binding 1.
    pub pipeline: vk::Pipeline,
    /// What is recorded into.
    pub commands: vk::CommandBuffer,
    /// Of a dispatch that nothing has to do with.
    pub aside: vk::DescriptorSet,
}

/// A device, with settings of the layer that the application makes, and `robustBufferAccess` if it is wanted.
pub fn app_with(settings: &[(&str, &str)], robust: bool) -> App {
    let negotiate = zinc_barrier::entry::negotiate as *const ();
    // SAFETY: one function pointer as another; the structure is the same.
    App::with(unsafe { std::mem::transmute::<*const (), mock::Negotiate>(negotiate) }, settings, robust)
}

impl Rig {
    pub fn new() -> Rig {
        Rig::of(Type::STORAGE_BUFFER, vk::DescriptorSetLayoutCreateFlags::empty())
    }

    /// With a set layout of two bindings of a type.
    pub fn of(ty: Type, flags: vk::DescriptorSetLayoutCreateFlags) -> Rig {
        Rig::on(app_with(&[], false), ty, flags)
    }

    /// The same on a device.
    pub fn on(app: App, ty: Type, flags: vk::DescriptorSetLayoutCreateFlags) -> Rig {
        let plain = app.set_layout(Type::STORAGE_BUFFER, 2, Default::default());
        let set_layout = app.set_layout(ty, 2, flags);
        let layout = app.pipeline_layout(&[set_layout]);
        let pipeline = app.pipeline(layout, &zinc_mock_driver::shader::words(2).unwrap());
        let aside = app.sets(plain, 1)[0];
        app.write(aside, &[app.buffer(64), app.buffer(64)]);
        let commands = app.commands();
        Rig { app, set_layout, layout, pipeline, commands, aside }
    }

    pub fn bind(&self, set: vk::DescriptorSet) {
        // SAFETY: here and below as in `mock`.
        unsafe {
            self.app.device.cmd_bind_descriptor_sets(self.commands, COMPUTE, self.layout, 0, &[set], &[])
        }
    }

    pub fn dispatch(&self, x: u32) {
        // SAFETY: as above.
        unsafe { self.app.device.cmd_dispatch(self.commands, x, 1, 1) }
    }

    /// Whether a barrier that is asked between two dispatches reaches the driver; `prepare` binds for each, 1 and 2.
    pub fn needs(&self, prepare: impl Fn(u32)) -> bool {
        let log = self.script(|_| {
            for x in [1, 2] {
                prepare(x);
                self.dispatch(x);
                if x == 1 {
                    self.app.barrier(self.commands);
                }
            }
        });
        match log.strip_suffix(" B").unwrap_or(&log) {
            "1 B 2" => true,
            "1 2" => false,
            other => panic!("{other}"),
        }
    }

    /// What reaches the driver of a recording in which the prefix needs nothing any more.
    pub fn script(&self, record: impl FnOnce(&Rig)) -> String {
        self.app.begin(self.commands);
        // SAFETY: as above.
        unsafe { self.app.device.cmd_bind_pipeline(self.commands, COMPUTE, self.pipeline) };
        self.bind(self.aside);
        self.dispatch(9);
        self.app.barrier(self.commands);
        self.dispatch(9);
        record(self);
        let log = self.app.end(self.commands);
        log.strip_prefix("9 B 9").unwrap_or_else(|| panic!("{log}")).trim_start().to_owned()
    }

    /// Binds a set of these buffers, read and written.
    pub fn bind_buffers(&self, buffers: [vk::Buffer; 2]) {
        let set = self.app.sets(self.set_layout, 1)[0];
        self.app.write(set, &buffers);
        self.bind(set);
    }

    /// The same, and dispatches `x` workgroups.
    pub fn go(&self, x: u32, buffers: [vk::Buffer; 2]) {
        self.bind_buffers(buffers);
        self.dispatch(x);
    }

    /// Asks for a barrier with these stages and accesses.
    pub fn barrier(
        &self,
        from: (vk::PipelineStageFlags, vk::AccessFlags),
        to: (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let memory = [vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1)];
        let (device, none) = (&self.app.device, vk::DependencyFlags::empty());
        // SAFETY: as above.
        unsafe { device.cmd_pipeline_barrier(self.commands, from.0, to.0, none, &memory, &[], &[]) };
    }

    /// Two dispatches that write to one buffer, and two that write to different ones.
    pub fn pair(&self, prepare: impl Fn(&Rig, [vk::Buffer; 2])) -> (bool, bool) {
        let [read, one, two] = [(); 3].map(|()| self.app.buffer(256));
        let same = self.needs(|_| prepare(self, [read, one]));
        let apart = self.needs(|x| prepare(self, [read, if x == 1 { one } else { two }]));
        (same, apart)
    }
}

pub const STAYS_AND_GOES: (bool, bool) = (true, false);
pub const ALWAYS_STAYS: (bool, bool) = (true, true);
