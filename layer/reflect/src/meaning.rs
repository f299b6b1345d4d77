//! The whitelist: what each instruction does to pointers and to memory.
//!
//! Only a dozen shapes matter. A *value* instruction touches no memory; whether its result can denote a descriptor is
//! decided by the result's type, so arithmetic needs no rule of its own. A *touch* reads or writes what an operand
//! points to. Chains, calls, returns and variables move pointers. Barriers order. Everything else is
//! [`Meaning::Unlisted`], which the other modules take as "reads, writes, stores and returns whatever any of its words
//! could denote, calls any function that it names, and orders like the widest barrier".
//!
//! So forgetting an instruction here costs speed; only a wrong entry costs correctness. Operand positions are
//! counted in words from the instruction's first, as in the SPIR-V specification's tables; 0 stands for "none".

use rspirv::spirv::{GlslStd450Op as GLOp, Op};

use crate::module::{ExtendedSet, Parsed};
use crate::newer;
use crate::words::Inst;

/// What an instruction does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meaning {
    /// Declarations, annotations, debug information, control flow: nothing that a pointer passes through.
    Ignored,
    /// The result, if its type can denote anything, denotes what the operands do.
    Value(Sources),
    /// Changes between pointers and numbers.
    Reinterpret,
    /// A variable: the result points to it. Position of the initializer, which may be absent.
    Variable { initializer: usize },
    /// A pointer into what the base points to; a typed chain's first index picks the descriptor of an array.
    Chain { base: usize, first_index: usize },
    /// Reads or writes memory, or calls functions that its operands name.
    Touch(Touch),
    /// `OpFunctionCall`.
    Call,
    /// `OpReturnValue`.
    Return,
    /// Orders memory accesses. Positions of the memory scope and the semantics.
    Barrier { scope: usize, semantics: usize },
    /// Not listed: anything may happen to what its words denote.
    Unlisted,
}

/// Which operands a value is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sources {
    /// All words from here on.
    From(usize),
    /// These words; the others are literals.
    Only(&'static [usize]),
}

/// Positions of the operands of an instruction that touches memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Touch {
    /// The pointer or image that is read through.
    pub read: usize,
    /// The pointer or image that is written through.
    pub write: usize,
    /// The value that is stored.
    pub stored: usize,
    /// From this word on, a function's id is a call.
    pub calls: usize,
    /// How the access is ordered.
    pub order: Order,
}

/// Where an instruction says how its access is ordered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Order {
    /// Nowhere.
    #[default]
    Plain,
    /// In memory operands at this position, which may be absent.
    Memory(usize),
    /// In image operands at this position, which may be absent.
    Image(usize),
    /// It is atomic: scope, and one or two semantics.
    Atomic { scope: usize, semantics: [usize; 2] },
}

const VALUE: Meaning = Meaning::Value(Sources::From(3));

const fn read(pointer: usize, order: Order) -> Meaning {
    Meaning::Touch(Touch { read: pointer, write: 0, stored: 0, calls: 0, order })
}

const fn write(pointer: usize, stored: usize, order: Order) -> Meaning {
    Meaning::Touch(Touch { read: 0, write: pointer, stored, calls: 0, order })
}

const fn calls(from: usize) -> Meaning {
    Meaning::Touch(Touch { read: 0, write: 0, stored: 0, calls: from, order: Order::Plain })
}

