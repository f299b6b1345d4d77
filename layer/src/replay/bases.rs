//! Whether this driver does what the specification says of a dispatch with a base.
//!
//! Slices are nothing but such dispatches, and an instrument that changes results by itself shows nothing. So before the first
//! dispatch is cut, kernels of the layer's own go through in pieces, cut as the application's will be. One
//! leaves the numbers of its workgroups, along each of the three axes. The other looks at `gl_GlobalInvocationID.x` alone, as
//! most kernels do, once with its pieces in a row and once in turn with those of another dispatch. What does not come out as
//! from whole dispatches ends the slicing on this device.
//!
//! Both kernels are made twice: first as applications make theirs that know nothing of slices, then as the layer does under
//! them. A driver that takes the second for the first is found out, as NVIDIA's 580.159 is where the words are the same
//! (docs/runs/h200/instruments.md, and `cuttable.rs`, which sees to it that they are not).

use super::cuttable::words_of_its_own;
use super::kernel::{Pools, words_of};
use super::slice;
use super::traits::Traits;
use crate::bindings::{self, Grid};
use crate::device::Device;
use ash::prelude::VkResult;
use ash::vk;

/// Invocations in a workgroup of either kernel.
const GROUP: u32 = 32;

/// One dispatch that is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Of the kernel that looks at one number only.
    line: bool,
    shape: [u32; 3],
    /// In turn with the one after it.
    with_next: bool,
}

const CUTS: [Cut; 6] = [
    Cut { line: false, shape: [256, 1, 1], with_next: false },
    Cut { line: false, shape: [3, 64, 1], with_next: false },
    Cut { line: false, shape: [2, 3, 16], with_next: false },
    Cut { line: true, shape: [256, 1, 1], with_next: false },
    Cut { line: true, shape: [256, 1, 1], with_next: true },
    Cut { line: true, shape: [255, 1, 1], with_next: false },
];

/// The pieces of all, in the order in which they are dispatched: each with the number of what it is a piece of.
fn schedule() -> Vec<(usize, Grid)> {
    let pieces = |cut: &Cut| slice::cut(Grid::Plain(cut.shape), Some(Traits::PLAIN));
    let mut all = Vec::new();
    let mut number = 0;
    while number < CUTS.len() {
        let run = if CUTS[number].with_next { 2 } else { 1 };
        for turn in 0..slice::PIECES as usize {
            let of = (number..number + run).filter_map(|n| Some((n, *pieces(&CUTS[n]).get(turn)?)));
            all.extend(of);
        }
        number += run;
    }
    all
}

/// How long to wait for the kernel, in nanoseconds. Something that was submitted to the queue before may hold it up.
const PATIENCE: u64 = 10_000_000_000;

fn invocations(shape: [u32; 3]) -> u32 {
    shape.iter().product::<u32>() * GROUP
}

/// What the memory holds afterwards: in the order of places, from each invocation one more than its number when workgroups are
/// counted one after the other.
fn expected() -> Vec<u32> {
    let mut words = Vec::new();
    for Cut { shape: [width, height, depth], .. } in CUTS {
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
    /// With the flag; and without, kept so that the driver keeps what it has compiled.
    pipelines: [vk::Pipeline; 2],
    plain: [vk::Pipeline; 2],
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
            let pipelines = self.pipelines.iter().chain(&self.plain);
            pipelines.for_each(|pipeline| vk.destroy_pipeline(*pipeline, None));
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
    let count = CUTS.map(|cut| invocations(cut.shape)).iter().sum::<u32>();
    let size = u64::from(count) * 4;
    let codes = [
        words_of(include_bytes!(concat!(env!("OUT_DIR"), "/bases.spv"))),
        words_of(include_bytes!(concat!(env!("OUT_DIR"), "/line.spv"))),
    ];
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
        let make = |code: &[u32], flags: vk::PipelineCreateFlags| {
            let module = vk.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(code), None)?;
            let stage =
                vk::PipelineShaderStageCreateInfo::default().stage(compute).module(module).name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(made.layout);
            let pipelines = vk.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            vk.destroy_shader_module(module, None);
            pipelines.map(|made| made[0]).map_err(|(_, why)| why)
        };
        for (code, number) in codes.iter().zip(0..) {
            let own = words_of_its_own(code).ok_or(vk::Result::ERROR_UNKNOWN)?;
            let plain = make(code, vk::PipelineCreateFlags::empty())?;
            made.plain[number] = plain;
            made.pipelines[number] = make(&own, vk::PipelineCreateFlags::DISPATCH_BASE)?;
        }
        let set = made.pools.set(vk, made.set_layout)?;
        let infos = [vk::DescriptorBufferInfo::default().buffer(made.buffer).range(vk::WHOLE_SIZE)];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&infos);
        vk.update_descriptor_sets(&[write], &[]);

        made.commands = super::pool(vk, family)?;
        let buffer = super::begin(vk, device, made.commands)?;
        let firsts: Vec<u32> = CUTS
            .iter()
            .scan(0, |next, cut| Some(std::mem::replace(next, *next + invocations(cut.shape))))
            .collect();
        let mut bound = None;
        for (number, piece) in schedule() {
            // What is bound stays where the same is dispatched again: a driver may take that for a reason to keep the base.
            if bound.replace(number) != Some(number) {
                let Cut { line, shape: [x, y, z], .. } = CUTS[number];
                let words = [x, y, z, firsts[number]];
                let constants: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                vk.cmd_bind_pipeline(buffer, POINT, made.pipelines[usize::from(line)]);
                vk.cmd_bind_descriptor_sets(buffer, POINT, made.layout, 0, &[set], &[]);
                vk.cmd_push_constants(buffer, made.layout, compute, 0, &constants);
            }
            bindings::dispatch(&device.next, buffer, piece);
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
        assert_eq!(right.len() as u32, CUTS.map(|cut| invocations(cut.shape)).iter().sum::<u32>());
        assert_eq!(judge(&right), Ok(()));
        for at in [0, right.len() / 2, right.len() - 1] {
            let mut wrong = right.clone();
            wrong[at] += 1;
            assert!(judge(&wrong).is_err_and(|why| why.contains("(1 of ")), "place {at}");
        }
        assert!(judge(&right[1..]).is_err());
    }

    #[test]
    fn every_axis_is_cut_and_the_last_two_go_in_turn() {
        let all = schedule();
        assert_eq!(all.len(), CUTS.len() * slice::PIECES as usize);
        let axes = [0, 1, 2, 3].map(|number| {
            let Some((_, Grid::Base(base, _))) = all.iter().filter(|(n, _)| *n == number).nth(1) else {
                panic!("{number} is not cut")
            };
            base.iter().position(|b| *b != 0)
        });
        assert_eq!(axes, [Some(0), Some(1), Some(2), Some(0)]);
        let order: Vec<usize> = all[16..].iter().map(|(number, _)| *number).collect();
        assert_eq!(order, [4, 5, 4, 5, 4, 5, 4, 5]);
    }
}
