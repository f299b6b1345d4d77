//! Compute pipelines, one for each kernel and specialization.

use std::collections::HashMap;
use std::rc::Rc;

use ash::vk;
use zinc_shaders::{Kernel, ROWS_ID, WORKGROUP_SIZE_ID};

use super::error::During;
use super::{Device, Error};
use crate::plan::Shape;

/// A pipeline with its layouts.
#[derive(Clone, Copy)]
pub(super) struct Pipeline {
    pub(super) pipeline: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    pub(super) set_layout: vk::DescriptorSetLayout,
}

/// All pipelines of a program.
pub(super) struct Pipelines {
    device: Rc<Device>,
    made: HashMap<(&'static str, Shape), Pipeline>,
}

impl Pipelines {
    pub(super) fn new(device: &Rc<Device>) -> Self {
        Self { device: Rc::clone(device), made: HashMap::new() }
    }

    /// The pipeline of a kernel in a shape, made on first use.
    pub(super) fn get(&mut self, kernel: &'static Kernel, shape: Shape) -> Result<Pipeline, Error> {
        if let Some(pipeline) = self.made.get(&(kernel.name, shape)) {
            return Ok(*pipeline);
        }
        let empty = Pipeline {
            pipeline: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set_layout: vk::DescriptorSetLayout::null(),
        };
        // Registered before it is complete, so that a failure half-way leaves nothing that is not destroyed.
        let slot = self.made.entry((kernel.name, shape)).or_insert(empty);
        let result = build(&self.device, kernel, shape, slot);
        let pipeline = *slot;
        if let Err(error) = result {
            self.made.remove(&(kernel.name, shape));
            destroy(&self.device, &pipeline);
            return Err(error);
        }
        Ok(pipeline)
    }
}

fn build(device: &Device, kernel: &'static Kernel, shape: Shape, out: &mut Pipeline) -> Result<(), Error> {
    let bindings: Vec<_> = (0..kernel.bindings.len() as u32)
        .map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    // SAFETY: the device is alive in all calls here; structures and slices live until each call returns.
    let set_layout = unsafe { device.raw.create_descriptor_set_layout(&info, None) };
    out.set_layout = set_layout.during("vkCreateDescriptorSetLayout")?;

    let set_layouts = [out.set_layout];
    let push = [vk::PushConstantRange {
        stage_flags: vk::ShaderStageFlags::COMPUTE,
        offset: 0,
        size: kernel.push_bytes,
    }];
    let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&set_layouts).push_constant_ranges(&push);
    // SAFETY: as above.
    let layout = unsafe { device.raw.create_pipeline_layout(&info, None) };
    out.layout = layout.during("vkCreatePipelineLayout")?;

    let info = vk::ShaderModuleCreateInfo::default().code(kernel.spirv);
    // SAFETY: as above; the words are SPIR-V from the reference compiler.
    let module = unsafe { device.raw.create_shader_module(&info, None) }.during("vkCreateShaderModule")?;
    // A constant that a module does not declare is ignored.
    let entry = |id, offset| vk::SpecializationMapEntry { constant_id: id, offset, size: 4 };
    let entries = [entry(WORKGROUP_SIZE_ID, 0), entry(ROWS_ID, 4)];
    let data = [shape.workgroup.to_ne_bytes(), shape.rows.to_ne_bytes()].concat();
    let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&specialization);
    let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(out.layout)];
    // SAFETY: as above; the workgroup size was checked against the device's limits with its tuning.
    let made = unsafe { device.raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
    // SAFETY: a module is not needed once its pipelines are made.
    unsafe { device.raw.destroy_shader_module(module, None) };
    out.pipeline = made.map_err(|(_, result)| result).during("vkCreateComputePipelines")?[0];
    Ok(())
}

fn destroy(device: &Device, pipeline: &Pipeline) {
    // SAFETY: nothing that uses them is pending (see `Device::idle`); null handles are ignored.
    unsafe {
        device.raw.destroy_pipeline(pipeline.pipeline, None);
        device.raw.destroy_pipeline_layout(pipeline.layout, None);
        device.raw.destroy_descriptor_set_layout(pipeline.set_layout, None);
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        if self.device.idle() {
            self.made.values().for_each(|pipeline| destroy(&self.device, pipeline));
        }
    }
}