/// Looks an instruction up.
#[rustfmt::skip]
pub(crate) fn meaning(parsed: &Parsed<'_>, inst: &Inst<'_>) -> Meaning {
    let Some(op) = inst.op() else {
        return if newer::value_op(inst.opcode).is_some() { VALUE } else { Meaning::Unlisted };
    };
    match op {
        Op::Nop | Op::SourceContinued | Op::Source | Op::SourceExtension | Op::Name | Op::MemberName | Op::String
        | Op::Line | Op::NoLine | Op::ModuleProcessed | Op::Extension | Op::ExtInstImport | Op::MemoryModel
        | Op::EntryPoint | Op::ExecutionMode | Op::ExecutionModeId | Op::Capability | Op::Decorate
        | Op::MemberDecorate | Op::DecorationGroup | Op::GroupDecorate | Op::GroupMemberDecorate | Op::DecorateId
        | Op::DecorateString | Op::MemberDecorateString | Op::TypeForwardPointer | Op::Function
        | Op::FunctionParameter | Op::FunctionEnd | Op::Label | Op::LoopMerge | Op::SelectionMerge | Op::Branch
        | Op::BranchConditional | Op::Switch | Op::Kill | Op::TerminateInvocation | Op::DemoteToHelperInvocation
        | Op::Return | Op::Unreachable | Op::AssumeTrueKHR | Op::EmitVertex | Op::EndPrimitive
        | Op::BeginInvocationInterlockEXT | Op::EndInvocationInterlockEXT
        | Op::Undef | Op::ConstantNull | Op::ConstantTrue | Op::ConstantFalse | Op::Constant | Op::SpecConstantTrue
        | Op::SpecConstantFalse | Op::SpecConstant => Meaning::Ignored,
        _ if declares_type(op) => Meaning::Ignored,

        Op::Variable => Meaning::Variable { initializer: 4 },
        Op::UntypedVariableKHR => Meaning::Variable { initializer: 5 },
        Op::AccessChain | Op::InBoundsAccessChain => Meaning::Chain { base: 3, first_index: 4 },
        Op::PtrAccessChain | Op::InBoundsPtrAccessChain | Op::RawAccessChainNV => {
            Meaning::Chain { base: 3, first_index: 0 }
        }
        Op::UntypedAccessChainKHR | Op::UntypedInBoundsAccessChainKHR | Op::UntypedPtrAccessChainKHR
        | Op::UntypedInBoundsPtrAccessChainKHR => Meaning::Chain { base: 4, first_index: 0 },
        Op::ConvertPtrToU | Op::ConvertUToPtr | Op::Bitcast => Meaning::Reinterpret,
        Op::FunctionCall => Meaning::Call,
        Op::ReturnValue => Meaning::Return,
        Op::SpecConstantOp => Meaning::Value(Sources::From(4)),
        Op::CompositeExtract | Op::ImageTexelPointer => Meaning::Value(Sources::Only(&[3])),
        Op::CompositeInsert => Meaning::Value(Sources::Only(&[3, 4])),

        Op::Load => read(3, Order::Memory(4)),
        Op::Store => write(1, 2, Order::Memory(3)),
        Op::CopyMemory => {
            Meaning::Touch(Touch { read: 2, write: 1, order: Order::Memory(3), ..Touch::default() })
        }
        Op::CopyMemorySized => {
            Meaning::Touch(Touch { read: 2, write: 1, order: Order::Memory(4), ..Touch::default() })
        }
        Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadNV => read(3, Order::Memory(6)),
        Op::CooperativeMatrixStoreKHR | Op::CooperativeMatrixStoreNV => write(1, 2, Order::Memory(5)),
        // A decode function among the tensor addressing operands is called with a pointer into what is loaded.
        Op::CooperativeMatrixLoadTensorNV => {
            Meaning::Touch(Touch { read: 3, calls: 6, order: Order::Memory(6), ..Touch::default() })
        }
        Op::CooperativeMatrixStoreTensorNV => write(1, 2, Order::Memory(4)),
        Op::CooperativeMatrixPerElementOpNV => calls(4),
        Op::CooperativeMatrixReduceNV => calls(5),

        Op::AtomicLoad => read(3, Order::Atomic { scope: 4, semantics: [5, 5] }),
        Op::AtomicStore => write(1, 4, Order::Atomic { scope: 2, semantics: [3, 3] }),
        Op::AtomicExchange | Op::AtomicIIncrement | Op::AtomicIDecrement | Op::AtomicIAdd | Op::AtomicISub
        | Op::AtomicSMin | Op::AtomicUMin | Op::AtomicSMax | Op::AtomicUMax | Op::AtomicAnd | Op::AtomicOr
        | Op::AtomicXor | Op::AtomicFAddEXT | Op::AtomicFMinEXT | Op::AtomicFMaxEXT => Meaning::Touch(Touch {
            read: 3, write: 3, order: Order::Atomic { scope: 4, semantics: [5, 5] }, ..Touch::default()
        }),
        Op::AtomicCompareExchange => Meaning::Touch(Touch {
            read: 3, write: 3, order: Order::Atomic { scope: 4, semantics: [5, 6] }, ..Touch::default()
        }),

        Op::ImageSampleImplicitLod | Op::ImageSampleExplicitLod | Op::ImageSampleProjImplicitLod
        | Op::ImageSampleProjExplicitLod | Op::ImageFetch | Op::ImageRead | Op::ImageSparseSampleImplicitLod
        | Op::ImageSparseSampleExplicitLod | Op::ImageSparseSampleProjImplicitLod
        | Op::ImageSparseSampleProjExplicitLod | Op::ImageSparseFetch | Op::ImageSparseRead => read(3, Order::Image(5)),
        Op::ImageSampleDrefImplicitLod | Op::ImageSampleDrefExplicitLod | Op::ImageSampleProjDrefImplicitLod
        | Op::ImageSampleProjDrefExplicitLod | Op::ImageGather | Op::ImageDrefGather
        | Op::ImageSparseSampleDrefImplicitLod | Op::ImageSparseSampleDrefExplicitLod
        | Op::ImageSparseSampleProjDrefImplicitLod | Op::ImageSparseSampleProjDrefExplicitLod
        | Op::ImageSparseGather | Op::ImageSparseDrefGather => read(3, Order::Image(6)),
        Op::ImageWrite => write(1, 3, Order::Image(4)),

        Op::ControlBarrier => Meaning::Barrier { scope: 2, semantics: 3 },
        Op::MemoryBarrier => Meaning::Barrier { scope: 1, semantics: 2 },

        Op::ExtInst | Op::ExtInstWithForwardRefsKHR => extended(parsed, inst),
        _ if is_value(op) => VALUE,
        _ => Meaning::Unlisted,
    }
}

