//! Vulkan calls in random order to the layer, on a mock driver whose allocations fail and whose device is lost.
//!
//! An execution is one stream: some tens of calls that make, write, bind, record, submit and destroy, in any order, with
//! objects destroyed while recordings still name them and, now and then, a handle that is gone, null or garbage. What
//! the driver could not survive is held back: command buffers are always live, arrays as long as they say. Handles come
//! back as soon as their objects are destroyed. At the end all is destroyed. A device serves a hundred streams, each
//! device under another policy, so that state that outlives its objects would be met by others.

use ash::vk;
use fastrand::Rng;
use zinc_mock_driver::{calls, fail_after, lose_device, recycle_handles, start_log};

use crate::mock::{App, Negotiate};
use crate::objects::{Commands, Objects};
use crate::{Outcome, Target, record};

/// Streams on one device.
const DEVICE: u64 = 100;

/// The execution with which the device of this execution begins.
pub fn start_of(number: u64) -> u64 {
    number - number % DEVICE
}

const POLICIES: [&str; 6] = ["alias-only", "stock", "narrow", "reorder", "every", "none"];

/// The layer's settings of the device that begins with this execution.
fn settings(number: u64) -> [(&'static str, &'static str); 6] {
    let device = number / DEVICE;
    let on = |of: u64| if device.is_multiple_of(of) { "1" } else { "0" };
    [
        ("ZINC_BARRIER_POLICY", POLICIES[device as usize % POLICIES.len()]),
        ("ZINC_BARRIER_RANGES", if (device / 6).is_multiple_of(2) { "bound" } else { "tight" }),
        ("ZINC_BARRIER_SHUFFLE", if (device / 12).is_multiple_of(3) { "reverse" } else { "off" }),
        ("ZINC_BARRIER_WOULD_EMIT", on(5)),
        ("ZINC_BARRIER_AUDIT", on(7)),
        ("ZINC_BARRIER_REPORT", "off"),
    ]
}

/// The layer under an application that keeps no order.
pub struct Streams {
    app: Option<App>,
    shaders: Vec<Vec<u32>>,
}

impl Streams {
    /// Makes its shaders; devices come as they are needed.
    pub fn new() -> Streams {
        recycle_handles(true);
        start_log();
        let mut shaders: Vec<_> = (2..6).filter_map(|n| zinc_mock_driver::shader::words(n).ok()).collect();
        // No module at all: what the layer makes of it is its own business, and the driver takes anything.
        shaders.push(vec![0x0723_0203, 0x0001_0000, 0, 1, 0]);
        shaders.push(vec![7; 9]);
        Streams { app: None, shaders }
    }

    fn app(&mut self, number: u64) -> &App {
        if number.is_multiple_of(DEVICE) {
            self.app = None;
        }
        self.app.get_or_insert_with(|| {
            for (name, value) in settings(number) {
                // SAFETY: this program has one thread.
                unsafe { std::env::set_var(name, value) };
            }
            let negotiate = zinc_barrier::entry::negotiate as *const ();
            // SAFETY: one function pointer as another; the structure is the same.
            App::new(unsafe { std::mem::transmute::<*const (), Negotiate>(negotiate) })
        })
    }
}

impl Target for Streams {
    fn describe(&self) -> String {
        format!("a new device every {DEVICE} streams, under {} policies in turn", POLICIES.len())
    }

    fn execute(&mut self, number: u64, rng: &mut Rng) -> Outcome {
        let shaders = self.shaders.clone();
        let app = self.app(number);
        let mut stream = Stream { app, shaders: &shaders, failed: false, objects: Objects::default() };
        stream.start(rng);
        for _ in 0..rng.u32(10..60) {
            match rng.u32(0..100) {
                0..=11 => stream.make(rng),
                12..=17 => stream.destroy(rng),
                18..=24 => stream.write(rng),
                25 | 27 => stream.submit(rng),
                // An application records the same again and again.
                26 => stream.again(rng),
                28 => {
                    let results =
                        [vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, vk::Result::ERROR_OUT_OF_HOST_MEMORY];
                    fail_after(Some((rng.u64(0..6), results[rng.usize(0..2)])));
                }
                29 if rng.u32(0..8) == 0 => {
                    lose_device(true);
                    stream.failed = true;
                }
                _ => stream.record(rng),
            }
        }
        fail_after(None);
        stream.finish();
        lose_device(false);
        if stream.failed { Outcome::Refused } else { Outcome::Accepted }
    }

