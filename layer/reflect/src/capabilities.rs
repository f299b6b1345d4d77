//! The capabilities whose meaning is known.
//!
//! A capability may add storage classes, handles made from integers, descriptors that no variable declares, memory
//! that an instruction touches without an operand. So the list below is of those of which the specification says
//! that they add none of that beyond the instructions that the `meaning` module lists; all others make the entry
//! points unknown. Missing on purpose: `Kernel`, `Addresses`, `Linkage` and what belongs to them; ray tracing and
//! ray queries; `DescriptorHeapEXT` and `BindlessTextureNV` (descriptors without variables); tensors, tile memory,
//! `ShaderEnqueueAMDX`, transform feedback and mesh shading (memory beside the descriptors).

use rspirv::spirv::Capability as C;

use crate::newer;

/// Why this capability makes a module unknown; nothing for a listed one.
pub(crate) fn objection(number: u32) -> Option<String> {
    if newer::capability(number).is_some() {
        return None;
    }
    match C::from_u32(number) {
        Some(capability) if listed(capability) => None,
        Some(capability) => Some(format!("capability {capability:?}")),
        None => Some(format!("capability {number}")),
    }
}

#[rustfmt::skip]
fn listed(capability: C) -> bool {
    matches!(
        capability,
        // Core: number formats, image kinds, indexing, stages.
        C::Matrix | C::Shader | C::Geometry | C::Tessellation | C::Float16 | C::Float64 | C::Int64 | C::Int16 | C::Int8
        | C::Int64Atomics | C::Groups | C::TessellationPointSize | C::GeometryPointSize | C::ImageGatherExtended
        | C::StorageImageMultisample | C::UniformBufferArrayDynamicIndexing | C::SampledImageArrayDynamicIndexing
        | C::StorageBufferArrayDynamicIndexing | C::StorageImageArrayDynamicIndexing | C::ClipDistance | C::CullDistance
        | C::ImageCubeArray | C::SampleRateShading | C::InputAttachment | C::SparseResidency | C::MinLod | C::Sampled1D
        | C::Image1D | C::SampledCubeArray | C::SampledBuffer | C::ImageBuffer | C::ImageMSArray
        | C::StorageImageExtendedFormats | C::ImageQuery | C::DerivativeControl | C::InterpolationFunction
        | C::StorageImageReadWithoutFormat | C::StorageImageWriteWithoutFormat | C::MultiViewport | C::ShaderLayer
        | C::ShaderViewportIndex | C::UniformDecoration | C::DemoteToHelperInvocation
        // Subgroups: values move between invocations, memory doesn't.
        | C::GroupNonUniform | C::GroupNonUniformVote | C::GroupNonUniformArithmetic | C::GroupNonUniformBallot
        | C::GroupNonUniformShuffle | C::GroupNonUniformShuffleRelative | C::GroupNonUniformClustered
        | C::GroupNonUniformQuad | C::GroupNonUniformRotateKHR | C::GroupNonUniformPartitionedEXT
        | C::GroupUniformArithmeticKHR | C::SubgroupBallotKHR | C::SubgroupVoteKHR | C::QuadControlKHR
        // Widths of stored values.
        | C::StorageBuffer16BitAccess | C::UniformAndStorageBuffer16BitAccess | C::StoragePushConstant16
        | C::StorageInputOutput16 | C::StorageBuffer8BitAccess | C::UniformAndStorageBuffer8BitAccess
        | C::StoragePushConstant8 | C::WorkgroupMemoryExplicitLayoutKHR
        | C::WorkgroupMemoryExplicitLayout8BitAccessKHR | C::WorkgroupMemoryExplicitLayout16BitAccessKHR
        // Pointers: what they bring is what this crate is about.
        | C::VariablePointers | C::VariablePointersStorageBuffer | C::PhysicalStorageBufferAddresses
        | C::UntypedPointersKHR | C::RawAccessChainsNV | C::VulkanMemoryModel | C::VulkanMemoryModelDeviceScope
        // Descriptor arrays.
        | C::ShaderNonUniform | C::RuntimeDescriptorArray | C::InputAttachmentArrayDynamicIndexing
        | C::UniformTexelBufferArrayDynamicIndexing | C::StorageTexelBufferArrayDynamicIndexing
        | C::UniformBufferArrayNonUniformIndexing | C::SampledImageArrayNonUniformIndexing
        | C::StorageBufferArrayNonUniformIndexing | C::StorageImageArrayNonUniformIndexing
        | C::InputAttachmentArrayNonUniformIndexing | C::UniformTexelBufferArrayNonUniformIndexing
        | C::StorageTexelBufferArrayNonUniformIndexing
        // Arithmetic and its controls.
        | C::DenormPreserve | C::DenormFlushToZero | C::SignedZeroInfNanPreserve | C::RoundingModeRTE
        | C::RoundingModeRTZ | C::FloatControls2 | C::FMAKHR | C::DotProduct | C::DotProductInputAll
        | C::DotProductInput4x8Bit | C::DotProductInput4x8BitPacked | C::BitInstructions | C::ExpectAssumeKHR
        | C::Float8EXT | C::BFloat16TypeKHR | C::BFloat16DotProductKHR | C::ReplicatedCompositesEXT | C::LongVectorEXT
        | C::AtomicFloat16AddEXT | C::AtomicFloat32AddEXT | C::AtomicFloat64AddEXT | C::AtomicFloat16MinMaxEXT
        | C::AtomicFloat32MinMaxEXT | C::AtomicFloat64MinMaxEXT | C::AtomicFloat16VectorNV | C::Int64ImageEXT
        // Cooperative matrices: their loads and stores, and the functions that they call, are listed instructions.
        | C::CooperativeMatrixKHR | C::CooperativeMatrixNV | C::CooperativeMatrixLayoutsARM
        | C::Float8CooperativeMatrixEXT | C::BFloat16CooperativeMatrixKHR | C::CooperativeMatrixReductionsNV
        | C::CooperativeMatrixConversionsNV | C::CooperativeMatrixPerElementOperationsNV
        | C::CooperativeMatrixTensorAddressingNV | C::CooperativeMatrixBlockLoadsNV | C::TensorAddressingNV
        // Built-in inputs, derivatives, fragment rules.
        | C::CoreBuiltinsARM | C::ShaderSMBuiltinsNV | C::ShaderClockKHR | C::DrawParameters | C::DeviceGroup
        | C::MultiView | C::FragmentShadingRateKHR | C::FragmentBarycentricKHR | C::FragmentFullyCoveredEXT
        | C::FragmentDensityEXT | C::SampleMaskPostDepthCoverage | C::StencilExportEXT | C::ShaderViewportIndexLayerEXT
        | C::ComputeDerivativeGroupQuadsKHR | C::ComputeDerivativeGroupLinearKHR
        | C::FragmentShaderSampleInterlockEXT | C::FragmentShaderPixelInterlockEXT
        | C::FragmentShaderShadingRateInterlockEXT | C::Float16ImageAMD | C::ImageGatherBiasLodAMD
        | C::ImageReadWriteLodAMD
    )
}
