//! Sets and constants: how they get to a dispatch.

use anyhow::{Context, Result};
use ash::vk;

use super::{COMPUTE, Player};
use crate::gpu::{ADDRESS_AT, ARRAY, Shape};
use crate::program::{BLOCK, Kernel, Noise, Place, Way};

/// All pipeline layouts have constants of this stage.
const STAGE: vk::ShaderStageFlags = vk::ShaderStageFlags::COMPUTE;

impl Player<'_> {
    fn info(&self, place: Place) -> vk::DescriptorBufferInfo {
        vk::DescriptorBufferInfo::default()
            .buffer(self.buffers[place.buffer])
            .offset(place.block as u64 * BLOCK)
            .range(BLOCK)
    }

    /// A set of a shape with these places from binding 0 on; of an array, all but the first are elements of binding 1, which has
    /// `room` for so many.
    pub fn set(&self, shape: Shape, twin: bool, places: &[Place], room: u32) -> Result<vk::DescriptorSet> {
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

    /// A pipeline layout that goes when the recording has ended.
    pub fn layout(&mut self, shapes: &[Shape], twin: bool) -> Result<vk::PipelineLayout> {
        let layout = self.gpu.pipeline_layout(shapes, twin)?;
        self.made.layouts.push(layout);
        Ok(layout)
    }

    /// # Safety
    ///
    /// The command buffer must be recording.
    pub unsafe fn constants(
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

    /// # Safety
    ///
    /// The command buffer must be recording.
    pub unsafe fn sets(
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

    /// # Safety
    ///
    /// The command buffer must be recording.
    pub unsafe fn push(
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
}
