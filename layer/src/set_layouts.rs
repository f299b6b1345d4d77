//! Layouts of descriptor sets: where each descriptor is in a set, and which two layouts are defined alike.
//!
//! A set is one flat row of slots (`descriptors`); here stands which binding has which of them. Two layouts are *identically
//! defined* where all that the application has said of them is the same, whatever their handles are (`layouts`).

use crate::abi::{chain, slice};
use crate::layouts::Sameness;
use crate::objects::{Allocator, create, destroy};
use ash::vk;
use std::sync::Arc;

/// One binding of a set layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// `binding`.
    pub number: u32,
    /// `descriptorType`.
    pub ty: vk::DescriptorType,
    /// Its first slot, in a set.
    pub first_slot: u32,
    /// How many slots it has; of the last binding, at most.
    pub count: u32,
    /// Which dynamic descriptor of the set its first slot is, for dynamic types.
    pub first_dynamic: Option<u32>,
    /// Its descriptors need not be written as long as no dispatch reaches them (`PARTIALLY_BOUND`).
    pub partial: bool,
}

/// All of the parameters of a set layout that make two of them identically defined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// The create info's flags.
    pub flags: vk::DescriptorSetLayoutCreateFlags,
    /// `(number, type, count)`, by number.
    pub bindings: Vec<(u32, vk::DescriptorType, u32)>,
    /// Stages and flags of each binding.
    pub details: Vec<(vk::ShaderStageFlags, vk::DescriptorBindingFlags)>,
    /// The immutable samplers of each binding.
    pub samplers: Vec<Vec<vk::Sampler>>,
}

/// One `VkDescriptorSetLayout`.
#[derive(Debug, Default)]
pub struct SetLayout {
    /// By number.
    pub bindings: Vec<Binding>,
    /// How many slots a set has, at most.
    pub slots: u32,
    dynamics: u32,
    /// Contents may change after a set was bound: nothing is known about *where* (rule 7).
    pub update_after_bind: bool,
    /// Each set says how many descriptors its last binding has (`VARIABLE_DESCRIPTOR_COUNT`).
    pub variable: bool,
    /// `None` where the create info says more than this layer reads.
    definition: Option<Definition>,
}

impl SetLayout {
    /// From the create info's bindings, `(number, type, count)`.
    pub fn new(bindings: &[(u32, vk::DescriptorType, u32)], update_after_bind: bool) -> SetLayout {
        let mut sorted = bindings.to_vec();
        sorted.sort_by_key(|b| b.0);
        let mut layout = SetLayout { update_after_bind, ..SetLayout::default() };
        for (number, ty, count) in sorted {
            // The count of an inline block is its size in bytes; it is one thing that only the host writes.
            let count = if ty == vk::DescriptorType::INLINE_UNIFORM_BLOCK { 1 } else { count };
            let dynamic = matches!(
                ty,
                vk::DescriptorType::STORAGE_BUFFER_DYNAMIC | vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC
            );
            layout.bindings.push(Binding {
                number,
                ty,
                first_slot: layout.slots,
                count,
                first_dynamic: dynamic.then_some(layout.dynamics),
                partial: false,
            });
            layout.slots = layout.slots.saturating_add(count);
            layout.dynamics = layout.dynamics.saturating_add(if dynamic { count } else { 0 });
        }
        layout
    }

    /// The same with its definition, where all of that is known.
    pub fn defined(mut self, definition: Option<Definition>) -> SetLayout {
        self.definition = definition;
        self
    }

    /// The same with the flags of its bindings, by number.
    pub fn flagged(mut self, details: &[(vk::ShaderStageFlags, vk::DescriptorBindingFlags)]) -> SetLayout {
        use vk::DescriptorBindingFlags as Flags;
        for (binding, (_, flags)) in self.bindings.iter_mut().zip(details) {
            binding.partial = flags.contains(Flags::PARTIALLY_BOUND);
            self.variable = flags.contains(Flags::VARIABLE_DESCRIPTOR_COUNT);
        }
        self
    }

