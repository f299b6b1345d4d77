//! Whether this driver does what the specification says of a dispatch with a base.
//!
//! Slices are nothing but such dispatches, and NVIDIA's 580.159.04 computes other numbers by them without any layer in the
//! process (docs/runs/h200/instruments.md). An instrument that changes results by itself shows nothing. So before the first
//! dispatch is cut, a kernel of the layer's own goes through in pieces, cut as the application's will be, along each
//! of the three axes: each invocation leaves the numbers of its workgroup at the place that it takes itself to be. What does
//! not come out as from whole dispatches ends the slicing on this device.

use super::kernel::{Pools, words_of};
use super::slice;
use super::traits::Traits;
use crate::bindings::{self, Grid};
use crate::device::Device;
use ash::prelude::VkResult;
use ash::vk;

/// Workgroups of the dispatches that are cut; their longest sides are different ones.
const SHAPES: [[u32; 3]; 3] = [[256, 1, 1], [3, 64, 1], [2, 3, 16]];

/// Invocations in a workgroup.
const GROUP: u32 = 32;

/// How long to wait for the kernel, in nanoseconds. Something that was submitted to the queue before may hold it up.
const PATIENCE: u64 = 10_000_000_000;

fn invocations(shape: [u32; 3]) -> u32 {
    shape.iter().product::<u32>() * GROUP
}

/// What the memory holds afterwards: in the order of places, from each invocation one more than its number when workgroups are
/// counted one after the other.
fn expected() -> Vec<u32> {
    let mut words = Vec::new();
    for [width, height, depth] in SHAPES {
        let rows = (0..depth).flat_map(|z| (0..height).map(move |y| y + height * z));
        words.extend(rows.flat_map(|row| (0..width * GROUP).map(move |x| 1 + x + width * GROUP * row)));
    }
    words
}

/// What the test makes, to be destroyed after it.
#[derive(Default)]
struct Objects {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    pools: Pools,
    commands: vk::CommandPool,
    fence: vk::Fence,
}

impl Objects {
    /// # Safety
    ///
    /// Nothing that uses them may be executing.
    unsafe fn end(mut self, vk: &ash::Device) {
        // SAFETY: by the caller; null handles are ignored.
        unsafe {
            vk.destroy_fence(self.fence, None);
            vk.destroy_command_pool(self.commands, None);
            self.pools.end(vk);
            vk.destroy_pipeline(self.pipeline, None);
            vk.destroy_pipeline_layout(self.layout, None);
            vk.destroy_descriptor_set_layout(self.set_layout, None);
            vk.destroy_buffer(self.buffer, None);
            vk.free_memory(self.memory, None);
        }
    }
}

/// Runs the test on a queue; the error says in what words slicing ends.
///
/// # Errors
///
/// When numbers come out wrong, or when the device refuses what the test needs.
///
/// # Safety
///
/// The device must be alive, the queue one of `family`, and nobody else use it meanwhile.
pub unsafe fn check(
    vk: &ash::Device,
    device: &Device,
    (queue, family): (vk::Queue, u32),
) -> Result<(), String> {
    let mut objects = Objects::default();
    // SAFETY: by the caller.
    match unsafe { run(vk, device, (queue, family), &mut objects) } {
        // Whatever was submitted may still be executing: it is left alone.
        Err(vk::Result::TIMEOUT) => Err("did not end the test of slices in time".into()),
        outcome => {
            // SAFETY: what was submitted was waited for.
            unsafe { objects.end(vk) };
            let seen = outcome.map_err(|why| format!("refuses what the test of slices needs ({why})"))?;
            judge(&seen)
        }
    }
}

fn judge(seen: &[u32]) -> Result<(), String> {
    let expected = expected();
    let wrong = seen.iter().zip(&expected).filter(|(a, b)| a != b).count();
    match wrong == 0 && seen.len() == expected.len() {
        true => Ok(()),
        false => Err(format!(
            "computes other numbers where a dispatch is cut into ones with base offsets ({wrong} of {} wrong)",
            expected.len()
        )),
    }
}