/// `OpExtInst`: the set is word 3, the number word 4, the operands follow.
fn extended(parsed: &Parsed<'_>, inst: &Inst<'_>) -> Meaning {
    match parsed.extended_sets.get(&inst.word(3)) {
        Some(ExtendedSet::NonSemantic) => Meaning::Ignored,
        Some(ExtendedSet::Glsl) => match GLOp::from_u32(inst.word(4)) {
            // The whole part and the exponent go out through a pointer.
            Some(GLOp::Modf | GLOp::Frexp) => write(6, 0, Order::Plain),
            Some(GLOp::InterpolateAtCentroid | GLOp::InterpolateAtSample | GLOp::InterpolateAtOffset) => {
                read(5, Order::Plain)
            }
            Some(_) => Meaning::Value(Sources::From(5)),
            None => Meaning::Unlisted,
        },
        Some(ExtendedSet::Other) | None => Meaning::Unlisted,
    }
}

#[rustfmt::skip]
fn declares_type(op: Op) -> bool {
    matches!(
        op,
        Op::TypeVoid | Op::TypeBool | Op::TypeInt | Op::TypeFloat | Op::TypeVector | Op::TypeVectorIdEXT
        | Op::TypeMatrix | Op::TypeImage | Op::TypeSampler | Op::TypeSampledImage | Op::TypeArray
        | Op::TypeRuntimeArray | Op::TypeStruct | Op::TypeOpaque | Op::TypePointer | Op::TypeUntypedPointerKHR
        | Op::TypeFunction | Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV | Op::TypeTensorLayoutNV
        | Op::TypeTensorViewNV | Op::TypeAccelerationStructureKHR
    )
}

