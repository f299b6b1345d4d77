//! Objects: made, bound, written, destroyed, submitted.
//!
//! A record is made after the driver made the object, and dropped before the driver destroys it: from then on the
//! driver may give the same handle to another thread. Failing to keep a record never fails the call; what has no
//! record is unknown, and unknown is safe.

use crate::abi::{DispatchKey, chain, slice};
use crate::context::catch;
use crate::descriptors::Set;
use crate::device::{CommandBuffer, Device, registry};
use crate::exclusive::Exclusive;
use crate::memory::{Buffer, BufferView, Memory, size_of_range};
use crate::pipelines::{Pipeline, ShaderModule};
use crate::replay::cuttable::{Cuttable, words_of_its_own};
use crate::reporting;
use ash::vk;
use ash::vk::Handle;
use parking_lot::Mutex;
use std::ffi::{CStr, c_void};
use std::sync::Arc;
use zinc_report::WrittenAt;

pub(crate) type Allocator<'a> = *const vk::AllocationCallbacks<'a>;

/// Finds the device of a dispatchable handle.
///
/// # Safety
///
/// The handle must be live, and stay so while the device is used.
pub(crate) unsafe fn device_of<'a, H: Handle>(handle: H) -> Option<&'a Arc<Device>> {
    // SAFETY: by the caller.
    unsafe { registry().device(DispatchKey::of(handle)) }
}

/// Passes a call down and, when it succeeds, keeps a record.
macro_rules! create {
    ($device:ident . $next:ident ( $($arg:expr),* ), $record:expr) => {{
        // SAFETY: the application's own arguments, passed on; what is read of them is what the driver read too.
        unsafe {
            let Some(known) = $crate::objects::device_of($device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            let Some(next) = known.next.$next else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            let result = next($device, $($arg),*);
            if result == vk::Result::SUCCESS {
                let record: &dyn Fn(&$crate::device::Device) = &$record;
                $crate::context::catch(|| Some(record(known)));
            }
            result
        }
    }};
}

pub(crate) use create;

/// Drops records and passes a call down.
macro_rules! destroy {
    ($device:ident . $next:ident ( $($arg:expr),* ), $forget:expr) => {{
        // SAFETY: the application's own arguments, passed on.
        unsafe {
            let Some(known) = $crate::objects::device_of($device) else { return Default::default() };
            let forget: &dyn Fn(&$crate::device::Device) = &$forget;
            $crate::context::catch(|| Some(forget(known)));
            match known.next.$next {
                Some(next) => next($device, $($arg),*),
                None => Default::default(),
            }
        }
    }};
}

pub(crate) use destroy;

pub unsafe extern "system" fn destroy_device(device: vk::Device, allocator: Allocator<'_>) {
    if device == vk::Device::null() {
        return;
    }
    // SAFETY: the application's own arguments, passed on.
    unsafe {
        let Some(known) = catch(|| registry().remove(DispatchKey::of(device))) else { return };
        catch(|| {
            reporting::write(&known, WrittenAt::DeviceDestruction);
            Some(())
        });
        known.replay.end();
        catch(|| {
            // What an application leaves alive may refer to objects of the layer's own, which must go before the device.
            registry().command_buffers.remove_if(|c| c.device.key == known.key);
            known.let_go();
            Some(())
        });
        if let Some(destroy) = known.next.destroy_device {
            destroy(device, allocator);
        }
    }
}

pub unsafe extern "system" fn allocate_memory(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    allocator: Allocator<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    create!(device.allocate_memory(info, allocator, memory), |d| {
        let record = Memory::new(&*info, &d.mappings);
        d.memories.insert(*memory, record);
        d.replay.allocated(d, *memory, record, &*info);
    })
}

pub unsafe extern "system" fn free_memory(
    device: vk::Device,
    memory: vk::DeviceMemory,
    allocator: Allocator<'_>,
) {
    destroy!(device.free_memory(memory, allocator), |d| {
        if let Some(record) = d.memories.remove(memory) {
            d.mappings.unmapped(record.serial());
            d.addresses.freed(record.serial());
            d.replay.freed(&record);
        }
    })
}

pub unsafe extern "system" fn create_buffer(
    device: vk::Device,
    info: *const vk::BufferCreateInfo<'_>,
    allocator: Allocator<'_>,
    buffer: *mut vk::Buffer,
) -> vk::Result {
    create!(device.create_buffer(info, allocator, buffer), |d| {
        d.buffers.insert(*buffer, Buffer::new(&*info));
    })
}

pub unsafe extern "system" fn destroy_buffer(
    device: vk::Device,
    buffer: vk::Buffer,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_buffer(buffer, allocator), |d| {
        d.addresses.forget(buffer);
        d.buffers.remove(buffer);
    })
}

