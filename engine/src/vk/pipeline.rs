//! Compute pipelines, one for each kernel and specialization.

use std::collections::HashMap;
use std::rc::Rc;

use ash::vk;
use zinc_shaders::Capability;

use super::error::During;
use super::{Device, Error};
use crate::plan::{Cooperative, Dispatch};

/// A pipeline with its layouts.
#[derive(Clone, Copy)]
pub(super) struct Pipeline {
    pub(super) pipeline: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    pub(super) set_layout: vk::DescriptorSetLayout,
}

impl Pipeline {
    /// Nothing yet.
    fn null() -> Self {
        Self {
            pipeline: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set_layout: vk::DescriptorSetLayout::null(),
        }
    }
}

/// What tells pipelines apart: kernel and constants.
type Key = (&'static str, Vec<(u32, u32)>);

/// All pipelines of a program.
pub(super) struct Pipelines {
    device: Rc<Device>,
    made: HashMap<Key, Pipeline>,
    /// Whether kernels are replaced by one that returns at once.
    null: bool,
}

fn key(dispatch: &Dispatch) -> Key {
    (dispatch.call.kernel.name, dispatch.call.constants.clone())
}

impl Pipelines {
    pub(super) fn new(device: &Rc<Device>, null: bool) -> Self {
        Self { device: Rc::clone(device), made: HashMap::new(), null }
    }

    /// The pipeline of a dispatch that [`Pipelines::get`] was asked for before.
    pub(super) fn made(&self, dispatch: &Dispatch) -> Pipeline {
        *self.made.get(&key(dispatch)).expect("sets and pipelines are made together")
    }

    /// The pipeline of a dispatch, made on first use.
    pub(super) fn get(&mut self, dispatch: &Dispatch) -> Result<Pipeline, Error> {
        let key = key(dispatch);
        if let Some(pipeline) = self.made.get(&key) {
            return Ok(*pipeline);
        }
        self.device.check_kernel(dispatch.call.kernel)?;
        let mut pipeline = Pipeline::null();
        let flags = vk::PipelineCreateFlags::empty();
        if let Err(error) = build(&self.device, dispatch, (self.null, flags), &mut pipeline) {
            destroy(&self.device, &pipeline);
            return Err(error);
        }
        self.made.insert(key, pipeline);
        Ok(pipeline)
    }
}

/// A pipeline that is in no program.
pub(super) struct Unshared<'a> {
    device: &'a Device,
    made: Pipeline,
}

impl<'a> Unshared<'a> {
    /// That of a dispatch.
    pub(super) fn new(
        device: &'a Device,
        dispatch: &Dispatch,
        flags: vk::PipelineCreateFlags,
    ) -> Result<Self, Error> {
        let mut own = Self { device, made: Pipeline::null() };
        build(device, dispatch, (false, flags), &mut own.made)?;
        Ok(own)
    }

    pub(super) fn pipeline(&self) -> vk::Pipeline {
        self.made.pipeline
    }
}

impl Drop for Unshared<'_> {
    fn drop(&mut self) {
        destroy(self.device, &self.made);
    }
}

fn build(
    device: &Device,
    dispatch: &Dispatch,
    (null, flags): (bool, vk::PipelineCreateFlags),
    out: &mut Pipeline,
) -> Result<(), Error> {
    let kernel = dispatch.call.kernel;
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

    let spirv = if null { zinc_shaders::NOTHING.spirv } else { kernel.spirv };
    let info = vk::ShaderModuleCreateInfo::default().code(spirv);
    // SAFETY: as above; the words are SPIR-V from the reference compiler.
    let module = unsafe { device.raw.create_shader_module(&info, None) }.during("vkCreateShaderModule")?;
    // A constant that a module does not declare is ignored.
    let entry = |id, offset| vk::SpecializationMapEntry { constant_id: id, offset, size: 4 };
    let constants = &dispatch.call.constants;
    let entries: Vec<_> = (0..).zip(constants).map(|(i, (id, _))| entry(*id, 4 * i)).collect();
    let data: Vec<u8> = constants.iter().flat_map(|(_, value)| value.to_ne_bytes()).collect();
    let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
    let mut subgroup = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
    let mut stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&specialization);
    if kernel.capabilities.contains(&Capability::CooperativeMatrixKHR)
        && let Cooperative::Has(shapes) = device.cooperative()
        && !null
    {
        subgroup = subgroup.required_subgroup_size(shapes.product.subgroup);
        stage =
            stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS).push_next(&mut subgroup);
    }
    let info = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(out.layout)];
    // SAFETY: as above; the workgroup size was checked against the device's limits with its tuning.
    let made = unsafe { device.raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
    // SAFETY: a module is not needed once its pipelines are made.
    unsafe { device.raw.destroy_shader_module(module, None) };
    out.pipeline = made.map_err(|(_, result)| result).during("vkCreateComputePipelines")?[0];
    device.name(out.pipeline, kernel);
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
