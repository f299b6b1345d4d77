//! Pipelines out of the shaders in `tests/pictures`.

use anyhow::{Context, Result};
use ash::vk;

use crate::gpu::FORMAT;
use crate::stage::Stage;

/// SPIR-V of the shaders, by file name.
const SHADERS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/pictures.rs"));

/// Bytes of a vertex in a buffer: position and colour, four floats each.
pub const VERTEX: u32 = 32;

/// What a graphics pipeline draws.
#[derive(Clone, Copy)]
pub struct Drawing {
    pub vertex: &'static str,
    pub fragment: &'static str,
    /// Whether vertices come from a buffer.
    pub buffer: bool,
    /// Whether what is drawn is blended by its alpha.
    pub blend: bool,
    /// Whether there is a depth attachment.
    pub depth: bool,
    pub samples: vk::SampleCountFlags,
    /// The render pass and subpass; dynamic rendering without.
    pub pass: Option<(vk::RenderPass, u32)>,
    pub format: vk::Format,
}

/// A triangle over the whole picture.
pub const FULL: Drawing = Drawing {
    vertex: "full.vert",
    fragment: "pattern.frag",
    buffer: false,
    blend: false,
    depth: false,
    samples: vk::SampleCountFlags::TYPE_1,
    pass: None,
    format: FORMAT,
};

fn module(stage: &Stage, name: &str) -> Result<vk::ShaderModule> {
    let found = SHADERS.iter().find(|(shader, _)| *shader == name);
    let (_, bytes) = found.with_context(|| format!("no shader is called {name}"))?;
    let words = ash::util::read_spv(&mut std::io::Cursor::new(bytes))?;
    let info = vk::ShaderModuleCreateInfo::default().code(&words);
    // SAFETY: the device is valid, and the words are what glslangValidator made.
    unsafe { stage.gpu.device.create_shader_module(&info, None) }.context("vkCreateShaderModule")
}

/// A compute pipeline.
pub fn compute(stage: &Stage, name: &str) -> Result<vk::Pipeline> {
    let module = module(stage, name)?;
    let shader = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main");
    let info = [vk::ComputePipelineCreateInfo::default().stage(shader).layout(stage.gpu.layout)];
    let device = &stage.gpu.device;
    // SAFETY: the device is valid, the structures live through the call, and modules may go after it.
    let made = unsafe {
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &info, None);
        device.destroy_shader_module(module, None);
        made
    };
    let made = made.map_err(|(_, error)| error).context("vkCreateComputePipelines")?;
    Ok(stage.keep_pipeline(made[0]))
}

/// A graphics pipeline.
pub fn graphics(stage: &Stage, drawing: Drawing) -> Result<vk::Pipeline> {
    let modules = [module(stage, drawing.vertex)?, module(stage, drawing.fragment)?];
    let stages: Vec<_> = [vk::ShaderStageFlags::VERTEX, vk::ShaderStageFlags::FRAGMENT]
        .into_iter()
        .zip(modules)
        .map(|(stage, module)| {
            vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(c"main")
        })
        .collect();
    let binding = [vk::VertexInputBindingDescription::default().stride(VERTEX)];
    let attributes = [(0, 0), (1, 16)].map(|(location, offset)| {
        let attribute = vk::VertexInputAttributeDescription::default().location(location);
        attribute.format(vk::Format::R32G32B32A32_SFLOAT).offset(offset)
    });
    let mut input = vk::PipelineVertexInputStateCreateInfo::default();
    if drawing.buffer {
        input = input.vertex_binding_descriptions(&binding).vertex_attribute_descriptions(&attributes);
    }
    let assembly =
        vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let viewport = vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1);
    let raster = vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0);
    let multisample =
        vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(drawing.samples);
    let depth = vk::PipelineDepthStencilStateCreateInfo::default()
        .depth_test_enable(drawing.depth)
        .depth_write_enable(drawing.depth)
        .depth_compare_op(vk::CompareOp::LESS);
    let blend = [vk::PipelineColorBlendAttachmentState::default()
        .blend_enable(drawing.blend)
        .src_color_blend_factor(vk::BlendFactor::SRC_ALPHA)
        .dst_color_blend_factor(vk::BlendFactor::ONE_MINUS_SRC_ALPHA)
        .src_alpha_blend_factor(vk::BlendFactor::ONE)
        .dst_alpha_blend_factor(vk::BlendFactor::ONE)
        .color_write_mask(vk::ColorComponentFlags::RGBA)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&blend);
    let dynamic = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
    let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&dynamic);
    let formats = [drawing.format];
    let mut rendering = vk::PipelineRenderingCreateInfo::default().color_attachment_formats(&formats);
    let mut info = vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&input)
        .input_assembly_state(&assembly)
        .viewport_state(&viewport)
        .rasterization_state(&raster)
        .multisample_state(&multisample)
        .depth_stencil_state(&depth)
        .color_blend_state(&blend)
        .dynamic_state(&dynamic)
        .layout(stage.gpu.layout);
    info = match drawing.pass {
        Some((pass, subpass)) => info.render_pass(pass).subpass(subpass),
        None => info.push_next(&mut rendering),
    };
    let device = &stage.gpu.device;
    // SAFETY: the device is valid, the structures live through the call, and modules may go after it.
    let made = unsafe {
        let made = device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None);
        modules.into_iter().for_each(|module| device.destroy_shader_module(module, None));
        made
    };
    let made = made.map_err(|(_, error)| error).context("vkCreateGraphicsPipelines")?;
    Ok(stage.keep_pipeline(made[0]))
}