    fn settle(&mut self) {
        self.app = None;
        recycle_handles(true);
        // The planners' memory, which is bounded.
        zinc_hazard::whole::forget_plans();
    }
}

struct Stream<'a> {
    app: &'a App,
    shaders: &'a [Vec<u32>],
    /// Whether a call failed.
    failed: bool,
    objects: Objects,
}

impl Stream<'_> {
    fn got<T>(&mut self, result: Result<T, vk::Result>) -> Option<T> {
        self.failed |= result.is_err();
        result.ok()
    }

    /// What every stream needs to get anywhere.
    fn start(&mut self, rng: &mut Rng) {
        for what in [0, 0, 0, 3, 4, 5, 6, 7, 8, 10, 10] {
            self.make_one(what, rng);
        }
    }

    fn make(&mut self, rng: &mut Rng) {
        self.make_one(rng.u32(0..12), rng);
    }

    fn make_one(&mut self, what: u32, rng: &mut Rng) {
        let device = &self.app.device;
        // SAFETY: what is pointed to outlives the calls; the driver looks at no handle that isn't dispatchable.
        unsafe {
            match what {
                0 | 1 => {
                    let size = [16, 256, 4096, 1 << 20][rng.usize(0..4)];
                    let info = vk::BufferCreateInfo::default()
                        .size(size)
                        .usage(vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_DST);
                    let buffer = device.create_buffer(&info, None);
                    let info = vk::MemoryAllocateInfo::default().allocation_size(size.max(1 << 16));
                    let Some(buffer) = self.got(buffer) else { return };
                    self.objects.buffers.add(buffer);
                    let memory = if rng.u32(0..3) == 0 {
                        self.objects.memory.any(rng)
                    } else {
                        let memory = self.app.device.allocate_memory(&info, None);
                        let Some(memory) = self.got(memory) else { return };
                        self.objects.memory.add(memory);
                        memory
                    };
                    let bound = self.app.device.bind_buffer_memory(buffer, memory, rng.u64(0..4) * 256);
                    self.got(bound);
                    if rng.u32(0..4) == 0 {
                        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
                        self.app.device.get_buffer_device_address(&info);
                    }
                }
                2 => {
                    let info = vk::ImageCreateInfo::default()
                        .image_type(vk::ImageType::TYPE_2D)
                        .format(vk::Format::R8G8B8A8_UNORM)
                        .extent(vk::Extent3D { width: 64, height: 64, depth: 1 })
                        .mip_levels(rng.u32(1..4))
                        .array_layers(rng.u32(1..3));
                    let image = device.create_image(&info, None);
                    let Some(image) = self.got(image) else { return };
                    self.objects.images.add(image);
                    let bound = self.app.device.bind_image_memory(image, self.objects.memory.any(rng), 0);
                    self.got(bound);
                    let info = vk::ImageViewCreateInfo::default().image(image);
                    let view = self.app.device.create_image_view(&info, None);
                    if let Some(view) = self.got(view) {
                        self.objects.views.add(view);
                    }
                }
                3 => {
                    let types = [
                        vk::DescriptorType::STORAGE_BUFFER,
                        vk::DescriptorType::UNIFORM_BUFFER,
                        vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
                        vk::DescriptorType::STORAGE_IMAGE,
                        vk::DescriptorType::INLINE_UNIFORM_BLOCK,
                    ];
                    let odd = rng.u32(0..4) == 0;
                    let bindings: Vec<_> = (0..rng.u32(1..6))
                        .map(|binding| {
                            vk::DescriptorSetLayoutBinding::default()
                                .binding(if odd { binding * 3 } else { binding })
                                .descriptor_type(if odd { types[rng.usize(0..5)] } else { types[0] })
                                .descriptor_count(if odd { rng.u32(0..9) } else { 1 })
                                .stage_flags(vk::ShaderStageFlags::COMPUTE)
                        })
                        .collect();
                    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
                    let made = device.create_descriptor_set_layout(&info, None);
                    if let Some(made) = self.got(made) {
                        self.objects.set_layouts.add(made);
                    }
                }
                4 => {
                    let sets: Vec<_> =
                        (0..rng.u32(0..3)).map(|_| self.objects.set_layouts.any(rng)).collect();
                    let range = [vk::PushConstantRange::default()
                        .size(64)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)];
                    let info = vk::PipelineLayoutCreateInfo::default()
                        .set_layouts(&sets)
                        .push_constant_ranges(&range);
                    let made = device.create_pipeline_layout(&info, None);
                    if let Some(made) = self.got(made) {
                        self.objects.layouts.add(made);
                    }
                }
                5 => {
                    let info = vk::DescriptorPoolCreateInfo::default()
                        .max_sets(64)
                        .flags(vk::DescriptorPoolCreateFlags::FREE_DESCRIPTOR_SET);
                    let made = device.create_descriptor_pool(&info, None);
                    if let Some(made) = self.got(made) {
                        self.objects.pools.add(made);
                    }
                }
                6 => {
                    let layouts: Vec<_> =
                        (0..rng.u32(1..4)).map(|_| self.objects.set_layouts.any(rng)).collect();
                    // Sets live as long as their pool, so a pool that never was would keep them for good.
                    let Some(pool) = self.objects.pools.alive(rng) else { return };
                    let info =
                        vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
                    let made = device.allocate_descriptor_sets(&info);
                    self.got(made).into_iter().flatten().for_each(|set| self.objects.sets.add(set));
                }
                7 => {
                    let words = &self.shaders[rng.usize(0..self.shaders.len())];
                    let made =
                        device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(words), None);
                    if let Some(made) = self.got(made) {
                        self.objects.modules.add(made);
                    }
                }
                8 | 9 => {
                    let infos: Vec<_> = (0..rng.u32(1..4))
                        .map(|_| {
                            let stage = vk::PipelineShaderStageCreateInfo::default()
                                .stage(vk::ShaderStageFlags::COMPUTE)
                                .module(self.objects.modules.any(rng))
                                .name(if rng.u32(0..8) == 0 { c"other" } else { c"main" });
                            vk::ComputePipelineCreateInfo::default()
                                .stage(stage)
                                .layout(self.objects.layouts.any(rng))
                        })
                        .collect();
                    match device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None) {
                        Ok(made) => made.into_iter().for_each(|one| self.objects.pipelines.add(one)),
                        Err((made, _)) => {
                            self.failed = true;
                            let made = made.into_iter().filter(|one| *one != vk::Pipeline::null());
                            made.for_each(|one| self.objects.pipelines.add(one));
                        }
                    }
                }
                10 => {
                    let pool = self.objects.command_pools.alive(rng).filter(|_| rng.bool());
                    let pool = match pool {
                        Some(pool) => pool,
                        None => {
                            let made =
                                device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None);
                            let Some(made) = self.got(made) else { return };
                            self.objects.command_pools.add(made);
                            made
                        }
                    };
                    let secondary = rng.u32(0..4) == 0;
                    let level = match secondary {
                        true => vk::CommandBufferLevel::SECONDARY,
                        false => vk::CommandBufferLevel::PRIMARY,
                    };
                    let made = self.app.commands_of(pool, level);
                    if let Some(handle) = self.got(made) {
                        self.objects.commands.push(Commands { handle, pool, secondary });
                        let begun = self.app.device.begin_command_buffer(
                            handle,
                            &vk::CommandBufferBeginInfo::default()
                                .inheritance_info(&vk::CommandBufferInheritanceInfo::default()),
                        );
                        self.got(begun);
                    }
                }
                _ => {
                    let made = device.create_event(&vk::EventCreateInfo::default(), None);
                    if let Some(made) = self.got(made) {
                        self.objects.events.add(made);
                    }
                }
            }
        }
    }

    fn destroy(&mut self, rng: &mut Rng) {
        let (device, objects) = (&self.app.device, &mut self.objects);
        // SAFETY: each is destroyed once; what still names it does nothing in a driver that executes nothing.
        unsafe {
            match rng.u32(0..14) {
                0 | 1 => objects.buffers.take(rng).into_iter().for_each(|o| device.destroy_buffer(o, None)),
                2 => objects.memory.take(rng).into_iter().for_each(|o| device.free_memory(o, None)),
                3 => objects.images.take(rng).into_iter().for_each(|o| device.destroy_image(o, None)),
                4 => objects.views.take(rng).into_iter().for_each(|o| device.destroy_image_view(o, None)),
                5 => objects
                    .set_layouts
                    .take(rng)
                    .into_iter()
                    .for_each(|o| device.destroy_descriptor_set_layout(o, None)),
                6 => objects
                    .layouts
                    .take(rng)
                    .into_iter()
                    .for_each(|o| device.destroy_pipeline_layout(o, None)),
                7 => {
                    objects.modules.take(rng).into_iter().for_each(|o| device.destroy_shader_module(o, None))
                }
                8 => objects.pipelines.take(rng).into_iter().for_each(|o| device.destroy_pipeline(o, None)),
                9 => objects.events.take(rng).into_iter().for_each(|o| device.destroy_event(o, None)),
                10 => {
                    if let Some(set) = objects.sets.take(rng) {
                        let freed = device.free_descriptor_sets(objects.pools.any(rng), &[set]);
                        self.failed |= freed.is_err();
                    }
                }
                11 => {
                    objects.pools.take(rng).into_iter().for_each(|o| device.destroy_descriptor_pool(o, None))
                }
                12 if !objects.commands.is_empty() => {
                    let one = objects.commands.swap_remove(rng.usize(0..objects.commands.len()));
                    device.free_command_buffers(one.pool, &[one.handle]);
                }
                13 if rng.bool() => {
                    if let Some(pool) = objects.command_pools.take(rng) {
                        objects.commands.retain(|one| one.pool != pool);
                        device.destroy_command_pool(pool, None);
                    }
                }
                _ => {
                    let reset = device
                        .reset_descriptor_pool(objects.pools.any(rng), vk::DescriptorPoolResetFlags::empty());
                    self.failed |= reset.is_err();
                }
            }
        }
    }

    fn write(&mut self, rng: &mut Rng) {
        let objects = &self.objects;
        let buffers: Vec<_> = (0..rng.usize(1..6))
            .map(|_| {
                vk::DescriptorBufferInfo::default()
                    .buffer(objects.buffers.any(rng))
                    .offset(rng.u64(0..3) * 64)
                    .range([vk::WHOLE_SIZE, 64, 4096, u64::MAX - 1][rng.usize(0..4)])
            })
            .collect();
        let images = [vk::DescriptorImageInfo::default().image_view(objects.views.any(rng))];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(objects.sets.any(rng))
            .dst_binding(if rng.u32(0..3) == 0 { rng.u32(0..12) } else { 0 })
            .dst_array_element(if rng.u32(0..8) == 0 { rng.u32(0..9) } else { 0 });
        let write = match rng.u32(0..5) {
            0 => write.descriptor_type(vk::DescriptorType::STORAGE_IMAGE).image_info(&images),
            _ => write.descriptor_type(vk::DescriptorType::STORAGE_BUFFER).buffer_info(&buffers),
        };
        let copy = vk::CopyDescriptorSet::default()
            .src_set(objects.sets.any(rng))
            .dst_set(objects.sets.any(rng))
            .src_binding(rng.u32(0..3))
            .dst_binding(rng.u32(0..3))
            .descriptor_count(rng.u32(0..4));
        let copies = if rng.u32(0..5) == 0 { vec![copy] } else { Vec::new() };
        // SAFETY: arrays are as long as they say.
        unsafe { self.app.device.update_descriptor_sets(&[write], &copies) };
    }

    fn submit(&mut self, rng: &mut Rng) {
        if self.objects.commands.is_empty() {
            return;
        }
        let device = &self.app.device;
        let picked: Vec<_> = (0..rng.usize(1..4))
            .map(|_| self.objects.commands[rng.usize(0..self.objects.commands.len())])
            .filter(|one| !one.secondary)
            .map(|one| one.handle)
            .collect();
        // SAFETY: command buffers live; the driver executes nothing.
        let results = unsafe {
            let ended: Vec<_> = match rng.u32(0..4) {
                0 => Vec::new(),
                _ => picked.iter().map(|one| device.end_command_buffer(*one)).collect(),
            };
            let queue = device.get_device_queue(0, 0);
            let info = vk::SubmitInfo::default().command_buffers(&picked);
            let submitted = device.queue_submit(queue, &[info], vk::Fence::null());
            let waited = if rng.bool() { device.queue_wait_idle(queue) } else { device.device_wait_idle() };
            ended.into_iter().chain([submitted, waited]).collect::<Vec<_>>()
        };
        results.into_iter().for_each(|result| self.failed |= result.is_err());
    }

    /// Records the same into one command buffer several times, perhaps with another set in between, and then into a new one:
    /// what reaches the driver must not depend on what the layer remembers.
    ///
    /// # Panics
    ///
    /// When it does.
    fn again(&mut self, rng: &mut Rng) {
        let Some(one) = self.objects.commands.iter().copied().find(|one| !one.secondary) else { return };
        let seed = rng.u64(..);
        for _ in 0..2 {
            let recorded = record::whole(self.app, &self.objects, one, seed);
            self.got(recorded);
        }
        if rng.bool() {
            self.write(rng);
        }
        let recorded = record::whole(self.app, &self.objects, one, seed);
        let repeated = self.got(recorded);
        let Ok(new) = self.app.commands_of(one.pool, vk::CommandBufferLevel::PRIMARY) else { return };
        let new = Commands { handle: new, ..one };
        let recorded = record::whole(self.app, &self.objects, new, seed);
        let first = self.got(recorded);
        // SAFETY: both live.
        let (one_calls, new_calls) = unsafe { (calls(one.handle), calls(new.handle)) };
        // SAFETY: as above, and no other names it.
        unsafe { self.app.device.free_command_buffers(new.pool, &[new.handle]) };
        if repeated.is_some() && first.is_some() {
            assert_eq!(one_calls, new_calls, "recorded for the third time, then for the first");
        }
    }

    fn record(&mut self, rng: &mut Rng) {
        if self.objects.commands.is_empty() {
            return;
        }
        let one = self.objects.commands[rng.usize(0..self.objects.commands.len())];
        let result = record::command(self.app, &self.objects, one, rng);
        self.got(result);
    }

    fn finish(&mut self) {
        let (device, objects) = (&self.app.device, &mut self.objects);
        // SAFETY: each lives, and is destroyed once.
        unsafe {
            objects.command_pools.drain().into_iter().for_each(|o| device.destroy_command_pool(o, None));
            objects.pools.drain().into_iter().for_each(|o| device.destroy_descriptor_pool(o, None));
            objects.pipelines.drain().into_iter().for_each(|o| device.destroy_pipeline(o, None));
            objects.modules.drain().into_iter().for_each(|o| device.destroy_shader_module(o, None));
            objects.layouts.drain().into_iter().for_each(|o| device.destroy_pipeline_layout(o, None));
            objects
                .set_layouts
                .drain()
                .into_iter()
                .for_each(|o| device.destroy_descriptor_set_layout(o, None));
            objects.views.drain().into_iter().for_each(|o| device.destroy_image_view(o, None));
            objects.images.drain().into_iter().for_each(|o| device.destroy_image(o, None));
            objects.buffers.drain().into_iter().for_each(|o| device.destroy_buffer(o, None));
            objects.memory.drain().into_iter().for_each(|o| device.free_memory(o, None));
            objects.events.drain().into_iter().for_each(|o| device.destroy_event(o, None));
        }
    }
}