pub unsafe extern "system" fn bind_buffer_memory(
    device: vk::Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
) -> vk::Result {
    create!(device.bind_buffer_memory(buffer, memory, offset), |d| {
        if let Some(record) = d.buffers.get(buffer) {
            record.bind(d.memories.get(memory).copied(), offset);
        }
    })
}

pub unsafe extern "system" fn bind_buffer_memory2(
    device: vk::Device,
    count: u32,
    infos: *const vk::BindBufferMemoryInfo<'_>,
) -> vk::Result {
    create!(device.bind_buffer_memory2(count, infos), |d| {
        for info in slice(infos, count) {
            if let Some(record) = d.buffers.get(info.buffer) {
                // What the list holds (device groups, say) may put the buffer elsewhere.
                let memory = info.p_next.is_null().then(|| d.memories.get(info.memory).copied()).flatten();
                record.bind(memory, info.memory_offset);
            }
        }
    })
}

pub unsafe extern "system" fn get_buffer_device_address(
    device: vk::Device,
    info: *const vk::BufferDeviceAddressInfo<'_>,
) -> vk::DeviceAddress {
    // SAFETY: the application's own arguments, passed on; the buffer is alive and bound (VUID 02600).
    unsafe {
        let Some(known) = device_of(device) else { return 0 };
        let Some(next) = known.next.get_buffer_device_address else { return 0 };
        let address = next(device, info);
        if known.is_tight() || known.capture.is_some() {
            catch(|| {
                let buffer = (*info).buffer;
                let record = known.buffers.get(buffer)?;
                if let Some(capture) = &known.capture {
                    capture.address(address, record.size());
                }
                let bytes = (record.memory(), record.extent(0, None));
                known.addresses.found(buffer, address, record.size(), bytes);
                Some(())
            });
        }
        address
    }
}

pub unsafe extern "system" fn create_buffer_view(
    device: vk::Device,
    info: *const vk::BufferViewCreateInfo<'_>,
    allocator: Allocator<'_>,
    view: *mut vk::BufferView,
) -> vk::Result {
    create!(device.create_buffer_view(info, allocator, view), |d| {
        let info = &*info;
        let buffer = d.buffers.get(info.buffer);
        let extent = buffer.map(|b| b.extent(info.offset, size_of_range(info.range)));
        d.views.insert(*view, BufferView(extent));
    })
}

pub unsafe extern "system" fn destroy_buffer_view(
    device: vk::Device,
    view: vk::BufferView,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_buffer_view(view, allocator), |d| {
        d.views.remove(view);
    })
}

/// Forgets all sets of a pool.
fn forget_sets(device: &Device, pool: vk::DescriptorPool) {
    for set in device.pools.lock().remove(&pool.as_raw()).unwrap_or_default() {
        device.sets.remove(set);
    }
}

pub unsafe extern "system" fn reset_descriptor_pool(
    device: vk::Device,
    pool: vk::DescriptorPool,
    flags: vk::DescriptorPoolResetFlags,
) -> vk::Result {
    destroy!(device.reset_descriptor_pool(pool, flags), |d| forget_sets(d, pool))
}

pub unsafe extern "system" fn destroy_descriptor_pool(
    device: vk::Device,
    pool: vk::DescriptorPool,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_descriptor_pool(pool, allocator), |d| forget_sets(d, pool))
}

