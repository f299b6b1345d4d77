//! Which descriptor a variable stands for.

use rspirv::spirv::{Decoration, StorageClass};

use crate::api::{Class, Count};
use crate::module::{Parsed, Variable};
use crate::types::Type;

/// What a variable's storage class makes of accesses to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Memory behind a descriptor, or a descriptor itself.
    Descriptor,
    /// Memory of one invocation, whose contents nobody else can change.
    Own,
    /// Memory that isn't device memory bound to anything: shared memory, inputs, outputs, push constants.
    Elsewhere,
    /// A storage class that isn't listed.
    Unknown,
}

/// Sorts a storage class.
pub(crate) fn place(class: u32) -> Place {
    match StorageClass::from_u32(class) {
        Some(StorageClass::UniformConstant | StorageClass::Uniform | StorageClass::StorageBuffer) => {
            Place::Descriptor
        }
        Some(StorageClass::Function | StorageClass::Private) => Place::Own,
        Some(
            StorageClass::Workgroup | StorageClass::Input | StorageClass::Output | StorageClass::PushConstant,
        ) => Place::Elsewhere,
        _ => Place::Unknown,
    }
}

/// The class and number of the descriptors that a variable declares.
///
/// Vulkan has no arrays of arrays of descriptors: such a variable is of unknown class.
pub(crate) fn describe(parsed: &Parsed<'_>, variable: &Variable) -> (Class, Count) {
    let Some(ty) = variable.holds else {
        return (Class::Unknown, Count::Unknown);
    };
    let (ty, count) = match parsed.types.get(ty) {
        Some(Type::Array { element, length }) => {
            let length = parsed.constants.get(length).and_then(|length| u32::try_from(*length).ok());
            (*element, length.map_or(Count::Unknown, Count::Array))
        }
        Some(Type::RuntimeArray { element }) => (*element, Count::Runtime),
        _ => (ty, Count::One),
    };
    (class(parsed, variable.class, ty), count)
}

fn class(parsed: &Parsed<'_>, storage: u32, ty: u32) -> Class {
    let storage = StorageClass::from_u32(storage);
    match (storage, parsed.types.get(ty)) {
        (Some(StorageClass::StorageBuffer), Some(Type::Struct { .. })) => Class::StorageBuffer,
        (Some(StorageClass::Uniform), Some(Type::Struct { .. })) => {
            if parsed.decorations.of(ty, Decoration::BufferBlock).is_some() {
                Class::StorageBuffer
            } else {
                Class::UniformBuffer
            }
        }
        (Some(StorageClass::UniformConstant), Some(ty)) => match ty {
            Type::Image { subpass: true, .. } => Class::InputAttachment,
            Type::Image { buffer: true, sampled: 1, .. } => Class::UniformTexelBuffer,
            Type::Image { buffer: true, sampled: 2, .. } => Class::StorageTexelBuffer,
            Type::Image { sampled: 1, .. } => Class::SampledImage,
            Type::Image { sampled: 2, .. } => Class::StorageImage,
            Type::Sampler => Class::Sampler,
            // A buffer view with a sampler of its own can't exist: drivers take it for a uniform texel buffer.
            Type::SampledImage { image } => match parsed.types.get(*image) {
                Some(Type::Image { buffer: true, .. }) => Class::UniformTexelBuffer,
                _ => Class::CombinedImageSampler,
            },
            Type::AccelerationStructure => Class::AccelerationStructure,
            _ => Class::Unknown,
        },
        _ => Class::Unknown,
    }
}

/// Merges what two variables on one binding say of its class.
pub(crate) fn merge_class(a: Class, b: Class) -> Class {
    if a == b { a } else { Class::Unknown }
}

/// Merges what two variables on one binding say of its length: the larger one holds.
pub(crate) fn merge_count(a: Count, b: Count) -> Count {
    match (a, b) {
        (Count::Unknown, _) | (_, Count::Unknown) => Count::Unknown,
        (Count::Runtime, _) | (_, Count::Runtime) => Count::Runtime,
        (Count::Array(a), Count::Array(b)) => Count::Array(a.max(b)),
        (Count::Array(length), Count::One) | (Count::One, Count::Array(length)) => Count::Array(length),
        (Count::One, Count::One) => Count::One,
    }
}