/// Instructions that touch no memory: what their result denotes comes from their operands.
///
/// `OpArrayLength` and the image queries belong here: they ask the descriptor and not the memory behind it.
#[rustfmt::skip]
fn is_value(op: Op) -> bool {
    matches!(
        op,
        Op::ConstantComposite | Op::SpecConstantComposite | Op::ConstantCompositeReplicateEXT
        | Op::SpecConstantCompositeReplicateEXT | Op::CompositeConstruct | Op::CompositeConstructReplicateEXT
        | Op::VectorExtractDynamic | Op::VectorInsertDynamic | Op::VectorShuffle | Op::CopyObject | Op::CopyLogical
        | Op::Transpose | Op::Phi | Op::Select | Op::SampledImage | Op::Image
        | Op::ArrayLength | Op::UntypedArrayLengthKHR | Op::PtrEqual | Op::PtrNotEqual | Op::PtrDiff
        | Op::ImageQueryFormat | Op::ImageQueryOrder | Op::ImageQuerySizeLod | Op::ImageQuerySize | Op::ImageQueryLod
        | Op::ImageQueryLevels | Op::ImageQuerySamples | Op::ImageSparseTexelsResident
        // Conversions and arithmetic.
        | Op::ConvertFToU | Op::ConvertFToS | Op::ConvertSToF | Op::ConvertUToF | Op::UConvert | Op::SConvert
        | Op::FConvert | Op::QuantizeToF16 | Op::SNegate | Op::FNegate | Op::IAdd | Op::FAdd | Op::ISub | Op::FSub
        | Op::IMul | Op::FMul | Op::UDiv | Op::SDiv | Op::FDiv | Op::UMod | Op::SRem | Op::SMod | Op::FRem | Op::FMod
        | Op::VectorTimesScalar | Op::MatrixTimesScalar | Op::VectorTimesMatrix | Op::MatrixTimesVector
        | Op::MatrixTimesMatrix | Op::OuterProduct | Op::Dot | Op::IAddCarry | Op::ISubBorrow | Op::UMulExtended
        | Op::SMulExtended | Op::SDot | Op::UDot | Op::SUDot | Op::SDotAccSat | Op::UDotAccSat | Op::SUDotAccSat
        | Op::FmaKHR | Op::Any | Op::All | Op::IsNan | Op::IsInf | Op::IsFinite | Op::IsNormal | Op::SignBitSet
        | Op::LessOrGreater | Op::Ordered | Op::Unordered | Op::LogicalEqual | Op::LogicalNotEqual | Op::LogicalOr
        | Op::LogicalAnd | Op::LogicalNot | Op::IEqual | Op::INotEqual | Op::UGreaterThan | Op::SGreaterThan
        | Op::UGreaterThanEqual | Op::SGreaterThanEqual | Op::ULessThan | Op::SLessThan | Op::ULessThanEqual
        | Op::SLessThanEqual | Op::FOrdEqual | Op::FUnordEqual | Op::FOrdNotEqual | Op::FUnordNotEqual
        | Op::FOrdLessThan | Op::FUnordLessThan | Op::FOrdGreaterThan | Op::FUnordGreaterThan
        | Op::FOrdLessThanEqual | Op::FUnordLessThanEqual | Op::FOrdGreaterThanEqual | Op::FUnordGreaterThanEqual
        | Op::ShiftRightLogical | Op::ShiftRightArithmetic | Op::ShiftLeftLogical | Op::BitwiseOr | Op::BitwiseXor
        | Op::BitwiseAnd | Op::Not | Op::BitFieldInsert | Op::BitFieldSExtract | Op::BitFieldUExtract
        | Op::BitReverse | Op::BitCount | Op::ExpectKHR | Op::ReadClockKHR
        | Op::DPdx | Op::DPdy | Op::Fwidth | Op::DPdxFine | Op::DPdyFine | Op::FwidthFine | Op::DPdxCoarse
        | Op::DPdyCoarse | Op::FwidthCoarse | Op::IsHelperInvocationEXT
        // Subgroups.
        | Op::GroupAll | Op::GroupAny | Op::GroupBroadcast | Op::GroupIAdd | Op::GroupFAdd | Op::GroupFMin
        | Op::GroupUMin | Op::GroupSMin | Op::GroupFMax | Op::GroupUMax | Op::GroupSMax | Op::GroupIMulKHR
        | Op::GroupFMulKHR | Op::GroupBitwiseAndKHR | Op::GroupBitwiseOrKHR | Op::GroupBitwiseXorKHR
        | Op::GroupLogicalAndKHR | Op::GroupLogicalOrKHR | Op::GroupLogicalXorKHR
        | Op::SubgroupBallotKHR | Op::SubgroupFirstInvocationKHR | Op::SubgroupAllKHR | Op::SubgroupAnyKHR
        | Op::SubgroupAllEqualKHR | Op::SubgroupReadInvocationKHR
        | Op::GroupNonUniformElect | Op::GroupNonUniformAll | Op::GroupNonUniformAny | Op::GroupNonUniformAllEqual
        | Op::GroupNonUniformBroadcast | Op::GroupNonUniformBroadcastFirst | Op::GroupNonUniformBallot
        | Op::GroupNonUniformInverseBallot | Op::GroupNonUniformBallotBitExtract
        | Op::GroupNonUniformBallotBitCount | Op::GroupNonUniformBallotFindLSB | Op::GroupNonUniformBallotFindMSB
        | Op::GroupNonUniformShuffle | Op::GroupNonUniformShuffleXor | Op::GroupNonUniformShuffleUp
        | Op::GroupNonUniformShuffleDown | Op::GroupNonUniformIAdd | Op::GroupNonUniformFAdd
        | Op::GroupNonUniformIMul | Op::GroupNonUniformFMul | Op::GroupNonUniformSMin | Op::GroupNonUniformUMin
        | Op::GroupNonUniformFMin | Op::GroupNonUniformSMax | Op::GroupNonUniformUMax | Op::GroupNonUniformFMax
        | Op::GroupNonUniformBitwiseAnd | Op::GroupNonUniformBitwiseOr | Op::GroupNonUniformBitwiseXor
        | Op::GroupNonUniformLogicalAnd | Op::GroupNonUniformLogicalOr | Op::GroupNonUniformLogicalXor
        | Op::GroupNonUniformQuadBroadcast | Op::GroupNonUniformQuadSwap | Op::GroupNonUniformRotateKHR
        | Op::GroupNonUniformQuadAllKHR | Op::GroupNonUniformQuadAnyKHR | Op::GroupNonUniformPartitionEXT
        // Cooperative matrices and tensor descriptions, which are values.
        | Op::CooperativeMatrixMulAddKHR | Op::CooperativeMatrixLengthKHR | Op::CooperativeMatrixMulAddNV
        | Op::CooperativeMatrixLengthNV | Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixTransposeNV
        | Op::CreateTensorLayoutNV | Op::TensorLayoutSetDimensionNV | Op::TensorLayoutSetStrideNV
        | Op::TensorLayoutSliceNV | Op::TensorLayoutSetClampValueNV | Op::TensorLayoutSetBlockSizeNV
        | Op::CreateTensorViewNV | Op::TensorViewSetDimensionNV | Op::TensorViewSetStrideNV | Op::TensorViewSetClipNV
    )
}