pub unsafe extern "system" fn allocate_descriptor_sets(
    device: vk::Device,
    info: *const vk::DescriptorSetAllocateInfo<'_>,
    sets: *mut vk::DescriptorSet,
) -> vk::Result {
    create!(device.allocate_descriptor_sets(info, sets), |d| {
        let info = &*info;
        let layouts = slice(info.p_set_layouts, info.descriptor_set_count);
        let sets = slice(sets, info.descriptor_set_count);
        // Without this structure, or with a count of 0 in it, "the variable lengths are considered to be zero".
        let of = |c: &vk::DescriptorSetVariableDescriptorCountAllocateInfo<'_>| {
            slice(c.p_descriptor_counts, c.descriptor_set_count)
        };
        let counts = chain(info.p_next).find_map(|c| c.get().map(of)).unwrap_or_default();
        for (number, (set, layout)) in sets.iter().zip(layouts).enumerate() {
            let count = counts.get(number).copied().unwrap_or(0);
            match d.set_layouts.get(*layout) {
                Some(layout) => drop(d.sets.insert(*set, Set::with_count(layout.clone(), count))),
                None => drop(d.sets.remove(*set)),
            }
        }
        d.pools.lock().entry(info.descriptor_pool.as_raw()).or_default().extend(sets);
    })
}

pub unsafe extern "system" fn free_descriptor_sets(
    device: vk::Device,
    pool: vk::DescriptorPool,
    count: u32,
    sets: *const vk::DescriptorSet,
) -> vk::Result {
    destroy!(device.free_descriptor_sets(pool, count, sets), |d| {
        let (mut pools, freed) = (d.pools.lock(), slice(sets, count));
        let mut of_pool = pools.get_mut(&pool.as_raw());
        for set in freed {
            d.sets.remove(*set);
            of_pool.as_mut().map(|sets| sets.remove(set));
        }
    })
}

pub unsafe extern "system" fn update_descriptor_sets(
    device: vk::Device,
    write_count: u32,
    writes: *const vk::WriteDescriptorSet<'_>,
    copy_count: u32,
    copies: *const vk::CopyDescriptorSet<'_>,
) {
    destroy!(device.update_descriptor_sets(write_count, writes, copy_count, copies), |d| {
        for write in slice(writes, write_count) {
            if let Some(set) = d.sets.get(write.dst_set) {
                set.write(write, d);
            }
        }
        for copy in slice(copies, copy_count) {
            let Some(to) = d.sets.get(copy.dst_set) else { continue };
            match d.sets.get(copy.src_set) {
                Some(from) => to.copy(from, copy),
                None => to.taint(),
            }
        }
    })
}

pub unsafe extern "system" fn update_descriptor_set_with_template(
    device: vk::Device,
    set: vk::DescriptorSet,
    template: vk::DescriptorUpdateTemplate,
    data: *const c_void,
) {
    destroy!(device.update_descriptor_set_with_template(set, template, data), |d| {
        if let Some(set) = d.sets.get(set) {
            match d.templates.get(template) {
                Some(template) => template.apply(set, data.cast(), d),
                None => set.taint(),
            }
        }
    })
}

pub unsafe extern "system" fn get_descriptor_set_host_mapping(
    device: vk::Device,
    set: vk::DescriptorSet,
    data: *mut *mut c_void,
) {
    destroy!(device.get_descriptor_set_host_mapping(set, data), |d| {
        // From here on the host writes descriptors past every call: the set is as one that was never seen.
        d.sets.remove(set);
    })
}

pub unsafe extern "system" fn create_shader_module(
    device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: Allocator<'_>,
    module: *mut vk::ShaderModule,
) -> vk::Result {
    // SAFETY: the application's own arguments.
    let own = unsafe {
        let slices = device_of(device).is_some_and(|known| known.replay.slices());
        slices.then(|| ShaderModule::new(&*info)).and_then(|m| words_of_its_own(m.words()))
    };
    // SAFETY: as above.
    let other = own.as_ref().map(|words| unsafe { (*info).code(words) });
    let passed = other.as_ref().map_or(info, std::ptr::from_ref);
    create!(device.create_shader_module(passed, allocator, module), |d| {
        d.modules.insert(*module, ShaderModule::new(&*info));
    })
}

pub unsafe extern "system" fn destroy_shader_module(
    device: vk::Device,
    module: vk::ShaderModule,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_shader_module(module, allocator), |d| {
        d.modules.remove(module);
    })
}