    /// Whether this layout and `other` are identically defined, as the specification has it for compatible layouts.
    pub fn is_defined_as(&self, other: &SetLayout) -> Sameness {
        if std::ptr::eq(self, other) {
            return Sameness::Same;
        }
        let (Some(one), Some(two)) = (&self.definition, &other.definition) else {
            return Sameness::Unsure;
        };
        let same = (one.flags, &one.bindings, &one.details) == (two.flags, &two.bindings, &two.details);
        // Whether samplers that were made alike are the same ones for that, the specification does not say.
        let samplers = || if one.samplers == two.samplers { Sameness::Same } else { Sameness::Unsure };
        Sameness::of(same).and(samplers)
    }

    /// Whether each descriptor has the same place and type in both.
    pub fn is_laid_out_as(&self, other: &SetLayout) -> bool {
        std::ptr::eq(self, other)
            || (self.bindings == other.bindings && self.update_after_bind == other.update_after_bind)
    }

    /// The binding of this number.
    pub fn binding(&self, number: u32) -> Option<&Binding> {
        // Most layouts have the bindings 0, 1, 2 and so on.
        match self.bindings.get(number as usize).filter(|b| b.number == number) {
            Some(binding) => Some(binding),
            None => self.bindings.binary_search_by_key(&number, |b| b.number).ok().map(|i| &self.bindings[i]),
        }
    }

    /// How many dynamic offsets a bind of such a set consumes.
    pub fn dynamic_count(&self) -> usize {
        self.dynamics as usize
    }
}

pub unsafe extern "system" fn create_descriptor_set_layout(
    device: vk::Device,
    info: *const vk::DescriptorSetLayoutCreateInfo<'_>,
    allocator: Allocator<'_>,
    layout: *mut vk::DescriptorSetLayout,
) -> vk::Result {
    create!(device.create_descriptor_set_layout(info, allocator, layout), |d| {
        d.set_layouts.insert(*layout, Arc::new(set_layout(&*info)));
    })
}

/// The record of a set layout made with `info`.
///
/// # Safety
///
/// `info` must be valid.
unsafe fn set_layout(info: &vk::DescriptorSetLayoutCreateInfo<'_>) -> SetLayout {
    type Flags = vk::DescriptorBindingFlags;
    let (mut of_binding, mut readable): (&[Flags], bool) = (&[], true);
    // SAFETY: by the caller; "if bindingCount is zero or if this structure is not included in the pNext chain, the
    // VkDescriptorBindingFlags for each descriptor set layout binding is considered to be zero".
    let listed = unsafe {
        for member in chain(info.p_next) {
            match member.get::<vk::DescriptorSetLayoutBindingFlagsCreateInfo<'_>>() {
                Some(flags) => of_binding = slice(flags.p_binding_flags, flags.binding_count),
                None => readable = false,
            }
        }
        slice(info.p_bindings, info.binding_count)
    };
    let mut bindings: Vec<_> = listed
        .iter()
        .enumerate()
        .map(|(at, binding)| (binding, of_binding.get(at).copied().unwrap_or_default()))
        .collect();
    bindings.sort_by_key(|(binding, _)| binding.binding);
    // Immutable samplers are ignored for all other types, so that the pointer may be anything there.
    let samplers = |b: &vk::DescriptorSetLayoutBinding<'_>| match b.descriptor_type {
        // SAFETY: by the caller; for these types it is null, or has one for each descriptor.
        vk::DescriptorType::SAMPLER | vk::DescriptorType::COMBINED_IMAGE_SAMPLER => unsafe {
            slice(b.p_immutable_samplers, b.descriptor_count).to_vec()
        },
        _ => Vec::new(),
    };
    let definition = Definition {
        flags: info.flags,
        bindings: bindings.iter().map(|(b, _)| (b.binding, b.descriptor_type, b.descriptor_count)).collect(),
        details: bindings.iter().map(|(b, flags)| (b.stage_flags, *flags)).collect(),
        samplers: bindings.iter().map(|(b, _)| samplers(b)).collect(),
    };
    let late = Flags::UPDATE_AFTER_BIND | Flags::UPDATE_UNUSED_WHILE_PENDING;
    let update_after_bind = definition.details.iter().any(|(_, flags)| flags.intersects(late))
        || info.flags.contains(vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL);
    let layout = SetLayout::new(&definition.bindings, update_after_bind);
    layout.flagged(&definition.details).defined(readable.then_some(definition))
}

pub unsafe extern "system" fn destroy_descriptor_set_layout(
    device: vk::Device,
    layout: vk::DescriptorSetLayout,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_descriptor_set_layout(layout, allocator), |d| {
        d.set_layouts.remove(layout);
    })
}
