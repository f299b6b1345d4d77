//! Plays a program on a device: memory, sets and command buffers as the program has them, one to one.

use anyhow::{Context, Result, ensure};
use ash::vk;
use zinc_hazard::{Barrier, Flags, Scope, Stages};

use crate::gpu::{ADDRESS_AT, ARRAY, Gpu, Shape};
use crate::program::{BLOCK, Kernel, Noise, Op, Origin, Place, Program, Recording, Step, WORDS, Way, update};

const COMPUTE: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;
const STAGE: vk::ShaderStageFlags = vk::ShaderStageFlags::COMPUTE;
/// A pointer that nobody may follow.
const NOWHERE: usize = 0xdead_0000_beef;

/// A kind of barrier.
pub struct BarrierKind {
    /// What it orders.
    pub scopes: Barrier,
    /// By synchronization2.
    second: bool,
    /// One for each buffer, in place of one for all memory.
    buffers: bool,
    /// Whether whatever comes after is ordered against whatever came before.
    pub orders_everything: bool,
}

const fn scope(stages: Stages, flags: Flags) -> Scope {
    Scope { stages, flags }
}

const fn kind(src: Scope, dst: Scope, second: bool, orders_everything: bool) -> BarrierKind {
    BarrierKind { scopes: Barrier { src, dst }, second, buffers: false, orders_everything }
}

const ANY: Flags = Flags::MEMORY_READ.union(Flags::MEMORY_WRITE);
const USED: Stages = Stages::COMPUTE_SHADER.union(Stages::ALL_TRANSFER).union(Stages::DRAW_INDIRECT);
const APIECE: Stages =
    Stages::COMPUTE_SHADER.union(Stages::COPY).union(Stages::CLEAR).union(Stages::DRAW_INDIRECT);
const FLAGS: Flags = Flags::SHADER_STORAGE_READ
    .union(Flags::SHADER_STORAGE_WRITE)
    .union(Flags::TRANSFER_READ)
    .union(Flags::TRANSFER_WRITE)
    .union(Flags::INDIRECT_COMMAND_READ);

/// All kinds that programs use. The first is everything to everything.
pub const BARRIERS: [BarrierKind; 9] = [
    kind(scope(Stages::ALL_COMMANDS, ANY), scope(Stages::ALL_COMMANDS, ANY), false, true),
    kind(scope(USED, ANY), scope(USED, ANY), false, true),
    kind(scope(USED, Flags::MEMORY_WRITE), scope(USED, ANY), true, true),
    kind(scope(APIECE, FLAGS), scope(APIECE, FLAGS), true, true),
    BarrierKind { buffers: true, ..kind(scope(USED, ANY), scope(USED, ANY), false, true) },
    kind(
        scope(Stages::COMPUTE_SHADER, Flags::SHADER_WRITE),
        scope(Stages::COMPUTE_SHADER, Flags::SHADER_READ),
        false,
        false,
    ),
    kind(scope(Stages::ALL_TRANSFER, Flags::TRANSFER_WRITE), scope(Stages::COMPUTE_SHADER, ANY), true, false),
    kind(scope(Stages::COMPUTE_SHADER, ANY), scope(Stages::ALL_TRANSFER, Flags::TRANSFER_READ), false, false),
    kind(scope(USED, Flags::empty()), scope(USED, Flags::empty()), false, false),
];

/// Memory as it is on the device.
struct Memory {
    handle: vk::DeviceMemory,
    /// Where the first block is, for the host and in the allocation.
    at: *mut u8,
    base: u64,
}

/// What a program has made, and must destroy.
#[derive(Default)]
struct Made {
    layouts: Vec<vk::PipelineLayout>,
    templates: Vec<vk::DescriptorUpdateTemplate>,
    events: Vec<vk::Event>,
    semaphores: Vec<vk::Semaphore>,
    /// Whose memory was freed before.
    dead: Vec<vk::Buffer>,
}

struct Player<'a> {
    gpu: &'a Gpu,
    program: &'a Program,
    memories: Vec<Memory>,
    buffers: Vec<vk::Buffer>,
    host: Vec<(*mut u8, std::alloc::Layout)>,
    sets: [vk::DescriptorPool; 2],
    pool: vk::CommandPool,
    queries: vk::QueryPool,
    labels: ash::ext::debug_utils::Device,
    strange: vk::DescriptorSet,
    made: Made,
}