/// # Safety
///
/// As for [`check`].
unsafe fn run(
    vk: &ash::Device,
    device: &Device,
    (queue, family): (vk::Queue, u32),
    made: &mut Objects,
) -> VkResult<Vec<u32>> {
    let count = SHAPES.map(invocations).iter().sum::<u32>();
    let size = u64::from(count) * 4;
    let code = words_of(include_bytes!(concat!(env!("OUT_DIR"), "/bases.spv")));
    let compute = vk::ShaderStageFlags::COMPUTE;
    const POINT: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;
    // SAFETY: by the caller; all structures live through the calls, the memory is mapped as long as it is read and written,
    // and the kernel writes within the buffer whatever numbers it is given.
    unsafe {
        let info = vk::BufferCreateInfo::default().size(size).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
        made.buffer = vk.create_buffer(&info, None)?;
        let needs = vk.get_buffer_memory_requirements(made.buffer);
        let types = needs.memory_type_bits & device.host_types;
        if types == 0 {
            return Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
        }
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(types.trailing_zeros());
        made.memory = vk.allocate_memory(&info, None)?;
        vk.bind_buffer_memory(made.buffer, made.memory, 0)?;
        let mapped = vk.map_memory(made.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?;
        let mapped = mapped.cast::<u32>();
        mapped.write_bytes(0, count as usize);

        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(compute)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        made.set_layout = vk.create_descriptor_set_layout(&info, None)?;
        let (layouts, push) =
            ([made.set_layout], [vk::PushConstantRange::default().stage_flags(compute).size(16)]);
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&push);
        made.layout = vk.create_pipeline_layout(&info, None)?;
        let module = vk.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None)?;
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(compute).module(module).name(c"main");
        let info = vk::ComputePipelineCreateInfo::default()
            .flags(vk::PipelineCreateFlags::DISPATCH_BASE)
            .stage(stage)
            .layout(made.layout);
        let pipelines = vk.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
        vk.destroy_shader_module(module, None);
        made.pipeline = pipelines.map_err(|(_, why)| why)?[0];
        let set = made.pools.set(vk, made.set_layout)?;
        let infos = [vk::DescriptorBufferInfo::default().buffer(made.buffer).range(vk::WHOLE_SIZE)];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&infos);
        vk.update_descriptor_sets(&[write], &[]);

        made.commands = super::pool(vk, family)?;
        let buffer = super::begin(vk, device, made.commands)?;
        vk.cmd_bind_pipeline(buffer, POINT, made.pipeline);
        vk.cmd_bind_descriptor_sets(buffer, POINT, made.layout, 0, &[set], &[]);
        let mut first = 0;
        for shape in SHAPES {
            let [x, y, z] = shape;
            let constants: Vec<u8> = [x, y, z, first].iter().flat_map(|word| word.to_ne_bytes()).collect();
            vk.cmd_push_constants(buffer, made.layout, compute, 0, &constants);
            for piece in slice::cut(Grid::Plain(shape), Some(Traits::default())) {
                bindings::dispatch(&device.next, buffer, piece);
            }
            first += invocations(shape);
        }
        let to_host = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        let (from, to) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::HOST);
        vk.cmd_pipeline_barrier(buffer, from, to, vk::DependencyFlags::empty(), &to_host, &[], &[]);
        vk.end_command_buffer(buffer)?;
        made.fence = vk.create_fence(&vk::FenceCreateInfo::default(), None)?;
        let recorded = [buffer];
        vk.queue_submit(queue, &[vk::SubmitInfo::default().command_buffers(&recorded)], made.fence)?;
        vk.wait_for_fences(&[made.fence], true, PATIENCE)?;
        Ok(std::slice::from_raw_parts(mapped, count as usize).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_numbers_pass_and_any_other_does_not() {
        let right = expected();
        assert_eq!(right.len() as u32, SHAPES.map(invocations).iter().sum::<u32>());
        assert_eq!(judge(&right), Ok(()));
        for at in [0, right.len() / 2, right.len() - 1] {
            let mut wrong = right.clone();
            wrong[at] += 1;
            assert!(judge(&wrong).is_err_and(|why| why.contains("(1 of ")), "place {at}");
        }
        assert!(judge(&right[1..]).is_err());
    }

    #[test]
    fn every_shape_is_cut_and_each_along_another_axis() {
        let axes = SHAPES.map(|shape| {
            let pieces = slice::cut(Grid::Plain(shape), Some(Traits::default()));
            assert_eq!(pieces.len(), slice::PIECES as usize);
            let Grid::Base(base, _) = pieces[1] else { panic!("{shape:?} is not cut") };
            base.iter().position(|b| *b != 0)
        });
        assert_eq!(axes, [Some(0), Some(1), Some(2)]);
    }
}