pub unsafe extern "system" fn create_compute_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    allocator: Allocator<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(known) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(create) = known.next.create_compute_pipelines else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let cuttable = known.replay.slices().then(|| Cuttable::of(slice(infos, count)));
        let passed = cuttable.as_ref().map_or(infos, Cuttable::infos);
        let result = create(device, cache, count, passed, allocator, pipelines);
        // Some may have been made even where others failed; those that were not are null.
        catch(|| {
            let made = slice(infos, count).iter().zip(slice(pipelines, count));
            for (number, (info, pipeline)) in made.enumerate() {
                if *pipeline != vk::Pipeline::null() {
                    let module = |m| known.modules.get(m);
                    let mut record = Pipeline::new(info, module, known);
                    if known.replay.is_on()
                        && let Some(module) = known.modules.get(info.stage.module)
                    {
                        let takes_a_base = cuttable.as_ref().is_some_and(|c| c.takes_a_base(number));
                        record.look_closer(module.words(), takes_a_base);
                    }
                    known.pipelines.insert(*pipeline, record);
                }
            }
            Some(())
        });
        result
    }
}

pub unsafe extern "system" fn set_object_name(
    device: vk::Device,
    info: *const vk::DebugUtilsObjectNameInfoEXT<'_>,
) -> vk::Result {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(known) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        catch(|| {
            let named = &*info;
            // Names are the user's own: they are kept only where they may be told.
            if known.settings.names
                && named.object_type == vk::ObjectType::PIPELINE
                && !named.p_object_name.is_null()
            {
                let pipeline = known.pipelines.get(vk::Pipeline::from_raw(named.object_handle))?;
                let name = CStr::from_ptr(named.p_object_name).to_string_lossy().into_owned();
                known.names.lock().insert(pipeline.number, name);
            }
            Some(())
        });
        match known.next.set_debug_utils_object_name {
            Some(set) => set(device, info),
            None => vk::Result::SUCCESS,
        }
    }
}

pub unsafe extern "system" fn destroy_pipeline(
    device: vk::Device,
    pipeline: vk::Pipeline,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_pipeline(pipeline, allocator), |d| {
        d.pipelines.remove(pipeline);
    })
}

pub unsafe extern "system" fn create_command_pool(
    device: vk::Device,
    info: *const vk::CommandPoolCreateInfo<'_>,
    allocator: Allocator<'_>,
    pool: *mut vk::CommandPool,
) -> vk::Result {
    create!(device.create_command_pool(info, allocator, pool), |d| {
        if d.replay.is_on() {
            d.families.insert(*pool, (*info).queue_family_index);
        }
    })
}

pub unsafe extern "system" fn destroy_command_pool(
    device: vk::Device,
    pool: vk::CommandPool,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_command_pool(pool, allocator), |d| {
        registry().command_buffers.remove_if(|c| c.pool == pool.as_raw() && c.device.key == d.key);
        d.families.remove(pool);
    })
}

pub unsafe extern "system" fn allocate_command_buffers(
    device: vk::Device,
    info: *const vk::CommandBufferAllocateInfo<'_>,
    buffers: *mut vk::CommandBuffer,
) -> vk::Result {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(known) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(allocate) = known.next.allocate_command_buffers else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let result = allocate(device, info, buffers);
        if result == vk::Result::SUCCESS {
            catch(|| {
                let info = &*info;
                for buffer in slice(buffers, info.command_buffer_count) {
                    let (device, pool) = (known.clone(), info.command_pool.as_raw());
                    let state = Exclusive::new(device.new_state());
                    let finished = Mutex::default();
                    let family = device.families.get(info.command_pool).copied();
                    let level = info.level;
                    let record = CommandBuffer { device, pool, level, family, state, finished };
                    registry().command_buffers.insert(*buffer, record);
                }
                Some(())
            });
        }
        result
    }
}

pub unsafe extern "system" fn free_command_buffers(
    device: vk::Device,
    pool: vk::CommandPool,
    count: u32,
    buffers: *const vk::CommandBuffer,
) {
    destroy!(device.free_command_buffers(pool, count, buffers), |known| {
        for buffer in slice(buffers, count) {
            if let Some(record) = registry().command_buffers.remove(*buffer) {
                known.retire(record.state.into_inner());
            }
        }
    })
}