/// Plays a program; the result is what its stores hold. `None` where the device can't have what it needs.
///
/// # Errors
///
/// The device's.
pub fn play(gpu: &Gpu, program: &Program) -> Result<Option<Vec<Vec<u32>>>> {
    let mut player = Player::new(gpu, program)?;
    let played = player.all();
    let stores = player.stores();
    player.finish();
    played.map(|played| played.then_some(stores))
}

impl<'a> Player<'a> {
    fn new(gpu: &'a Gpu, program: &'a Program) -> Result<Player<'a>> {
        let types = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::STORAGE_BUFFER_DYNAMIC];
        let sizes = types.map(|ty| vk::DescriptorPoolSize::default().ty(ty).descriptor_count(2048));
        let pool =
            |flags| vk::DescriptorPoolCreateInfo::default().flags(flags).max_sets(512).pool_sizes(&sizes);
        let queries = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
        let commands = vk::CommandPoolCreateInfo::default().queue_family_index(gpu.family);
        // SAFETY: the device is alive, structures live through the calls.
        unsafe {
            let device = &gpu.device;
            Ok(Player {
                gpu,
                program,
                memories: Vec::new(),
                buffers: Vec::new(),
                host: Vec::new(),
                sets: [
                    device.create_descriptor_pool(&pool(vk::DescriptorPoolCreateFlags::empty()), None)?,
                    device.create_descriptor_pool(
                        &pool(vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND),
                        None,
                    )?,
                ],
                pool: device.create_command_pool(&commands, None)?,
                queries: device.create_query_pool(&queries, None)?,
                labels: ash::ext::debug_utils::Device::new(&gpu.instance, device),
                strange: vk::DescriptorSet::null(),
                made: Made::default(),
            })
        }
    }

    /// Does all of it; says whether the device could.
    fn all(&mut self) -> Result<bool> {
        for number in 0..self.program.memories.len() {
            let Some(memory) = self.memory(number)? else { return Ok(false) };
            self.memories.push(memory);
        }
        for (store, words) in self.program.initial().iter().enumerate() {
            let memory = self.of_store(store);
            // SAFETY: the memory is mapped, and has room for its store.
            unsafe { memory.at.copy_from_nonoverlapping(words.as_ptr().cast(), words.len() * 4) };
        }
        for number in 0..self.program.buffers.len() {
            let Some(buffer) = self.buffer(number)? else { return Ok(false) };
            self.buffers.push(buffer);
        }
        self.strange = self.set(Shape::Strange, false, &[Place { buffer: 0, block: 0 }; 4], 0)?;
        let mut before = None;
        for (number, recording) in self.program.recordings.iter().enumerate() {
            for renewed in &recording.renewed {
                if !self.renew(*renewed)? {
                    return Ok(false);
                }
            }
            let commands = self.record(recording)?;
            // Allowed from the end of a recording on: what was recorded does not need them any more.
            for layout in std::mem::take(&mut self.made.layouts) {
                // SAFETY: no command buffer is being recorded.
                unsafe { self.gpu.device.destroy_pipeline_layout(layout, None) };
            }
            let next = self.program.recordings.get(number + 1);
            before = self.submit(recording, commands, before, next.is_some_and(|next| next.chained))?;
        }
        // SAFETY: the device is alive.
        unsafe { self.gpu.device.device_wait_idle()? };
        Ok(true)
    }

    fn of_store(&self, store: usize) -> &Memory {
        let number =
            self.program.memories.iter().position(|m| m.store == store).expect("a store has a memory");
        &self.memories[number]
    }

    /// What the stores hold.
    fn stores(&self) -> Vec<Vec<u32>> {
        let all = self.program.stores.iter().enumerate();
        all.filter(|_| self.memories.len() == self.program.memories.len())
            .map(|(store, blocks)| {
                let at = self.of_store(store).at.cast::<u32>();
                // SAFETY: as in `all`; nothing is executing.
                (0..blocks * WORDS).map(|i| unsafe { at.add(i).read_unaligned() }).collect()
            })
            .collect()
    }

    fn bytes(&self, number: usize) -> u64 {
        self.program.stores[self.program.memories[number].store] as u64 * BLOCK
    }

    fn memory(&mut self, number: usize) -> Result<Option<Memory>> {
        let align = self.gpu.host_alignment;
        let size = self.bytes(number).next_multiple_of(align);
        match self.program.memories[number].origin {
            Origin::Own => self.allocate(size + align).map(Some),
            Origin::Host(_) => {
                let store = self.program.memories[number].store;
                let twin = self.program.memories[..number].iter().position(|m| m.store == store);
                let at = match twin {
                    Some(twin) => self.memories[twin].at,
                    None => {
                        let layout = std::alloc::Layout::from_size_align(size as usize, align as usize)?;
                        // SAFETY: the size is not 0.
                        let at = unsafe { std::alloc::alloc_zeroed(layout) };
                        ensure!(!at.is_null(), "no host memory");
                        self.host.push((at, layout));
                        at
                    }
                };
                self.import(at, size)
            }
            Origin::Mapped(other) => self.import(self.memories[other].at, size),
        }
    }

    fn flags(&self) -> vk::MemoryAllocateFlagsInfo<'static> {
        let addressed = self.gpu.abilities.addresses;
        let flag = if addressed { vk::MemoryAllocateFlags::DEVICE_ADDRESS } else { Default::default() };
        vk::MemoryAllocateFlagsInfo::default().flags(flag)
    }

    /// Memory of its own, mapped; its first block is where the host could import it.
    fn allocate(&self, size: u64) -> Result<Memory> {
        let mut flags = self.flags();
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(size)
            .memory_type_index(self.gpu.host_type(u32::MAX)?)
            .push_next(&mut flags);
        // SAFETY: as in `new`; the whole of it is mapped.
        unsafe {
            let handle = self.gpu.device.allocate_memory(&info, None)?;
            let mapped = self.gpu.device.map_memory(handle, 0, vk::WHOLE_SIZE, Default::default())?;
            let align = self.gpu.host_alignment;
            let base = (mapped as u64).next_multiple_of(align) - mapped as u64;
            Ok(Memory { handle, at: mapped.cast::<u8>().add(base as usize), base })
        }
    }

    fn import(&self, at: *mut u8, size: u64) -> Result<Option<Memory>> {
        let Some(host) = &self.gpu.host else { return Ok(None) };
        let ty = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let mut flags = self.flags();
        let mut import =
            vk::ImportMemoryHostPointerInfoEXT::default().handle_type(ty).host_pointer(at.cast());
        // SAFETY: as in `new`; the pointer is to `size` bytes that live as long as the memory.
        unsafe {
            let get = host.fp().get_memory_host_pointer_properties_ext;
            let asked = get(self.gpu.device.handle(), ty, at.cast(), &raw mut properties);
            if asked != vk::Result::SUCCESS {
                return Ok(None);
            }
            let Ok(ty) = self.gpu.host_type(properties.memory_type_bits) else { return Ok(None) };
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(size)
                .memory_type_index(ty)
                .push_next(&mut flags)
                .push_next(&mut import);
            let made = self.gpu.device.allocate_memory(&info, None);
            Ok(made.ok().map(|handle| Memory { handle, at, base: 0 }))
        }
    }

    /// A buffer, bound; `None` where the device wants it elsewhere.
    fn buffer(&self, number: usize) -> Result<Option<vk::Buffer>> {
        let of = &self.program.buffers[number];
        let memory = &self.memories[of.memory];
        type Usage = vk::BufferUsageFlags;
        let usage = Usage::STORAGE_BUFFER
            | Usage::TRANSFER_SRC
            | Usage::TRANSFER_DST
            | Usage::INDIRECT_BUFFER
            | if self.gpu.abilities.addresses { Usage::SHADER_DEVICE_ADDRESS } else { Usage::empty() };
        let mut external = vk::ExternalMemoryBufferCreateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let mut info = vk::BufferCreateInfo::default().size(of.blocks as u64 * BLOCK).usage(usage);
        if self.program.memories[of.memory].origin != Origin::Own {
            info = info.push_next(&mut external);
        }
        let offset = memory.base + of.first as u64 * BLOCK;
        // SAFETY: as in `new`.
        unsafe {
            let buffer = self.gpu.device.create_buffer(&info, None)?;
            let needs = self.gpu.device.get_buffer_memory_requirements(buffer);
            if !offset.is_multiple_of(needs.alignment) {
                self.gpu.device.destroy_buffer(buffer, None);
                return Ok(None);
            }
            self.gpu.device.bind_buffer_memory(buffer, memory.handle, offset)?;
            // As applications do it, once: an address is learned when the buffer is made.
            if self.gpu.abilities.addresses {
                let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
                self.gpu.device.get_buffer_device_address(&info);
            }
            Ok(Some(buffer))
        }
    }

    /// Gives an allocation and its buffer up for new ones with the same contents: the memory first, the buffer at the end.
    fn renew(&mut self, number: usize) -> Result<bool> {
        let bytes = self.bytes(number) as usize;
        let mut kept = vec![0u8; bytes];
        // SAFETY: nothing is executing; the memory is mapped, and freed once.
        unsafe {
            self.memories[number].at.copy_to_nonoverlapping(kept.as_mut_ptr(), bytes);
            self.gpu.device.free_memory(self.memories[number].handle, None);
        }
        self.memories[number].handle = vk::DeviceMemory::null();
        let align = self.gpu.host_alignment;
        self.memories[number] = self.allocate((bytes as u64).next_multiple_of(align) + align)?;
        // SAFETY: as above.
        unsafe { self.memories[number].at.copy_from_nonoverlapping(kept.as_ptr(), bytes) };
        let buffer = self.program.buffers.iter().position(|b| b.memory == number).context("its buffer")?;
        let Some(new) = self.buffer(buffer)? else { return Ok(false) };
        self.made.dead.push(std::mem::replace(&mut self.buffers[buffer], new));
        Ok(true)
    }

    fn info(&self, place: Place) -> vk::DescriptorBufferInfo {
        vk::DescriptorBufferInfo::default()
            .buffer(self.buffers[place.buffer])
            .offset(place.block as u64 * BLOCK)
            .range(BLOCK)
    }

    /// A set of a shape with these places from binding 0 on; of an array, all but the first are elements of binding 1, which has
    /// `room` for so many.
    fn set(&self, shape: Shape, twin: bool, places: &[Place], room: u32) -> Result<vk::DescriptorSet> {
        let layouts = [self.gpu.set_layout(shape, twin)];
        let counts = [room];
        let mut counts =
            vk::DescriptorSetVariableDescriptorCountAllocateInfo::default().descriptor_counts(&counts);
        let mut info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.sets[usize::from(shape == Shape::Late)])
            .set_layouts(&layouts);
        let array = matches!(shape, Shape::Array | Shape::Late);
        if array {
            info = info.push_next(&mut counts);
        }
        let infos: Vec<_> = places
            .iter()
            .map(|place| {
                let info = self.info(*place);
                if shape == Shape::Dynamic { info.offset(0) } else { info }
            })
            .collect();
        // SAFETY: as in `new`.
        unsafe {
            let set = self.gpu.device.allocate_descriptor_sets(&info).context("vkAllocateDescriptorSets")?[0];
            let write = |binding, infos| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding)
                    .descriptor_type(shape.ty())
                    .buffer_info(infos)
            };
            match array {
                true => self
                    .gpu
                    .device
                    .update_descriptor_sets(&[write(0, &infos[..1]), write(1, &infos[1..])], &[]),
                // All in one: what is too much for a binding goes on in the next one.
                false => self.gpu.device.update_descriptor_sets(&[write(0, &infos)], &[]),
            }
            Ok(set)
        }
    }

    fn record(&mut self, recording: &Recording) -> Result<vk::CommandBuffer> {
        let commands = self.commands(vk::CommandBufferLevel::PRIMARY)?;
        let mut begin = vk::CommandBufferBeginInfo::default();
        if recording.ignored {
            begin.flags = vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE;
            begin.p_inheritance_info = std::ptr::without_provenance(NOWHERE);
        }
        // SAFETY: as in `new`; of a primary command buffer neither of the two is looked at.
        unsafe { self.gpu.device.begin_command_buffer(commands, &begin)? };
        self.steps(commands, &recording.steps)?;
        // SAFETY: as above.
        unsafe { self.gpu.device.end_command_buffer(commands)? };
        Ok(commands)
    }

    fn commands(&self, level: vk::CommandBufferLevel) -> Result<vk::CommandBuffer> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(level)
            .command_buffer_count(1);
        // SAFETY: as in `new`.
        Ok(unsafe { self.gpu.device.allocate_command_buffers(&info)? }[0])
    }

    fn steps(&mut self, commands: vk::CommandBuffer, steps: &[Step]) -> Result<()> {
        for step in steps {
            // SAFETY: as in `new`; the command buffer is being recorded, and all handles live until it was executed.
            unsafe {
                match step {
                    Step::Op(op) => self.operation(commands, op)?,
                    Step::Barrier(kind) => self.barrier(commands, &BARRIERS[*kind]),
                    Step::Event => self.event(commands)?,
                    Step::Timestamp => {
                        let bottom = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
                        self.gpu.device.cmd_reset_query_pool(commands, self.queries, 0, 1);
                        self.gpu.device.cmd_write_timestamp(commands, bottom, self.queries, 0);
                    }
                    Step::Label => {
                        let label = vk::DebugUtilsLabelEXT::default().label_name(c"a label");
                        self.labels.cmd_begin_debug_utils_label(commands, &label);
                        self.labels.cmd_end_debug_utils_label(commands);
                    }
                    Step::Secondary(steps) => {
                        let secondary = self.commands(vk::CommandBufferLevel::SECONDARY)?;
                        let inheritance = vk::CommandBufferInheritanceInfo::default();
                        let begin = vk::CommandBufferBeginInfo::default().inheritance_info(&inheritance);
                        self.gpu.device.begin_command_buffer(secondary, &begin)?;
                        self.steps(secondary, steps)?;
                        self.gpu.device.end_command_buffer(secondary)?;
                        self.gpu.device.cmd_execute_commands(commands, &[secondary]);
                    }
                }
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As in `steps`, here and below.
    unsafe fn event(&mut self, commands: vk::CommandBuffer) -> Result<()> {
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let memory = [vk::MemoryBarrier::default().src_access_mask(any).dst_access_mask(any)];
        // SAFETY: by the caller.
        unsafe {
            let event = self.gpu.device.create_event(&vk::EventCreateInfo::default(), None)?;
            self.made.events.push(event);
            self.gpu.device.cmd_set_event(commands, event, all);
            self.gpu.device.cmd_wait_events(commands, &[event], all, all, &memory, &[], &[]);
        }
        Ok(())
    }

    unsafe fn barrier(&self, commands: vk::CommandBuffer, kind: &BarrierKind) {
        let Barrier { src, dst } = kind.scopes;
        let device = &self.gpu.device;
        // SAFETY: by the caller.
        unsafe {
            if kind.second {
                let memory = [vk::MemoryBarrier2::default()
                    .src_stage_mask(vk::PipelineStageFlags2::from_raw(src.stages.bits()))
                    .src_access_mask(vk::AccessFlags2::from_raw(src.flags.bits()))
                    .dst_stage_mask(vk::PipelineStageFlags2::from_raw(dst.stages.bits()))
                    .dst_access_mask(vk::AccessFlags2::from_raw(dst.flags.bits()))];
                let info = vk::DependencyInfo::default().memory_barriers(&memory);
                return device.cmd_pipeline_barrier2(commands, &info);
            }
            let stages = |scope: Scope| vk::PipelineStageFlags::from_raw(scope.stages.bits() as u32);
            let access = |scope: Scope| vk::AccessFlags::from_raw(scope.flags.bits() as u32);
            let memory =
                [vk::MemoryBarrier::default().src_access_mask(access(src)).dst_access_mask(access(dst))];
            let buffers: Vec<_> = self
                .buffers
                .iter()
                .map(|buffer| {
                    vk::BufferMemoryBarrier::default()
                        .src_access_mask(access(src))
                        .dst_access_mask(access(dst))
                        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                        .buffer(*buffer)
                        .size(vk::WHOLE_SIZE)
                })
                .collect();
            let (memory, buffers) = match kind.buffers {
                true => (&[][..], &buffers[..]),
                false => (&memory[..], &[][..]),
            };
            let none = vk::DependencyFlags::empty();
            device.cmd_pipeline_barrier(commands, stages(src), stages(dst), none, memory, buffers, &[]);
        }
    }

    unsafe fn operation(&mut self, commands: vk::CommandBuffer, op: &Op) -> Result<()> {
        let offset = |place: &Place| place.block as u64 * BLOCK;
        // SAFETY: by the caller.
        unsafe {
            let device = &self.gpu.device;
            match op {
                Op::Copy { from, to, second: false } => {
                    let region =
                        [vk::BufferCopy { src_offset: offset(from), dst_offset: offset(to), size: BLOCK }];
                    let (from, to) = (self.buffers[from.buffer], self.buffers[to.buffer]);
                    device.cmd_copy_buffer(commands, from, to, &region);
                }
                Op::Copy { from, to, second: true } => {
                    let region = [vk::BufferCopy2::default()
                        .src_offset(offset(from))
                        .dst_offset(offset(to))
                        .size(BLOCK)];
                    let info = vk::CopyBufferInfo2::default()
                        .src_buffer(self.buffers[from.buffer])
                        .dst_buffer(self.buffers[to.buffer])
                        .regions(&region);
                    device.cmd_copy_buffer2(commands, &info);
                }
                Op::Fill(to, word) => {
                    device.cmd_fill_buffer(commands, self.buffers[to.buffer], offset(to), BLOCK, *word);
                }
                Op::Update(to, seed) => {
                    let bytes: Vec<u8> = update(*seed).iter().flat_map(|w| w.to_le_bytes()).collect();
                    device.cmd_update_buffer(commands, self.buffers[to.buffer], offset(to), &bytes);
                }
                Op::Dispatch { kernel, places, k, way, noise, short_lived, indirect } => {
                    let shape = Shape::of(*way);
                    let (pipeline, own) = self.gpu.pipeline(*kernel, shape)?;
                    device.cmd_bind_pipeline(commands, COMPUTE, pipeline);
                    let shapes = Gpu::shapes(*kernel, shape);
                    let layout = if *short_lived { self.layout(&shapes, true)? } else { own };
                    if shape == Shape::Push {
                        self.push(commands, (*way, layout), places)?;
                    } else {
                        self.sets(commands, (*kernel, *way, *noise), (layout, *short_lived), places)?;
                    }
                    self.constants(commands, layout, *kernel, *k, places);
                    let device = &self.gpu.device;
                    match indirect {
                        Some(place) => {
                            let buffer = self.buffers[place.buffer];
                            device.cmd_dispatch_indirect(commands, buffer, offset(place));
                        }
                        None => device.cmd_dispatch(commands, 1, 1, 1),
                    }
                }
            }
        }
        Ok(())
    }

    /// A pipeline layout that goes when the recording has ended.
    fn layout(&mut self, shapes: &[Shape], twin: bool) -> Result<vk::PipelineLayout> {
        let layout = self.gpu.pipeline_layout(shapes, twin)?;
        self.made.layouts.push(layout);
        Ok(layout)
    }

    unsafe fn constants(
        &self,
        commands: vk::CommandBuffer,
        layout: vk::PipelineLayout,
        kernel: Kernel,
        k: u32,
        places: &[Place],
    ) {
        let mut bytes = u64::from(k).to_le_bytes().to_vec();
        // SAFETY: by the caller.
        unsafe {
            if kernel == Kernel::Peek {
                let info = vk::BufferDeviceAddressInfo::default().buffer(self.buffers[places[0].buffer]);
                let address = self.gpu.device.get_buffer_device_address(&info);
                debug_assert_eq!(bytes.len(), ADDRESS_AT as usize);
                bytes.extend((address + places[0].block as u64 * BLOCK).to_le_bytes());
            }
            self.gpu.device.cmd_push_constants(commands, layout, STAGE, 0, &bytes);
        }
    }

    unsafe fn sets(
        &mut self,
        commands: vk::CommandBuffer,
        (kernel, way, noise): (Kernel, Way, Noise),
        (layout, twin): (vk::PipelineLayout, bool),
        places: &[Place],
    ) -> Result<()> {
        let shape = Shape::of(way);
        let room = if let Way::Array { count, .. } = way { if twin { ARRAY } else { count } } else { 0 };
        let set = match (kernel, way) {
            (Kernel::Far, _) => self.set(shape, twin, &places[..1], 0)?,
            // Binding 0 of this kernel is not there: the address is in its place.
            (Kernel::Peek, _) => self.set(shape, twin, &[places[1], places[1]], 0)?,
            (_, Way::Template) => self.by_template(twin, places)?,
            _ => self.set(shape, twin, places, room)?,
        };
        let offsets: Vec<u32> = match way {
            Way::Dynamic => {
                // A set has three; what it has not written takes none of its own.
                let mut offsets: Vec<u32> =
                    places.iter().map(|place| (place.block as u64 * BLOCK) as u32).collect();
                offsets.resize(3, 0);
                offsets
            }
            _ => Vec::new(),
        };
        // SAFETY: by the caller.
        unsafe {
            let bind = |player: &Player<'_>, layout, number, set| {
                player.gpu.device.cmd_bind_descriptor_sets(commands, COMPUTE, layout, number, &[set], &[]);
            };
            match noise {
                Noise::StrangeHigherFirst => {
                    let strange = self.layout(&[Shape::Strange, Shape::Strange], false)?;
                    bind(self, strange, 1, self.strange);
                }
                Noise::StrangeFirst => {
                    let strange = self.layout(&[Shape::Strange], false)?;
                    bind(self, strange, 0, self.strange);
                }
                Noise::None | Noise::HigherLater | Noise::Backwards => {}
            }
            self.gpu.device.cmd_bind_descriptor_sets(commands, COMPUTE, layout, 0, &[set], &offsets);
            if kernel == Kernel::Far {
                let second = self.set(shape, !twin, &places[1..2], 0)?;
                bind(self, layout, 1, second);
            }
            match noise {
                Noise::HigherLater => {
                    let compatible = self.layout(&[shape, Shape::Strange], !twin)?;
                    bind(self, compatible, 1, self.strange);
                }
                Noise::Backwards => {
                    let compatible = self.layout(&[shape, shape], !twin)?;
                    bind(self, compatible, 0, set);
                }
                Noise::None | Noise::StrangeHigherFirst | Noise::StrangeFirst => {}
            }
        }
        Ok(())
    }

    fn template(
        &mut self,
        layout: vk::PipelineLayout,
        push: bool,
        count: usize,
    ) -> Result<vk::DescriptorUpdateTemplate> {
        let entries = [vk::DescriptorUpdateTemplateEntry {
            dst_binding: 0,
            dst_array_element: 0,
            descriptor_count: count as u32,
            descriptor_type: vk::DescriptorType::STORAGE_BUFFER,
            offset: 0,
            stride: size_of::<vk::DescriptorBufferInfo>(),
        }];
        let mut info = vk::DescriptorUpdateTemplateCreateInfo::default()
            .descriptor_update_entries(&entries)
            .pipeline_bind_point(COMPUTE);
        info = match push {
            true => info
                .template_type(vk::DescriptorUpdateTemplateType::PUSH_DESCRIPTORS_KHR)
                .pipeline_layout(layout)
                .set(0),
            false => info
                .template_type(vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET)
                .descriptor_set_layout(self.gpu.set_layout(Shape::Plain, false)),
        };
        // SAFETY: as in `new`.
        let template = unsafe { self.gpu.device.create_descriptor_update_template(&info, None)? };
        self.made.templates.push(template);
        Ok(template)
    }

    fn by_template(&mut self, twin: bool, places: &[Place]) -> Result<vk::DescriptorSet> {
        // Something else is written first.
        let set = self.set(Shape::Plain, twin, &[Place { buffer: 0, block: 0 }], 0)?;
        let template = self.template(vk::PipelineLayout::null(), false, places.len())?;
        let infos: Vec<_> = places.iter().map(|place| self.info(*place)).collect();
        // SAFETY: as in `new`; the data is what the template describes.
        unsafe {
            self.gpu.device.update_descriptor_set_with_template(set, template, infos.as_ptr().cast());
        }
        Ok(set)
    }

    unsafe fn push(
        &mut self,
        commands: vk::CommandBuffer,
        (way, layout): (Way, vk::PipelineLayout),
        places: &[Place],
    ) -> Result<()> {
        let infos: Vec<_> = places.iter().map(|place| self.info(*place)).collect();
        let write = |binding: usize, infos| {
            vk::WriteDescriptorSet::default()
                .dst_binding(binding as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(infos)
        };
        // SAFETY: by the caller.
        unsafe {
            match way {
                Way::PushTemplate => {
                    let template = self.template(layout, true, places.len())?;
                    let push = self.gpu.push.fp().cmd_push_descriptor_set_with_template_khr;
                    push(commands, template, layout, 0, infos.as_ptr().cast());
                }
                Way::PushOneByOne | Way::PushTheRest => {
                    let from = usize::from(way == Way::PushTheRest);
                    for at in from..places.len() {
                        let twin = self.layout(&[Shape::Push], at % 2 == 1)?;
                        let writes = [write(at, &infos[at..=at])];
                        self.gpu.push.cmd_push_descriptor_set(commands, COMPUTE, twin, 0, &writes);
                    }
                }
                _ => {
                    let writes: Vec<_> = (0..places.len()).map(|at| write(at, &infos[at..=at])).collect();
                    self.gpu.push.cmd_push_descriptor_set(commands, COMPUTE, layout, 0, &writes);
                }
            }
        }
        Ok(())
    }

    /// Submits; the result is the semaphore for the recording that follows, where that waits for one.
    fn submit(
        &mut self,
        recording: &Recording,
        commands: vk::CommandBuffer,
        before: Option<vk::Semaphore>,
        signals: bool,
    ) -> Result<Option<vk::Semaphore>> {
        let device = &self.gpu.device;
        let queue = self.gpu.queues[recording.queue];
        let all = [vk::PipelineStageFlags::ALL_COMMANDS];
        let (buffers, waits) = ([commands], before.into_iter().collect::<Vec<_>>());
        // SAFETY: as in `new`.
        unsafe {
            let signal = match signals {
                true => vec![device.create_semaphore(&vk::SemaphoreCreateInfo::default(), None)?],
                false => Vec::new(),
            };
            self.made.semaphores.extend(&signal);
            let info = vk::SubmitInfo::default()
                .command_buffers(&buffers)
                .wait_semaphores(&waits)
                .wait_dst_stage_mask(&all[..waits.len()])
                .signal_semaphores(&signal);
            device.queue_submit(queue, &[info], vk::Fence::null()).context("vkQueueSubmit")?;
            if !signals {
                device.device_wait_idle()?;
            }
            Ok(signal.first().copied())
        }
    }

    fn finish(self) {
        let device = &self.gpu.device;
        // SAFETY: the device is idle after this; each handle was made here and is destroyed once.
        unsafe {
            let _ = device.device_wait_idle();
            let Made { layouts, templates, events, semaphores, dead } = self.made;
            layouts.into_iter().for_each(|o| device.destroy_pipeline_layout(o, None));
            templates.into_iter().for_each(|o| device.destroy_descriptor_update_template(o, None));
            events.into_iter().for_each(|o| device.destroy_event(o, None));
            semaphores.into_iter().for_each(|o| device.destroy_semaphore(o, None));
            self.buffers.into_iter().chain(dead).for_each(|o| device.destroy_buffer(o, None));
            // Imports of what is mapped go before what they are imports of.
            self.memories.into_iter().rev().for_each(|o| device.free_memory(o.handle, None));
            self.host.into_iter().for_each(|(at, layout)| std::alloc::dealloc(at, layout));
            device.destroy_command_pool(self.pool, None);
            device.destroy_query_pool(self.queries, None);
            self.sets.into_iter().for_each(|o| device.destroy_descriptor_pool(o, None));
        }
    }
}
